// SPDX-License-Identifier: Apache-2.0
#include "memory/moments.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "made_profile.h"
#include "memory/history.h"
#include "memory/monitor.h"
#include "base/strtab.h"
#include "profile/history.h"
#include "stack_frames.h"

TestSuite(moments, .timeout = 60);

#define MIB (1ULL << 20)

static struct memory_moments *moments;

static void setup(void)
{
	moments = malloc(sizeof(*moments));
	cr_assert(moments);
	memory_moments_init(moments);
	memory_moments_begin(moments, 1000);
}

static void teardown(void)
{
	memory_moments_fini(moments);
	free(moments);
}

static void add(uint32_t stack, int64_t bytes)
{
	const struct aggregate_call_at at = { .process = 1, .stack = stack };

	cr_assert_eq(memory_moments_add(moments, &at, 0, bytes), 0);
}

static const struct moment_line *line(uint32_t stack)
{
	const struct moment_key key = { .process = 1, .stack = stack };

	return hash_table_find(&moments->lines, &key);
}

/* However many looks: the first, the last and the largest stay, in order, not more than fit, and evenly spread. */
Test(moments, thinned, .init = setup, .fini = teardown)
{
	uint64_t gap, widest = 0;
	size_t look, i;

	for (look = 1; look <= 10000; look++) {
		add(1, (int64_t)look * 1024);
		add(2, look == 3456 ? (int64_t)MIB * 900 : 2048);
		memory_moments_end(moments, 1000 + look * 250,
				   look * 1024 + (look == 3456 ? 900 * MIB : 2048));
	}
	cr_assert(moments->nr <= MOMENTS_MAX && moments->nr >= MOMENTS_MAX / 3, "%zu", moments->nr);
	cr_expect_eq(moments->ns[0], 250);
	cr_expect_eq(moments->ns[moments->nr - 1], 10000 * 250);
	cr_expect_eq(moments->ns[moments->peak], 3456 * 250);
	cr_expect_eq(line(2)->kib[moments->peak], 900 << 10);
	for (i = 0; i < moments->nr; i++) {
		gap = i ? moments->ns[i] - moments->ns[i - 1] : 0;
		cr_expect(!i || gap > 0);
		widest = gap > widest ? gap : widest;
		cr_expect_eq((uint64_t)line(1)->kib[i], moments->ns[i] / 250, "of another moment");
	}
	cr_expect(widest <= 4 * 10000 * 250 / MOMENTS_MAX, "%zu", (size_t)widest);
}

/* Of more stacks than fit, the largest stay, whenever they were large; a stack that held nothing held 0. */
Test(moments, more_stacks_than_fit, .init = setup, .fini = teardown)
{
	const struct aggregate_call_at at = { .process = 1, .stack = 3 };
	uint32_t i;

	add(1, 64 * MIB);
	add(2, -3000);
	memory_moments_end(moments, 2000, 64 * MIB);
	for (i = 10; i < 10 + 2 * MOMENTS_MAX_LINES; i++) {
		add(i, i * 1024);
		add(i, i * 1024); /* another page */
	}
	memory_moments_end(moments, 3000, 900 * MIB);
	cr_expect_eq(moments->lines.nr, MOMENTS_MAX_LINES);
	cr_expect_eq(line(1)->kib[0], 64 << 10);
	cr_expect_eq(line(1)->kib[1], 0);
	cr_expect(!line(2) && !line(10));
	for (i = 10 + MOMENTS_MAX_LINES + 1; i < 10 + 2 * MOMENTS_MAX_LINES; i++) {
		cr_assert(line(i), "%u", i);
		cr_expect_eq(line(i)->kib[0], 0);
		cr_expect_eq(line(i)->kib[1], (int32_t)(2 * i));
	}
	cr_expect_eq(moments->nr_over, MOMENTS_MAX_LINES + 2);
	/* One stack on two GPUs is two lines. */
	cr_assert_eq(memory_moments_add(moments, &at, 1, 40 * MIB), 0);
	cr_assert_eq(memory_moments_add(moments, &at, 2, 50 * MIB), 0);
	memory_moments_end(moments, 4000, 90 * MIB);
	for (i = 1; i <= 2; i++) {
		const struct moment_key key = { .process = 1, .stack = 3, .gpu = i };
		const struct moment_line *on = hash_table_find(&moments->lines, &key);

		cr_assert(on);
		cr_expect_eq(on->kib[2], (int32_t)(30 + 10 * i) << 10);
	}
	memory_moments_begin(moments, 5000);
	cr_expect(!moments->nr && !moments->lines.nr);
	add(3, -2 * (int64_t)MIB);
	memory_moments_end(moments, 6000, MIB);
	cr_expect_eq(line(3)->kib[0], -2048);
	cr_expect_eq(moments->ns[0], 1000);
}

/* The stack that holds the most in its first look stays, although it came first. */
Test(moments, first_is_largest, .init = setup, .fini = teardown)
{
	uint32_t i;

	add(1, 1024 * MIB);
	for (i = 2; i < 2 + MOMENTS_MAX_LINES; i++)
		add(i, MIB);
	memory_moments_end(moments, 1000, 2048 * MIB);
	cr_assert(line(1));
	cr_expect_eq(line(1)->kib[0], 1 << 20);
	add(1, 1);
	add(2, 512 * MIB); /* held little so far */
	for (i = 5000; i < 5000 + MOMENTS_MAX_LINES; i++)
		add(i, 2 * MIB);
	memory_moments_end(moments, 2000, 2560 * MIB);
	cr_assert(line(1) && line(2));
	cr_expect_eq(line(2)->kib[1], 512 << 10);
}

