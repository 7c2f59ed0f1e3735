// SPDX-License-Identifier: Apache-2.0
#include "gpu/call_table.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "container/containers.h"
#include "cuda/functions.h"
#include "gpu/handle_generations.h"
#include "proc/ranks.h"
#include "profile/aggregate.h"
#include "profile/stats.h"

#define MIB (1U << 20)
#define FRAME(n) ((uint64_t)BPFPROF_FRAME_NATIVE << BPFPROF_FRAME_SHIFT | (n))
#define START_NS 1000
#define VA 0x7f0000000000ULL

static struct aggregate *a;
static struct call_table *table;
static uint64_t clock_ns = 100;

static void make(size_t max_bytes)
{
	cr_assert_eq(aggregate_new(&a, false, max_bytes), 0);
	cr_assert_eq(call_table_new(&table, a), 0);
}

static void setup(void)
{
	make(16 * MIB);
}

static void teardown(void)
{
	call_table_free(table);
	aggregate_free(a);
	table = NULL;
	a = NULL;
}

TestSuite(call_table, .init = setup, .fini = teardown);

static uint32_t function_nr(const char *name)
{
	const struct gpu_function *all;
	size_t nr, i;

	all = gpu_functions(&nr);
	for (i = 1; i < nr; i++)
		if (!strcmp(all[i].name, name))
			return (uint32_t)i;
	cr_assert(false, "no function %s", name);
	return 0;
}

static struct bpfprof_gpu_key key_of(uint32_t pid, const char *function)
{
	return (struct bpfprof_gpu_key){ .start_ns = START_NS,
					 .pid = pid,
					 .function = function_nr(function) };
}

static struct bpfprof_gpu_key launch_of(uint32_t pid, uint64_t kernel)
{
	struct bpfprof_gpu_key key = key_of(pid, "cuLaunchKernel");

	key.handle = kernel;
	return key;
}

static struct bpfprof_gpu_call call_of(struct bpfprof_gpu_key key)
{
	return (struct bpfprof_gpu_call){ .key = key, .begin_ns = clock_ns++ };
}

/* A stack of two frames, the leaf of which is what sets it apart. */
static void send_stack(const struct bpfprof_gpu_call *call, uint32_t tid, uint64_t leaf)
{
	const uint64_t frames[] = { FRAME(leaf), FRAME(0xabcdef) };
	struct bpfprof_sample sample = {
		.task = { .pid = call->key.pid, .tid = tid, .start_ns = call->key.start_ns },
		.comm = "worker",
		.leader_comm = "train"
	};
	struct aggregate_input input = { .sample = &sample,
					 .user = frames,
					 .nr_user = 2,
					 .stop = BPFPROF_STOP_COMPLETE,
					 .own_pid = call->key.pid };

	call_table_stack(table, &input, call);
}

static void send_call(const struct bpfprof_gpu_call *call, uint32_t tid)
{
	struct bpfprof_gpu_event event = {
		.task = { .pid = call->key.pid, .tid = tid, .start_ns = call->key.start_ns },
		.call = *call
	};

	call_table_call(table, &event);
}

/* Allocates: told whole by its return, without a stack. */
static void alloc_by(const char *name, uint32_t pid, uint64_t start_ns, uint64_t va, uint64_t bytes)
{
	struct bpfprof_gpu_call call = call_of(key_of(pid, name));

	call.key.start_ns = start_ns;
	call.va = va;
	call.bytes = bytes;
	call.ns = 5;
	send_call(&call, pid);
}

static void alloc_ns(uint32_t pid, uint64_t start_ns, uint64_t va, uint64_t bytes)
{
	alloc_by("cuMemAlloc_v2", pid, start_ns, va, bytes);
}

static void alloc(uint32_t pid, uint64_t va, uint64_t bytes)
{
	alloc_ns(pid, START_NS, va, bytes);
}

static void release_by(const char *name, uint32_t pid, uint64_t va)
{
	struct bpfprof_gpu_call call = call_of(key_of(pid, name));

	call.va = va;
	send_call(&call, pid);
}

static void release(uint32_t pid, uint64_t va)
{
	release_by("cuMemFree_v2", pid, va);
}

static const struct call_table_process *process_at(uint32_t pid, uint64_t start_ns)
{
	const struct call_table_process *all;
	size_t nr, i;

	all = call_table_processes(table, &nr);
	for (i = 0; i < nr; i++)
		if (all[i].kernel_pid == pid && all[i].start_ns == start_ns)
			return &all[i];
	return NULL;
}

static struct call_table_memory memory_of(uint32_t pid)
{
	const struct call_table_process *process = process_at(pid, START_NS);

	cr_assert_not_null(process);
	return process->memory[GPU_SPACE_DEVICE];
}

static void name_send_as(uint32_t flags, uint32_t pid, uint64_t handle, uint64_t other,
			 const char *name)
{
	struct bpfprof_gpu_name e = { .rec.ts_ns = clock_ns++,
				      .task = { .pid = pid, .tid = pid, .start_ns = START_NS },
				      .handle = handle,
				      .other = other,
				      .flags = flags };

	snprintf(e.name, sizeof(e.name), "%s", name);
	call_table_name(table, &e);
}

static void name_send(uint32_t pid, uint64_t handle, uint64_t other, const char *name)
{
	name_send_as(0, pid, handle, other, name);
}

static const char *kernel_name(uint32_t pid, uint64_t handle)
{
	const struct bpfprof_gpu_key key = { .start_ns = START_NS, .pid = pid, .handle = handle };
	const char *name = call_table_kernel(table, &key);

	return name ? name : "(none)";
}

static uint64_t lost(const char *reason)
{
	struct stats_reasons all = { 0 };
	size_t i;

	call_table_lost(table, &all);
	for (i = 0; i < all.nr; i++)
		if (!strcmp(all.reasons[i].name, reason))
			return all.reasons[i].count;
	return UINT64_MAX;
}

static void no_comm(void *arg, const struct bpfprof_gpu_key *key, char comm[24], char rank[16])
{
	(void)arg;
	(void)key;
	(void)comm;
	(void)rank;
}

static void finish(const struct call_table_count *counts, size_t nr, struct aggregate_view *view)
{
	call_table_finish(table, counts, nr, no_comm, NULL);
	aggregate_view_get(a, view);
}

/* The next interval, with an aggregate of its own; view is of it once it has finished, too. */
static void next(const struct call_table_count *counts, size_t nr, struct aggregate_view *view)
{
	struct aggregate *before = a;

	cr_assert_eq(aggregate_new(&a, false, 16 * MIB), 0);
	call_table_next(table, a, 16 * MIB);
	aggregate_free(before);
	if (view)
		finish(counts, nr, view);
}

static uint64_t value_sum(const struct aggregate_view *view, enum profile_call_value value)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < view->nr_call_samples; i++)
		sum += view->call_samples[i].values[value];
	return sum;
}

static const uint64_t *frames_of(const struct aggregate_view *view, size_t sample, size_t *ret_nr)
{
	const struct profile_stack *stack = &view->stacks[view->call_samples[sample].at.stack];

	*ret_nr = stack->nr;
	return view->frames + stack->first;
}

/* Text of a label frame, "" of others. */
static const char *label_at(const struct aggregate_view *view, size_t sample, size_t depth)
{
	const uint64_t *frames;
	size_t nr;

	frames = frames_of(view, sample, &nr);
	if (depth >= nr || frames[depth] >> BPFPROF_FRAME_SHIFT != BPFPROF_FRAME_LABEL)
		return "";
	return strtab_get(view->labels, (uint32_t)frames[depth]);
}

/* The sample whose stack has this native frame below its nr_labels labels; none: NULL. */
static const uint64_t *values_at(const struct aggregate_view *view, size_t nr_labels, uint64_t leaf)
{
	const uint64_t *frames;
	size_t nr, i;

	for (i = 0; i < view->nr_call_samples; i++) {
		frames = frames_of(view, i, &nr);
		if (nr > nr_labels && frames[nr_labels] == FRAME(leaf))
			return view->call_samples[i].values;
	}
	return NULL;
}

/* Leaf first: the kernel, the function, then the stack that was sent. */
Test(call_table, launches_by_kernel)
{
	struct call_table_count counts[] = { { .key = launch_of(7, 0x10), .count.calls = 90 },
					     { .key = launch_of(7, 0x20), .count.calls = 4 } };
	struct bpfprof_gpu_call call = call_of(counts[0].key);
	struct aggregate_view view;
	const uint64_t *frames;
	uint32_t stack;
	size_t nr;

	cr_expect_not(call_table_launch_stack(table, &counts[0].key, &stack));
	for (int i = 0; i < 3; i++)
		send_stack(&call, 7, i == 2 ? 2 : 1);
	name_send(7, 0x10, 0, "_Z4gemmPKfPf");
	cr_expect(call_table_launch_stack(table, &counts[0].key, &stack));
	cr_expect_not(call_table_launch_stack(table, &counts[1].key, &stack));
	finish(counts, 2, &view);
	cr_assert_eq(view.nr_call_samples, 3);
	cr_expect_eq(values_at(&view, 2, 1)[PROFILE_CALLS], 60);
	cr_expect_eq(values_at(&view, 2, 2)[PROFILE_CALLS], 30);
	cr_expect_eq(value_sum(&view, PROFILE_CALLS), 94);
	for (size_t i = 0; i < 3; i++) {
		cr_expect_str_eq(label_at(&view, i, 0), i < 2 ? "gemm" : "kernel@0x20");
		cr_expect_str_eq(label_at(&view, i, 1), "cuLaunchKernel");
	}
	frames = frames_of(&view, 2, &nr);
	cr_expect(nr == 3 && frames[2] == (uint64_t)BPFPROF_FRAME_LABEL << BPFPROF_FRAME_SHIFT,
		  "[no stack]");
	cr_expect_eq(call_table_nr_stacks(table), 3);
}

/* Of kernels only, and only of those that nobody has named; what has no room of its own is known to be so. */
Test(call_table, kernel_names_of_launches)
{
	struct call_table_count counts[] = {
		{ .key = launch_of(7, 0x10), .count.calls = 90 },
		{ .key = launch_of(7, 0x20), .count.calls = 4 },
		{ .key = launch_of(8, 0x10), .count.calls = 3 },
		{ .key = key_of(7, "cuLaunchKernelEx"), .count.calls = 20 },
		{ .key = key_of(7, "cuGraphLaunch"), .count.calls = 1000 },
		{ .key = key_of(7, "cuMemcpyAsync"), .count.calls = 1000 },
		{ .key = launch_of(7, BPFPROF_GPU_OTHER), .count.calls = 1000 },
	};

	cr_expect_eq(call_table_nr_unknown(table, counts, 7), 117);
	name_send(7, 0x10, 0, "gemm");
	cr_expect_eq(call_table_nr_unknown(table, counts, 7), 27);
}

/*
 * Where nobody was seen, by the stack of the launch that ended it, under a marker; what no stack came of is
 * told without one.
 */
