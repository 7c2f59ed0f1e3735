// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "container/containers.h"
#include "proc/ranks.h"
#include "profile/aggregate.h"
#include "profile/aggregate_rollover.h"

#define MIB (1U << 20)
#define KIND(kind) ((uint64_t)BPFPROF_FRAME_##kind << BPFPROF_FRAME_SHIFT)

static struct aggregate *a;

static void make(bool threads, size_t max_bytes)
{
	cr_assert_eq(aggregate_new(&a, threads, max_bytes), 0);
}

static void teardown(void)
{
	aggregate_free(a);
	a = NULL;
}

TestSuite(aggregate, .fini = teardown);

static struct bpfprof_sample sample_of(uint32_t pid, uint32_t tid, const char *comm)
{
	struct bpfprof_sample sample = {
		.task = { .pid = pid, .tid = tid, .start_ns = 1000, .exec_id = 1 },
		.period_ns = 10,
	};

	snprintf(sample.comm, sizeof(sample.comm), "%s", comm);
	snprintf(sample.leader_comm, sizeof(sample.leader_comm), "leader");
	return sample;
}

static void add(const struct bpfprof_sample *sample, const uint64_t *user, size_t nr, uint32_t stop)
{
	struct aggregate_input input = {
		.sample = sample, .user = user, .nr_user = nr, .stop = stop
	};

	aggregate_add(a, &input);
}

static uint64_t count_in_all(const struct aggregate_view *view)
{
	uint64_t count = 0;

	for (size_t i = 0; i < view->nr_samples; i++)
		count += view->samples[i].count;
	return count;
}

/* As if the process had not been there until now; what comes later counts. */
Test(aggregate, forget)
{
	const uint64_t one[] = { KIND(NATIVE) | 1, KIND(NATIVE) | 2 }, two[] = { KIND(NATIVE) | 1 };
	struct bpfprof_sample p = sample_of(1, 1, "p"), q = sample_of(2, 2, "q"),
			      named = sample_of(1, 1, "p"), same_pid = sample_of(1, 9, "r");
	struct aggregate_view view;

	make(false, MIB);
	aggregate_may_forget(a);
	snprintf(named.leader_comm, sizeof(named.leader_comm), "other");
	same_pid.task.start_ns = 2000; /* another process that had the number before */
	p.nr_python = 1;
	for (int i = 0; i < 5; i++)
		add(&p, one, 2, BPFPROF_STOP_COMPLETE);
	add(&named, two, 1, BPFPROF_STOP_DEPTH);
	add(&p, NULL, 0, BPFPROF_STOP_NO_USER);
	add(&q, one, 2, BPFPROF_STOP_COMPLETE);
	add(&same_pid, one, 2, BPFPROF_STOP_BAD_FRAME);
	cr_expect_eq(aggregate_forget(a, &p.task), 7);
	cr_expect_eq(aggregate_forget(a, &p.task), 0, "it has nothing any more");
	aggregate_view_get(a, &view);
	cr_expect_eq(count_in_all(&view), 2);
	cr_expect(view.counts.nr_taken == 2 && view.counts.nr_user == 2 &&
		  !view.counts.nr_kernel_only && !view.counts.nr_python);
	cr_expect(view.counts.stops[BPFPROF_STOP_COMPLETE] == 1 &&
		  view.counts.stops[BPFPROF_STOP_BAD_FRAME] == 1 &&
		  !view.counts.stops[BPFPROF_STOP_DEPTH] &&
		  !view.counts.stops[BPFPROF_STOP_NO_USER]);
	add(&p, one, 2, BPFPROF_STOP_COMPLETE);
	aggregate_view_get(a, &view);
	cr_expect_eq(count_in_all(&view), 3);
	cr_expect(view.counts.nr_taken == 3 && view.counts.nr_python == 1);
	cr_expect_eq(aggregate_forget(a, &p.task), 1);
}

Test(aggregate, forget_is_not_asked_for)
{
	struct bpfprof_sample p = sample_of(1, 1, "p");

	make(false, MIB);
	add(&p, NULL, 0, BPFPROF_STOP_NO_USER);
	cr_expect_eq(aggregate_forget(a, &p.task), 0);
}

