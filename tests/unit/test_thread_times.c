// SPDX-License-Identifier: Apache-2.0
#include "profile/thread_times.h"

#include <criterion/criterion.h>
#include <string.h>

#include "profile/aggregate.h"
#include "profile/stats.h"

#define MS 1000000ULL
#define AGGREGATE_BYTES (1U << 20)
#define BOUNDARY (2000 * MS)

static const uint64_t waits_in[] = { (uint64_t)BPFPROF_FRAME_PYTHON << BPFPROF_FRAME_SHIFT | 7 };
static const uint64_t runs_in[] = { (uint64_t)BPFPROF_FRAME_PYTHON << BPFPROF_FRAME_SHIFT | 8 };

struct fixture {
	struct aggregate *first, *second;
	struct thread_times *times;
	struct bpfprof_sample sample;
	struct aggregate_input input;
};

static void begin(struct fixture *f, uint64_t from_ns)
{
	*f = (struct fixture){ 0 };
	cr_assert_eq(aggregate_new(&f->first, true, AGGREGATE_BYTES), 0);
	cr_assert_eq(aggregate_new(&f->second, true, AGGREGATE_BYTES), 0);
	cr_assert_eq(thread_times_new(&f->times, f->first, from_ns), 0);
	f->sample.task = (struct bpfprof_task_id){ .pid = 1, .tid = 2, .start_ns = 3 };
	f->input = (struct aggregate_input){ .sample = &f->sample,
					     .nr_user = 1,
					     .stop = BPFPROF_STOP_COMPLETE };
}

static void end(struct fixture *f)
{
	thread_times_free(f->times);
	aggregate_free(f->first);
	aggregate_free(f->second);
}

/* A wait or time on a CPU that is over at ts_ns. */
static void report(struct fixture *f, bool wait, uint64_t ts_ns, uint64_t ns)
{
	f->sample.flags = wait ? BPFPROF_SAMPLE_WAIT : 0;
	f->sample.rec.ts_ns = ts_ns;
	f->sample.period_ns = ns;
	f->input.user = wait ? waits_in : runs_in;
	thread_times_add(f->times, &f->input);
}

static uint64_t total(const struct aggregate *aggregate)
{
	struct aggregate_view view;
	uint64_t ns = 0;
	size_t i;

	aggregate_view_get(aggregate, &view);
	for (i = 0; i < view.nr_samples; i++)
		ns += view.samples[i].value_ns;
	return ns;
}

static uint64_t in_place(const struct aggregate *aggregate, uint64_t frame)
{
	struct aggregate_view view;
	uint64_t ns = 0;
	size_t i;

	aggregate_view_get(aggregate, &view);
	for (i = 0; i < view.nr_samples; i++)
		if (view.frames[view.samples[i].stack] == frame)
			ns += view.samples[i].value_ns;
	return ns;
}

Test(thread_times, a_sample_is_split_at_the_boundary)
{
	struct fixture f;

	begin(&f, 0);
	thread_times_boundary(f.times, f.second, BOUNDARY);
	report(&f, true, BOUNDARY + 30 * MS, 100 * MS);
	cr_expect_eq(total(f.first), 70 * MS);
	cr_expect_eq(total(f.second), 30 * MS);
	thread_times_close(f.times);
	report(&f, true, BOUNDARY + 60 * MS, 50 * MS);
	cr_expect_eq(total(f.first), 70 * MS, "it is closed");
	cr_expect_eq(total(f.second), 80 * MS);
	end(&f);
}

Test(thread_times, a_wait_over_three_intervals)
{
	const struct thread_rest rests[] = {
		{ .open_ns = 1500 * MS, .since_ns = 500 * MS },
		{ .open_ns = 3500 * MS, .since_ns = 500 * MS },
	};
	struct aggregate *third;
	struct fixture f;

	begin(&f, 0);
	report(&f, false, 500 * MS, 500 * MS);
	thread_times_boundary(f.times, f.second, BOUNDARY);
	cr_assert(thread_times_wants_stack(f.times, &f.sample.task, &rests[0]));
	f.sample.flags = BPFPROF_SAMPLE_WAIT;
	f.input.user = waits_in;
	thread_times_open(f.times, &f.input, &rests[0]);
	cr_expect(thread_times_settled(f.times, &f.sample.task));
	thread_times_close(f.times);
	cr_expect_eq(in_place(f.first, waits_in[0]), 1500 * MS);
	cr_expect_eq(in_place(f.first, runs_in[0]), 500 * MS);
	cr_expect_eq(total(f.second), 0, "its stack is kept, and counts for nothing");
	cr_assert_eq(aggregate_new(&third, true, AGGREGATE_BYTES), 0);
	thread_times_boundary(f.times, third, 2 * BOUNDARY);
	cr_expect_not(thread_times_wants_stack(f.times, &f.sample.task, &rests[1]), "it is known");
	f.input.nr_user = 0;
	thread_times_settle(f.times, &f.input, &rests[1]);
	thread_times_close(f.times);
	cr_expect_eq(in_place(f.second, waits_in[0]), BOUNDARY);
	f.input.nr_user = 1;
	report(&f, true, 2 * BOUNDARY + 250 * MS, 3750 * MS);
	cr_expect_eq(in_place(third, waits_in[0]), 250 * MS, "time is reported once");
	cr_expect_eq(total(f.first), BOUNDARY);
	cr_expect_eq(total(f.second), BOUNDARY);
	aggregate_free(third);
	end(&f);
}

