// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/aggregate.h"
#include "profile/live.h"
#include "profile/idle.h"
#include "profile/profile.h"
#include "stack_frames.h"

#define KERNEL(n) ((uint64_t)BPFPROF_FRAME_KERNEL << BPFPROF_FRAME_SHIFT | (n))
#define NATIVE(n) ((uint64_t)BPFPROF_FRAME_NATIVE << BPFPROF_FRAME_SHIFT | (n))
#define PYTHON(n) ((uint64_t)BPFPROF_FRAME_PYTHON << BPFPROF_FRAME_SHIFT | (n))
#define VA(process, n)                                                                             \
	((uint64_t)BPFPROF_FRAME_NATIVE_VA << BPFPROF_FRAME_SHIFT |                                \
	 (uint64_t)(process) << AGGREGATE_VA_BITS | (n))
#define TRUNCATED ((uint64_t)BPFPROF_FRAME_MARKER << BPFPROF_FRAME_SHIFT | 8)
#define MS ((uint64_t)1000000)

static struct live *live;
static size_t nr_named; /* frames that were asked for */
static int pad; /* columns of a name */
static uint32_t named_pid; /* of the last NATIVE_VA ones */

static void setup(void)
{
	nr_named = 0;
	pad = 0;
	cr_assert_eq(live_new(&live), 0);
}

static void teardown(void)
{
	live_free(live);
}

TestSuite(live, .init = setup, .fini = teardown, .timeout = 60);

/* Frame n is line n of function n / 10; native ones from 1000 on hold in a range of ten. */
static void name_frames(void *arg, struct live *to, const uint64_t *frames, size_t nr, uint32_t pid)
{
	char function[2048], line[2048];
	struct live_name name = { .function = function, .line = line };
	uint64_t n, kind;
	size_t i;

	(void)arg;
	for (i = 0; i < nr; i++) {
		cr_assert(!i || frames[i] > frames[i - 1]);
		n = frames[i] & AGGREGATE_VA_MASK;
		kind = frames[i] >> BPFPROF_FRAME_SHIFT;
		snprintf(function, sizeof(function), "%*c%lu", pad, "?knvp"[kind], n / 10);
		snprintf(line, sizeof(line), "%c%lu:%lu", "?knvp"[kind], n / 10, n);
		name.start = name.end = 0;
		if (kind == BPFPROF_FRAME_NATIVE && n >= 1000) {
			snprintf(line, sizeof(line), "%s", function);
			name.start = frames[i] - n % 10;
			name.end = name.start + 10;
		}
		if (kind == BPFPROF_FRAME_NATIVE_VA)
			named_pid = pid;
		name.passing = n == 666;
		live_named(to, frames[i], &name);
	}
	nr_named += nr;
}

/* One process, one sample per stack. */
struct stack {
	uint64_t ms;
	size_t nr;
	uint64_t frames[6]; /* leaf first */
};

static const char *view_titles;

static void feed_as(const struct aggregate_process *process, const struct stack *stacks, size_t nr)
{
	const struct live_names symbolizer = { .name = name_frames };
	struct aggregate_sample samples[64] = { 0 };
	struct stacks_made made = { .nr = 0 };
	struct aggregate_view view = { .processes = process,
				       .nr_processes = 1,
				       .samples = samples,
				       .nr_samples = nr,
				       .counts.nr_taken = nr,
				       .titles = view_titles };
	size_t i;

	for (i = 0; i < nr; i++) {
		samples[i].stack = stack_make(&made, stacks[i].frames, stacks[i].nr);
		samples[i].count = 1;
		samples[i].value_ns = stacks[i].ms * MS;
		samples[i].gil = i ? PROFILE_GIL_NOT_HELD : PROFILE_GIL_HELD;
	}
	stacks_view(&made, &view);
	cr_assert_eq(live_feed(live, &view, &symbolizer), 0);
	stacks_free(&made);
}

static void loader(const struct stack *stacks, size_t nr)
{
	const struct aggregate_process process = {
		.pid = 42, .agent_pid = 42, .start_ns = 1, .comm = "prog"
	};

	feed_as(&process, stacks, nr);
}

static const struct live_row *row_of(const char *text, bool line)
{
	const struct live_row *rows, *found = NULL;
	size_t nr, i;

	rows = live_rows(live, &nr);
	for (i = 0; i < nr; i++) {
		if (!(rows[i].kinds & (line ? LIVE_LINE : LIVE_FUNCTION)) ||
		    strcmp(live_text(live, rows[i].text), text))
			continue;
		cr_assert_not(found, "%s twice", text);
		found = &rows[i];
	}
	return found;
}