/* What a process runs may be known later than its first sample; the next interval knows it, too. */
Test(aggregate, program)
{
	struct bpfprof_sample p = sample_of(1, 1, "p");
	struct aggregate_input input = { .sample = &p, .stop = BPFPROF_STOP_INVALID };
	struct aggregate_call_at at, rolled_over;
	struct aggregate *next = NULL;
	struct aggregate_view view;
	uint64_t leaf;

	make(false, MIB);
	leaf = aggregate_label(a, "call");
	aggregate_add(a, &input);
	input.program = 7;
	cr_assert_eq(aggregate_add_call(a, &input, &leaf, 1, &at), 0);
	input.program = 0;
	aggregate_add(a, &input);
	aggregate_view_get(a, &view);
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
	struct bpfprof_sample p = sample_of(1, 1, "p"), q = sample_of(2, 2, "q");
	struct aggregate_view view;

	make(false, MIB);
	for (int i = 0; i < 5; i++)
		add(&p, one, 2, BPFPROF_STOP_COMPLETE);
	add(&p, two, 1, BPFPROF_STOP_COMPLETE);
	q.period_ns = 7;
	add(&q, one, 2, BPFPROF_STOP_COMPLETE);
	aggregate_view_get(a, &view);
	cr_assert_eq(view.nr_processes, 2);
	cr_assert_eq(view.nr_stacks, 3, "the marker alone, and two");
	cr_expect_eq(view.nr_frames, 4);
	cr_expect_eq(view.frames[view.stacks[0].first], KIND(MARKER));
	cr_assert_eq(view.nr_samples, 3);
	cr_expect(view.samples[0].count == 5 && view.samples[0].value_ns == 50);
	cr_expect(view.samples[1].count == 1 && view.samples[1].stack == 2);
	cr_expect_eq(view.samples[2].stack, view.samples[0].stack, "one stack for both");
	cr_expect(view.samples[2].process == 1 && view.samples[2].value_ns == 7);
	cr_expect_arr_eq(view.frames + view.stacks[1].first, one, sizeof(one));
	cr_expect(view.counts.nr_taken == 7 && view.counts.nr_user == 7 &&
		  !view.counts.nr_kernel_only);
	cr_expect(view.processes[0].samples == 6 && view.processes[0].nr_threads == 1);
	cr_expect(view.nr_table_full == 0 && view.nr_lost == 0);
	cr_expect_eq(view.counts.stops[BPFPROF_STOP_COMPLETE], 7);
}

/* Kernel part first, callers minus one, a marker at the root of what is not complete. */
Test(aggregate, joined_stack)
{
	const uint64_t kernel[] = { 0xffffffff81000000, 0xffffffff81000100 };
	const uint64_t user[] = { KIND(NATIVE) | 5, KIND(NATIVE_VA) | 0x7fff12345678 };
	struct bpfprof_sample p = sample_of(1, 1, "p"), q = sample_of(2, 2, "q");
	struct aggregate_input input = { .sample = &p,
					 .kernel = kernel,
					 .nr_kernel = 2,
					 .user = user,
					 .nr_user = 2,
					 .stop = BPFPROF_STOP_DEPTH };
	struct aggregate_view view;
	const uint64_t *frames;

	make(false, MIB);
	add(&q, NULL, 0, BPFPROF_STOP_NO_USER);
	add(&q, NULL, 0, BPFPROF_STOP_NO_USER);
	aggregate_add(a, &input);
	aggregate_view_get(a, &view);
	cr_expect(view.counts.nr_kernel_only == 2 && view.counts.nr_user == 1);
	cr_assert(view.nr_samples == 2 && view.samples[0].stack == 0 && view.samples[0].count == 2);
	cr_expect_eq(view.stacks[0].nr, 1, "a stack without any frame is no silence");
	cr_assert_eq(view.stacks[1].nr, 5);
	frames = view.frames + view.stacks[1].first;
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
	struct bpfprof_sample p = sample_of(1, 1, "p");
	struct aggregate_input input = { .sample = &p,
					 .kernel = kernel,
					 .nr_kernel = 2 * BPFPROF_MAX_FRAMES,
					 .user = user,
					 .nr_user = 2 * BPFPROF_MAX_FRAMES,
					 .stop = BPFPROF_NR_STOPS + 5 };
	struct aggregate_view view;

	make(false, MIB);
	aggregate_add(a, &input);
	aggregate_view_get(a, &view);
	cr_assert_eq(view.nr_stacks, 2);
	cr_expect_eq(view.stacks[1].nr, BPFPROF_MAX_FRAMES + BPFPROF_MAX_USER_FRAMES + 1);
}

