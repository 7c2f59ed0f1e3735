// SPDX-License-Identifier: Apache-2.0
#include "gpu/gaps.h"

#include <criterion/criterion.h>

#include "profile/aggregate.h"

#define MS 1000000ULL
#define PERIOD (10 * MS)
#define LONG GPU_GAPS_LONG_NS
#define NR 8

static struct gpu_gaps_room room;
static struct gpu_gaps *gaps;

static void setup(void)
{
	room = (struct gpu_gaps_room){ .max = 4 };
	cr_assert_eq(gpu_gaps_new(&gaps, &room), 0);
}

static void teardown(void)
{
	gpu_gaps_free(gaps);
	cr_expect_eq(room.nr, 0);
}

TestSuite(gpu_gaps, .init = setup, .fini = teardown);

static void seen(uint64_t begin_ns, uint32_t stack, int times)
{
	const struct aggregate_call_at at = { .stack = stack };

	while (times--)
		gpu_gaps_seen(gaps, &at, begin_ns, PERIOD, false);
}

static void take(void *arg, const struct aggregate_call_at *at, uint64_t ns)
{
	uint64_t *found = arg;

	found[at->stack] += ns;
}

/* Expects the time of stack 1 and of stack 2; other stacks have none. */
static void expect(uint64_t first, uint64_t second)
{
	uint64_t found[NR] = { 0 };
	size_t i;

	gpu_gaps_each(gaps, take, found);
	cr_expect_eq(found[1], first, "%lu", found[1]);
	cr_expect_eq(found[2], second, "%lu", found[2]);
	for (i = 3; i < NR; i++)
		cr_expect_eq(found[i], 0);
}

/* A long gap is shared out by itself, to the last nanosecond; a late record has no part of it. */
Test(gpu_gaps, covered)
{
	seen(1, 1, 7);
	seen(1, 2, 5);
	cr_expect_eq(gpu_gaps_end(gaps, 1, LONG + 7), LONG + 7);
	expect((LONG + 7) * 7 / 12, LONG + 7 - (LONG + 7) * 7 / 12);
	seen(1, 1, 3);
	cr_expect_eq(gpu_gaps_share(gaps, 50 * MS, 0), 0);
	expect((LONG + 7) * 7 / 12, LONG + 7 - (LONG + 7) * 7 / 12);
}

/* Time without a seen thread stays with the launch, unless it is shorter than a sample can show. */
Test(gpu_gaps, partly_covered)
{
	seen(1, 1, 3);
	cr_expect_eq(gpu_gaps_end(gaps, 1, LONG), 3 * PERIOD);
	expect(3 * PERIOD, 0);
	seen(2, 2, 9);
	cr_expect_eq(gpu_gaps_end(gaps, 2, LONG), LONG);
	expect(3 * PERIOD, LONG);
}

/* The launch reports another gap than the samples, or none. */
Test(gpu_gaps, not_that_one)
{
	seen(5, 1, 3);
	cr_expect_eq(gpu_gaps_end(gaps, 4, LONG), 0);
	cr_expect_eq(gpu_gaps_end(gaps, 0, LONG), 0);
	cr_expect_eq(gpu_gaps_end(gaps, 5, LONG), 3 * PERIOD);
	cr_expect_eq(gpu_gaps_end(gaps, 5, LONG), 0);
	expect(3 * PERIOD, 0);
}

/*
 * Few of the short gaps have samples, each for longer than its gap: these samples stand for all
 * short gaps.
 */
Test(gpu_gaps, together)
{
	uint64_t i;

	for (i = 1; i <= 100; i++) {
		if (i % 4 == 0)
			seen(i, i % 3 ? 1 : 2, 1);
		cr_expect_eq(gpu_gaps_end(gaps, i, 5 * MS), 0);
	}
	seen(100, 1, 1); /* late, but it counts */
	cr_expect_eq(gpu_gaps_share(gaps, 500 * MS, 0), 260 * MS);
	expect(180 * MS, 80 * MS);
	cr_expect_eq(gpu_gaps_share(gaps, 500 * MS, 0), 0, "twice");
}