/* In milliseconds, of a row that may not be there. */
static void expect(const char *text, bool line, uint32_t view, uint64_t own, uint64_t total)
{
	static const struct live_row none;
	const struct live_row *row = row_of(text, line);

	row = row ? row : &none;
	cr_expect_eq(row->now.own_ns[view], own * MS, "own of %s in view %u: %lu", text, view,
		     row->now.own_ns[view] / MS);
	cr_expect_eq(row->now.total_ns[view], total * MS, "total of %s in view %u: %lu", text, view,
		     row->now.total_ns[view] / MS);
}

/* A Ray worker is called by what it runs last, others by their name. */
Test(live, ray_task)
{
	static const char titles[] = "\0ray::Trainer.fit\0ray::IDLE";
	struct aggregate_process process = {
		.pid = 42, .agent_pid = 42, .start_ns = 1, .comm = "ray::Trainer.fi"
	};
	const struct stack stack = { 10, 1, { PYTHON(11) } };
	const struct live_process *processes;
	size_t nr;

	view_titles = titles;
	process.title = 1;
	feed_as(&process, &stack, 1);
	processes = live_processes(live, &nr);
	cr_assert_eq(nr, 1);
	cr_expect_str_eq(processes[0].comm, "ray::Trainer.fit");
	process.title = 18;
	feed_as(&process, &stack, 1);
	processes = live_processes(live, &nr);
	cr_assert_eq(nr, 1);
	cr_expect_str_eq(processes[0].comm, "ray::IDLE");
	view_titles = NULL;
	loader(&stack, 1);
	cr_expect_str_eq(live_processes(live, &nr)[0].comm, "prog");
}

Test(live, own_is_the_leaf_and_total_all_callers)
{
	const struct stack stacks[] = { { 10, 3, { PYTHON(11), PYTHON(21), PYTHON(31) } },
					{ 5, 2, { PYTHON(22), PYTHON(31) } } };

	loader(stacks, 2);
	expect("p1", false, 0, 10, 10);
	expect("p2", false, 0, 5, 15);
	expect("p3", false, 0, 0, 15);
	expect("p2:21", true, 0, 0, 10);
	expect("p2:22", true, 0, 5, 5);
	cr_expect_not(row_of("p2", true));
	cr_expect_not(row_of("p2:21", false));
}

Test(live, a_recursion_counts_once)
{
	const struct stack stacks[] = {
		{ 7, 4, { PYTHON(11), PYTHON(12), PYTHON(11), PYTHON(21) } },
		{ 3, 2, { PYTHON(12), PYTHON(11) } }
	};

	loader(stacks, 2);
	expect("p1", false, 0, 10, 10);
	expect("p1:11", true, 0, 7, 10);
	expect("p1:12", true, 0, 3, 10);
	expect("p2", false, 0, 0, 7);
}

Test(live, now_begins_anew_and_ever_goes_on)
{
	const struct stack stacks[] = { { 10, 1, { PYTHON(11) } } };
	struct live_use now, ever;

	loader(stacks, 1);
	loader(stacks, 1);
	expect("p1", false, 0, 10, 10);
	cr_expect_eq(row_of("p1", false)->ever.own_ns[0], 20 * MS);
	loader(stacks, 0);
	expect("p1", false, 0, 0, 0);
	cr_expect_eq(row_of("p1", false)->ever.own_ns[0], 20 * MS);
	live_use_get(live, LIVE_ALL, &now, &ever);
	cr_expect(now.samples == 0 && ever.samples == 2 && ever.ns == 20 * MS &&
		  ever.gil_ns == 20 * MS);
	live_reset(live);
	live_use_get(live, LIVE_ALL, &now, &ever);
	cr_expect(!ever.samples && !ever.ns && !row_of("p1", false));
	loader(stacks, 1);
	cr_expect_eq(row_of("p1", false)->ever.own_ns[0], 10 * MS);
}