Test(aggregate, threads)
{
	struct bpfprof_sample first = sample_of(1, 1, "main"), second = sample_of(1, 2, "worker");
	const uint64_t frames[] = { KIND(NATIVE) | 1 };
	struct aggregate_view view;

	/* Not ended by a NUL: the kernel would not, but nothing is read behind it. */
	memset(first.leader_comm, 'x', sizeof(first.leader_comm));
	memset(second.leader_comm, 'x', sizeof(second.leader_comm));
	for (int threads = 0; threads < 2; threads++) {
		make(threads, MIB);
		for (int i = 0; i < 3; i++) {
			add(&first, frames, 1, BPFPROF_STOP_COMPLETE);
			add(&second, frames, 1, BPFPROF_STOP_COMPLETE);
		}
		aggregate_view_get(a, &view);
		cr_assert_eq(view.nr_processes, 1);
		cr_expect_str_eq(view.processes[0].comm, "xxxxxxxxxxxxxxx");
		cr_expect_eq(view.processes[0].nr_threads, 2);
		cr_assert_eq(view.nr_samples, 2, "their names are labels, kept apart or not");
		cr_expect_eq(view.samples[0].count, 3);
		cr_expect_eq(view.samples[0].tid, threads ? 1 : 0);
		cr_expect_str_eq(view.threads[view.samples[0].thread], "main");
		cr_expect_str_eq(view.threads[view.samples[1].thread], "worker");
		teardown();
	}
}

/* Under another number, start time or name it is another entry; exit goes to the last name. */
Test(aggregate, processes_and_exit)
{
	struct bpfprof_sample p = sample_of(1, 1, "p");
	struct bpfprof_task_id stranger = { .pid = 9, .start_ns = 1000 };
	struct aggregate_view view;

	make(false, MIB);
	aggregate_exit(a, &stranger, 1);
	add(&p, NULL, 0, BPFPROF_STOP_NO_USER);
	memset(p.leader_comm + strlen(p.leader_comm) + 1, 'y', 4); /* behind its end */
	add(&p, NULL, 0, BPFPROF_STOP_NO_USER);
	strncpy(p.leader_comm, "renamed", sizeof(p.leader_comm) - 1);
	add(&p, NULL, 0, BPFPROF_STOP_NO_USER);
	p.task.start_ns = 2000;
	add(&p, NULL, 0, BPFPROF_STOP_NO_USER);
	p.task.start_ns = 1000;
	aggregate_exit(a, &p.task, 55);
	aggregate_exit(a, &stranger, 1);
	aggregate_view_get(a, &view);
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
	struct bpfprof_sample p = sample_of(1, 1, "p");
	struct aggregate_view view;

	make(false, MIB);
	for (int i = 0; i < 1000; i++) {
		snprintf(p.leader_comm, sizeof(p.leader_comm), "n%d", i);
		add(&p, NULL, 0, BPFPROF_STOP_NO_USER);
	}
	aggregate_view_get(a, &view);
	cr_expect_eq(view.nr_processes, 64);
	cr_expect_eq(count_in_all(&view), 1000);
	cr_expect_str_eq(view.processes[63].comm, "n63");
	cr_expect_eq(view.processes[63].samples, 1000 - 63);
}

/* Over the budget: no stacks any more, but each sample is counted where it belongs. */
Test(aggregate, budget)
{
	struct bpfprof_sample p = sample_of(1, 1, "p"), q = sample_of(2, 2, "q");
	const uint64_t known[] = { KIND(NATIVE) | 1, KIND(NATIVE) | 2 };
	uint64_t frames[100] = { 0 }, nr = 0;
	struct aggregate_view view;

	make(true, 256 << 10);
	add(&p, known, 2, BPFPROF_STOP_COMPLETE);
	for (nr = 1; nr < 5000; nr++) {
		for (size_t i = 0; i < 100; i++)
			frames[i] = KIND(NATIVE) | nr << 20 | i;
		add(&p, frames, 100, BPFPROF_STOP_COMPLETE);
	}
	/* What is there already needs no room. */
	for (int i = 0; i < 1000; i++)
		add(&p, known, 2, BPFPROF_STOP_COMPLETE);
	aggregate_view_get(a, &view);
	cr_expect_eq(view.samples[0].count, 1001);
	cr_expect(view.nr_table_full > 0 && view.nr_table_full < nr);
	cr_expect_eq(view.nr_lost, 0);
	cr_expect_eq(count_in_all(&view), nr + 1000);
	nr += 1000;
	/* Others come, and are named. */
	for (int i = 0; i < 20; i++) {
		q.task.pid = 100 + (uint32_t)i;
		add(&q, known, 2, BPFPROF_STOP_COMPLETE);
	}
	aggregate_view_get(a, &view);
	cr_expect_eq(view.nr_processes, 21);
	cr_expect_eq(count_in_all(&view), nr + 20);
	cr_expect_eq(view.counts.nr_taken, nr + 20);
}

