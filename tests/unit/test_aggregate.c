// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/aggregate.h"
#include "profile/aggregate_rollover.h"
#include "profile/aggregate_stats.h"
#include "profile/seconds.h"
#include "profile/stats.h"
#include "aggregate_made.h"
#include "stack_frames.h"

/* A forgotten process is unknown; its later samples count again. */
Test(aggregate, forget)
{
	const uint64_t one[] = { KIND(NATIVE) | 1, KIND(NATIVE) | 2 }, two[] = { KIND(NATIVE) | 1 };
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p"),
			      q = aggregate_sample_of(2, 2, "q"),
			      named = aggregate_sample_of(1, 1, "p"),
			      same_pid = aggregate_sample_of(1, 9, "r");
	struct aggregate_view view;

	aggregate_make(false, MIB);
	aggregate_may_forget(made_aggregate);
	snprintf(named.leader_comm, sizeof(named.leader_comm), "other");
	same_pid.task.start_ns = 2000; /* another process that had the number before */
	p.nr_python = 1;
	for (int i = 0; i < 5; i++)
		aggregate_add_one(&p, one, 2, BPFPROF_STOP_COMPLETE);
	aggregate_add_one(&named, two, 1, BPFPROF_STOP_DEPTH);
	aggregate_add_one(&p, NULL, 0, BPFPROF_STOP_NO_USER);
	aggregate_add_one(&q, one, 2, BPFPROF_STOP_COMPLETE);
	aggregate_add_one(&same_pid, one, 2, BPFPROF_STOP_BAD_FRAME);
	cr_expect_eq(aggregate_forget(made_aggregate, &p.task), 7);
	cr_expect_eq(aggregate_forget(made_aggregate, &p.task), 0, "it has nothing any more");
	aggregate_view_get(made_aggregate, &view);
	cr_expect_eq(aggregate_count_in_all(&view), 2);
	cr_expect(view.counts.nr_taken == 2 && view.counts.nr_user == 2 &&
		  !view.counts.nr_kernel_only && !view.counts.nr_python);
	cr_expect(view.counts.stops[BPFPROF_STOP_COMPLETE] == 1 &&
		  view.counts.stops[BPFPROF_STOP_BAD_FRAME] == 1 &&
		  !view.counts.stops[BPFPROF_STOP_DEPTH] &&
		  !view.counts.stops[BPFPROF_STOP_NO_USER]);
	aggregate_add_one(&p, one, 2, BPFPROF_STOP_COMPLETE);
	aggregate_view_get(made_aggregate, &view);
	cr_expect_eq(aggregate_count_in_all(&view), 3);
	cr_expect(view.counts.nr_taken == 3 && view.counts.nr_python == 1);
	cr_expect_eq(aggregate_forget(made_aggregate, &p.task), 1);
}

Test(aggregate, forget_is_not_asked_for)
{
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p");

	aggregate_make(false, MIB);
	aggregate_add_one(&p, NULL, 0, BPFPROF_STOP_NO_USER);
	cr_expect_eq(aggregate_forget(made_aggregate, &p.task), 0);
}

/* The second of each sample, by the sample that counts it; those that come late have theirs. */
Test(aggregate, seconds)
{
	static const struct {
		uint64_t ts_ns;
		uint64_t frame;
		uint32_t second, entry;
	} cases[] = {
		{ 5000000000, 1, 0, 0 }, { 5999999999, 1, 0, 0 }, { 6000000000, 2, 1, 1 },
		{ 8500000000, 1, 3, 0 }, { 7000000000, 3, 2, 2 }, { 6500000000, 2, 1, 1 },
		{ 4999999999, 4, 0, 3 },
	};
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p");
	uint32_t seen[4][4] = { { 0 } }, i;
	static struct seconds_run run;
	const uint8_t *at, *end;
	uint64_t frame;
	size_t before;

	aggregate_make(false, MIB);
	cr_expect_null(aggregate_seconds(made_aggregate));
	aggregate_seconds_end(made_aggregate);
	before = aggregate_bytes(made_aggregate);
	cr_assert_eq(aggregate_seconds_keep(made_aggregate, 5000000000), 0);
	cr_expect_gt(aggregate_bytes(made_aggregate), before);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		frame = KIND(NATIVE) | cases[i].frame;
		p.rec.ts_ns = cases[i].ts_ns;
		aggregate_add_one(&p, &frame, 1, BPFPROF_STOP_COMPLETE);
		seen[cases[i].second][cases[i].entry]++;
	}
	aggregate_seconds_end(made_aggregate);
	at = seconds_runs(aggregate_seconds(made_aggregate), &end);
	while (seconds_run_take(&at, end, &run) == 1)
		for (i = 0; i < run.nr; i++)
			seen[run.second][run.pairs[i].entry] -= run.pairs[i].count;
	for (i = 0; i < 16; i++)
		cr_expect_eq(seen[i / 4][i % 4], 0, "second %u, sample %u", i / 4, i % 4);
}