static struct memory_monitor monitor;

static void hold_on(uint32_t gpu, uint32_t stack, int64_t mib)
{
	const struct aggregate_call_at at = { .stack = stack };

	cr_assert_eq(memory_moments_add(&monitor.moments, &at, gpu, mib * (int64_t)MIB), 0);
}

static void hold(uint32_t stack, int64_t mib)
{
	hold_on(0, stack, mib);
}

static const char *band_of(const struct profile *profile, uint32_t stack)
{
	const struct profile_history *history = profile->history;
	size_t i;

	for (i = 0; i < history->nr_series; i++)
		if (history->series[i].stack == stack)
			return history->series[i].band == history->nr_bands
				       ? "other"
				       : strtab_get(profile->strings,
						    history->bands[history->series[i].band]);
	return "none";
}

/* Bands: rows without a stack first, then ten functions by the most they held, then drift. */
Test(moments, bands)
{
	struct profile *profile = made_new();
	uint32_t before = made_call(profile, MEMORY_BEFORE),
		 drift = made_call(profile, MEMORY_DRIFT);
	uint32_t stacks[2 + 12];
	uint32_t main_ = made_native(profile, "main", 0, 1), functions[12], i;
	char name[8];

	made_process(profile, 7, "app", "");
	memory_moments_init(&monitor.moments);
	memory_moments_begin(&monitor.moments, 0);
	stacks[0] = made_stack(profile, &before, 1);
	stacks[1] = made_stack(profile, &drift, 1);
	for (i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		functions[i] = made_native(profile, name, 0, 10 + i);
		stacks[2 + i] = made_stack(profile, (const uint32_t[]){ functions[i], main_ }, 2);
	}
	hold(stacks[0], 500);
	hold(stacks[1], 900);
	for (i = 0; i < 12; i++)
		hold(stacks[2 + i], 1 + i);
	memory_moments_end(&monitor.moments, 1000, 1500 * MIB);
	hold(stacks[2], 100); /* f0 was the largest, once */
	memory_moments_end(&monitor.moments, 2000, 100 * MIB);
	memory_history_make(&monitor, profile);
	cr_assert(profile->history);
	cr_expect_eq(profile->history->nr_bands, 12);
	cr_expect_str_eq(strtab_get(profile->strings, profile->history->bands[0]), MEMORY_BEFORE);
	cr_expect_str_eq(strtab_get(profile->strings, profile->history->bands[1]), "f0");
	cr_expect_str_eq(strtab_get(profile->strings, profile->history->bands[2]), "f11");
	cr_expect_str_eq(strtab_get(profile->strings, profile->history->bands[11]), MEMORY_DRIFT);
	cr_expect_str_eq(band_of(profile, stacks[2 + 11]), "f11");
	cr_expect_str_eq(band_of(profile, stacks[2 + 2]), "other");
	cr_expect_str_eq(band_of(profile, stacks[1]), MEMORY_DRIFT);
	cr_expect_eq(profile->history->peak, 0);
	memory_moments_fini(&monitor.moments);
	made_free(profile);
}

/* A GPU is the leaf of a stack, in the profile alone; the band has the name of the function, or of the row. */
Test(moments, on_gpus)
{
	struct profile *profile = made_new();
	uint32_t row = made_call(profile, "[cached]"), main_ = made_native(profile, "main", 0, 1);
	const struct profile_history *history;
	size_t i, nr_stacks, nr_locations;
	uint32_t stacks[2], stack;

	made_process(profile, 7, "app", "");
	memory_moments_init(&monitor.moments);
	memory_moments_begin(&monitor.moments, 0);
	stacks[0] = made_stack(profile, &row, 1);
	stacks[1] = made_stack(profile, &main_, 1);
	nr_stacks = profile->nr_stacks;
	nr_locations = profile->nr_locations;
	for (i = 0; i < 4; i++) {
		hold_on((uint32_t)i, stacks[0], 1 + (int64_t)i);
		hold_on((uint32_t)i, stacks[1], 1 + (int64_t)i);
	}
	memory_moments_end(&monitor.moments, 1000, 20 * MIB);
	memory_history_make(&monitor, profile);
	history = profile->history;
	cr_assert(history && history->nr_series == 8 && history->nr_bands == 2);
	cr_expect_str_eq(strtab_get(profile->strings, history->bands[0]), "[cached]");
	cr_expect_str_eq(strtab_get(profile->strings, history->bands[1]), "main");
	cr_expect_eq(profile->nr_stacks, nr_stacks + 6);
	cr_expect_eq(profile->nr_locations, nr_locations + 3);
	for (i = 0; i < history->nr_series; i++) {
		static const char *const leaves[] = { "", "[GPU not known]", "[GPU 0]", "[GPU 1]" };
		const uint32_t gpu = (uint32_t)(history->kib[i] / 1024) - 1;

		stack = history->series[i].stack;
		cr_assert_eq(stack_depth(profile->stack_callers, stack), gpu ? 2 : 1);
		cr_expect_eq(stack_location(profile, stack, !!gpu),
			     history->series[i].band ? main_ : row);
		if (gpu)
			cr_expect_str_eq(
				strtab_get(profile->strings, profile_frame(profile, stack)->name),
				leaves[gpu]);
	}
	memory_moments_fini(&monitor.moments);
	made_free(profile);
}