Test(call_table, device_idle)
{
	struct call_table_count counts[] = { { .key = launch_of(7, 0x10), .count.calls = 90 },
					     { .key = launch_of(7, 0x20), .count.calls = 2 } };
	struct bpfprof_gpu_call call = call_of(counts[0].key), graph;
	struct aggregate_view view;
	size_t i;

	call.va = 500;
	send_stack(&call, 7, 1);
	call.va = 0;
	send_stack(&call, 7, 1);
	send_stack(&call, 7, 2);
	graph = call_of(key_of(7, "cuGraphLaunch"));
	graph.va = 40;
	send_stack(&graph, 7, 3);
	call = call_of(key_of(7, "cuMemFree_v2")); /* this is an address */
	call.va = VA;
	send_stack(&call, 7, 4);
	call_table_device_idle(table, 7, START_NS, 600, 0);
	call_table_process(table, 8, START_NS);
	call_table_device_idle(table, 8, START_NS, 30, 0);
	call_table_device_idle(table, 9, START_NS, 7, 0); /* of which nothing is known */
	finish(counts, 2, &view);
	cr_expect_eq(values_at(&view, 3, 1)[PROFILE_DEVICE_IDLE_NS], 500);
	cr_expect_eq(values_at(&view, 2, 1)[PROFILE_DEVICE_IDLE_NS], 0);
	cr_expect_null(values_at(&view, 3, 2));
	/* Of the graph's launches no count came. */
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 500 + 60 + 30);
	for (i = 0; i < view.nr_call_samples; i++)
		if (view.call_samples[i].values[PROFILE_DEVICE_IDLE_NS] == 30)
			break;
	cr_assert_lt(i, view.nr_call_samples);
	cr_expect_str_eq(label_at(&view, i, 0), "launch");
}

static void send_gap(uint32_t pid, uint64_t leaf, uint64_t begin_ns, uint64_t ns)
{
	const uint64_t frames[] = { FRAME(leaf), FRAME(0xabcdef) };
	struct bpfprof_sample sample = { .task = { .pid = pid, .tid = pid, .start_ns = START_NS },
					 .gap_ns = begin_ns };
	struct aggregate_input input = { .sample = &sample,
					 .user = frames,
					 .nr_user = 2,
					 .stop = BPFPROF_STOP_COMPLETE,
					 .own_pid = pid };

	call_table_gap(table, &input, ns, false);
}

/* Stacks that ran have the gap, with no call above them; the sum is what it was without them. */
Test(call_table, device_idle_where)
{
	struct call_table_count count = { .key = launch_of(7, 0x10), .count.calls = 9 };
	struct bpfprof_gpu_call call = call_of(count.key);
	const uint64_t second = 1000000000, call_ns = second * 3 / 2 + 6;
	struct aggregate_view view;

	send_gap(7, 11, 100, second);
	send_gap(7, 12, 100, second / 2);
	call.va = call_ns; /* long, and but for a moment somebody was seen */
	call.idle_ns = 100;
	send_stack(&call, 7, 1);
	send_gap(7, 11, 200, 1000);
	call.va = 3000; /* short: with what no stack came of */
	call.idle_ns = 200;
	send_stack(&call, 7, 2);
	call_table_device_idle(table, 7, START_NS, call_ns + 3000 + 5000, 0);
	finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), call_ns + 8000);
	cr_expect_eq(values_at(&view, 0, 11)[PROFILE_DEVICE_IDLE_NS], call_ns * 2 / 3 + 8000);
	cr_expect_eq(values_at(&view, 0, 12)[PROFILE_DEVICE_IDLE_NS], call_ns / 3);
	cr_expect_null(values_at(&view, 3, 1));
	cr_expect_null(values_at(&view, 3, 2));
	next(NULL, 0, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 0);
}

/* A gap over the border is told when it ends, and so is what ran in it before. */
Test(call_table, device_idle_over_boundary)
{
	struct call_table_count count = { .key = launch_of(7, 0x10), .count.calls = 9 };
	struct bpfprof_gpu_call call = call_of(count.key);
	const uint64_t second = 1000000000;
	struct aggregate_view view;

	send_gap(7, 11, 100, second);
	call_table_device_idle(table, 7, START_NS, 0, 100);
	finish(NULL, 0, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 0);
	next(NULL, 0, NULL);
	send_gap(7, 12, 100, second);
	call.va = 4 * second;
	call.idle_ns = 100;
	send_stack(&call, 7, 1);
	call_table_device_idle(table, 7, START_NS, 4 * second, 0);
	finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 4 * second);
	cr_expect_eq(values_at(&view, 0, 11)[PROFILE_DEVICE_IDLE_NS], second);
	cr_expect_eq(values_at(&view, 0, 12)[PROFILE_DEVICE_IDLE_NS], second);
	cr_expect_eq(values_at(&view, 3, 1)[PROFILE_DEVICE_IDLE_NS], 2 * second);
}

/* By the stacks that its calls were seen with; what no stack is known of is told without one. */
Test(call_table, complete)
{
	struct call_table_count counts[] = {
		{ .key = key_of(7, "ncclAllReduce"), .count.calls = 12 },
		{ .key = key_of(7, "ncclBroadcast"), .count.calls = 2 },
	};
	struct bpfprof_gpu_call call = call_of(counts[0].key);
	struct aggregate_view view;
	size_t i;

	for (i = 0; i < 4; i++)
		send_stack(&call, 7, i ? 1 : 2);
	for (i = 0; i < 8; i++)
		call_table_complete(table, &counts[0].key, 100);
	call_table_complete(table, &counts[1].key, UINT64_MAX);
	call_table_complete(table, &counts[1].key, 5); /* does not go round */
	finish(counts, 2, &view);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_COMPLETED], 6);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_COMPLETE_NS], 600);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_COMPLETED], 2);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_COMPLETE_NS], 200);
	cr_expect_eq(value_sum(&view, PROFILE_COMPLETED), 8 + 2);
	for (i = 0; i < view.nr_call_samples; i++)
		if (view.call_samples[i].values[PROFILE_COMPLETE_NS] == UINT64_MAX)
			break;
	cr_assert_lt(i, view.nr_call_samples);
	cr_expect_str_eq(label_at(&view, i, 0), "ncclBroadcast");
}

/* Whatever the proportions, the shares are the count: none is lost by rounding. */
Test(call_table, shares_add_up)
{
	static const uint64_t totals[] = { 1, 2, 7, 1000003, 1ULL << 40, UINT64_MAX };
	static const unsigned int seen[] = { 1, 1, 3, 50, 2 };
	struct call_table_count count;
	struct aggregate_view view;

	for (size_t t = 0; t < sizeof(totals) / sizeof(totals[0]); t++) {
		struct bpfprof_gpu_call call = call_of(key_of(7, "cuMemcpyHtoD_v2"));

		teardown();
		setup();
		call.bytes = 3;
		call.ns = 11;
		for (unsigned int s = 0; s < 5; s++)
			for (unsigned int i = 0; i < seen[s]; i++)
				send_stack(&call, 7, s + 1);
		count = (struct call_table_count){
			.key = call.key,
			.count = { .calls = totals[t], .bytes = totals[t], .ns = totals[t] }
		};
		finish(&count, 1, &view);
		cr_expect_eq(value_sum(&view, PROFILE_CALLS), totals[t]);
		cr_expect_eq(value_sum(&view, PROFILE_MOVED_BYTES), totals[t]);
		cr_expect_eq(value_sum(&view, PROFILE_BLOCKED_NS), totals[t]);
		if (totals[t] < 1000)
			continue;
		for (unsigned int s = 0; s < 5; s++) {
			unsigned __int128 wanted = (unsigned __int128)totals[t] * seen[s] / 57;
			uint64_t got = values_at(&view, 1, s + 1)[PROFILE_CALLS];

			cr_expect(got + 4 >= (uint64_t)wanted && got - 4 <= (uint64_t)wanted,
				  "stack %u of %" PRIu64 ": %" PRIu64, s, totals[t], got);
		}
	}
}

/* By what was seen of bytes and time where there is any; else by how often it was seen. */
Test(call_table, shares_by_what_was_seen)
{
	struct bpfprof_gpu_call small = call_of(key_of(7, "cuMemcpyHtoD_v2")), large = small;
	struct call_table_count count = { .key = small.key,
					  .count = { .calls = 40, .bytes = 4000, .ns = 100 } };
	struct aggregate_view view;

	small.bytes = 1;
	large.bytes = 99;
	for (int i = 0; i < 3; i++)
		send_stack(&small, 7, 1);
	large.bytes = 97;
	send_stack(&large, 7, 2);
	finish(&count, 1, &view);
	cr_assert_eq(view.nr_call_samples, 2);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_CALLS], 30);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_MOVED_BYTES], 120);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_BLOCKED_NS], 75, "no time was told");
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_CALLS], 10);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_MOVED_BYTES], 3880);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_BLOCKED_NS], 25);
}

/* Counted, never seen; seen, and counted as zero: neither is made up. */
Test(call_table, nothing_seen_and_nothing_counted)
{
	struct bpfprof_gpu_call call = call_of(key_of(7, "cuStreamSynchronize"));
	struct call_table_count counts[] = { { .key = call.key },
					     { .key = key_of(9, "cuCtxSynchronize"),
					       .count = { .calls = 5, .ns = 50 } } };
	struct aggregate_view view;

	send_stack(&call, 7, 1);
	finish(counts, 2, &view);
	cr_assert_eq(view.nr_call_samples, 1);
	cr_expect_eq(view.call_samples[0].values[PROFILE_CALLS], 5);
	cr_expect_eq(view.call_samples[0].values[PROFILE_BLOCKED_NS], 50);
	cr_expect_str_eq(label_at(&view, 0, 0), "cuCtxSynchronize");
	cr_expect_eq(view.processes[view.call_samples[0].at.process].pid, 9);
}

/* Sums of what a target says do not wrap around to a small share. */
Test(call_table, largest_values)
{
	struct bpfprof_gpu_call call = call_of(key_of(7, "cuMemcpyHtoD_v2"));
	struct call_table_count count = {
		.key = call.key,
		.count = { .calls = UINT64_MAX, .bytes = UINT64_MAX, .ns = UINT64_MAX }
	};
	struct aggregate_view view;

	call.bytes = call.ns = 1ULL << 63; /* twice that is nothing */
	send_stack(&call, 7, 1);
	send_stack(&call, 7, 1);
	call.bytes = call.ns = 1;
	send_stack(&call, 7, 2);
	finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_CALLS), UINT64_MAX);
	cr_expect_eq(value_sum(&view, PROFILE_MOVED_BYTES), UINT64_MAX);
	cr_expect_eq(value_sum(&view, PROFILE_BLOCKED_NS), UINT64_MAX);
	cr_assert_eq(view.nr_call_samples, 2, "nothing is left over");
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_MOVED_BYTES], UINT64_MAX - 1);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_MOVED_BYTES], 1);
}