/* Until nothing has room: what is counted nowhere is counted as that. */
Test(aggregate, budget_of_processes)
{
	struct bpfprof_sample p = sample_of(1, 1, "p");
	struct aggregate_view view;
	uint32_t pid;

	make(true, 64 << 10);
	for (pid = 1; pid <= 5000; pid++) {
		p.task.pid = p.task.tid = pid;
		snprintf(p.comm, sizeof(p.comm), "t%u", pid);
		add(&p, NULL, 0, BPFPROF_STOP_NO_USER);
	}
	aggregate_view_get(a, &view);
	cr_expect_gt(view.nr_lost, 0);
	cr_expect_lt(view.nr_lost, 5000);
	cr_expect_eq(count_in_all(&view) + view.nr_lost, 5000);
}

Test(aggregate, no_budget_at_all)
{
	struct aggregate *none = (void *)1;

	cr_expect_lt(aggregate_new(&none, false, 1000), 0);
	cr_expect_eq(none, (void *)1);
	aggregate_free(NULL);
}

/* The model: a plain list of what was added. */
#define MODEL_STACKS 3000
#define MODEL_ADDS 200000

Test(aggregate, model)
{
	static struct {
		uint64_t frames[6];
		uint32_t nr;
	} stacks[MODEL_STACKS];
	static uint32_t counts[8][MODEL_STACKS];
	struct bpfprof_sample p = sample_of(1, 1, "p");
	const struct aggregate_sample *s;
	struct aggregate_view view;
	size_t i, k, nr = 0;

	srand(1);
	for (i = 0; i < MODEL_STACKS; i++) {
		stacks[i].nr = 2 + (uint32_t)rand() % 5;
		stacks[i].frames[0] = KIND(NATIVE) | i;
		for (k = 1; k < stacks[i].nr; k++)
			stacks[i].frames[k] = KIND(NATIVE) | (uint64_t)rand() % 4;
	}
	make(false, 16 * MIB);
	for (i = 0; i < MODEL_ADDS; i++) {
		k = (size_t)rand() % MODEL_STACKS;
		p.task.pid = (uint32_t)rand() % 8;
		nr += !counts[p.task.pid][k];
		counts[p.task.pid][k]++;
		add(&p, stacks[k].frames, stacks[k].nr, BPFPROF_STOP_COMPLETE);
	}
	aggregate_view_get(a, &view);
	cr_assert_eq(view.nr_stacks, MODEL_STACKS + 1);
	cr_assert_eq(view.nr_samples, nr);
	for (i = 0; i < view.nr_samples; i++) {
		s = &view.samples[i];
		k = view.frames[view.stacks[s->stack].first] & BPFPROF_FRAME_MASK;
		cr_assert_eq(view.stacks[s->stack].nr, stacks[k].nr);
		cr_assert_arr_eq(view.frames + view.stacks[s->stack].first, stacks[k].frames,
				 stacks[k].nr * sizeof(uint64_t));
		cr_assert_eq(s->count, counts[view.processes[s->process].pid][k]);
		cr_assert_eq(s->value_ns, 10 * s->count);
		counts[view.processes[s->process].pid][k] = 0;
	}
	cr_expect(view.nr_table_full == 0 && view.nr_lost == 0);
}

static const struct aggregate_process *process_titled(const struct aggregate_view *view,
						      const char *title)
{
	for (size_t i = 0; i < view->nr_processes; i++)
		if (!strcmp(view->titles + view->processes[i].title, title))
			return &view->processes[i];
	return NULL;
}

static void add_titled(const struct bpfprof_sample *sample, const char *title)
{
	const uint64_t frame = KIND(NATIVE) | 1;
	struct aggregate_input input = { .sample = sample,
					 .user = &frame,
					 .nr_user = 1,
					 .stop = BPFPROF_STOP_COMPLETE,
					 .title = title };

	aggregate_add(a, &input);
}

