// SPDX-License-Identifier: Apache-2.0
#include "kernel/held_pages.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

TestSuite(held_pages, .timeout = 60);

#define VMEMMAP 0xffffea0000000000ULL
#define PAGE_STRUCT_BYTES 64
#define MIB (1ULL << 20)

static struct bpfprof_page_control control;

/* The estimate of nr pages of an order that lie side by side, and its variance. */
static double estimate(uint32_t level, uint32_t order, uint64_t nr, double *ret_variance)
{
	const struct bpfprof_page_level *at = &control.levels[level];
	double p = (double)at->threshold[order] / 4294967296.0, sum = 0;
	uint64_t i, page;

	for (i = 0; i < nr; i++) {
		page = VMEMMAP + (i << order) * PAGE_STRUCT_BYTES;
		if (page_hash(control.seed, page) < at->threshold[order])
			sum += (double)at->bytes[order];
	}
	*ret_variance = (double)nr * p * (1 - p) * (double)(at->bytes[order] * at->bytes[order]);
	return sum;
}

/* Each order and level gives the true sum, within five standard deviations. */
Test(held_pages, estimates_are_true)
{
	static const uint64_t seeds[] = { 0, 1, 0x123456789abcdef0ULL, UINT64_MAX };
	static const uint32_t orders[] = { 0, 2, 4, 9 };
	double variance, truth, seen;
	size_t i, k;
	uint32_t level;

	page_levels_fill(&control, 512 << 10);
	for (i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++)
		for (k = 0; k < sizeof(orders) / sizeof(orders[0]); k++)
			for (level = 0; level < 4; level++) {
				uint64_t nr = 1024 * MIB / (4096ULL << orders[k]);

				control.seed = seeds[i];
				truth = 1024.0 * (double)MIB;
				seen = estimate(level, orders[k], nr, &variance);
				cr_expect(fabs(seen - truth) <= 5 * sqrt(variance),
					  "seed %zu order %u level %u: %.1f MiB of 1024, deviation "
					  "%.1f",
					  i, orders[k], level, seen / (double)MIB,
					  sqrt(variance) / (double)MIB);
			}
}

/* What is left after a level up is what the higher level would have taken. */
Test(held_pages, levels_are_nested)
{
	const struct bpfprof_page_level *level;
	uint32_t order;
	size_t i;

	page_levels_fill(&control, 4096);
	for (i = 1; i < BPFPROF_PAGE_LEVELS; i++) {
		level = &control.levels[i];
		for (order = 0; order < BPFPROF_PAGE_ORDERS; order++) {
			cr_expect_leq(level->threshold[order], (level - 1)->threshold[order]);
			cr_expect_geq(level->bytes[order], (level - 1)->bytes[order]);
			cr_expect_geq(level->bytes[order], 4096ULL << order);
		}
	}
}

/* A page much larger than the bytes per sample is always taken, and stands for itself. */
Test(held_pages, large_pages_are_exact)
{
	page_levels_fill(&control, 32 << 10);
	cr_expect_eq(control.levels[0].bytes[9], 2 * MIB);
	cr_expect_eq(control.levels[0].threshold[9], 1ULL << 32);
}