/* What an entry's stack begins, the return's record ends; both are one call. */
Test(call_table, begun_and_returned)
{
	struct bpfprof_gpu_call call = call_of(key_of(7, "cuMemAlloc_v2")), other;
	struct call_table_count count = { .key = call.key,
					  .count = { .calls = 2, .bytes = 4096, .ns = 10 } };
	struct aggregate_view view;
	uint32_t stack;

	call.flags = BPFPROF_CALL_ENTRY | BPFPROF_CALL_STACK;
	call.bytes = 4096;
	send_stack(&call, 70, 1);
	cr_expect_eq(memory_of(7).allocations, 0, "it has only begun");
	cr_expect(call_table_open_stack(table, 70, call.begin_ns, &stack));
	cr_expect_not(call_table_open_stack(table, 70, call.begin_ns + 1, &stack));
	cr_expect_not(call_table_open_stack(table, 71, call.begin_ns, &stack));
	send_call(&call, 70);
	cr_expect_eq(memory_of(7).allocations, 0, "an entry is no call, in an event neither");
	call.flags = BPFPROF_CALL_STACK;
	call.ns = 5;
	call.va = VA;
	send_call(&call, 70);
	cr_expect(memory_of(7).allocations == 1 && memory_of(7).live_bytes == 4096);
	/* The number of the thread is another's by now, in another process. */
	other = call_of(key_of(8, "cuMemAlloc_v2"));
	other.begin_ns = call.begin_ns;
	other.flags = BPFPROF_CALL_STACK;
	other.va = VA;
	other.bytes = 100;
	send_call(&other, 70);
	cr_expect_eq(memory_of(8).live_bytes, 100);
	finish(&count, 1, &view);
	cr_assert_eq(view.nr_call_samples, 1);
	cr_expect_eq(view.call_samples[0].values[PROFILE_CALLS], 2);
	cr_expect_eq(view.call_samples[0].values[PROFILE_ALLOCATED_BYTES], 4096);
	cr_expect_eq(view.call_samples[0].values[PROFILE_INUSE_BYTES], 4096);
	cr_expect_eq(view.call_samples[0].values[PROFILE_MOVED_BYTES], 0);
}

/* The thread's next call takes the place of the one before, returned or not. */
Test(call_table, thread_numbers_again)
{
	struct bpfprof_gpu_call first = call_of(key_of(7, "cuStreamSynchronize"));
	struct bpfprof_gpu_call second = call_of(key_of(8, "cuCtxSynchronize"));
	uint32_t one, two;

	first.flags = second.flags = BPFPROF_CALL_ENTRY | BPFPROF_CALL_STACK;
	send_stack(&first, 70, 1);
	cr_assert(call_table_open_stack(table, 70, first.begin_ns, &one));
	send_stack(&second, 70, 2);
	cr_expect_not(call_table_open_stack(table, 70, first.begin_ns, &two));
	cr_assert(call_table_open_stack(table, 70, second.begin_ns, &two));
	cr_expect_neq(one, two);
	/* So many threads do not fill anything: the oldest one goes. */
	for (uint32_t tid = 1000; tid < 40000; tid++)
		send_stack(&first, tid, 1);
	cr_expect_not(call_table_open_stack(table, 70, second.begin_ns, &two));
	cr_expect(call_table_open_stack(table, 39999, first.begin_ns, &two));
	cr_expect_eq(lost("stacks_no_room"), 0);
}

/* As a finalizer's in a collection of Python's: each keeps its own stack, as many as are followed. */
Test(call_table, calls_inside_each_other)
{
	struct bpfprof_gpu_call calls[BPFPROF_GPU_MAX_OPEN + 1];
	uint32_t stacks[BPFPROF_GPU_MAX_OPEN + 1], i, k;

	for (i = 0; i <= BPFPROF_GPU_MAX_OPEN; i++) {
		calls[i] = call_of(key_of(7, i % 2 ? "cuStreamSynchronize" : "python:gc__start"));
		calls[i].begin_ns += i;
		calls[i].flags = BPFPROF_CALL_ENTRY | BPFPROF_CALL_STACK;
		send_stack(&calls[i], 70, i + 1);
	}
	cr_expect_not(call_table_open_stack(table, 70, calls[0].begin_ns, &stacks[0]));
	for (i = 1; i <= BPFPROF_GPU_MAX_OPEN; i++) {
		cr_assert(call_table_open_stack(table, 70, calls[i].begin_ns, &stacks[i]), "%u", i);
		for (k = 1; k < i; k++)
			cr_expect_neq(stacks[i], stacks[k]);
	}
}

Test(call_table, live_and_peak)
{
	struct call_table_memory memory;

	alloc(7, VA, 1000);
	alloc(7, VA + 1000, 500);
	release(7, VA);
	alloc(7, VA + 2000, 200);
	memory = memory_of(7);
	cr_expect(memory.live_bytes == 700 && memory.peak_bytes == 1500);
	cr_expect(memory.allocations == 3 && memory.frees == 1 && !memory.unknown_frees);
	release(7, VA); /* twice */
	release(7, VA + 1); /* from before our time */
	release(7, 0); /* allowed, nothing */
	release(8, VA + 1000); /* another's address */
	memory = memory_of(7);
	cr_expect(memory.live_bytes == 700 && memory.frees == 3 && memory.unknown_frees == 2);
	cr_expect(memory_of(8).unknown_frees == 1 && memory_of(8).live_bytes == 0);
	/* Its free was not seen: there cannot be two. */
	alloc(7, VA + 1000, 50);
	memory = memory_of(7);
	cr_expect(memory.live_bytes == 250 && memory.peak_bytes == 1500);
	cr_expect_eq(memory.allocations, 4);
	release(7, VA + 1000);
	release(7, VA + 2000);
	cr_expect_eq(memory_of(7).live_bytes, 0);
}

/* A call that failed has allocated nothing, one inside another is not told twice. */
Test(call_table, failed_and_nested)
{
	struct bpfprof_gpu_call call = call_of(key_of(7, "cuMemAlloc_v2"));

	call.va = VA;
	call.bytes = 100;
	call.result = 2;
	send_call(&call, 7);
	cr_expect(memory_of(7).allocations == 0 && memory_of(7).live_bytes == 0);
	alloc(7, VA, 100);
	call = call_of(key_of(7, "cuMemRelease"));
	call.va = VA;
	call.flags = BPFPROF_CALL_NESTED;
	send_call(&call, 7);
	cr_expect(memory_of(7).live_bytes == 0 && memory_of(7).frees == 0);
	send_call(&call, 7);
	cr_expect_eq(memory_of(7).unknown_frees, 0);
}

static void memory_send(const char *name, uint64_t va, uint64_t bytes, uint64_t handle)
{
	struct bpfprof_gpu_call call = call_of(key_of(7, name));

	call.key.handle = handle;
	call.va = va;
	call.bytes = bytes;
	send_call(&call, 7);
}

static void create(uint64_t handle, uint64_t bytes)
{
	alloc_by("cuMemCreate", 7, START_NS, handle, bytes);
}

static void let_go(uint64_t handle)
{
	release_by("cuMemRelease", 7, handle);
}

static void map(uint64_t va, uint64_t bytes, uint64_t handle)
{
	memory_send("cuMemMap", va, bytes, handle);
}

static void unmap(uint64_t va, uint64_t bytes)
{
	memory_send("cuMemUnmap", va, bytes, 0);
}

static void expect_memory(uint64_t live, uint64_t frees, uint64_t unknown)
{
	struct call_table_memory memory = memory_of(7);

	cr_expect(memory.live_bytes == live && memory.frees == frees &&
			  memory.unknown_frees == unknown,
		  "%" PRIu64 " bytes, %" PRIu64 " frees, %" PRIu64 " unknown", memory.live_bytes,
		  memory.frees, memory.unknown_frees);
}

/* Memory by handle: until nothing refers to it and it is mapped nowhere, in either order. */
Test(call_table, handles_and_mappings)
{
	create(0x10, 100);
	create(0x20, 1000);
	map(VA, 100, 0x10);
	map(VA + 200, 100, 0x10); /* twice */
	map(VA + 100, 100, 0x20);
	let_go(0x10);
	expect_memory(1100, 0, 0);
	unmap(VA, 50); /* a part: the driver refuses */
	unmap(VA + 50, 100);
	unmap(VA + 250, 1000);
	unmap(VA + 300, 1000); /* nothing */
	unmap(VA, 0);
	expect_memory(1100, 0, 0);
	unmap(VA - 10, 210); /* two at once */
	expect_memory(1100, 0, 0);
	unmap(VA + 200, UINT64_MAX);
	expect_memory(1000, 1, 0);
	let_go(0x20);
	expect_memory(0, 2, 0);
	let_go(0x20); /* once too often */
	expect_memory(0, 3, 1);
	cr_expect_eq(memory_of(7).peak_bytes, 1100);
	cr_expect_eq(memory_of(7).allocations, 2);
}

/* What was retained is given back by as many releases; one too many is of something unknown. */
Test(call_table, retained_handles)
{
	create(0x10, 100);
	map(VA, 100, 0x10);
	memory_send("cuMemRetainAllocationHandle", 0x10, 0, 0);
	let_go(0x10);
	let_go(0x10);
	expect_memory(100, 0, 0);
	let_go(0x10);
	expect_memory(100, 1, 1);
	memory_send("cuMemRetainAllocationHandle", 0x10, 0, 0);
	unmap(VA, 100);
	expect_memory(100, 1, 1);
	let_go(0x10);
	expect_memory(0, 2, 1);
	/* Another's, or from before our time: its bytes are not ours. */
	memory_send("cuMemImportFromShareableHandle", 0x30, 0, 0);
	map(VA, 100, 0x30);
	let_go(0x30);
	unmap(VA, 100);
	memory_send("cuMemRetainAllocationHandle", 0x40, 0, 0);
	let_go(0x40);
	expect_memory(0, 2, 1);
	let_go(0x40);
	expect_memory(0, 3, 2);
	cr_expect_eq(memory_of(7).allocations, 1);
}

/* What is told again must have ended, though that was not seen. */
Test(call_table, handles_again)
{
	create(0x10, 100);
	map(VA, 100, 0x10);
	create(0x10, 30);
	expect_memory(30, 0, 0);
	unmap(VA, 100); /* that was the one before */
	let_go(0x10);
	expect_memory(0, 1, 0);
	create(0x20, 5);
	map(VA, 100, 0x20);
	let_go(0x20);
	create(0x30, 7);
	map(VA + 50, 100, 0x30);
	expect_memory(7, 2, 0);
	map(VA + 50, 100, 0x99); /* unknown, but nothing else can be there */
	let_go(0x30);
	expect_memory(0, 3, 0);
	create(0x30, 7);
	map(VA, 0, 0x30);
	let_go(0x30);
	expect_memory(0, 4, 0);
	map(UINT64_MAX - 5, 100, 0x30);
	cr_expect_eq(lost("mappings_no_room"), 0);
}