/* One entry per title, whatever the name is at that moment; samples without one have their own. */
Test(aggregate, titles)
{
	struct bpfprof_sample p = sample_of(1, 1, "p"), q = sample_of(2, 2, "q");
	const struct aggregate_process *fit;
	struct aggregate_view view;

	make(false, 16 * MIB);
	add_titled(&p, NULL);
	add_titled(&p, "ray::Trainer.fit");
	add_titled(&p, "ray::IDLE");
	memcpy(p.leader_comm, "ray::Trainer", 13);
	add_titled(&p, "ray::Trainer.fit");
	add_titled(&q, "ray::IDLE");
	aggregate_view_get(a, &view);
	cr_assert_eq(view.nr_processes, 4);
	fit = process_titled(&view, "ray::Trainer.fit");
	cr_assert(fit && fit->pid == 1 && fit->samples == 2);
	cr_assert_eq(process_titled(&view, "")->samples, 1);
	cr_assert_eq(view.nr_samples, 4);
	cr_assert_eq(view.nr_stacks, 2);
	cr_assert_eq(view.nr_titles_over, 0);
}

/* 256 titles of one process; the others are counted together, and another process has its own. */
Test(aggregate, titles_too_many)
{
	struct bpfprof_sample p = sample_of(1, 1, "p"), q = sample_of(2, 2, "q");
	const struct aggregate_process *other;
	struct aggregate_view view;
	char title[AGGREGATE_TITLE_BYTES];

	make(false, 16 * MIB);
	for (int i = 0; i < 2 * AGGREGATE_MAX_TITLES; i++) {
		snprintf(title, sizeof(title), "ray::task_%d", i);
		add_titled(&p, title);
	}
	add_titled(&q, "ray::one");
	add_titled(&p, "ray::task_255");
	add_titled(&p, "ray::task_256");
	aggregate_view_get(a, &view);
	cr_assert_eq(view.nr_processes, AGGREGATE_MAX_TITLES + 2);
	cr_assert_eq(view.nr_titles_over, AGGREGATE_MAX_TITLES + 1);
	other = process_titled(&view, "ray::(other)");
	cr_assert(other && other->samples == AGGREGATE_MAX_TITLES + 1);
	cr_assert_eq(process_titled(&view, "ray::task_255")->samples, 2);
	cr_assert(process_titled(&view, "ray::one"));
	cr_assert_eq(count_in_all(&view), 2 * AGGREGATE_MAX_TITLES + 3);
}

/* The index grows while an element is added: it must go where it is found again. */
Test(aggregate, growth)
{
	struct bpfprof_sample p = sample_of(1, 1, "p");
	struct aggregate_view view;
	uint64_t frame;

	for (int round = 0; round < 60; round++) {
		make(false, MIB);
		for (int twice = 0; twice < 2; twice++) {
			for (uint64_t i = 0; i < 800; i++) {
				frame = KIND(NATIVE) | i;
				add(&p, &frame, 1, BPFPROF_STOP_COMPLETE);
			}
		}
		aggregate_view_get(a, &view);
		cr_assert_eq(view.nr_stacks, 801);
		cr_assert_eq(view.nr_samples, 800);
		teardown();
	}
}

static void add_in(uint32_t pid, uint64_t mnt_ns, const struct container *container)
{
	const uint64_t frame = KIND(NATIVE) | 1;
	struct bpfprof_sample sample = sample_of(pid, pid, "p");
	struct aggregate_input input = { .sample = &sample,
					 .user = &frame,
					 .nr_user = 1,
					 .stop = BPFPROF_STOP_COMPLETE,
					 .place = { .mnt_ns = mnt_ns, .pod_pid = pid - 100 },
					 .container = container };

	aggregate_add(a, &input);
}

static struct container container_of_pod(const char *id, const char *pod)
{
	return (struct container){ .id = id,
				   .name = "worker",
				   .pod = pod,
				   .namespace = "ml",
				   .pod_uid = "",
				   .image = "",
				   .ray_cluster = "",
				   .ray_group = "",
				   .ray_node_type = "",
				   .rank = "",
				   .local_rank = "",
				   .world_size = "",
				   .slurm_job = "",
				   .slurm_node = "" };
}

static const char *pod_of(const struct aggregate_view *view, size_t process)
{
	uint32_t container = view->processes[process].container;

	return container ? strtab_get(view->strings, view->containers[container - 1].pod) : NULL;
}

