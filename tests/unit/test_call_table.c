// SPDX-License-Identifier: Apache-2.0
#include "gpu/call_table.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/strtab.h"
#include "profile/aggregate.h"
#include "call_table_made.h"
#include "stack_frames.h"

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
	table_finish(counts, 2, &view);
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

/*
 * Only launches of kernels without a name count. Those of the common key of a process without room
 * do not.
 */
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
 * Idle time in which no thread was seen belongs to the stack of the launch that ended it, under a
 * marker. Without a stack it has a sample of its own.
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
	call_table_device_idle(table, 9, START_NS, 7, 0); /* the process is not known */
	table_finish(counts, 2, &view);
	cr_expect_eq(values_at(&view, 3, 1)[PROFILE_DEVICE_IDLE_NS], 500);
	cr_expect_eq(values_at(&view, 2, 1)[PROFILE_DEVICE_IDLE_NS], 0);
	cr_expect_null(values_at(&view, 3, 2));
	/* No count came for the launches of the graph. */
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

/* Stacks that ran in a gap have its time, with no call above them; the sum stays the same. */
Test(call_table, device_idle_where)
{
	struct call_table_count count = { .key = launch_of(7, 0x10), .count.calls = 9 };
	struct bpfprof_gpu_call call = call_of(count.key);
	const uint64_t second = 1000000000, call_ns = second * 3 / 2 + 6;
	struct aggregate_view view;

	send_gap(7, 11, 100, second);
	send_gap(7, 12, 100, second / 2);
	call.va = call_ns; /* long, and a thread was seen nearly all the time */
	call.idle_ns = 100;
	send_stack(&call, 7, 1);
	send_gap(7, 11, 200, 1000);
	call.va = 3000; /* short: shared out together with gaps without a stack */
	call.idle_ns = 200;
	send_stack(&call, 7, 2);
	call_table_device_idle(table, 7, START_NS, call_ns + 3000 + 5000, 0);
	table_finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), call_ns + 8000);
	cr_expect_eq(values_at(&view, 0, 11)[PROFILE_DEVICE_IDLE_NS], call_ns * 2 / 3 + 8000);
	cr_expect_eq(values_at(&view, 0, 12)[PROFILE_DEVICE_IDLE_NS], call_ns / 3);
	cr_expect_null(values_at(&view, 3, 1));
	cr_expect_null(values_at(&view, 3, 2));
	table_next(NULL, 0, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 0);
}

/* A gap across the boundary is reported when it ends, with the stacks from before the boundary. */
Test(call_table, device_idle_over_boundary)
{
	struct call_table_count count = { .key = launch_of(7, 0x10), .count.calls = 9 };
	struct bpfprof_gpu_call call = call_of(count.key);
	const uint64_t second = 1000000000;
	struct aggregate_view view;

	send_gap(7, 11, 100, second);
	call_table_device_idle(table, 7, START_NS, 0, 100);
	table_finish(NULL, 0, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 0);
	table_next(NULL, 0, NULL);
	send_gap(7, 12, 100, second);
	call.va = 4 * second;
	call.idle_ns = 100;
	send_stack(&call, 7, 1);
	call_table_device_idle(table, 7, START_NS, 4 * second, 0);
	table_finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 4 * second);
	cr_expect_eq(values_at(&view, 0, 11)[PROFILE_DEVICE_IDLE_NS], second);
	cr_expect_eq(values_at(&view, 0, 12)[PROFILE_DEVICE_IDLE_NS], second);
	cr_expect_eq(values_at(&view, 3, 1)[PROFILE_DEVICE_IDLE_NS], 2 * second);
}

/*
 * Completed calls belong to the stacks that came with the calls. Without a stack they have a sample
 * of their own.
 */
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
	call_table_complete(table, &counts[1].key, 5); /* does not wrap around */
	table_finish(counts, 2, &view);
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

/* The shares add up to the count for any proportions: rounding loses nothing. */
Test(call_table, shares_add_up)
{
	static const uint64_t totals[] = { 1, 2, 7, 1000003, 1ULL << 40, UINT64_MAX };
	static const unsigned int seen[] = { 1, 1, 3, 50, 2 };
	struct call_table_count count;
	struct aggregate_view view;

	for (size_t t = 0; t < sizeof(totals) / sizeof(totals[0]); t++) {
		struct bpfprof_gpu_call call = call_of(key_of(7, "cuMemcpyHtoD_v2"));

		table_teardown();
		table_setup();
		call.bytes = 3;
		call.ns = 11;
		for (unsigned int s = 0; s < 5; s++)
			for (unsigned int i = 0; i < seen[s]; i++)
				send_stack(&call, 7, s + 1);
		count = (struct call_table_count){
			.key = call.key,
			.count = { .calls = totals[t], .bytes = totals[t], .ns = totals[t] }
		};
		table_finish(&count, 1, &view);
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

/*
 * Bytes and time are shared by the reported bytes and time if there are any; otherwise by the
 * number of stacks.
 */
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
	table_finish(&count, 1, &view);
	cr_assert_eq(view.nr_call_samples, 2);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_CALLS], 30);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_MOVED_BYTES], 120);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_BLOCKED_NS], 75, "no time was reported");
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_CALLS], 10);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_MOVED_BYTES], 3880);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_BLOCKED_NS], 25);
}