/* A mapping that there is no room for does not keep what is mapped. */
Test(call_table, mappings_are_bounded)
{
	uint64_t most = CALL_TABLE_MAX_PROCESS_LIVE, i;

	create(0x10, 100);
	for (i = most + 3; i; i--)
		map(VA + i * 10, 10, 0x10);
	cr_expect_eq(lost("mappings_no_room"), 3);
	let_go(0x10);
	expect_memory(100, 0, 0);
	unmap(VA + 40, 10);
	create(0x20, 3);
	map(VA + 40, 10, 0x20);
	cr_expect_eq(lost("mappings_no_room"), 3);
	let_go(0x20);
	expect_memory(103, 0, 0);
	unmap(VA, (most + 4) * 10);
	expect_memory(0, 2, 0);
	call_table_exit(table, &(struct bpfprof_task_id){ .pid = 7, .start_ns = START_NS });
}

/* Nested and outside of the steps: followed, not counted. */
Test(call_table, unmapped_outside_of_steps)
{
	struct bpfprof_gpu_call call = call_of(key_of(7, "cuMemUnmap"));

	create(0x10, 100);
	map(VA, 100, 0x10);
	let_go(0x10);
	call.va = VA;
	call.bytes = 100;
	call.flags = BPFPROF_CALL_OUTSIDE;
	send_call(&call, 7);
	expect_memory(0, 0, 0);
}

/* Live bytes lie with the stack that allocated them, whoever frees them. */
Test(call_table, live_bytes_by_stack)
{
	struct bpfprof_gpu_call call = call_of(key_of(7, "cuMemAlloc_v2"));
	struct call_table_count count = { .key = call.key, .count = { .calls = 3, .bytes = 700 } };
	struct aggregate_view view;

	call.ns = 1;
	for (uint64_t i = 0; i < 2; i++) {
		call.va = VA + i;
		call.bytes = i ? 400 : 100;
		send_stack(&call, 7, i + 1);
	}
	alloc(7, VA + 2, 200);
	release(7, VA + 1);
	finish(&count, 1, &view);
	cr_assert_eq(view.nr_call_samples, 3);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_INUSE_BYTES], 100);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_INUSE_BYTES], 0);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_ALLOCATED_BYTES], 400);
	cr_expect_eq(value_sum(&view, PROFILE_INUSE_BYTES), 300);
	cr_expect_eq(value_sum(&view, PROFILE_ALLOCATED_BYTES), 700);
	cr_expect_eq(value_sum(&view, PROFILE_CALLS), 3);
}

/* Memory of the device and of the host are never added up, even where their addresses are the same. */
Test(call_table, host_memory)
{
	struct call_table_count counts[] = {
		{ .key = key_of(7, "cuMemAlloc_v2"), .count = { .calls = 1, .bytes = 100 } },
		{ .key = key_of(7, "cuMemHostAlloc"), .count = { .calls = 1, .bytes = 30 } },
		{ .key = key_of(7, "cuMemHostRegister_v2"), .count = { .calls = 1, .bytes = 8 } },
	};
	const struct call_table_memory *host;
	struct aggregate_view view;

	alloc(7, VA, 100);
	alloc_by("cuMemHostAlloc", 7, START_NS, VA, 30);
	alloc_by("cuMemHostRegister_v2", 7, START_NS, VA + 1, 8);
	host = &process_at(7, START_NS)->memory[GPU_SPACE_HOST];
	cr_expect(host->live_bytes == 38 && host->peak_bytes == 38 && host->allocations == 2);
	cr_expect(memory_of(7).live_bytes == 100 && memory_of(7).allocations == 1);
	release_by("cuMemFreeHost", 7, VA);
	release_by("cuMemFreeHost", 7, VA);
	release(7, VA + 1);
	cr_expect(host->live_bytes == 8 && host->frees == 2 && host->unknown_frees == 1);
	cr_expect(memory_of(7).live_bytes == 100 && memory_of(7).unknown_frees == 1);
	finish(counts, 3, &view);
	cr_expect_eq(value_sum(&view, PROFILE_ALLOCATED_BYTES), 100);
	cr_expect_eq(value_sum(&view, PROFILE_INUSE_BYTES), 100);
	cr_expect_eq(value_sum(&view, PROFILE_HOST_ALLOCATED_BYTES), 38);
	cr_expect_eq(value_sum(&view, PROFILE_HOST_INUSE_BYTES), 8);
	cr_expect_eq(value_sum(&view, PROFILE_MOVED_BYTES), 0);
}

/* Of memory that is the device's already: told apart, with the stack that came with it, or without. */
Test(call_table, tensor_memory)
{
	struct bpfprof_gpu_call call = call_of(key_of(7, "pytorch:malloc"));
	struct call_table_count count = { .key = call.key, .count = { .calls = 2, .bytes = 60 } };
	const struct call_table_memory *tensors;
	struct aggregate_view view;

	alloc(7, VA, 100);
	call.flags = BPFPROF_CALL_INSIDE;
	call.va = VA;
	call.bytes = 40;
	send_stack(&call, 7, 1);
	call.va = VA + 64;
	call.bytes = 20;
	send_call(&call, 7);
	tensors = &process_at(7, START_NS)->memory[GPU_SPACE_TENSOR];
	cr_expect(tensors->live_bytes == 60 && tensors->allocations == 2);
	release_by("pytorch:free", 7, VA + 64);
	release_by("pytorch:free", 7, VA + 1);
	cr_expect(tensors->live_bytes == 40 && tensors->peak_bytes == 60);
	cr_expect(tensors->frees == 2 && tensors->unknown_frees == 1);
	cr_expect(memory_of(7).live_bytes == 100 && !memory_of(7).frees);
	finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_TENSOR_ALLOCATED_BYTES), 60);
	cr_expect_eq(value_sum(&view, PROFILE_TENSOR_INUSE_BYTES), 40);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_TENSOR_INUSE_BYTES], 40);
	cr_expect_eq(value_sum(&view, PROFILE_INUSE_BYTES), 0);
}

/* Of that process alone; one that has its number before or after is another. */
Test(call_table, exit_drops_live_bytes)
{
	struct bpfprof_task_id task = { .pid = 7, .tid = 7, .start_ns = START_NS };
	struct bpfprof_task_id stranger = { .pid = 99, .tid = 99, .start_ns = START_NS };

	alloc(7, VA, 100);
	alloc(7, VA + 1, 100);
	alloc(8, VA, 30);
	alloc_ns(7, START_NS + 1, VA, 4);
	call_table_exit(table, &stranger);
	call_table_exit(table, &task);
	call_table_exit(table, &task);
	cr_expect_eq(memory_of(7).live_bytes, 0);
	cr_expect_eq(memory_of(7).peak_bytes, 200);
	cr_expect(process_at(7, START_NS)->ended);
	cr_expect_eq(memory_of(8).live_bytes, 30);
	cr_expect_not(process_at(8, START_NS)->ended);
	cr_expect_eq(process_at(7, START_NS + 1)->memory[0].live_bytes, 4);
	cr_expect_not(process_at(7, START_NS + 1)->ended);
	cr_expect_null(process_at(99, START_NS), "one that made no call is none of ours");
	release(8, VA);
	cr_expect_eq(memory_of(8).live_bytes, 0);
}

/* A look-up by another name: that many calls with the key were of the one before. */
static void reused_send(struct bpfprof_gpu_key key, uint64_t calls)
{
	struct bpfprof_gpu_call call = { .key = key, .bytes = calls, .flags = BPFPROF_CALL_REUSED };

	send_call(&call, 7);
}

/* That was all of it, or it cannot be told. */
static void told_send(uint32_t pid, uint64_t handle, bool all)
{
	struct bpfprof_gpu_key key = { .start_ns = START_NS, .pid = pid, .handle = handle };

	reused_send(key, all);
}

/* A look-up by another name when nothing was launched of the one before. */
static void renamed_send(uint32_t pid, uint64_t handle, const char *name)
{
	name_send_as(BPFPROF_NAME_REUSED, pid, handle, 0, name);
	told_send(pid, handle, true);
}

Test(call_table, names_and_aliases)
{
	const struct call_table_process *process;
	struct bpfprof_gpu_key key;

	cr_expect_str_eq(kernel_name(7, 1), "(none)");
	name_send(7, 1, 0, "_Z4gemmPKfPf");
	cr_expect_str_eq(kernel_name(7, 1), "gemm");
	cr_expect_str_eq(kernel_name(8, 1), "(none)", "a handle is its process's");
	name_send(7, 2, 1, "ignored");
	cr_expect_str_eq(kernel_name(7, 2), "gemm");
	name_send(8, 2, 1, "ignored");
	cr_expect_str_eq(kernel_name(8, 2), "(none)", "an alias of what is not known");
	name_send(7, 1, 0, "plain");
	cr_expect_str_eq(kernel_name(7, 1), "gemm", "another thread's word of it is still to come");
	renamed_send(7, 1, "plain");
	cr_expect_str_eq(kernel_name(7, 1), "plain", "of the one before nothing was launched");
	cr_expect_str_eq(kernel_name(7, 2), "gemm");
	name_send(7, 2, 2, "");
	cr_expect_str_eq(kernel_name(7, 2), "gemm", "of itself");
	name_send(7, 3, 0, "");
	cr_expect_str_eq(kernel_name(7, 3), "(none)");
	name_send(7, 1, 0, "");
	cr_expect_str_eq(kernel_name(7, 1), "plain");
	name_send(7, 0, 0, "null");
	cr_expect_str_eq(kernel_name(7, 0), "(none)");
	/* Who has looked up what has no name has elements of maps, too, and is forgotten when it ends. */
	name_send(10, 1, 0, "");
	cr_expect_not_null(process_at(10, START_NS));
	key = launch_of(9, 5);
	call_table_kernel_set(table, &key, "_Z3addi");
	cr_expect_str_eq(kernel_name(9, 5), "add");
	process = process_at(9, START_NS);
	cr_assert_not_null(process);
	cr_expect(!process->name && !process->pid, "nothing is known of it");
	cr_expect_eq(lost("kernel_names_no_room"), 0);
}

static struct call_table_count parts[16];
static size_t nr_parts;

static void add_part(void *arg, const struct call_table_count *part)
{
	(void)arg;
	cr_assert(nr_parts < 16 && nr_parts < call_table_nr_parts(table));
	parts[nr_parts++] = *part;
}

/* The parts of what was counted from before to now, with the rest as the last one. */
static void split(struct bpfprof_gpu_key key, uint64_t before, uint64_t now)
{
	struct call_table_count count = { .key = key, .count.calls = now - before };

	nr_parts = 0;
	call_table_split(table, &count, before, add_part, NULL);
	parts[nr_parts++] = count;
}