/* Copied once each: what was lent may go away. */
Test(aggregate, containers)
{
	struct container one = container_of_pod("c1", "a"), two = container_of_pod("c2", "b");
	struct container nameless = container_of_pod("", "c"), other = container_of_pod("", "d");
	struct aggregate_view view;

	make(false, MIB);
	add_in(101, 7, &one);
	add_in(102, 7, &one);
	add_in(103, 8, &two);
	add_in(104, 0, NULL);
	add_in(105, 9, &nameless);
	add_in(106, 10, &other);
	memset(&one, 0, sizeof(one));
	aggregate_view_get(a, &view);
	cr_assert_eq(view.nr_processes, 6);
	cr_expect_eq(view.nr_containers, 4);
	cr_expect_str_eq(pod_of(&view, 0), "a");
	cr_expect_str_eq(pod_of(&view, 1), "a");
	cr_expect_str_eq(pod_of(&view, 2), "b");
	cr_expect_null(pod_of(&view, 3));
	cr_expect_str_eq(pod_of(&view, 4), "c");
	cr_expect_str_eq(pod_of(&view, 5), "d");
	cr_expect_eq(view.processes[2].pod_pid, 3);
	cr_expect_eq(view.processes[2].mnt_ns, 8);
}

/* The first samples of a process may come before its container is known. */
Test(aggregate, container_found_later)
{
	struct container one = container_of_pod("c1", "a"), two = container_of_pod("c2", "b");
	struct aggregate_view view;

	make(false, MIB);
	add_in(101, 0, NULL);
	add_in(101, 7, NULL);
	add_in(101, 7, &one);
	add_in(101, 0, NULL);
	aggregate_view_get(a, &view);
	cr_assert_eq(view.nr_processes, 1);
	cr_expect_str_eq(pod_of(&view, 0), "a");
	cr_expect_eq(view.processes[0].samples, 4);
	/* It went into another one, under the same name. */
	add_in(101, 8, &two);
	aggregate_view_get(a, &view);
	cr_assert_eq(view.nr_processes, 2);
	cr_expect_str_eq(pod_of(&view, 1), "b");
	cr_expect_eq(view.processes[0].samples, 4);
}

/* A sample between an exec's new name and the exec itself knows only what the cgroup says. */
Test(aggregate, container_known_better_later)
{
	struct container less = container_of_pod("c1", ""), all = container_of_pod("c1", "a");
	struct aggregate_view view;

	make(false, MIB);
	less.source = CONTAINER_FROM_CGROUP;
	all.source = CONTAINER_FROM_BUNDLE;
	add_in(101, 7, &less);
	add_in(101, 7, &all);
	add_in(101, 7, &less);
	aggregate_view_get(a, &view);
	cr_assert_eq(view.nr_processes, 1);
	cr_expect_str_eq(pod_of(&view, 0), "a");
}

Test(aggregate, containers_are_bounded)
{
	struct aggregate_view view;
	char id[32];

	make(false, 16 * MIB);
	for (uint32_t i = 0; i < AGGREGATE_MAX_CONTAINERS + 5; i++) {
		struct container container = container_of_pod(id, "a");

		snprintf(id, sizeof(id), "c%u", i);
		add_in(101 + i, 7 + i, &container);
		add_in(101 + i, 7 + i, &container);
	}
	aggregate_view_get(a, &view);
	cr_expect_eq(view.nr_containers, AGGREGATE_MAX_CONTAINERS);
	cr_expect_eq(view.nr_containers_full, 5);
	cr_expect_eq(view.nr_processes, AGGREGATE_MAX_CONTAINERS + 5);
	cr_expect_eq(view.nr_lost, 0);
}

static void add_ranked(uint32_t pid, const struct ranks *ranks, const struct container *container)
{
	const uint64_t frame = KIND(NATIVE) | 1;
	struct bpfprof_sample sample = sample_of(pid, pid, "p");
	struct aggregate_input input = { .sample = &sample,
					 .user = &frame,
					 .nr_user = 1,
					 .stop = BPFPROF_STOP_COMPLETE,
					 .ranks = ranks,
					 .container = container };

	aggregate_add(a, &input);
}

/* Kept once for all processes that say the same; may come after the first sample. */
Test(aggregate, ranks)
{
	struct ranks one = { .rank = "1", .slurm_job = "77" }, two = { .rank = "2" };
	struct container container = container_of_pod("c1", "a");
	struct aggregate_view view;

	make(false, MIB);
	container.slurm_job = "78";
	add_ranked(101, NULL, NULL);
	add_ranked(101, &one, NULL);
	add_ranked(102, &one, NULL);
	add_ranked(103, &two, NULL);
	add_ranked(104, NULL, &container);
	memset(&one, 0, sizeof(one));
	aggregate_view_get(a, &view);
	cr_assert_eq(view.nr_processes, 4);
	cr_assert_eq(view.nr_ranks, 2);
	cr_expect_eq(view.processes[0].ranks, 1);
	cr_expect_eq(view.processes[1].ranks, 1);
	cr_expect_eq(view.processes[2].ranks, 2);
	cr_expect_eq(view.processes[3].ranks, 0);
	cr_expect_str_eq(strtab_get(view.strings, view.ranks[0].rank), "1");
	cr_expect_str_eq(strtab_get(view.strings, view.ranks[0].slurm_job), "77");
	cr_expect_str_eq(strtab_get(view.strings, view.ranks[1].rank), "2");
	cr_expect_str_eq(strtab_get(view.strings, view.containers[0].ranks.slurm_job), "78");
}