Test(thread_times, who_dies_without_a_stack_died_where_it_was_read)
{
	const struct thread_rest rest = { .open_ns = 1500 * MS, .since_ns = 500 * MS };
	struct fixture f;

	begin(&f, 0);
	thread_times_boundary(f.times, f.second, BOUNDARY);
	f.sample.flags = BPFPROF_SAMPLE_WAIT;
	f.input.user = waits_in;
	thread_times_open(f.times, &f.input, &rest);
	thread_times_close(f.times);
	f.input.stop = BPFPROF_STOP_MISS_GONE;
	f.sample.rec.ts_ns = BOUNDARY + 40 * MS;
	f.sample.period_ns = 1540 * MS;
	f.input.nr_user = 0;
	thread_times_add(f.times, &f.input);
	cr_expect_eq(in_place(f.second, waits_in[0]), 40 * MS);
	cr_expect_eq(total(f.second), 40 * MS);
	end(&f);
}

/*
 * The kernel is read 9 ms after the boundary; the thread has run for 3 of them, and a sample has 2
 * of these.
 */
Test(thread_times, what_is_of_later_is_not_of_before)
{
	const struct thread_rest rest = { .run_ns = 12 * MS,
					  .wait_ns = 4 * MS,
					  .since_ns = BOUNDARY + 9 * MS,
					  .after_ns = 9 * MS };
	struct fixture f;

	begin(&f, 0);
	report(&f, true, 1900 * MS, 100 * MS);
	report(&f, false, 1950 * MS, 50 * MS);
	thread_times_boundary(f.times, f.second, BOUNDARY);
	report(&f, true, BOUNDARY + 2 * MS, 10 * MS);
	cr_expect_eq(total(f.first), 158 * MS);
	thread_times_settle(f.times, &f.input, &rest);
	thread_times_close(f.times);
	/* All that was counted until then, less what is of later. */
	cr_expect_eq(total(f.first), (100 + 50 + 10 + 12 + 4 - 9) * MS);
	cr_expect_eq(total(f.second), 2 * MS);
	/* Time that is reported now is not reported again: both sums are all time until the end. */
	report(&f, false, BOUNDARY + 30 * MS, 33 * MS);
	report(&f, true, BOUNDARY + 40 * MS, 14 * MS);
	cr_expect_eq(total(f.first) + total(f.second), (100 + 50 + 10 + 33 + 14) * MS);
	end(&f);
}

Test(thread_times, what_was_before_the_start_does_not_count)
{
	const struct thread_rest rest = { .open_ns = 9000 * MS, .since_ns = 1 };
	struct fixture f;

	begin(&f, 1000 * MS);
	report(&f, true, 1300 * MS, 1200 * MS);
	cr_expect_eq(total(f.first), 300 * MS);
	f.sample.task.tid = 5;
	thread_times_boundary(f.times, NULL, BOUNDARY);
	thread_times_settle(f.times, &f.input, &rest);
	cr_expect_eq(total(f.first), 1300 * MS, "and what another thread did between the two");
	report(&f, true, BOUNDARY + 500 * MS, 9500 * MS);
	cr_expect_eq(total(f.first), 1300 * MS);
	end(&f);
}

/* There are more threads than room; threads that are silent in an interval make room. */
Test(thread_times, threads_are_bounded_and_counted)
{
	struct stats_reasons waits = { 0 };
	struct fixture f;
	size_t bytes, i;

	begin(&f, 0);
	cr_expect_eq(thread_times_bytes(f.times), 0);
	for (i = 0; i < THREAD_TIMES_MAX + 5; i++) {
		f.sample.task.tid = (uint32_t)i + 2;
		report(&f, true, BOUNDARY / 2, MS);
	}
	bytes = thread_times_bytes(f.times);
	cr_expect_gt(bytes, 100 * THREAD_TIMES_MAX);
	cr_expect_lt(bytes, 160 * THREAD_TIMES_MAX);
	thread_times_stats(f.times, &waits);
	cr_assert_eq(waits.nr, 1);
	cr_expect_str_eq(waits.reasons[0].name, "threads_no_room");
	cr_expect_eq(waits.reasons[0].count, 5);
	for (i = 1; i <= 2; i++) {
		thread_times_boundary(f.times, f.second, i * BOUNDARY);
		thread_times_close(f.times);
	}
	cr_expect_eq(thread_times_bytes(f.times), 0);
	end(&f);
}