Test(live, each_view_has_its_own_leaf)
{
	const struct stack stacks[] = {
		{ 10, 4, { KERNEL(11), NATIVE(21), PYTHON(31), NATIVE(41) } }, /* a Python thread */
		{ 4, 2, { KERNEL(11), NATIVE(51) } }, /* another program */
		{ 2, 2, { KERNEL(61), TRUNCATED } }, /* a kernel thread */
	};
	const uint32_t all = LIVE_NATIVE | LIVE_KERNEL;

	loader(stacks, 3);
	expect("p3", false, 0, 10, 10);
	expect("n2", false, 0, 0, 0);
	expect("n4", false, 0, 0, 0);
	expect("n5", false, 0, 4, 4);
	expect("k1", false, 0, 0, 0);
	expect("k6", false, 0, 2, 2);
	expect("n2", false, LIVE_NATIVE, 10, 10);
	expect("p3", false, LIVE_NATIVE, 0, 10);
	expect("n4", false, LIVE_NATIVE, 0, 10);
	expect("n5", false, LIVE_NATIVE, 4, 4);
	expect("k1", false, LIVE_KERNEL, 14, 14);
	expect("p3", false, LIVE_KERNEL, 0, 10);
	expect("n5", false, LIVE_KERNEL, 0, 4);
	expect("n2", false, LIVE_KERNEL, 0, 0);
	expect("k1", false, all, 14, 14);
	expect("n2", false, all, 0, 10);
	expect("k6", false, all, 2, 2);
}

Test(live, a_stack_without_frames_is_counted)
{
	const struct stack stacks[] = { { 3, 0, { 0 } }, { 2, 1, { TRUNCATED } } };

	loader(stacks, 2);
	expect("[no stack]", false, 0, 5, 5);
	expect("[no stack]", true, LIVE_NATIVE, 5, 5);
}

Test(live, a_function_without_lines_is_one_row)
{
	const struct stack stacks[] = { { 1, 2, { NATIVE(1001), PYTHON(11) } } };
	size_t nr;

	loader(stacks, 1);
	live_rows(live, &nr);
	cr_expect_eq(nr, 3);
	cr_expect_eq(row_of("n100", true), row_of("n100", false));
	expect("n100", true, LIVE_NATIVE, 1, 1);
}

Test(live, a_frame_is_named_once_and_a_range_for_all_of_it)
{
	const struct stack first[] = { { 1, 2, { PYTHON(11), NATIVE(1001) } } };
	const struct stack second[] = { { 1, 3, { PYTHON(11), NATIVE(1009), NATIVE(1010) } } };

	loader(first, 1);
	cr_expect_eq(nr_named, 2);
	loader(second, 1);
	cr_expect_eq(nr_named, 3, "1009 is in the range of 1001, 1010 is not");
	expect("n100", false, LIVE_NATIVE, 0, 1);
	expect("n101", true, LIVE_NATIVE, 0, 1);
}

Test(live, a_makeshift_name_is_asked_for_again)
{
	const struct stack stacks[] = { { 1, 1, { PYTHON(666) } } };

	loader(stacks, 1);
	loader(stacks, 1);
	cr_expect_eq(nr_named, 2);
	loader(stacks, 0);
	cr_expect_eq(nr_named, 2);
}

Test(live, code_without_a_file_belongs_to_its_process)
{
	const struct aggregate_process a = {
		.pid = 4007, .agent_pid = 7, .start_ns = 1, .comm = "a"
	};
	const struct aggregate_process b = {
		.pid = 4008, .agent_pid = 8, .start_ns = 2, .comm = "b"
	};
	const struct stack stacks[] = { { 1, 1, { VA(1, 55) } } };
	const struct live_process *processes;
	size_t nr;

	feed_as(&a, stacks, 1);
	cr_expect_eq(named_pid, 7);
	feed_as(&b, stacks, 1);
	cr_expect_eq(named_pid, 8, "the same number of the view is another process now");
	cr_expect_eq(nr_named, 2);
	feed_as(&a, stacks, 1);
	cr_expect_eq(nr_named, 2);
	processes = live_processes(live, &nr);
	cr_assert_eq(nr, 2);
	cr_expect(processes[0].pid == 7 && processes[0].now.samples == 1 &&
		  processes[0].ever.samples == 2);
	cr_expect(processes[1].pid == 8 && !processes[1].now.samples);
}

Test(live, rows_are_bounded_and_the_heavy_ones_stay)
{
	struct stack stacks[32];
	size_t round, i, nr, nr_fed = 0;

	for (round = 0; round < 2048; round++) {
		for (i = 0; i < 32; i++, nr_fed++)
			stacks[i] = (struct stack){ 1, 1, { PYTHON(10 * (nr_fed + 10)) } };
		stacks[0] = (struct stack){ 1000, 1, { PYTHON(11) } };
		loader(stacks, 32);
		live_rows(live, &nr);
		cr_assert_leq(nr, LIVE_MAX_ROWS);
	}
	cr_expect_eq(row_of("p1", false)->ever.own_ns[0], 2048ULL * 1000 * MS);
	cr_expect_geq(live_counters(live)->rows_evicted, 2 * 31 * 2048 - LIVE_MAX_ROWS);
	for (i = 1; i < 32; i++) {
		char text[64];

		snprintf(text, sizeof(text), "p%llu",
			 (stacks[i].frames[0] & AGGREGATE_VA_MASK) / 10);
		cr_expect(row_of(text, false), "%s ran in the last interval", text);
	}
}