/* A count without a stack, and a stack whose count is 0: neither is invented. */
Test(call_table, nothing_seen_and_nothing_counted)
{
	struct bpfprof_gpu_call call = call_of(key_of(7, "cuStreamSynchronize"));
	struct call_table_count counts[] = { { .key = call.key },
					     { .key = key_of(9, "cuCtxSynchronize"),
					       .count = { .calls = 5, .ns = 50 } } };
	struct aggregate_view view;

	send_stack(&call, 7, 1);
	table_finish(counts, 2, &view);
	cr_assert_eq(view.nr_call_samples, 1);
	cr_expect_eq(view.call_samples[0].values[PROFILE_CALLS], 5);
	cr_expect_eq(view.call_samples[0].values[PROFILE_BLOCKED_NS], 50);
	cr_expect_str_eq(label_at(&view, 0, 0), "cuCtxSynchronize");
	cr_expect_eq(view.processes[view.call_samples[0].at.process].pid, 9);
}

/* Sums of a target's numbers do not wrap around to a small share. */
Test(call_table, largest_values)
{
	struct bpfprof_gpu_call call = call_of(key_of(7, "cuMemcpyHtoD_v2"));
	struct call_table_count count = {
		.key = call.key,
		.count = { .calls = UINT64_MAX, .bytes = UINT64_MAX, .ns = UINT64_MAX }
	};
	struct aggregate_view view;

	call.bytes = call.ns = 1ULL << 63; /* the sum of both wraps around to 0 */
	send_stack(&call, 7, 1);
	send_stack(&call, 7, 1);
	call.bytes = call.ns = 1;
	send_stack(&call, 7, 2);
	table_finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_CALLS), UINT64_MAX);
	cr_expect_eq(value_sum(&view, PROFILE_MOVED_BYTES), UINT64_MAX);
	cr_expect_eq(value_sum(&view, PROFILE_BLOCKED_NS), UINT64_MAX);
	cr_assert_eq(view.nr_call_samples, 2, "nothing is left over");
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_MOVED_BYTES], UINT64_MAX - 1);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_MOVED_BYTES], 1);
}

/*
 * The stack of the entry begins the call, and the record of the return ends it; both are one call.
 */
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
	/* The tid belongs to another thread now, in another process. */
	other = call_of(key_of(8, "cuMemAlloc_v2"));
	other.begin_ns = call.begin_ns;
	other.flags = BPFPROF_CALL_STACK;
	other.va = VA;
	other.bytes = 100;
	send_call(&other, 70);
	cr_expect_eq(memory_of(8).live_bytes, 100);
	table_finish(&count, 1, &view);
	cr_assert_eq(view.nr_call_samples, 1);
	cr_expect_eq(view.call_samples[0].values[PROFILE_CALLS], 2);
	cr_expect_eq(view.call_samples[0].values[PROFILE_ALLOCATED_BYTES], 4096);
	cr_expect_eq(view.call_samples[0].values[PROFILE_INUSE_BYTES], 4096);
	cr_expect_eq(view.call_samples[0].values[PROFILE_MOVED_BYTES], 0);
}

/* The thread's next call replaces the one before, returned or not. */
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
	/* Very many threads do not fill the table: the oldest one is removed. */
	for (uint32_t tid = 1000; tid < 40000; tid++)
		send_stack(&first, tid, 1);
	cr_expect_not(call_table_open_stack(table, 70, second.begin_ns, &two));
	cr_expect(call_table_open_stack(table, 39999, first.begin_ns, &two));
	cr_expect_eq(table_lost("stacks_no_room"), 0);
}

/*
 * Calls inside each other, such as a finalizer's in a garbage collection: each keeps its own stack,
 * up to the followed depth.
 */
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

/* A collective's labels: what comm_text() says, and the operation. */
static void reported_comm(void *arg, const struct bpfprof_gpu_key *key, char comm[24],
			  char rank[16])
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
	call_table_finish(table, counts, 3, reported_comm, hash);
	aggregate_view_get(table_aggregate, &view);
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

