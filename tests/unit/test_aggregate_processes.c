// SPDX-License-Identifier: Apache-2.0
/*
 * The facts about processes in an aggregate: titles, containers, ranks and the labels of their
 * calls.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/strtab.h"
#include "container/containers.h"
#include "proc/ranks.h"
#include "profile/aggregate.h"
#include "aggregate_made.h"
#include "stack_frames.h"

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

	aggregate_add(made_aggregate, &input);
}

/* One entry per title, whatever the name is at that moment; samples without one have their own. */
Test(aggregate, titles)
{
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p"),
			      q = aggregate_sample_of(2, 2, "q");
	const struct aggregate_process *fit;
	struct aggregate_view view;

	aggregate_make(false, 16 * MIB);
	add_titled(&p, NULL);
	add_titled(&p, "ray::Trainer.fit");
	add_titled(&p, "ray::IDLE");
	memcpy(p.leader_comm, "ray::Trainer", 13);
	add_titled(&p, "ray::Trainer.fit");
	add_titled(&q, "ray::IDLE");
	aggregate_view_get(made_aggregate, &view);
	cr_assert_eq(view.nr_processes, 4);
	fit = process_titled(&view, "ray::Trainer.fit");
	cr_assert(fit && fit->pid == 1 && fit->samples == 2);
	cr_assert_eq(process_titled(&view, "")->samples, 1);
	cr_assert_eq(view.nr_samples, 4);
	cr_assert_eq(view.nr_stacks, 3);
	cr_assert_eq(view.nr_titles_over, 0);
}

/* One process has 256 titles; further titles count together, and another process has its own. */
Test(aggregate, titles_too_many)
{
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p"),
			      q = aggregate_sample_of(2, 2, "q");
	const struct aggregate_process *other;
	struct aggregate_view view;
	char title[AGGREGATE_TITLE_BYTES];

	aggregate_make(false, 16 * MIB);
	for (int i = 0; i < 2 * AGGREGATE_MAX_TITLES; i++) {
		snprintf(title, sizeof(title), "ray::task_%d", i);
		add_titled(&p, title);
	}
	add_titled(&q, "ray::one");
	add_titled(&p, "ray::task_255");
	add_titled(&p, "ray::task_256");
	aggregate_view_get(made_aggregate, &view);
	cr_assert_eq(view.nr_processes, AGGREGATE_MAX_TITLES + 2);
	cr_assert_eq(view.nr_titles_over, AGGREGATE_MAX_TITLES + 1);
	other = process_titled(&view, "ray::(other)");
	cr_assert(other && other->samples == AGGREGATE_MAX_TITLES + 1);
	cr_assert_eq(process_titled(&view, "ray::task_255")->samples, 2);
	cr_assert(process_titled(&view, "ray::one"));
	cr_assert_eq(aggregate_count_in_all(&view), 2 * AGGREGATE_MAX_TITLES + 3);
}

/* The index grows while an element is added: a later search must find the element. */
Test(aggregate, growth)
{
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p");
	struct aggregate_view view;
	uint64_t frame;

	for (int round = 0; round < 60; round++) {
		aggregate_make(false, MIB);
		for (int twice = 0; twice < 2; twice++) {
			for (uint64_t i = 0; i < 800; i++) {
				frame = KIND(NATIVE) | i;
				aggregate_add_one(&p, &frame, 1, BPFPROF_STOP_COMPLETE);
			}
		}
		aggregate_view_get(made_aggregate, &view);
		cr_assert_eq(view.nr_stacks, 802);
		cr_assert_eq(view.nr_samples, 800);
		aggregate_teardown();
	}
}

/* Adds a sample of the process with these facts about it. */
static void add_with(uint32_t pid, struct aggregate_input facts)
{
	const uint64_t frame = KIND(NATIVE) | 1;
	struct bpfprof_sample sample = aggregate_sample_of(pid, pid, "p");

	facts.sample = &sample;
	facts.user = &frame;
	facts.nr_user = 1;
	facts.stop = BPFPROF_STOP_COMPLETE;
	aggregate_add(made_aggregate, &facts);
}

static void add_in(uint32_t pid, uint64_t mnt_ns, const struct container *container)
{
	add_with(pid,
		 (struct aggregate_input){ .ns_context = { .mnt_ns = mnt_ns, .pod_pid = pid - 100 },
					   .container = container });
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
				   .slurm_node = "",
				   .slurm_task = "" };
}