static void expect_part(size_t at, uint64_t calls, const char *name)
{
	const char *found = call_table_kernel(table, &parts[at].key);

	cr_assert_lt(at, nr_parts);
	cr_expect_eq(parts[at].count.calls, calls, "%zu: %" PRIu64, at,
		     (uint64_t)parts[at].count.calls);
	cr_expect_str_eq(found ? found : "(none)", name);
	cr_expect_eq(parts[at].key.handle, 1, "it is shown");
}

/* What was launched before a handle was given to another kernel stays what it was, with its stacks. */
Test(call_table, handles_of_kernels_again)
{
	struct bpfprof_gpu_key key = launch_of(7, 1), other = launch_of(7, 1);
	struct bpfprof_gpu_call call = call_of(key);
	struct aggregate_view view;

	other.dims[0] = 4;
	send_stack(&call, 7, 1); /* by a name that is not known */
	name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, "first");
	reused_send(key, 10);
	told_send(7, 1, true);
	call = call_of(key);
	send_stack(&call, 7, 2);
	name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, "second");
	reused_send(key, 30);
	reused_send(other, 5);
	cr_expect_str_eq(kernel_name(7, 1), "(none)", "more may follow");
	told_send(7, 1, true);
	cr_expect_str_eq(kernel_name(7, 1), "second");
	call = call_of(key);
	send_stack(&call, 7, 3);
	split(key, 0, 60);
	cr_assert_eq(nr_parts, 3);
	expect_part(0, 10, "(none)");
	expect_part(1, 20, "first");
	expect_part(2, 30, "second");
	cr_expect_eq(call_table_nr_unknown(table, parts, nr_parts), 10);
	finish(parts, nr_parts, &view);
	cr_assert_eq(view.nr_call_samples, 3);
	for (size_t i = 0; i < 3; i++)
		cr_expect_str_eq(label_at(&view, i, 0),
				 ((const char *[]){ "kernel@0x1", "first", "second" })[i]);
	cr_expect_eq(values_at(&view, 2, 1)[PROFILE_CALLS], 10);
	cr_expect_eq(values_at(&view, 2, 2)[PROFILE_CALLS], 20);
	cr_expect_eq(values_at(&view, 2, 3)[PROFILE_CALLS], 30);
	/* Of an interval, wherever its borders are; and as many as were counted by then. */
	split(key, 4, 12);
	cr_assert_eq(nr_parts, 3);
	expect_part(0, 6, "(none)");
	expect_part(1, 2, "first");
	expect_part(2, 0, "second");
	split(key, 30, 31);
	cr_assert_eq(nr_parts, 1);
	expect_part(0, 1, "second");
	split(other, 0, 6);
	cr_assert_eq(nr_parts, 2);
	expect_part(0, 5, "first");
	expect_part(1, 1, "second");
	other.stream = 9; /* was not counted by then */
	split(other, 0, 6);
	cr_assert_eq(nr_parts, 1);
	expect_part(0, 6, "second");
	cr_expect_eq(lost("kernel_handles_reused_no_room"), 0);
}

/* Of launches whose time is known it says which kernel that was. */
Test(call_table, kernels_at_a_time)
{
	uint64_t times[3];
	struct bpfprof_gpu_key key;
	const char *const names[] = { "first", "second", "third" };

	for (size_t i = 0; i < 3; i++) {
		if (i)
			renamed_send(7, 1, names[i]);
		else
			name_send(7, 1, 0, names[i]);
		times[i] = clock_ns++;
	}
	for (size_t i = 0; i < 3; i++) {
		key = call_table_kernel_at(table, 7, START_NS, 1, times[i]);
		cr_expect_str_eq(call_table_kernel(table, &key), names[i]);
	}
	key = call_table_kernel_at(table, 7, START_NS, 2, 0);
	cr_expect_null(call_table_kernel(table, &key));
}

/* Where the two cannot be told apart neither name is given. */
Test(call_table, kernels_that_are_mixed)
{
	struct bpfprof_gpu_key key = launch_of(7, 1);

	name_send(7, 1, 0, "first");
	name_send_as(BPFPROF_NAME_UNSEEN, 7, 1, 0, "first");
	cr_expect_str_eq(kernel_name(7, 1), "first", "it was the same");
	name_send(7, 9, 1, "");
	cr_expect_str_eq(kernel_name(7, 9), "first");
	name_send_as(BPFPROF_NAME_UNSEEN, 7, 1, 0, "second");
	cr_expect_str_eq(kernel_name(7, 1), "(none)");
	call_table_kernel_set(table, &key, "third");
	cr_expect_str_eq(kernel_name(7, 1), "(none)", "of one of them at most");
	/* What was told so is remembered at the next look-ups, whatever they say. */
	name_send(7, 1, 0, "second");
	name_send_as(BPFPROF_NAME_UNSEEN, 7, 1, 0, "second");
	cr_expect_str_eq(kernel_name(7, 1), "(none)");
	name_send(7, 9, 1, "");
	cr_expect_str_eq(kernel_name(7, 9), "(none)", "an alias of it");
	name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, "fourth");
	reused_send(key, 10);
	told_send(7, 1, true);
	split(key, 0, 15);
	cr_assert_eq(nr_parts, 2);
	expect_part(0, 10, "(none)");
	expect_part(1, 5, "fourth");
	/* Some of it is lost. */
	name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, "fifth");
	told_send(7, 1, false);
	name_send(7, 1, 0, "fifth");
	split(key, 0, 20);
	cr_assert_eq(nr_parts, 2);
	expect_part(1, 10, "(none)");
	/* Looked up once more all that was told of neither has no name, what is launched from then on has. */
	name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, "fifth");
	reused_send(key, 30);
	told_send(7, 1, true);
	split(key, 0, 35);
	cr_assert_eq(nr_parts, 3);
	expect_part(1, 20, "(none)");
	expect_part(2, 5, "fifth");
	/* By a handle that is not known. */
	name_send(7, 2, 0, "known");
	name_send_as(BPFPROF_NAME_REUSED, 7, 2, 99, "");
	cr_expect_str_eq(kernel_name(7, 2), "(none)");
	/* An end of a key whose handle has none. */
	reused_send(launch_of(7, 3), 10);
	name_send(7, 3, 0, "again");
	cr_expect_eq(call_table_nr_parts(table), 6);
}

/* The word that a handle is another kernel's, or the end of it, does not come: no name is guessed. */
Test(call_table, kernels_whose_names_are_lost)
{
	struct bpfprof_gpu_key key = launch_of(7, 1);

	name_send(7, 1, 0, "first");
	told_send(7, 1, false);
	cr_expect_str_eq(kernel_name(7, 1), "(none)");
	name_send(7, 1, 0, "second");
	cr_expect_str_eq(kernel_name(7, 1), "(none)", "some launches may be of the first");
	name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, "second");
	reused_send(key, 10);
	call_table_kernel_set(table, &key, "third");
	name_send(7, 1, 0, "second");
	cr_expect_str_eq(kernel_name(7, 1), "(none)", "others may not have been told");
	name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, "fourth");
	told_send(7, 1, true);
	split(key, 0, 15);
	cr_assert_eq(nr_parts, 2);
	expect_part(0, 10, "(none)");
	expect_part(1, 5, "fourth");
	/* Of a handle of which nothing was known before, too. */
	told_send(7, 2, false);
	name_send_as(BPFPROF_NAME_UNSEEN, 7, 2, 0, "first");
	cr_expect_str_eq(kernel_name(7, 2), "(none)");
}

/* Two threads look up the new kernel at once: the one that did not notice may be heard first, or last. */
Test(call_table, kernels_named_by_two_threads)
{
	struct bpfprof_gpu_key key = launch_of(7, 1);

	name_send(7, 1, 0, "first");
	name_send(7, 1, 0, "second");
	name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, "second");
	name_send(7, 1, 0, "second");
	reused_send(key, 10);
	call_table_kernel_set(table, &key, "third"); /* by a stack, meanwhile */
	told_send(7, 1, true);
	split(key, 0, 15);
	cr_assert_eq(nr_parts, 2);
	expect_part(0, 10, "first");
	expect_part(1, 5, "second");
}

/* After an interval nothing is kept of what had ended; the next one counts from its own border. */
Test(call_table, handles_again_in_intervals)
{
	struct bpfprof_gpu_key key = launch_of(7, 1), unknown = launch_of(8, 1);
	struct bpfprof_gpu_call call = call_of(key);
	struct aggregate *next;
	char name[32] = "k0";

	send_stack(&call, 7, 1);
	name_send(7, 1, 0, "k0");
	for (uint64_t i = 1; i < 3 * CALL_TABLE_MAX_PROCESS_NAMES; i++) {
		snprintf(name, sizeof(name), "k%" PRIu64, i);
		name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, name);
		reused_send(key, 10 * i);
		told_send(7, 1, true);
		if (i % 1000)
			continue;
		cr_assert_eq(aggregate_new(&next, false, 16 * MIB), 0);
		call_table_next(table, next, 16 * MIB);
		aggregate_free(a);
		a = next;
		cr_assert_eq(call_table_nr_parts(table), 0);
		split(key, 10 * i, 10 * i + 3);
		cr_assert_eq(nr_parts, 1);
		expect_part(0, 3, name);
	}
	cr_expect_eq(lost("kernel_names_no_room"), 0);
	cr_expect_eq(lost("kernel_handles_reused_no_room"), 0);
	/* Of who is not known yet it may still be asked for. */
	name_send(8, 1, 0, "first");
	name_send_as(BPFPROF_NAME_REUSED, 8, 1, 0, "second");
	reused_send(unknown, 5);
	cr_assert_eq(aggregate_new(&next, false, 16 * MIB), 0);
	call_table_next(table, next, 16 * MIB);
	aggregate_free(a);
	a = next;
	split(unknown, 0, 7);
	cr_assert_eq(nr_parts, 2);
	expect_part(0, 5, "first");
}

/* One that reuses handles without end takes no room of others; what it launches has no name then. */
Test(call_table, handles_again_are_bounded)
{
	struct bpfprof_gpu_key key = launch_of(7, 1);
	uint64_t most = HANDLE_GENERATIONS_MAX / HANDLE_GENERATIONS_OF_ONE, i;

	for (i = 1; i <= HANDLE_GENERATION_MAX; i++)
		renamed_send(7, 1, "first");
	cr_expect_str_eq(kernel_name(7, 1), "first");
	renamed_send(7, 1, "second");
	name_send(7, 1, 0, "second");
	cr_expect_str_eq(kernel_name(7, 1), "(none)");
	cr_expect_eq(lost("kernel_handles_reused_no_room"), 1);
	name_send(7, 2, 0, "first");
	for (; i <= most; i++)
		renamed_send(7, 2 + i % 2, "second");
	cr_expect_str_eq(kernel_name(7, 2), "second");
	cr_expect_eq(lost("kernel_handles_reused_no_room"), 1);
	key.handle = 2;
	reused_send(key, 10);
	told_send(7, 2, true);
	cr_expect_str_eq(kernel_name(7, 2), "(none)");
	cr_expect_eq(lost("kernel_handles_reused_no_room"), 2);
	name_send_as(BPFPROF_NAME_REUSED, 8, 1, 0, "other");
	reused_send(launch_of(8, 1), 10);
	told_send(8, 1, true);
	cr_expect_str_eq(kernel_name(8, 1), "other");
	cr_expect_eq(lost("kernel_handles_reused_no_room"), 2);
}