/* Seconds have a share of the memory; when it is used up, samples still count, and have no second. */
Test(aggregate, seconds_full)
{
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p");
	struct aggregate_view view;
	uint64_t frame, placed = 0;
	static struct seconds_run run;
	const uint8_t *at, *end;
	uint32_t i;

	aggregate_make(false, MIB);
	cr_assert_eq(aggregate_seconds_keep(made_aggregate, 0), 0);
	for (i = 0; i < 200000; i++) {
		frame = KIND(NATIVE) | (i % 1000);
		p.rec.ts_ns = i * 1000000ULL;
		aggregate_add_one(&p, &frame, 1, BPFPROF_STOP_COMPLETE);
	}
	aggregate_seconds_end(made_aggregate);
	aggregate_view_get(made_aggregate, &view);
	cr_expect_eq(aggregate_count_in_all(&view), 200000);
	cr_expect_eq(view.nr_table_full, 0);
	at = seconds_runs(aggregate_seconds(made_aggregate), &end);
	while (seconds_run_take(&at, end, &run) == 1)
		for (i = 0; i < run.nr; i++)
			placed += run.pairs[i].count;
	cr_expect_eq(placed + view.nr_no_second, 200000);
	cr_expect(placed > 60000 && placed < 70000, "%llu bytes of 64 KiB",
		  (unsigned long long)placed);
	cr_expect_lt(aggregate_bytes(made_aggregate), MIB);
}

/* The program of a process may be known only after its first sample; the next interval keeps it. */
Test(aggregate, program)
{
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p");
	struct aggregate_input input = { .sample = &p, .stop = BPFPROF_STOP_INVALID };
	struct aggregate_call_at at, rolled_over;
	struct aggregate *next = NULL;
	struct aggregate_view view;
	uint64_t leaf;

	aggregate_make(false, MIB);
	leaf = aggregate_label(made_aggregate, "call");
	aggregate_add(made_aggregate, &input);
	input.program = 7;
	cr_assert_eq(aggregate_add_call(made_aggregate, &input, &leaf, 1, &at), 0);
	input.program = 0;
	aggregate_add(made_aggregate, &input);
	aggregate_view_get(made_aggregate, &view);
	cr_assert_eq(view.nr_processes, 1);
	cr_expect_eq(view.processes[0].program, 7);
	cr_assert_eq(aggregate_new(&next, false, MIB), 0);
	cr_assert_eq(aggregate_rollover(next, &view, &at, &rolled_over), 0);
	aggregate_view_get(next, &view);
	cr_assert_eq(view.nr_processes, 1);
	cr_expect_eq(view.processes[0].program, 7);
	aggregate_free(next);
}

Test(aggregate, counts_and_dedup)
{
	const uint64_t one[] = { KIND(NATIVE) | 1, KIND(NATIVE) | 2 }, two[] = { KIND(NATIVE) | 1 };
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p"),
			      q = aggregate_sample_of(2, 2, "q");
	struct aggregate_view view;
	const uint64_t *frames;
	size_t nr;

	aggregate_make(false, MIB);
	for (int i = 0; i < 5; i++)
		aggregate_add_one(&p, one, 2, BPFPROF_STOP_COMPLETE);
	aggregate_add_one(&p, two, 1, BPFPROF_STOP_COMPLETE);
	q.period_ns = 7;
	aggregate_add_one(&q, one, 2, BPFPROF_STOP_COMPLETE);
	aggregate_view_get(made_aggregate, &view);
	cr_assert_eq(view.nr_processes, 2);
	cr_assert_eq(view.nr_stacks, 5, "none, the marker alone, and three frames");
	cr_expect_eq(view.frames[AGGREGATE_NO_STACK], KIND(MARKER));
	cr_assert_eq(view.nr_samples, 3);
	cr_expect(view.samples[0].count == 5 && view.samples[0].value_ns == 50);
	cr_expect(view.samples[1].count == 1 && view.samples[1].stack == 4);
	cr_expect_eq(view.samples[2].stack, view.samples[0].stack, "one stack for both");
	cr_expect(view.samples[2].process == 1 && view.samples[2].value_ns == 7);
	frames = stack_frames(&view, view.samples[0].stack, &nr);
	cr_assert_eq(nr, 2);
	cr_expect_arr_eq(frames, one, sizeof(one));
	cr_expect(view.counts.nr_taken == 7 && view.counts.nr_user == 7 &&
		  !view.counts.nr_kernel_only);
	cr_expect(view.processes[0].samples == 6 && view.processes[0].nr_threads == 1);
	cr_expect(view.nr_table_full == 0 && view.nr_lost == 0);
	cr_expect_eq(view.counts.stops[BPFPROF_STOP_COMPLETE], 7);
}