static const char *pod_of(const struct aggregate_view *view, size_t process)
{
	uint32_t container = view->processes[process].container;

	return container ? strtab_get(view->strings, view->containers[container - 1].pod) : NULL;
}

/* The aggregate copies each fact once; the lent ones may disappear. */
Test(aggregate, containers)
{
	struct container one = container_of_pod("c1", "a"), two = container_of_pod("c2", "b");
	struct container nameless = container_of_pod("", "c"), other = container_of_pod("", "d");
	struct aggregate_view view;

	aggregate_make(false, MIB);
	add_in(101, 7, &one);
	add_in(102, 7, &one);
	add_in(103, 8, &two);
	add_in(104, 0, NULL);
	add_in(105, 9, &nameless);
	add_in(106, 10, &other);
	memset(&one, 0, sizeof(one));
	aggregate_view_get(made_aggregate, &view);
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

	aggregate_make(false, MIB);
	add_in(101, 0, NULL);
	add_in(101, 7, NULL);
	add_in(101, 7, &one);
	add_in(101, 0, NULL);
	aggregate_view_get(made_aggregate, &view);
	cr_assert_eq(view.nr_processes, 1);
	cr_expect_str_eq(pod_of(&view, 0), "a");
	cr_expect_eq(view.processes[0].samples, 4);
	/* The process entered another container, under the same name. */
	add_in(101, 8, &two);
	aggregate_view_get(made_aggregate, &view);
	cr_assert_eq(view.nr_processes, 2);
	cr_expect_str_eq(pod_of(&view, 1), "b");
	cr_expect_eq(view.processes[0].samples, 4);
}

/*
 * A sample between an exec's new name and the exec itself knows only the container of the cgroup.
 */
Test(aggregate, container_known_better_later)
{
	struct container less = container_of_pod("c1", ""), all = container_of_pod("c1", "a");
	struct aggregate_view view;

	aggregate_make(false, MIB);
	less.source = CONTAINER_FROM_CGROUP;
	all.source = CONTAINER_FROM_BUNDLE;
	add_in(101, 7, &less);
	add_in(101, 7, &all);
	add_in(101, 7, &less);
	aggregate_view_get(made_aggregate, &view);
	cr_assert_eq(view.nr_processes, 1);
	cr_expect_str_eq(pod_of(&view, 0), "a");
}

Test(aggregate, containers_are_bounded)
{
	struct aggregate_view view;
	char id[32];

	aggregate_make(false, 16 * MIB);
	for (uint32_t i = 0; i < AGGREGATE_MAX_CONTAINERS + 5; i++) {
		struct container container = container_of_pod(id, "a");

		snprintf(id, sizeof(id), "c%u", i);
		add_in(101 + i, 7 + i, &container);
		add_in(101 + i, 7 + i, &container);
	}
	aggregate_view_get(made_aggregate, &view);
	cr_expect_eq(view.nr_containers, AGGREGATE_MAX_CONTAINERS);
	cr_expect_eq(view.nr_containers_full, 5);
	cr_expect_eq(view.nr_processes, AGGREGATE_MAX_CONTAINERS + 5);
	cr_expect_eq(view.nr_lost, 0);
}

static void add_ranked(uint32_t pid, const struct ranks *ranks, const struct container *container)
{
	add_with(pid, (struct aggregate_input){ .ranks = ranks, .container = container });
}

/* Equal facts of several processes are kept once, and may come after the first sample. */
Test(aggregate, ranks)
{
	struct ranks one = { .rank = "1", .slurm_job = "77" }, two = { .rank = "2" };
	struct container container = container_of_pod("c1", "a");
	struct aggregate_view view;

	aggregate_make(false, MIB);
	container.slurm_job = "78";
	add_ranked(101, NULL, NULL);
	add_ranked(101, &one, NULL);
	add_ranked(102, &one, NULL);
	add_ranked(103, &two, NULL);
	add_ranked(104, NULL, &container);
	memset(&one, 0, sizeof(one));
	aggregate_view_get(made_aggregate, &view);
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

	aggregate_make(false, 4 * MIB);
	for (uint32_t i = 0; i < AGGREGATE_MAX_RANKS + 5; i++) {
		snprintf(ranks.rank, sizeof(ranks.rank), "%u", i);
		add_ranked(101 + i, &ranks, NULL);
	}
	aggregate_view_get(made_aggregate, &view);
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

	cr_assert_eq(aggregate_add_call(made_aggregate, &input, leaves, nr_leaves, &at), 0);
	return at;
}