/* What a launched graph has in it is a frame; one of which nothing is known has none. */
Test(call_table, graphs)
{
	struct call_table_count counts[4];
	struct bpfprof_gpu_graph_event event = { .start_ns = START_NS, .pid = 7, .number = 1 };
	struct aggregate_view view;
	struct gpu_graph graph;
	size_t i;

	event.kind = GPU_GRAPH_NODE;
	event.function = function_nr("cuLaunchKernel");
	for (i = 0; i < 3; i++)
		call_table_graph(table, &event);
	event.number = 2;
	call_table_graph(table, &event);
	event.function = function_nr("cuGraphLaunch");
	call_table_graph(table, &event);
	event.function = function_nr("cuMemsetD8Async");
	event.number = 1;
	call_table_graph(table, &event);
	event.kind = GPU_GRAPH_MADE;
	event.handle = 0xc1;
	event.nodes = 4;
	call_table_graph(table, &event);
	event.number = 2;
	event.handle = 0xc2;
	event.nodes = 2;
	call_table_graph(table, &event);
	for (i = 0; i < 4; i++) {
		counts[i] = (struct call_table_count){ .key = key_of(7, "cuGraphLaunch"),
						       .count = { .calls = 1U << i } };
		counts[i].key.handle = 0xc0 + i;
	}
	cr_expect_eq(call_table_nr_nodes(table), 4);
	cr_expect(call_table_graph_of(table, &counts[1].key, &graph) && graph.complete);
	cr_expect(call_table_graph_of(table, &counts[2].key, &graph) && !graph.complete,
		  "another graph is in it");
	cr_expect_not(call_table_graph_of(table, &counts[3].key, &graph));
	counts[0].key.handle = 0;
	cr_expect_not(call_table_graph_of(table, &counts[0].key, &graph));
	finish(counts, 4, &view);
	cr_assert_eq(view.nr_call_samples, 4);
	for (i = 0; i < 4; i++) {
		uint64_t nr = view.call_samples[i].values[PROFILE_CALLS];
		const char *leaf = label_at(&view, i, 0);

		if (nr == 2)
			cr_expect_str_eq(leaf, "graph of 3 kernels");
		else if (nr == 4)
			cr_expect_str_eq(leaf, "graph of at least 1 kernel");
		else
			cr_expect_str_eq(leaf, "cuGraphLaunch");
	}
}

Test(call_table, names_without_an_end)
{
	struct bpfprof_gpu_name e = { .task = { .pid = 7, .tid = 7, .start_ns = START_NS },
				      .handle = 1 };

	memset(e.name, 'x', sizeof(e.name));
	call_table_name(table, &e);
	cr_expect_eq(strlen(kernel_name(7, 1)), sizeof(e.name) - 1);
	/* Another one that begins so is another one, and what could be demangled of it is not. */
	memcpy(e.name, "_Z3foov.", 8);
	e.handle = 2;
	call_table_name(table, &e);
	e.handle = 3;
	call_table_name(table, &e);
	cr_expect_str_neq(kernel_name(7, 2), kernel_name(7, 3));
	cr_expect(!strncmp(kernel_name(7, 2), "_Z3foov.xxx", 11));
	memset(e.name, 'x', 8);
	memset(e.name, '\xff', sizeof(e.name));
	e.handle = UINT64_MAX;
	call_table_name(table, &e);
	for (const char *c = kernel_name(7, UINT64_MAX); *c; c++)
		cr_assert(*c >= ' ' && *c < 0x7f, "it is for a terminal");
}

/* What one may have is less than all there is: the next one gets its own. */
Test(call_table, names_of_one_process)
{
	const struct bpfprof_gpu_key first = launch_of(7, 1);
	char name[32];

	for (uint64_t i = 1; i <= CALL_TABLE_MAX_PROCESS_NAMES + 3; i++) {
		snprintf(name, sizeof(name), "k%" PRIu64, i);
		name_send(7, i, 0, name);
	}
	cr_expect_eq(lost("kernel_names_no_room"), 3);
	cr_expect_str_eq(kernel_name(7, CALL_TABLE_MAX_PROCESS_NAMES + 1), "(none)");
	call_table_kernel_set(table, &first, "renamed");
	cr_expect_str_eq(kernel_name(7, 1), "renamed");
	name_send(8, 1, 0, "other");
	cr_expect_str_eq(kernel_name(8, 1), "other");
	cr_expect_eq(lost("kernel_names_no_room"), 3);
}

/* Long names are no way around it; one that takes another's place costs what it is longer. */
Test(call_table, name_bytes_of_one_process)
{
	const struct bpfprof_gpu_key first = launch_of(7, 1);
	uint64_t fit = CALL_TABLE_PROCESS_NAME_BYTES / 1000;
	char name[1001] = "";

	memset(name, 'n', 1000);
	for (uint64_t i = 1; i <= fit + 3; i++)
		name_send(7, i, 0, name);
	cr_expect_eq(lost("kernel_names_no_room"), 3);
	cr_expect_str_eq(kernel_name(7, fit), name);
	cr_expect_str_eq(kernel_name(7, fit + 1), "(none)");
	name[0] = 'm';
	call_table_kernel_set(table, &first, name);
	cr_expect_str_eq(kernel_name(7, 1), name);
	name_send(8, 1, 0, name);
	cr_expect_str_eq(kernel_name(8, 1), name);
	cr_expect_eq(lost("kernel_names_no_room"), 3);
	/* What it gives back is to be had again. */
	call_table_kernel_set(table, &first, "s");
	name_send(7, fit + 1, 0, "t");
	cr_expect_str_eq(kernel_name(7, fit + 1), "t");
}

Test(call_table, names_in_all)
{
	char name[32];

	for (uint64_t i = 1; i <= CALL_TABLE_MAX_NAMES; i++) {
		snprintf(name, sizeof(name), "k%" PRIu64, i);
		name_send(7 + (uint32_t)(i % 4), i, 0, name);
	}
	cr_expect_eq(lost("kernel_names_no_room"), 0);
	name_send(20, 1, 0, "late");
	cr_expect_eq(lost("kernel_names_no_room"), 1);
	cr_expect_str_eq(kernel_name(20, 1), "(none)");
}

Test(call_table, allocations_are_bounded)
{
	uint64_t most = CALL_TABLE_MAX_PROCESS_LIVE;

	for (uint64_t i = 1; i <= most + 5; i++)
		alloc(7, i, 2);
	cr_expect_eq(lost("allocations_no_room"), 5);
	cr_expect_eq(memory_of(7).allocations, most + 5);
	cr_expect_eq(memory_of(7).live_bytes, 2 * most);
	alloc(8, 1, 3);
	cr_expect_eq(memory_of(8).live_bytes, 3, "that is not the others' loss");
	release(7, 1);
	alloc(7, most + 1, 2);
	cr_expect_eq(memory_of(7).live_bytes, 2 * most);
	for (uint64_t i = 2; CALL_TABLE_MAX_LIVE - most >= i; i++)
		alloc(9, i, 1);
	cr_expect_eq(lost("allocations_no_room"), 5);
	alloc(10, 1, 1);
	cr_expect_eq(lost("allocations_no_room"), 6);
	cr_expect_eq(memory_of(10).live_bytes, 0);
	call_table_exit(table, &(struct bpfprof_task_id){ .pid = 7, .start_ns = START_NS });
	alloc(10, 1, 1);
	cr_expect_eq(memory_of(10).live_bytes, 1);
}

/* What the driver hands out has room beside all the tensors there are. */
Test(call_table, tensors_leave_room)
{
	struct bpfprof_gpu_event event = {
		.task = { .pid = 7, .tid = 7, .start_ns = START_NS },
		.call = { .key = key_of(7, "pytorch:malloc"), .bytes = 2 },
	};
	uint64_t most = CALL_TABLE_MAX_PROCESS_LIVE / 8 * 7;

	for (uint64_t i = 1; i <= most + 5; i++) {
		event.call.va = i;
		call_table_call(table, &event);
	}
	cr_expect_eq(lost("allocations_no_room"), 5);
	for (uint64_t i = 1; i <= CALL_TABLE_MAX_PROCESS_LIVE / 8; i++)
		alloc(7, i, 3);
	cr_expect_eq(lost("allocations_no_room"), 5);
	cr_expect_eq(memory_of(7).live_bytes, 3 * (uint64_t)CALL_TABLE_MAX_PROCESS_LIVE / 8);
	alloc(7, CALL_TABLE_MAX_LIVE, 3);
	cr_expect_eq(lost("allocations_no_room"), 6);
}

/* One that calls from everywhere: its calls are told, the stacks of others come through. */
Test(call_table, stacks_are_bounded)
{
	struct bpfprof_gpu_call call = call_of(launch_of(7, 1)), other = call_of(launch_of(8, 1));
	struct call_table_count counts[] = { { .key = call.key, .count.calls = 1000000 },
					     { .key = other.key, .count.calls = 5 } };
	struct aggregate_view view;

	for (uint64_t i = 1; i <= CALL_TABLE_MAX_PROCESS_STACKS + 7; i++)
		send_stack(&call, 7, i);
	cr_expect_eq(lost("stacks_no_room"), 7);
	send_stack(&call, 7, 1); /* known */
	send_stack(&other, 8, 1 << 20);
	cr_expect_eq(lost("stacks_no_room"), 7);
	finish(counts, 2, &view);
	cr_expect_eq(value_sum(&view, PROFILE_CALLS) + view.nr_calls_lost, 1000005);
	cr_expect_eq(values_at(&view, 2, 1 << 20)[PROFILE_CALLS], 5);
}

Test(call_table, processes_are_bounded)
{
	for (uint32_t pid = 1; pid <= CALL_TABLE_MAX_PROCESSES; pid++)
		alloc(pid, VA, 1);
	cr_expect_eq(lost("processes_no_room"), 0);
	alloc(CALL_TABLE_MAX_PROCESSES + 1, VA, 1);
	name_send(CALL_TABLE_MAX_PROCESSES + 1, 1, 0, "k");
	cr_expect_eq(lost("processes_no_room"), 2);
	cr_expect_null(process_at(CALL_TABLE_MAX_PROCESSES + 1, START_NS));
	alloc(1, VA + 1, 1);
	cr_expect_eq(memory_of(1).live_bytes, 2);
}

