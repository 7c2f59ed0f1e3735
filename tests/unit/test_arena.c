// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/arena.h"

#define REST ARENA_REST_NS

Test(arena, sizes_refused)
{
	struct arena *arena = (void *)1;

	cr_expect_eq(arena_new(&arena, 64, 0), -EINVAL);
	cr_expect_eq(arena_new(&arena, 65, 8), -EINVAL);
	cr_expect_eq(arena_new(&arena, 24, 8), -EINVAL, "3 slices");
	cr_expect_eq(arena_new(&arena, 0, 8), -EINVAL);
	cr_expect_eq(arena, (void *)1);
	cr_assert_eq(arena_new(&arena, 8, 8), 0);
	cr_expect_eq(arena_take(arena, 8, 0), 0);
	cr_expect_eq(arena_take(arena, 1, 0), -ENOSPC);
	arena_free(arena);
	arena_free(NULL);
}

Test(arena, aligned_and_apart)
{
	static const uint32_t sizes[] = { 1, 8, 9, 64, 33, 16, 100, 7, 0 };
	bool taken[1024] = { false };
	struct arena *arena;
	uint32_t i, k, rounded;
	int64_t first;

	cr_assert_eq(arena_new(&arena, 1024, 8), 0);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (rounded = 8; rounded < sizes[i]; rounded *= 2)
			;
		first = arena_take(arena, sizes[i], 1);
		cr_assert_geq(first, 0);
		cr_expect_eq(first % rounded, 0, "%u entries at %ld", sizes[i], (long)first);
		for (k = 0; k < rounded; k++) {
			cr_expect_not(taken[first + k], "%ld handed out twice", (long)first + k);
			taken[first + k] = true;
		}
	}
	cr_expect_eq(arena_nr_used(arena), 8 + 8 + 16 + 64 + 64 + 16 + 128 + 8 + 8);
	cr_expect_eq(arena_take(arena, 1025, 1), -ENOSPC);
	cr_expect_eq(arena_take(arena, UINT32_MAX, 1), -ENOSPC);
	arena_free(arena);
}

/* All of the smallest slices, given back in any order, become one whole again. */
Test(arena, merges)
{
	struct arena *arena;
	int64_t first[128];
	uint32_t i, k;

	cr_assert_eq(arena_new(&arena, 1024, 8), 0);
	for (i = 0; i < 128; i++)
		cr_assert_geq(first[i] = arena_take(arena, 8, 0), 0);
	cr_expect_eq(arena_take(arena, 1, 0), -ENOSPC);
	for (i = 0; i < 128; i++) {
		k = i * 37 % 128;
		arena_give(arena, (uint32_t)first[k], 0);
	}
	cr_expect_eq(arena_nr_used(arena), 1024, "resting slices are in use");
	cr_expect_eq(arena_take(arena, 1024, REST - 1), -ENOSPC);
	cr_expect_eq(arena_take(arena, 1024, REST), 0);
	cr_expect_eq(arena_nr_used(arena), 1024);
	arena_free(arena);
}

Test(arena, rests)
{
	struct arena *arena;

	cr_assert_eq(arena_new(&arena, 16, 8), 0);
	cr_expect_eq(arena_take(arena, 16, 1000), 0);
	arena_give(arena, 0, 1000);
	cr_expect_eq(arena_take(arena, 8, 1000), -ENOSPC);
	cr_expect_eq(arena_take(arena, 8, 0), -ENOSPC, "a clock that lags behind ends the rest");
	cr_expect_eq(arena_take(arena, 8, 999 + REST), -ENOSPC);
	cr_expect_geq(arena_take(arena, 8, 1000 + REST), 0);
	arena_free(arena);
}

/* The model: which entries are in use, and each slice's end of rest. */
struct slice {
	uint32_t first, bytes;
	uint64_t rest_until; /* 0: in use */
};

#define MODEL_NR 4096
#define MODEL_MIN 4

struct model {
	struct arena *arena;
	bool used[MODEL_NR];
	struct slice slices[MODEL_NR / MODEL_MIN];
	uint32_t nr_slices, nr_used;
	uint64_t now;
};

static void model_wake(struct model *m)
{
	uint32_t i;

	for (i = 0; i < m->nr_slices;) {
		if (m->slices[i].rest_until && m->slices[i].rest_until <= m->now) {
			memset(m->used + m->slices[i].first, 0, m->slices[i].bytes);
			m->nr_used -= m->slices[i].bytes;
			m->slices[i] = m->slices[--m->nr_slices];
		} else {
			i++;
		}
	}
}

/* Is there an aligned free run of that size? A buddy allocator that merges finds it. */
static bool model_fits(const struct model *m, uint32_t size)
{
	uint32_t at, i;

	for (at = 0; at + size <= MODEL_NR; at += size) {
		for (i = 0; i < size && !m->used[at + i]; i++)
			;
		if (i == size)
			return true;
	}
	return false;
}

static void model_take(struct model *m)
{
	uint32_t nr = 1 + (uint32_t)rand() % (1U << rand() % 11), size;
	int64_t first;

	model_wake(m);
	for (size = MODEL_MIN; size < nr; size *= 2)
		;
	first = arena_take(m->arena, nr, m->now);
	cr_assert_eq(first >= 0, model_fits(m, size), "%u at %lu: %ld", nr, (unsigned long)m->now,
		     (long)first);
	if (first < 0)
		return;
	cr_assert(first % size == 0 && first + size <= MODEL_NR);
	for (uint32_t i = 0; i < size; i++)
		cr_assert_not(m->used[first + i], "%ld is in use", (long)first + i);
	memset(m->used + first, 1, size);
	m->slices[m->nr_slices++] = (struct slice){ .first = (uint32_t)first, .bytes = size };
	m->nr_used += size;
}

static void model_give(struct model *m)
{
	struct slice *slice;

	if (!m->nr_slices)
		return;
	slice = &m->slices[(uint32_t)rand() % m->nr_slices];
	if (slice->rest_until)
		return;
	arena_give(m->arena, slice->first, m->now);
	slice->rest_until = m->now + REST;
}

Test(arena, model)
{
	static struct model m = { .now = 1 };
	uint32_t i;

	srand(1);
	cr_assert_eq(arena_new(&m.arena, MODEL_NR, MODEL_MIN), 0);
	for (i = 0; i < 100000; i++) {
		m.now += (uint64_t)rand() % (REST / 20);
		if (rand() % 2)
			model_take(&m);
		else
			model_give(&m);
		if (i % 64)
			continue;
		/*
		 * A request for more than is free wakes the slices that have rested, and no others.
		 */
		cr_assert_eq(arena_take(m.arena, MODEL_NR + 1, m.now), -ENOSPC);
		model_wake(&m);
		cr_assert_eq(arena_nr_used(m.arena), m.nr_used);
	}
	arena_free(m.arena);
}