/*
 * The kernel part comes first, callers' addresses are minus one, and an incomplete stack has a
 * marker at the root.
 */
Test(aggregate, joined_stack)
{
	const uint64_t kernel[] = { 0xffffffff81000000, 0xffffffff81000100 };
	const uint64_t user[] = { KIND(NATIVE) | 5, KIND(NATIVE_VA) | 0x7fff12345678 };
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p"),
			      q = aggregate_sample_of(2, 2, "q");
	struct aggregate_input input = { .sample = &p,
					 .kernel = kernel,
					 .nr_kernel = 2,
					 .user = user,
					 .nr_user = 2,
					 .stop = BPFPROF_STOP_DEPTH };
	struct aggregate_view view;
	const uint64_t *frames;
	size_t nr;

	aggregate_make(false, MIB);
	aggregate_add_one(&q, NULL, 0, BPFPROF_STOP_NO_USER);
	aggregate_add_one(&q, NULL, 0, BPFPROF_STOP_NO_USER);
	aggregate_add(made_aggregate, &input);
	aggregate_view_get(made_aggregate, &view);
	cr_expect(view.counts.nr_kernel_only == 2 && view.counts.nr_user == 1);
	cr_assert(view.nr_samples == 2 && view.samples[0].stack == AGGREGATE_NO_STACK &&
			  view.samples[0].count == 2,
		  "a stack without any frame is no silence");
	frames = stack_frames(&view, view.samples[1].stack, &nr);
	cr_assert_eq(nr, 5);
	cr_expect_eq(frames[0], 0x1fffffff81000000);
	cr_expect_eq(frames[1], 0x1fffffff810000ff);
	cr_expect_eq(frames[2], user[0]);
	cr_expect_eq(frames[3], KIND(NATIVE_VA) | 2ULL << AGGREGATE_VA_BITS | 0x7fff12345678,
		     "the process, which is the second one");
	cr_expect_eq(frames[4], KIND(MARKER) | BPFPROF_STOP_DEPTH);
}

/* More than fits is cut. */
Test(aggregate, longest_stack)
{
	static uint64_t kernel[2 * BPFPROF_MAX_FRAMES], user[2 * BPFPROF_MAX_FRAMES];
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p");
	struct aggregate_input input = { .sample = &p,
					 .kernel = kernel,
					 .nr_kernel = 2 * BPFPROF_MAX_FRAMES,
					 .user = user,
					 .nr_user = 2 * BPFPROF_MAX_FRAMES,
					 .stop = BPFPROF_NR_STOPS + 5 };
	struct aggregate_view view;

	aggregate_make(false, MIB);
	aggregate_add(made_aggregate, &input);
	aggregate_view_get(made_aggregate, &view);
	cr_assert_eq(view.nr_samples, 1);
	cr_expect_eq(stack_depth(view.callers, view.samples[0].stack),
		     BPFPROF_MAX_FRAMES + BPFPROF_MAX_USER_FRAMES + 1);
}

Test(aggregate, threads)
{
	struct bpfprof_sample first = aggregate_sample_of(1, 1, "main"),
			      second = aggregate_sample_of(1, 2, "worker");
	const uint64_t frames[] = { KIND(NATIVE) | 1 };
	struct aggregate_view view;

	/* Not ended by a NUL: the kernel would not, but nothing is read behind it. */
	memset(first.leader_comm, 'x', sizeof(first.leader_comm));
	memset(second.leader_comm, 'x', sizeof(second.leader_comm));
	for (int threads = 0; threads < 2; threads++) {
		aggregate_make(threads, MIB);
		for (int i = 0; i < 3; i++) {
			aggregate_add_one(&first, frames, 1, BPFPROF_STOP_COMPLETE);
			aggregate_add_one(&second, frames, 1, BPFPROF_STOP_COMPLETE);
		}
		aggregate_view_get(made_aggregate, &view);
		cr_assert_eq(view.nr_processes, 1);
		cr_expect_str_eq(view.processes[0].comm, "xxxxxxxxxxxxxxx");
		cr_expect_eq(view.processes[0].nr_threads, 2);
		cr_assert_eq(view.nr_samples, 2, "their names are labels, kept apart or not");
		cr_expect_eq(view.samples[0].count, 3);
		cr_expect_eq(view.samples[0].tid, threads ? 1 : 0);
		cr_expect_str_eq(view.threads[view.samples[0].thread], "main");
		cr_expect_str_eq(view.threads[view.samples[1].thread], "worker");
		aggregate_teardown();
	}
}