Test(aggregate, ranks_are_bounded)
{
	struct ranks ranks = { 0 };
	struct aggregate_view view;

	make(false, 4 * MIB);
	for (uint32_t i = 0; i < AGGREGATE_MAX_RANKS + 5; i++) {
		snprintf(ranks.rank, sizeof(ranks.rank), "%u", i);
		add_ranked(101 + i, &ranks, NULL);
	}
	aggregate_view_get(a, &view);
	cr_expect_eq(view.nr_ranks, AGGREGATE_MAX_RANKS);
	cr_expect_eq(view.nr_ranks_full, 5);
}

static struct aggregate_call_at add_call(const struct bpfprof_sample *sample,
					 const uint64_t *leaves, size_t nr_leaves,
					 const uint64_t *user, size_t nr, uint32_t stop)
{
	struct aggregate_input input = {
		.sample = sample, .user = user, .nr_user = nr, .stop = stop
	};
	struct aggregate_call_at at;

	cr_assert_eq(aggregate_add_call(a, &input, leaves, nr_leaves, &at), 0);
	return at;
}

static const char *label_text(const struct aggregate_view *view, uint64_t frame)
{
	cr_assert_eq(frame >> BPFPROF_FRAME_SHIFT, BPFPROF_FRAME_LABEL);
	return strtab_get(view->labels, (uint32_t)frame);
}

/* A stack is its leaves and what was walked; the samples are the caller's, label for label. */
Test(aggregate, calls)
{
	const struct aggregate_call_labels launch = { .function = "cuLaunchKernel",
						      .kernel = "sgemm",
						      .stream = "0x0" };
	const struct aggregate_call_labels reduce = {
		.function = "ncclAllReduce", .comm = "0xc0", .rank = "3", .op = "sum"
	};
	const uint64_t user[] = { KIND(NATIVE) | 1, KIND(NATIVE_VA) | 0x1000 };
	const uint64_t some[PROFILE_NR_CALL_VALUES] = { 7, 1, 2, 3, 4 },
		       more[PROFILE_NR_CALL_VALUES] = { 9 };
	struct bpfprof_sample p = sample_of(1, 11, "p"), q = sample_of(2, 22, "q");
	struct aggregate_call_at at, none, same;
	struct aggregate_view view;
	uint32_t first, second;
	uint64_t leaves[2];
	const uint64_t *frames;

	make(true, MIB);
	add(&q, user, 1, BPFPROF_STOP_COMPLETE);
	leaves[0] = aggregate_label(a, "sgemm");
	leaves[1] = aggregate_label(a, "cuLaunchKernel");
	cr_expect_eq(aggregate_label(a, "sgemm"), leaves[0]);
	at = add_call(&p, leaves, 2, user, 2, BPFPROF_STOP_DEPTH);
	none = add_call(&p, leaves + 1, 1, NULL, 0, BPFPROF_STOP_INVALID);
	same = add_call(&p, leaves, 2, user, 2, BPFPROF_STOP_DEPTH);
	cr_expect(!memcmp(&at, &same, sizeof(at)));
	cr_expect(at.process == 1 && none.process == 1 && at.tid == 11);
	first = aggregate_call(a, &launch);
	second = aggregate_call(a, &reduce);
	cr_expect(first == 1 && second == 2 && aggregate_call(a, &launch) == 1);
	cr_expect_eq(aggregate_call_sample(a, &at, first, some), 0);
	cr_expect_eq(aggregate_call_sample(a, &none, second, more), 0);
	cr_expect_eq(aggregate_call_sample(a, &at, 0, more), 0);
	cr_expect_eq(aggregate_call_sample(a, &at, 3, more), -EINVAL);
	same.stack = 4;
	cr_expect_eq(aggregate_call_sample(a, &same, first, more), -EINVAL);

	aggregate_view_get(a, &view);
	cr_assert(view.nr_samples == 1 && view.nr_call_samples == 3 && view.nr_calls == 2);
	cr_expect(view.counts.nr_taken == 3 && view.counts.stops[BPFPROF_STOP_DEPTH] == 2,
		  "one had no stack");
	cr_assert_eq(view.stacks[at.stack].nr, 5);
	frames = view.frames + view.stacks[at.stack].first;
	cr_expect_str_eq(label_text(&view, frames[0]), "sgemm");
	cr_expect_str_eq(label_text(&view, frames[1]), "cuLaunchKernel");
	cr_expect_eq(frames[2], user[0]);
	cr_expect_eq(frames[3], KIND(NATIVE_VA) | 2ULL << AGGREGATE_VA_BITS | 0x1000);
	cr_expect_eq(frames[4], KIND(MARKER) | BPFPROF_STOP_DEPTH);
	cr_assert_eq(view.stacks[none.stack].nr, 2);
	frames = view.frames + view.stacks[none.stack].first;
	cr_expect_str_eq(label_text(&view, frames[0]), "cuLaunchKernel");
	cr_expect_eq(frames[1], KIND(LABEL));
	cr_expect_str_eq(view.threads[at.thread], "p");
	cr_expect_str_eq(strtab_get(view.labels, view.calls[0].kernel), "sgemm");
	cr_expect_str_eq(strtab_get(view.labels, view.calls[0].stream), "0x0");
	cr_expect_eq(view.calls[0].comm, 0);
	cr_expect_str_eq(strtab_get(view.labels, view.calls[1].op), "sum");
	cr_expect_arr_eq(view.call_samples[0].values, some, sizeof(some));
	cr_expect(view.call_samples[0].call == 1 && view.call_samples[1].at.stack == none.stack);
	cr_expect(view.nr_calls_lost == 0 && view.nr_labels_lost == 0);
}