Test(live, long_names_do_not_fill_the_memory)
{
	struct stack stack = { 1, 1, { 0 } };
	char name[2048];
	size_t i;

	/* All in one table of 4 MiB: without renewal no new name would be kept after 4,000. */
	pad = 1000;
	for (i = 1; i <= 20000; i++) {
		stack.frames[0] = PYTHON(10 * i);
		loader(&stack, 1);
	}
	snprintf(name, sizeof(name), "%*c%zu", pad, 'p', i - 1);
	cr_expect(row_of(name, false));
}

Test(live, processes_are_bounded_and_the_latest_stay)
{
	struct aggregate_process process = { .comm = "many" };
	const struct stack stacks[] = { { 1, 2, { VA(1, 55), PYTHON(11) } } };
	const struct live_process *processes;
	size_t nr, i, nr_there = 0;

	for (i = 1; i <= 3 * LIVE_MAX_PROCESSES; i++) {
		process.pid = process.agent_pid = (uint32_t)i;
		process.start_ns = i;
		feed_as(&process, stacks, 1);
		cr_assert_eq(named_pid, i);
	}
	processes = live_processes(live, &nr);
	cr_assert_leq(nr, LIVE_MAX_PROCESSES);
	for (i = 0; i < nr; i++)
		nr_there += processes[i].pid == 3 * LIVE_MAX_PROCESSES;
	cr_expect_eq(nr_there, 1);
	cr_expect_gt(live_counters(live)->processes_evicted, LIVE_MAX_PROCESSES);
	cr_expect_eq(live_counters(live)->samples_lost, 0);
}

static void name_helpers(void *arg, struct live *to, const uint64_t *frames, size_t nr,
			 uint32_t pid)
{
	static const char *const texts[] = {
		"pthread_cond_wait (libc.so.6)",
		"boost::asio::detail::scheduler::do_run_one (_raylet.so)", "handler (_raylet.so)"
	};
	struct live_name name = { 0 };
	size_t i;

	(void)arg;
	(void)pid;
	for (i = 0; i < nr; i++) {
		name.function = name.line = texts[frames[i] & BPFPROF_FRAME_MASK];
		live_named(to, frames[i], &name);
	}
}

/* The verdict on a stack is that of all its samples, but for who is no helper that sleeps. */
Test(live, helpers_that_have_nothing_to_do_are_one_row)
{
	const struct live_names symbolizer = { .name = name_helpers };
	const struct aggregate_process process = {
		.pid = 42, .agent_pid = 42, .start_ns = 1, .comm = "prog"
	};
	const uint64_t frames[] = { NATIVE(0), NATIVE(1), NATIVE(0), NATIVE(2), NATIVE(1) };
	struct stacks_made made = { .nr = 0 };
	struct aggregate_sample samples[] = {
		{ .stack = 0, .count = 1, .value_ns = MS, .sleeper = PROFILE_FIRST_SLEEPS },
		{ .stack = 0, .count = 1, .value_ns = 10 * MS, .sleeper = PROFILE_HELPER_SLEEPS },
		{ .stack = 1, .count = 1, .value_ns = 100 * MS, .sleeper = PROFILE_HELPER_SLEEPS },
		{ .stack = 0, .count = 1, .value_ns = 1000 * MS, .sleeper = PROFILE_HELPER_SLEEPS },
		{ .stack = 1,
		  .count = 1,
		  .value_ns = 10000 * MS,
		  .sleeper = PROFILE_HELPER_SLEEPS },
	};
	struct aggregate_view view = { .processes = &process,
				       .nr_processes = 1,
				       .samples = samples,
				       .nr_samples = 5,
				       .titles = view_titles };

	stack_make(&made, frames, 2);
	stack_make(&made, frames + 2, 3);
	for (size_t i = 0; i < 5; i++) /* numbers of the leaves */
		samples[i].stack = samples[i].stack ? 5 : 2;
	stacks_view(&made, &view);
	live_idle(live);
	cr_assert_eq(live_feed(live, &view, &symbolizer), 0);
	stacks_free(&made);
	expect(IDLE_FRAME, true, 0, 1010, 1010);
	expect("pthread_cond_wait (libc.so.6)", true, 0, 10101, 10101);
	expect("boost::asio::detail::scheduler::do_run_one (_raylet.so)", true, 0, 0, 10101);
	expect("handler (_raylet.so)", true, 0, 0, 10100);
}