/* Another pid, start time or name makes another entry; an exit belongs to the last name. */
Test(aggregate, processes_and_exit)
{
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p");
	struct bpfprof_task_id stranger = { .pid = 9, .start_ns = 1000 };
	struct aggregate_view view;

	aggregate_make(false, MIB);
	aggregate_exit(made_aggregate, &stranger, 1);
	aggregate_add_one(&p, NULL, 0, BPFPROF_STOP_NO_USER);
	memset(p.leader_comm + strlen(p.leader_comm) + 1, 'y', 4); /* behind its end */
	aggregate_add_one(&p, NULL, 0, BPFPROF_STOP_NO_USER);
	strncpy(p.leader_comm, "renamed", sizeof(p.leader_comm) - 1);
	aggregate_add_one(&p, NULL, 0, BPFPROF_STOP_NO_USER);
	p.task.start_ns = 2000;
	aggregate_add_one(&p, NULL, 0, BPFPROF_STOP_NO_USER);
	p.task.start_ns = 1000;
	aggregate_exit(made_aggregate, &p.task, 55);
	aggregate_exit(made_aggregate, &stranger, 1);
	aggregate_view_get(made_aggregate, &view);
	cr_assert_eq(view.nr_processes, 3);
	cr_expect_eq(view.processes[0].samples, 2);
	cr_expect_eq(view.processes[0].exit_cpu_ns, 0);
	cr_expect_str_eq(view.processes[1].comm, "renamed");
	cr_expect_eq(view.processes[1].exit_cpu_ns, 55);
	cr_expect_eq(view.processes[2].exit_cpu_ns, 0);
}

/* A process that renames itself all the time does not fill the table. */
Test(aggregate, too_many_names)
{
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p");
	struct aggregate_view view;

	aggregate_make(false, MIB);
	for (int i = 0; i < 1000; i++) {
		snprintf(p.leader_comm, sizeof(p.leader_comm), "n%d", i);
		aggregate_add_one(&p, NULL, 0, BPFPROF_STOP_NO_USER);
	}
	aggregate_view_get(made_aggregate, &view);
	cr_expect_eq(view.nr_processes, 64);
	cr_expect_eq(aggregate_count_in_all(&view), 1000);
	cr_expect_str_eq(view.processes[63].comm, "n63");
	cr_expect_eq(view.processes[63].samples, 1000 - 63);
}

/* Over the budget no new stack is kept, but each sample counts for its process. */
Test(aggregate, budget)
{
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p"),
			      q = aggregate_sample_of(2, 2, "q");
	const uint64_t known[] = { KIND(NATIVE) | 1, KIND(NATIVE) | 2 };
	uint64_t frames[100] = { 0 }, nr = 0;
	struct aggregate_view view;

	aggregate_make(true, 256 << 10);
	aggregate_add_one(&p, known, 2, BPFPROF_STOP_COMPLETE);
	for (nr = 1; nr < 5000; nr++) {
		for (size_t i = 0; i < 100; i++)
			frames[i] = KIND(NATIVE) | nr << 20 | i;
		aggregate_add_one(&p, frames, 100, BPFPROF_STOP_COMPLETE);
	}
	/* A known stack needs no room. */
	for (int i = 0; i < 1000; i++)
		aggregate_add_one(&p, known, 2, BPFPROF_STOP_COMPLETE);
	aggregate_view_get(made_aggregate, &view);
	cr_expect_eq(view.samples[0].count, 1001);
	cr_expect(view.nr_table_full > 0 && view.nr_table_full < nr);
	cr_expect_eq(view.nr_lost, 0);
	cr_expect_eq(aggregate_count_in_all(&view), nr + 1000);
	nr += 1000;
	/* New processes come, and have their names. */
	for (int i = 0; i < 20; i++) {
		q.task.pid = 100 + (uint32_t)i;
		aggregate_add_one(&q, known, 2, BPFPROF_STOP_COMPLETE);
	}
	aggregate_view_get(made_aggregate, &view);
	cr_expect_eq(view.nr_processes, 21);
	cr_expect_eq(aggregate_count_in_all(&view), nr + 20);
	cr_expect_eq(view.counts.nr_taken, nr + 20);
}