/* Texts are cut between characters; an empty one is not `[no stack]`. */
Test(aggregate, call_labels_are_cut)
{
	char text[2 * AGGREGATE_LABEL_BYTES];
	struct aggregate_view view;
	uint64_t ascii, cut, empty;

	make(false, MIB);
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = 0;
	ascii = aggregate_label(a, text);
	memcpy(text + AGGREGATE_LABEL_BYTES - 2, "\xe2\x82\xac", 3); /* one character */
	cut = aggregate_label(a, text);
	empty = aggregate_label(a, "");
	aggregate_view_get(a, &view);
	cr_expect_eq(strlen(label_text(&view, ascii)), AGGREGATE_LABEL_BYTES);
	cr_expect_eq(strlen(label_text(&view, cut)), AGGREGATE_LABEL_BYTES - 2);
	cr_expect_str_eq(label_text(&view, empty), "[unknown]");
}

/* More names, stacks and samples than there is room for. */
Test(aggregate, budget_of_calls)
{
	const uint64_t values[PROFILE_NR_CALL_VALUES] = { 2 };
	struct bpfprof_sample p = sample_of(1, 1, "p");
	struct aggregate_call_labels labels = { .function = "f" };
	struct aggregate_call_at at = { 0 };
	struct aggregate_view view;
	uint64_t frames[64], leaf, i;
	char text[200], stream[32];
	uint32_t call;

	make(false, MIB);
	memset(text, 'k', sizeof(text));
	for (i = 0; i < 20000; i++) {
		snprintf(text + 150, sizeof(text) - 150, "%" PRIu64, i);
		snprintf(stream, sizeof(stream), "0x%" PRIx64, i);
		labels.kernel = text;
		labels.stream = stream;
		leaf = aggregate_label(a, text);
		call = aggregate_call(a, &labels);
		for (size_t k = 0; k < 64; k++)
			frames[k] = KIND(NATIVE) | i << 20 | k;
		at = add_call(&p, &leaf, 1, frames, 64, BPFPROF_STOP_COMPLETE);
		aggregate_call_sample(a, &at, call, values);
		cr_assert_leq(aggregate_bytes(a), MIB);
	}
	aggregate_view_get(a, &view);
	cr_expect(view.nr_table_full > 0 && view.nr_table_full < 20000);
	cr_expect(view.nr_calls_lost > 0 && view.nr_labels_lost > 0);
	cr_expect_eq(view.nr_call_samples * 2 + view.nr_calls_lost, 40000);
	cr_expect_str_eq(label_text(&view, leaf), STRTAB_OVERFLOW);
	cr_expect_eq(view.stacks[at.stack].nr, 2, "the call is there, without its stack");
}