/* An aggregate that is full takes no more: what is in it is still told, the rest is counted. */
Test(call_table, full_aggregate)
{
	static struct call_table_count counts[4000];
	struct bpfprof_gpu_call call;
	struct aggregate_view view;

	teardown();
	make(256 * 1024);
	for (uint64_t i = 0; i < 4000; i++) {
		call = call_of(launch_of(7, i + 1));
		send_stack(&call, 7, i + 1);
		counts[i] = (struct call_table_count){ .key = call.key, .count.calls = 10 };
	}
	finish(counts, 4000, &view);
	cr_expect_gt(view.nr_call_samples, 0);
	cr_expect_gt(view.nr_calls_lost, 0);
	cr_expect_eq(value_sum(&view, PROFILE_CALLS) + view.nr_calls_lost, 40000);
}

/* Too small for anything at all. */
Test(call_table, no_aggregate_to_speak_of)
{
	struct bpfprof_gpu_call call = call_of(launch_of(7, 1));
	struct call_table_count count = { .key = call.key, .count.calls = 10 };
	struct aggregate_view view;

	/* From a budget that its own tables fill up to one with room for a few things. */
	for (size_t bytes = 12 * 1024; bytes < 96 * 1024; bytes += 512) {
		teardown();
		if (aggregate_new(&a, false, bytes))
			continue;
		cr_assert_eq(call_table_new(&table, a), 0);
		send_stack(&call, 7, 1);
		finish(&count, 1, &view);
		cr_expect_geq(value_sum(&view, PROFILE_CALLS) + view.nr_calls_lost +
				      lost("calls_no_place"),
			      10, "%zu bytes", bytes);
	}
}

/* Records as nobody should send them: bounded, counted, no crash. */
Test(call_table, hostile_records)
{
	static const uint32_t numbers[] = { 0, 250, 255, 256, 65535, UINT32_MAX };
	struct call_table_count counts[6];
	struct bpfprof_gpu_call call;
	struct aggregate_view view;

	for (size_t i = 0; i < 6; i++) {
		call = call_of((struct bpfprof_gpu_key){
			.start_ns = UINT64_MAX, .pid = UINT32_MAX, .function = numbers[i] });
		call.ns = call.bytes = call.va = UINT64_MAX;
		call.result = INT32_MIN;
		call.flags = UINT32_MAX;
		send_stack(&call, UINT32_MAX, 1);
		send_call(&call, UINT32_MAX);
		call.flags = BPFPROF_CALL_STACK;
		send_call(&call, UINT32_MAX);
		counts[i] = (struct call_table_count){ .key = call.key,
						       .count = { .calls = 2, .ns = UINT64_MAX } };
	}
	finish(counts, 6, &view);
	cr_expect_eq(value_sum(&view, PROFILE_CALLS), 12);
	cr_expect_str_eq(label_at(&view, 0, 0), "[unknown]");
}

/* No device has so much; the sums of a process stay sums. */
Test(call_table, absurd_allocations)
{
	struct call_table_memory memory;

	for (uint64_t i = 1; i <= 100; i++)
		alloc(7, i, UINT64_MAX);
	memory = memory_of(7);
	cr_expect_geq(memory.live_bytes, 100ULL << 40);
	cr_expect_eq(memory.peak_bytes, memory.live_bytes, "it never wrapped around");
	for (uint64_t i = 1; i <= 100; i++)
		release(7, i);
	memory = memory_of(7);
	cr_expect(memory.live_bytes == 0 && memory.frees == 100 && !memory.unknown_frees);
}

/* What is known of a process comes with its stacks, later words before earlier ones. */
Test(call_table, processes_are_described)
{
	struct container container = { .id = "c1", .pod = "pod", .namespace = "ml", .rank = "0" };
	struct ranks ranks = { .rank = "3" };
	struct bpfprof_sample sample = { .task = { .pid = 7, .tid = 7, .start_ns = START_NS } };
	struct aggregate_input input = {
		.sample = &sample, .stop = BPFPROF_STOP_INVALID, .own_pid = 4, .title = "ray::A.f"
	};
	struct bpfprof_gpu_call call = call_of(launch_of(7, 1));
	const struct call_table_process *process;

	container.name = container.pod_uid = container.image = container.ray_cluster = "";
	container.ray_group = container.ray_node_type = container.local_rank = "";
	container.world_size = container.slurm_job = container.slurm_node = "";
	/* Neither ends with a NUL. */
	memset(sample.leader_comm, 'x', sizeof(sample.leader_comm));
	memset(ranks.slurm_job, '9', sizeof(ranks.slurm_job));
	call_table_stack(table, &input, &call);
	process = process_at(7, START_NS);
	cr_expect(process->pid == 4 && !process->rank && !process->pod);
	cr_expect_eq(strlen(process->name), BPFPROF_COMM_LEN);
	input.container = &container;
	input.ranks = &ranks;
	ranks.slurm_job[0] = 0;
	memcpy(sample.leader_comm, "train", 6);
	input.title = "ray::A.g";
	call_table_stack(table, &input, &call);
	process = process_at(7, START_NS);
	cr_expect_str_eq(process->name, "train");
	cr_expect_str_eq(process->ray_task, "ray::A.g");
	cr_expect_str_eq(process->container, "c1");
	cr_expect_str_eq(process->pod, "pod");
	cr_expect_str_eq(process->namespace, "ml");
	cr_expect_str_eq(process->rank, "3");
}

/* A collective's labels: what comm_text() says, and the operation. */
static void told_comm(void *arg, const struct bpfprof_gpu_key *key, char comm[24], char rank[16])
{
	cr_expect_eq(key->handle, 0xc0);
	snprintf(comm, 24, "%s", (const char *)arg);
	snprintf(rank, 16, "3");
}

Test(call_table, labels_of_calls)
{
	struct call_table_count counts[] = { { .key = key_of(7, "ncclAllReduce"),
					       .count = { .calls = 2, .bytes = 64, .ns = 9 } },
					     { .key = launch_of(7, 0x20), .count.calls = 1 },
					     { .key = key_of(7, "cuCtxSynchronize"),
					       .count.calls = 1 } };
	char hash[] = "0xfeed";
	struct aggregate_view view;
	const struct profile_call *call;

	counts[0].key.handle = 0xc0;
	counts[0].key.stream = 0x51;
	counts[1].key.stream = 0;
	call_table_finish(table, counts, 3, told_comm, hash);
	aggregate_view_get(a, &view);
	cr_assert_eq(view.nr_call_samples, 3);
	cr_assert_eq(view.nr_calls, 3);
	call = &view.calls[view.call_samples[0].call - 1];
	cr_expect_str_eq(strtab_get(view.labels, call->comm), "0xfeed");
	cr_expect_str_eq(strtab_get(view.labels, call->rank), "3");
	cr_expect_str_eq(strtab_get(view.labels, call->op), "ncclAllReduce");
	cr_expect_str_eq(strtab_get(view.labels, call->stream), "0x51");
	cr_expect_eq(view.call_samples[0].values[PROFILE_MOVED_BYTES], 64);
	cr_expect_eq(view.call_samples[0].values[PROFILE_BLOCKED_NS], 9);
	call = &view.calls[view.call_samples[1].call - 1];
	cr_expect_str_eq(strtab_get(view.labels, call->kernel), "kernel@0x20");
	cr_expect_str_eq(strtab_get(view.labels, call->stream), "0x0");
	cr_expect_str_eq(strtab_get(view.labels, call->comm), "");
	call = &view.calls[view.call_samples[2].call - 1];
	cr_expect(!call->stream && !call->kernel && !call->comm && !call->op);
}

/* A leaf more, once; what is no stack, or has no room, stays as it is. */
Test(call_table, stack_with_a_leaf)
{
	struct bpfprof_sample sample = { .task = { .pid = 7, .tid = 7, .start_ns = START_NS } };
	const uint64_t frames[] = { FRAME(1), FRAME(2) };
	struct aggregate_input input = {
		.sample = &sample, .user = frames, .nr_user = 2, .stop = BPFPROF_STOP_COMPLETE
	};
	uint64_t function = aggregate_label(a, "f"), kernel = aggregate_label(a, "k");
	struct aggregate_call_at at;
	struct aggregate_view view;
	const struct profile_stack *stack;
	uint32_t with;

	cr_assert_eq(aggregate_add_call(a, &input, &function, 1, &at), 0);
	with = aggregate_stack_with(a, at.stack, kernel);
	cr_expect_neq(with, at.stack);
	cr_expect_eq(aggregate_stack_with(a, at.stack, kernel), with);
	aggregate_view_get(a, &view);
	stack = &view.stacks[with];
	cr_assert_eq(stack->nr, 4);
	cr_expect_eq(view.frames[stack->first], kernel);
	cr_expect_eq(view.frames[stack->first + 1], function);
	cr_expect_arr_eq(view.frames + stack->first + 2, frames, sizeof(frames));
	cr_expect_eq(view.stacks[at.stack].nr, 3, "the other one is as it was");
	cr_expect_eq(aggregate_stack_with(a, UINT32_MAX, kernel), UINT32_MAX);
	cr_expect_eq(aggregate_stack_with(a, (uint32_t)view.nr_stacks, kernel), view.nr_stacks);
	/* So often that it is longer than any stack may be, and beyond the budget. */
	for (int i = 0; i < 3000; i++)
		with = aggregate_stack_with(a, with, kernel);
	aggregate_view_get(a, &view);
	cr_expect_lt(view.stacks[with].nr, 3000);
	cr_expect_eq(aggregate_stack_with(a, with, kernel), with);
}

Test(call_table, stack_with_a_leaf_without_room)
{
	struct bpfprof_sample sample = { .task = { .pid = 7, .tid = 7, .start_ns = START_NS } };
	struct aggregate_input input = { .sample = &sample, .stop = BPFPROF_STOP_INVALID };
	struct aggregate_call_at at;
	struct aggregate_view view;
	uint64_t frame = FRAME(1);
	uint32_t with = 0;

	teardown();
	make(128 * 1024);
	cr_assert_eq(aggregate_add_call(a, &input, &frame, 1, &at), 0);
	for (uint64_t i = 2; i < 20000; i++)
		with = aggregate_stack_with(a, at.stack, FRAME(i));
	cr_expect_eq(with, at.stack);
	aggregate_view_get(a, &view);
	cr_expect_gt(view.nr_table_full, 0);
	cr_expect_eq(view.nr_stacks - 2 + view.nr_table_full, 19998);
}