/* In the end nothing has room: samples that count nowhere are counted as lost. */
Test(aggregate, budget_of_processes)
{
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p");
	struct aggregate_view view;
	uint32_t pid;

	aggregate_make(true, 64 << 10);
	for (pid = 1; pid <= 5000; pid++) {
		p.task.pid = p.task.tid = pid;
		snprintf(p.comm, sizeof(p.comm), "t%u", pid);
		aggregate_add_one(&p, NULL, 0, BPFPROF_STOP_NO_USER);
	}
	aggregate_view_get(made_aggregate, &view);
	cr_expect_gt(view.nr_lost, 0);
	cr_expect_lt(view.nr_lost, 5000);
	cr_expect_eq(aggregate_count_in_all(&view) + view.nr_lost, 5000);
}

Test(aggregate, no_budget_at_all)
{
	struct aggregate *none = (void *)1;

	cr_expect_lt(aggregate_new(&none, false, 1000), 0);
	cr_expect_eq(none, (void *)1);
	aggregate_free(NULL);
}

/* The model: a plain list of all additions. */
#define MODEL_STACKS 3000
#define MODEL_ADDS 200000

Test(aggregate, model)
{
	static struct {
		uint64_t frames[6];
		uint32_t nr;
	} stacks[MODEL_STACKS];
	static uint32_t counts[8][MODEL_STACKS];
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p");
	const struct aggregate_sample *s;
	struct aggregate_view view;
	size_t i, k, nr = 0, nr_frames;
	const uint64_t *frames;

	srand(1);
	for (i = 0; i < MODEL_STACKS; i++) {
		stacks[i].nr = 2 + (uint32_t)rand() % 5;
		stacks[i].frames[0] = KIND(NATIVE) | i;
		for (k = 1; k < stacks[i].nr; k++)
			stacks[i].frames[k] = KIND(NATIVE) | (uint64_t)rand() % 4;
	}
	aggregate_make(false, 16 * MIB);
	for (i = 0; i < MODEL_ADDS; i++) {
		k = (size_t)rand() % MODEL_STACKS;
		p.task.pid = (uint32_t)rand() % 8;
		nr += !counts[p.task.pid][k];
		counts[p.task.pid][k]++;
		aggregate_add_one(&p, stacks[k].frames, stacks[k].nr, BPFPROF_STOP_COMPLETE);
	}
	aggregate_view_get(made_aggregate, &view);
	cr_assert_eq(view.nr_samples, nr);
	for (i = 0; i < view.nr_samples; i++) {
		s = &view.samples[i];
		frames = stack_frames(&view, s->stack, &nr_frames);
		k = frames[0] & BPFPROF_FRAME_MASK;
		cr_assert_eq(nr_frames, stacks[k].nr);
		cr_assert_arr_eq(frames, stacks[k].frames, nr_frames * sizeof(uint64_t));
		cr_assert_eq(s->count, counts[view.processes[s->process].pid][k]);
		cr_assert_eq(s->value_ns, 10 * s->count);
		counts[view.processes[s->process].pid][k] = 0;
	}
	cr_expect(view.nr_table_full == 0 && view.nr_lost == 0);
}

/* A whole stack without room counts as truncated, once; one that is truncated anyway changes nothing else. */
Test(aggregate, without_room_is_not_complete)
{
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p");
	struct run_stats stats = { 0 };
	struct aggregate_view view;
	uint64_t frames[32];

	aggregate_make(false, MIB / 8);
	for (uint64_t i = 0; i < 4000; i++) {
		for (uint64_t k = 0; k < 32; k++)
			frames[k] = KIND(NATIVE) | i << 8 | k;
		aggregate_add_one(&p, frames, 32, BPFPROF_STOP_COMPLETE);
	}
	aggregate_view_get(made_aggregate, &view);
	cr_assert(view.nr_table_full > 0 && view.nr_table_full < 4000);
	aggregate_stats(&stats, &view);
	cr_expect_eq(stats.truncated, view.nr_table_full);
	cr_expect_eq(stats.complete, 4000 - view.nr_table_full);
	frames[0]++;
	aggregate_add_one(&p, frames, 32, BPFPROF_STOP_DEPTH);
	aggregate_view_get(made_aggregate, &view);
	aggregate_stats(&stats, &view);
	cr_expect_eq(stats.truncated, view.nr_table_full);
	cr_expect_eq(stats.complete + stats.truncated, 4001);
}