static const char *label_text(const struct aggregate_view *view, uint64_t frame)
{
	cr_assert_eq(frame >> BPFPROF_FRAME_SHIFT, BPFPROF_FRAME_LABEL);
	return strtab_get(view->labels, (uint32_t)frame);
}

/* A stack is its leaves and the walked frames; the samples have the caller's labels. */
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
	struct bpfprof_sample p = aggregate_sample_of(1, 11, "p"),
			      q = aggregate_sample_of(2, 22, "q");
	struct aggregate_call_at at, none, same;
	struct aggregate_view view;
	uint32_t first, second;
	uint64_t leaves[2];
	const uint64_t *frames;
	size_t nr;

	aggregate_make(true, MIB);
	aggregate_add_one(&q, user, 1, BPFPROF_STOP_COMPLETE);
	leaves[0] = aggregate_label(made_aggregate, "sgemm");
	leaves[1] = aggregate_label(made_aggregate, "cuLaunchKernel");
	cr_expect_eq(aggregate_label(made_aggregate, "sgemm"), leaves[0]);
	at = add_call(&p, leaves, 2, user, 2, BPFPROF_STOP_DEPTH);
	none = add_call(&p, leaves + 1, 1, NULL, 0, BPFPROF_STOP_INVALID);
	same = add_call(&p, leaves, 2, user, 2, BPFPROF_STOP_DEPTH);
	cr_expect(!memcmp(&at, &same, sizeof(at)));
	cr_expect(at.process == 1 && none.process == 1 && at.tid == 11);
	first = aggregate_call(made_aggregate, &launch);
	second = aggregate_call(made_aggregate, &reduce);
	cr_expect(first == 1 && second == 2 && aggregate_call(made_aggregate, &launch) == 1);
	cr_expect_eq(aggregate_call_sample(made_aggregate, &at, first, some), 0);
	cr_expect_eq(aggregate_call_sample(made_aggregate, &none, second, more), 0);
	cr_expect_eq(aggregate_call_sample(made_aggregate, &at, 0, more), 0);
	cr_expect_eq(aggregate_call_sample(made_aggregate, &at, 3, more), -EINVAL);
	same.stack = 1000;
	cr_expect_eq(aggregate_call_sample(made_aggregate, &same, first, more), -EINVAL);

	aggregate_view_get(made_aggregate, &view);
	cr_assert(view.nr_samples == 1 && view.nr_call_samples == 3 && view.nr_calls == 2);
	cr_expect(view.counts.nr_taken == 3 && view.counts.stops[BPFPROF_STOP_DEPTH] == 2,
		  "one had no stack");
	frames = stack_frames(&view, at.stack, &nr);
	cr_assert_eq(nr, 5);
	cr_expect_str_eq(label_text(&view, frames[0]), "sgemm");
	cr_expect_str_eq(label_text(&view, frames[1]), "cuLaunchKernel");
	cr_expect_eq(frames[2], user[0]);
	cr_expect_eq(frames[3], KIND(NATIVE_VA) | 2ULL << AGGREGATE_VA_BITS | 0x1000);
	cr_expect_eq(frames[4], KIND(MARKER) | BPFPROF_STOP_DEPTH);
	frames = stack_frames(&view, none.stack, &nr);
	cr_assert_eq(nr, 2);
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
/* Values that become known at the end go to the place of a stack, or of a label without one. */
Test(aggregate, counts_at_places)
{
	const uint64_t user[] = { KIND(NATIVE) | 1, KIND(NATIVE) | 2 };
	struct bpfprof_sample p = aggregate_sample_of(1, 11, "p");
	struct aggregate_input row = { .sample = &p, .stop = BPFPROF_STOP_INVALID };
	struct aggregate_call_at at, label, wrong;
	struct aggregate_view view;

	aggregate_make(false, MIB);
	at = add_call(&p, user, 0, user, 2, BPFPROF_STOP_COMPLETE);
	cr_assert_eq(aggregate_add_row(made_aggregate, &row,
				       aggregate_label(made_aggregate, "[before]"), &label),
		     0);
	aggregate_view_get(made_aggregate, &view);
	cr_expect_eq(view.nr_samples, 0);
	cr_expect_eq(view.counts.nr_taken, 1); /* the row is no sample */
	cr_expect_eq(aggregate_count(made_aggregate, &at, 3, 4096), 0);
	cr_expect_eq(aggregate_count(made_aggregate, &at, 2, 100), 0);
	cr_expect_eq(aggregate_count(made_aggregate, &label, 1, 7), 0);
	wrong = at;
	wrong.stack = 1000;
	cr_expect_eq(aggregate_count(made_aggregate, &wrong, 1, 1), -EINVAL);
	aggregate_view_get(made_aggregate, &view);
	cr_assert_eq(view.nr_samples, 2);
	cr_expect(view.samples[0].count == 5 && view.samples[0].value_ns == 4196);
	cr_expect(view.samples[1].count == 1 && view.samples[1].value_ns == 7);
	cr_expect_eq(stack_depth(view.callers, view.samples[1].stack), 1);
	cr_expect_str_eq(label_text(&view, view.frames[view.samples[1].stack]), "[before]");
	aggregate_teardown();
}