/* What is allocated stays under its stack; where calls come from when none is sent is what was sent last. */
Test(call_table, next_interval)
{
	struct bpfprof_gpu_call made = call_of(key_of(7, "cuMemAlloc_v2"));
	struct bpfprof_gpu_call launched = call_of(launch_of(7, 0x10));
	struct call_table_count counts[] = {
		{ .key = made.key, .count = { .calls = 2, .bytes = 300 } },
		{ .key = launched.key, .count = { .calls = 100 } },
	};
	struct aggregate_view view;

	name_send(7, 0x10, 0, "scale");
	made.ns = 1;
	made.va = VA;
	made.bytes = 100;
	send_stack(&made, 7, 1);
	made.va = VA + 1;
	made.bytes = 200;
	send_stack(&made, 7, 2);
	send_stack(&launched, 7, 3);
	send_stack(&launched, 7, 3);
	send_stack(&launched, 7, 3);
	send_stack(&launched, 7, 4);
	release(7, VA + 1);
	finish(counts, 2, &view);
	counts[0].count = (struct bpfprof_gpu_count){ 0 };
	counts[1].count.calls = 8;
	for (int i = 0; i < 3; i++) { /* and so it stays */
		next(counts, 2, &view);
		cr_assert_eq(view.nr_call_samples, 3);
		cr_expect_eq(view.counts.nr_taken, 0, "none came in this one");
		cr_expect_eq(values_at(&view, 1, 1)[PROFILE_INUSE_BYTES], 100);
		cr_expect_eq(values_at(&view, 1, 1)[PROFILE_CALLS], 0);
		cr_expect_eq(values_at(&view, 2, 3)[PROFILE_CALLS], 6);
		cr_expect_eq(values_at(&view, 2, 4)[PROFILE_CALLS], 2);
		cr_expect_str_eq(kernel_name(7, 0x10), "scale");
	}
	/* One that is sent is truer than those before. */
	next(NULL, 0, NULL);
	send_stack(&launched, 7, 4);
	finish(counts, 2, &view);
	cr_expect_null(values_at(&view, 2, 3));
	cr_expect_eq(values_at(&view, 2, 4)[PROFILE_CALLS], 8);
	next(NULL, 0, NULL);
	release(7, VA);
	cr_expect_eq(memory_of(7).live_bytes, 0);
	finish(counts, 2, &view);
	cr_expect_eq(value_sum(&view, PROFILE_INUSE_BYTES), 0);
	cr_expect_eq(lost("stacks_no_room"), 0);
}

/* A call that has begun in one interval and returns in another has its stack still. */
Test(call_table, next_interval_of_an_open_call)
{
	struct bpfprof_gpu_call call = call_of(key_of(7, "cuStreamSynchronize"));
	struct call_table_count count = { .key = call.key, .count = { .calls = 1, .ns = 900 } };
	struct aggregate_view view;
	uint32_t stack;

	call.flags = BPFPROF_CALL_ENTRY | BPFPROF_CALL_STACK;
	send_stack(&call, 7, 1);
	next(NULL, 0, NULL);
	cr_expect(call_table_open_stack(table, 7, call.begin_ns, &stack));
	call.flags = BPFPROF_CALL_STACK;
	call.ns = 900;
	send_call(&call, 7);
	finish(&count, 1, &view);
	cr_assert_eq(view.nr_call_samples, 1);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_BLOCKED_NS], 900);
}

/* Nothing is known any more of what has ended; what is known of others is theirs still. */
Test(call_table, next_interval_forgets)
{
	struct bpfprof_task_id task = { .start_ns = START_NS };
	struct bpfprof_gpu_call call;
	size_t nr;

	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t pid = 1; pid <= 50; pid++) {
			call = call_of(launch_of(pid, 0x10));
			send_stack(&call, pid, pid);
			name_send(pid, 0x10, 0, pid % 2 ? "odd" : "even");
			alloc(pid, VA, pid);
		}
		for (task.pid = 1; task.pid <= 50; task.pid++)
			if (task.pid != 20)
				cr_expect(call_table_exit(table, &task));
		cr_expect(call_table_has_ended(table, 21, START_NS));
		next(NULL, 0, NULL);
		call_table_processes(table, &nr);
		cr_expect_eq(nr, 1);
		cr_assert_not_null(process_at(20, START_NS));
		cr_expect_str_eq(process_at(20, START_NS)->name, "train");
		cr_expect_eq(memory_of(20).live_bytes, 20);
		cr_expect_str_eq(kernel_name(20, 0x10), "even");
		cr_expect_str_eq(kernel_name(21, 0x10), "(none)");
		cr_expect_not(call_table_has_ended(table, 20, START_NS));
	}
}

/* What a process has device_idle in all is shared out once: what is new, in each. */
Test(call_table, device_idle_by_interval)
{
	struct call_table_count count = { .key = launch_of(7, 0x10), .count.calls = 9 };
	struct bpfprof_gpu_call call = call_of(count.key);
	struct aggregate_view view;

	call.va = 500;
	send_stack(&call, 7, 1);
	call_table_device_idle(table, 7, START_NS, 600, 0);
	finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 600);
	next(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 0);
	next(NULL, 0, NULL);
	call.va = 50;
	send_stack(&call, 7, 1);
	call_table_device_idle(table, 7, START_NS, 700, 0);
	finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 100);
	cr_expect_eq(values_at(&view, 3, 1)[PROFILE_DEVICE_IDLE_NS], 50);
	/* Of a stack it is known before the kernel is asked. */
	next(NULL, 0, NULL);
	call.va = 30;
	send_stack(&call, 7, 1);
	finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 30);
	next(NULL, 0, NULL);
	call_table_device_idle(table, 7, START_NS, 735, 0);
	finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 5);
}

/* In the interval in which it is known, on the stacks of the call, though none is made there. */
Test(call_table, complete_by_interval)
{
	struct call_table_count count = { .key = key_of(7, "ncclAllReduce"), .count.calls = 2 };
	struct bpfprof_gpu_call call = call_of(count.key);
	struct aggregate_view view;

	send_stack(&call, 7, 1);
	call_table_complete(table, &count.key, 100);
	finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_COMPLETE_NS), 100);
	count.count.calls = 0;
	next(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_COMPLETED), 0);
	next(NULL, 0, NULL);
	call_table_complete(table, &count.key, 250);
	finish(&count, 1, &view);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_COMPLETED], 1);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_COMPLETE_NS], 250);
	cr_expect_eq(value_sum(&view, PROFILE_CALLS), 0);
}

/* A call that has not returned has waited: in each interval for a part of it, with its stack. */
Test(call_table, waits_by_interval)
{
	struct call_table_count count = { .key = key_of(7, "cuStreamSynchronize"),
					  .count.calls = 3 };
	struct bpfprof_gpu_call call = call_of(count.key), other = call;
	struct bpfprof_gpu_open open = { .key = count.key };
	struct bpfprof_gpu_event event = { .task = { .pid = 7, .tid = 7, .start_ns = START_NS } };
	struct aggregate_view view;

	call.flags = BPFPROF_CALL_ENTRY | BPFPROF_CALL_STACK;
	call.begin_ns = open.begin_ns = 1000;
	send_stack(&call, 7, 1);
	other.ns = 50;
	send_stack(&other, 8, 2);
	send_stack(&other, 8, 2);
	call_table_waits(table, &open, 7, 4000);
	call_table_waits(table, &open, 9, 4000); /* of which nothing is known */
	count.count.ns = 3000 + 100;
	finish(&count, 1, &view);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_BLOCKED_NS], 3000);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_BLOCKED_NS], 100);
	/* No other call was seen with its stack: it is kept all the same. */
	next(NULL, 0, NULL);
	other.begin_ns = 5000;
	send_stack(&other, 8, 2);
	call_table_waits(table, &open, 7, 6000);
	count.count = (struct bpfprof_gpu_count){ .calls = 1, .ns = 2000 + 50 };
	finish(&count, 1, &view);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_BLOCKED_NS], 2000);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_BLOCKED_NS], 50);
	/* It returns. */
	next(NULL, 0, NULL);
	other.begin_ns = 7000;
	send_stack(&other, 8, 2);
	event.call = call;
	event.call.flags = BPFPROF_CALL_STACK;
	event.call.ns = 5400;
	call_table_call(table, &event);
	count.count = (struct bpfprof_gpu_count){ .calls = 1, .ns = 400 + 50 };
	finish(&count, 1, &view);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_BLOCKED_NS], 400);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_BLOCKED_NS], 50);
}

/* Half of the next aggregate is for its own stacks; what has no room is counted. */
Test(call_table, next_interval_is_bounded)
{
	struct aggregate *before = a;
	struct bpfprof_gpu_call call;

	call_table_bound(table, 4);
	for (uint32_t i = 0; i < 3000; i++) {
		call = call_of(launch_of(7, i + 1));
		send_stack(&call, 7, i + 1);
	}
	cr_expect_eq(lost("stacks_no_room"), 0);
	cr_assert_eq(aggregate_new(&a, false, MIB / 4), 0);
	call_table_next(table, a, MIB / 4);
	aggregate_free(before);
	cr_expect_lt(aggregate_bytes(a), MIB / 4 * 3 / 4);
	cr_expect_gt(lost("stacks_no_room"), 0);
	cr_expect_lt(lost("stacks_no_room"), 3000);
}

/* Who was described by a stack is not any more, until another comes. */
Test(call_table, undescribed)
{
	struct bpfprof_gpu_call call = call_of(launch_of(7, 1));

	cr_expect_not(call_table_is_described(table, 7, START_NS));
	alloc(7, VA, 1);
	cr_expect_not(call_table_is_described(table, 7, START_NS));
	send_stack(&call, 7, 1);
	cr_expect(call_table_is_described(table, 7, START_NS));
	call_table_undescribe(table);
	cr_expect_not(call_table_is_described(table, 7, START_NS));
	send_stack(&call, 7, 1);
	cr_expect(call_table_is_described(table, 7, START_NS));
}

/* One of which no stack came has its pid all the same, where the kernel's pids are ours. */
Test(call_table, pid_without_a_stack)
{
	struct call_table_count counts[] = { { .key = launch_of(7, 1), .count.calls = 5 },
					     { .key = launch_of(8, 1), .count.calls = 5 } };
	struct aggregate_view view;

	call_table_process(table, 7, START_NS);
	call_table_pids_are_own(table);
	call_table_process(table, 8, START_NS);
	finish(counts, 2, &view);
	cr_assert_eq(view.nr_processes, 2);
	cr_expect(view.processes[0].pid == 7 && view.processes[0].agent_pid == 0);
	cr_expect(view.processes[1].pid == 8 && view.processes[1].agent_pid == 8);
	alloc(9, VA, 1);
	aggregate_view_get(a, &view);
	cr_assert_eq(view.nr_processes, 3);
	cr_expect_eq(view.processes[2].agent_pid, 9);
}

Test(call_table, other_kernels)
{
	struct bpfprof_gpu_key key = launch_of(7, BPFPROF_GPU_OTHER);
	struct call_table_count count = { .key = key, .count = { .calls = 5 } };
	struct aggregate_view view;

	count.key.stream = BPFPROF_GPU_OTHER;
	call_table_process(table, 7, START_NS);
	finish(&count, 1, &view);
	cr_assert_eq(view.nr_call_samples, 1);
	cr_expect_str_eq(label_at(&view, 0, 0), "[other kernels]");
	cr_expect_eq(value_sum(&view, PROFILE_CALLS), 5);
}