/* The time of a sleep is measured: no part of it is given to other gaps. */
Test(gpu_gaps, timed)
{
	const struct aggregate_call_at at = { .stack = 1 };

	gpu_gaps_seen(gaps, &at, 1, 25 * MS, true);
	cr_expect_eq(gpu_gaps_end(gaps, 1, 45 * MS), 25 * MS);
	seen(2, 2, 1);
	cr_expect_eq(gpu_gaps_end(gaps, 2, 20 * MS), 0);
	cr_expect_eq(gpu_gaps_share(gaps, 20 * MS, 0), 20 * MS);
	expect(25 * MS, 20 * MS);
}

/* Two threads are seen, together for twice the length of the gap. */
Test(gpu_gaps, together_at_once)
{
	seen(1, 1, 6);
	seen(1, 2, 6);
	cr_expect_eq(gpu_gaps_end(gaps, 1, 60 * MS), 0);
	cr_expect_eq(gpu_gaps_share(gaps, 60 * MS, 0), 60 * MS);
	expect(30 * MS, 30 * MS);
}

/* No launch reported the gap, as it was too short. A gap that is not over keeps its time. */
Test(gpu_gaps, unreported)
{
	seen(1, 1, 1);
	seen(2, 2, 2); /* shows that the earlier gap is over */
	cr_expect_eq(gpu_gaps_share(gaps, 100 * MS, 2), 10 * MS);
	expect(10 * MS, 0);
	cr_expect_eq(gpu_gaps_share(gaps, 100 * MS, 3), 20 * MS);
	expect(10 * MS, 20 * MS);
}

/* Samples of a gap that is not over roll over into the next interval, as far as there is room. */
Test(gpu_gaps, rolled_over)
{
	const uint64_t frame = (uint64_t)BPFPROF_FRAME_NATIVE << BPFPROF_FRAME_SHIFT | 42;
	struct bpfprof_sample sample = { .task = { .pid = 7, .tid = 7, .start_ns = 1000 } };
	const struct aggregate_input input = {
		.sample = &sample, .user = &frame, .nr_user = 1, .stop = BPFPROF_STOP_COMPLETE
	};
	struct aggregate *from, *to;
	struct aggregate_call_at at;
	struct aggregate_view view;
	const uint64_t no_leaf = 0;
	uint64_t found[NR] = { 0 };

	cr_assert_eq(aggregate_new(&from, false, 1 << 20), 0);
	cr_assert_eq(aggregate_new(&to, false, 1 << 20), 0);
	cr_assert_eq(aggregate_add_call(from, &input, &no_leaf, 0, &at), 0);
	gpu_gaps_seen(gaps, &at, 1, 12 * PERIOD, false);
	cr_expect_eq(gpu_gaps_end(gaps, 1, LONG), LONG);
	gpu_gaps_seen(gaps, &at, 2, 4 * PERIOD, false);
	aggregate_view_get(from, &view);
	gpu_gaps_next(gaps, &view, to, 1 << 20);
	aggregate_free(from);
	gpu_gaps_each(gaps, take, found);
	cr_expect_eq(found[at.stack], 0, "reported before");
	cr_expect_eq(gpu_gaps_end(gaps, 2, LONG), 4 * PERIOD);
	gpu_gaps_each(gaps, take, found);
	cr_expect_eq(found[at.stack], 4 * PERIOD);
	gpu_gaps_seen(gaps, &at, 3, PERIOD, false);
	aggregate_view_get(to, &view);
	gpu_gaps_next(gaps, &view, to, 0);
	cr_expect_eq(room.nr, 0);
	cr_expect_eq(room.lost, 1);
	aggregate_free(to);
}

Test(gpu_gaps, bounded)
{
	uint32_t i;

	for (i = 1; i < NR; i++)
		seen(1, i, 1);
	cr_expect_eq(room.nr, 4);
	cr_expect_eq(room.lost, NR - 1 - 4);
}