Test(aggregate, call_labels_are_cut)
{
	char text[2 * AGGREGATE_LABEL_BYTES];
	struct aggregate_view view;
	uint64_t ascii, cut, empty;

	aggregate_make(false, MIB);
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = 0;
	ascii = aggregate_label(made_aggregate, text);
	memcpy(text + AGGREGATE_LABEL_BYTES - 2, "\xe2\x82\xac", 3); /* one character */
	cut = aggregate_label(made_aggregate, text);
	empty = aggregate_label(made_aggregate, "");
	aggregate_view_get(made_aggregate, &view);
	cr_expect_eq(strlen(label_text(&view, ascii)), AGGREGATE_LABEL_BYTES);
	cr_expect_eq(strlen(label_text(&view, cut)), AGGREGATE_LABEL_BYTES - 2);
	cr_expect_str_eq(label_text(&view, empty), "[unknown]");
}

/* There are more names, stacks and samples than room. */
Test(aggregate, budget_of_calls)
{
	const uint64_t values[PROFILE_NR_CALL_VALUES] = { 2 };
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p");
	struct aggregate_call_labels labels = { .function = "f" };
	struct aggregate_call_at at = { 0 };
	struct aggregate_view view;
	uint64_t frames[64], leaf, i;
	char text[200], stream[32];
	uint32_t call;

	aggregate_make(false, MIB);
	memset(text, 'k', sizeof(text));
	for (i = 0; i < 20000; i++) {
		snprintf(text + 150, sizeof(text) - 150, "%" PRIu64, i);
		snprintf(stream, sizeof(stream), "0x%" PRIx64, i);
		labels.kernel = text;
		labels.stream = stream;
		leaf = aggregate_label(made_aggregate, text);
		call = aggregate_call(made_aggregate, &labels);
		for (size_t k = 0; k < 64; k++)
			frames[k] = KIND(NATIVE) | i << 20 | k;
		at = add_call(&p, &leaf, 1, frames, 64, BPFPROF_STOP_COMPLETE);
		aggregate_call_sample(made_aggregate, &at, call, values);
		cr_assert_leq(aggregate_bytes(made_aggregate), MIB);
	}
	aggregate_view_get(made_aggregate, &view);
	cr_expect(view.nr_table_full > 0 && view.nr_table_full < 20000);
	cr_expect(view.nr_calls_lost > 0 && view.nr_labels_lost > 0);
	cr_expect_eq(view.nr_call_samples * 2 + view.nr_calls_lost, 40000);
	cr_expect_str_eq(label_text(&view, leaf), STRTAB_OVERFLOW);
	cr_expect_eq(stack_depth(view.callers, at.stack), 2,
		     "the call is there, without its stack");
}

/* A stack without room keeps the label at its root, which says what its time is of. */
Test(aggregate, label_at_the_root_stays)
{
	struct bpfprof_sample p = aggregate_sample_of(1, 1, "p");
	struct aggregate_call_at at = { 0 };
	struct aggregate_view view;
	uint64_t frames[64], leaf, root;
	const uint64_t *found;
	size_t nr;

	aggregate_make(false, MIB / 4);
	leaf = aggregate_label(made_aggregate, "[timer]");
	root = aggregate_label(made_aggregate, "[tasks]");
	for (uint64_t i = 0; i < 4000; i++) {
		for (uint64_t k = 0; k < 63; k++)
			frames[k] = KIND(NATIVE) | i << 20 | k;
		frames[63] = root;
		at = add_call(&p, &leaf, 1, frames, 64, BPFPROF_STOP_COMPLETE);
	}
	aggregate_view_get(made_aggregate, &view);
	cr_assert_gt(view.nr_table_full, 0);
	found = stack_frames(&view, at.stack, &nr);
	cr_assert_eq(nr, 2);
	cr_expect_eq(found[0], leaf);
	cr_expect_eq(found[1], root);
}