/* A leaf is added once. A call without a stack, or without room, stays as it is. */
Test(call_table, stack_with_a_leaf)
{
	struct bpfprof_sample sample = { .task = { .pid = 7, .tid = 7, .start_ns = START_NS } };
	const uint64_t frames[] = { FRAME(1), FRAME(2) };
	struct aggregate_input input = {
		.sample = &sample, .user = frames, .nr_user = 2, .stop = BPFPROF_STOP_COMPLETE
	};
	uint64_t function = aggregate_label(table_aggregate, "f"),
		 kernel = aggregate_label(table_aggregate, "k");
	struct aggregate_call_at at;
	struct aggregate_view view;
	const uint64_t *stack;
	uint32_t with;
	size_t nr;

	cr_assert_eq(aggregate_add_call(table_aggregate, &input, &function, 1, &at), 0);
	with = aggregate_stack_with(table_aggregate, at.stack, kernel);
	cr_expect_neq(with, at.stack);
	cr_expect_eq(aggregate_stack_with(table_aggregate, at.stack, kernel), with);
	aggregate_view_get(table_aggregate, &view);
	stack = stack_frames(&view, with, &nr);
	cr_assert_eq(nr, 4);
	cr_expect_eq(stack[0], kernel);
	cr_expect_eq(stack[1], function);
	cr_expect_arr_eq(stack + 2, frames, sizeof(frames));
	cr_expect_eq(stack_depth(view.callers, at.stack), 3, "the other one is as it was");
	cr_expect_eq(aggregate_stack_with(table_aggregate, UINT32_MAX, kernel), UINT32_MAX);
	cr_expect_eq(aggregate_stack_with(table_aggregate, (uint32_t)view.nr_stacks, kernel),
		     view.nr_stacks);
	/* The leaf is added until the stack is longer than a stack may be, or over the budget. */
	for (int i = 0; i < 2 * AGGREGATE_MAX_STACK; i++)
		with = aggregate_stack_with(table_aggregate, with, kernel);
	aggregate_view_get(table_aggregate, &view);
	cr_expect_lt(stack_depth(view.callers, with), 2 * AGGREGATE_MAX_STACK);
	cr_expect_eq(aggregate_stack_with(table_aggregate, with, kernel), with);
}

Test(call_table, stack_with_a_leaf_without_room)
{
	struct bpfprof_sample sample = { .task = { .pid = 7, .tid = 7, .start_ns = START_NS } };
	struct aggregate_input input = { .sample = &sample, .stop = BPFPROF_STOP_INVALID };
	struct aggregate_call_at at;
	struct aggregate_view view;
	uint64_t frame = FRAME(1);
	uint32_t with = 0;

	table_teardown();
	table_make(128 * 1024);
	cr_assert_eq(aggregate_add_call(table_aggregate, &input, &frame, 1, &at), 0);
	for (uint64_t i = 2; i < 20000; i++)
		with = aggregate_stack_with(table_aggregate, at.stack, FRAME(i));
	cr_expect_eq(with, at.stack);
	aggregate_view_get(table_aggregate, &view);
	cr_expect_gt(view.nr_table_full, 0);
	cr_expect_eq(view.nr_stacks - 4 + view.nr_table_full, 19998);
}

/*
 * A stack describes a process. The description can be dropped, and comes back with the next stack.
 */
Test(call_table, undescribed)
{
	struct bpfprof_gpu_call call = call_of(launch_of(7, 1));

	cr_expect_not(call_table_is_described(table, 7, START_NS));
	send_alloc(7, VA, 1);
	cr_expect_not(call_table_is_described(table, 7, START_NS));
	send_stack(&call, 7, 1);
	cr_expect(call_table_is_described(table, 7, START_NS));
	call_table_undescribe(table);
	cr_expect_not(call_table_is_described(table, 7, START_NS));
	send_stack(&call, 7, 1);
	cr_expect(call_table_is_described(table, 7, START_NS));
}

/* A process without a stack has its pid, too, if the kernel's pids are those of bpfprof. */
Test(call_table, pid_without_a_stack)
{
	struct call_table_count counts[] = { { .key = launch_of(7, 1), .count.calls = 5 },
					     { .key = launch_of(8, 1), .count.calls = 5 } };
	struct aggregate_view view;

	call_table_process(table, 7, START_NS);
	call_table_pids_are_own(table);
	call_table_process(table, 8, START_NS);
	table_finish(counts, 2, &view);
	cr_assert_eq(view.nr_processes, 2);
	cr_expect(view.processes[0].pid == 7 && view.processes[0].agent_pid == 0);
	cr_expect(view.processes[1].pid == 8 && view.processes[1].agent_pid == 8);
	send_alloc(9, VA, 1);
	aggregate_view_get(table_aggregate, &view);
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
	table_finish(&count, 1, &view);
	cr_assert_eq(view.nr_call_samples, 1);
	cr_expect_str_eq(label_at(&view, 0, 0), "[other kernels]");
	cr_expect_eq(value_sum(&view, PROFILE_CALLS), 5);
}
