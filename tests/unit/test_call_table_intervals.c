// SPDX-License-Identifier: Apache-2.0
/* The table from one interval to the next. */
#include "gpu/call_table.h"

#include <criterion/criterion.h>

#include "profile/aggregate.h"
#include "call_table_made.h"

/*
 * Allocated memory stays with its stack. Calls without a stack in this interval belong to the last
 * stacks.
 */
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
	send_release(7, VA + 1);
	table_finish(counts, 2, &view);
	counts[0].count = (struct bpfprof_gpu_count){ 0 };
	counts[1].count.calls = 8;
	for (int i = 0; i < 3; i++) { /* the result does not change */
		table_next(counts, 2, &view);
		cr_assert_eq(view.nr_call_samples, 3);
		cr_expect_eq(view.counts.nr_taken, 0, "none came in this one");
		cr_expect_eq(values_at(&view, 1, 1)[PROFILE_INUSE_BYTES], 100);
		cr_expect_eq(values_at(&view, 1, 1)[PROFILE_CALLS], 0);
		cr_expect_eq(values_at(&view, 2, 3)[PROFILE_CALLS], 6);
		cr_expect_eq(values_at(&view, 2, 4)[PROFILE_CALLS], 2);
		cr_expect_str_eq(kernel_name(7, 0x10), "scale");
	}
	/* A stack of this interval replaces the older ones. */
	table_next(NULL, 0, NULL);
	send_stack(&launched, 7, 4);
	table_finish(counts, 2, &view);
	cr_expect_null(values_at(&view, 2, 3));
	cr_expect_eq(values_at(&view, 2, 4)[PROFILE_CALLS], 8);
	table_next(NULL, 0, NULL);
	send_release(7, VA);
	cr_expect_eq(memory_of(7).live_bytes, 0);
	table_finish(counts, 2, &view);
	cr_expect_eq(value_sum(&view, PROFILE_INUSE_BYTES), 0);
	cr_expect_eq(table_lost("stacks_no_room"), 0);
}

/* A call that begins in one interval and returns in another still has its stack. */
Test(call_table, next_interval_of_an_open_call)
{
	struct bpfprof_gpu_call call = call_of(key_of(7, "cuStreamSynchronize"));
	struct call_table_count count = { .key = call.key, .count = { .calls = 1, .ns = 900 } };
	struct aggregate_view view;
	uint32_t stack;

	call.flags = BPFPROF_CALL_ENTRY | BPFPROF_CALL_STACK;
	send_stack(&call, 7, 1);
	table_next(NULL, 0, NULL);
	cr_expect(call_table_open_stack(table, 7, call.begin_ns, &stack));
	call.flags = BPFPROF_CALL_STACK;
	call.ns = 900;
	send_call(&call, 7);
	table_finish(&count, 1, &view);
	cr_assert_eq(view.nr_call_samples, 1);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_BLOCKED_NS], 900);
}

/* The table forgets processes that have ended, and keeps the facts about the others. */
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
			send_alloc(pid, VA, pid);
		}
		for (task.pid = 1; task.pid <= 50; task.pid++)
			if (task.pid != 20)
				cr_expect(call_table_exit(table, &task, 0));
		cr_expect(call_table_has_ended(table, 21, START_NS));
		table_next(NULL, 0, NULL);
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

/* The idle time of a process is shared out once: each interval has the new part. */
Test(call_table, device_idle_by_interval)
{
	struct call_table_count count = { .key = launch_of(7, 0x10), .count.calls = 9 };
	struct bpfprof_gpu_call call = call_of(count.key);
	struct aggregate_view view;

	call.va = 500;
	send_stack(&call, 7, 1);
	call_table_device_idle(table, 7, START_NS, 600, 0);
	table_finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 600);
	table_next(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 0);
	table_next(NULL, 0, NULL);
	call.va = 50;
	send_stack(&call, 7, 1);
	call_table_device_idle(table, 7, START_NS, 700, 0);
	table_finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 100);
	cr_expect_eq(values_at(&view, 3, 1)[PROFILE_DEVICE_IDLE_NS], 50);
	/* The stack reports the time before the kernel does. */
	table_next(NULL, 0, NULL);
	call.va = 30;
	send_stack(&call, 7, 1);
	table_finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 30);
	table_next(NULL, 0, NULL);
	call_table_device_idle(table, 7, START_NS, 735, 0);
	table_finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_DEVICE_IDLE_NS), 5);
}

/*
 * A completion counts in its interval, on the stacks of the call, even without a call in that
 * interval.
 */
Test(call_table, complete_by_interval)
{
	struct call_table_count count = { .key = key_of(7, "ncclAllReduce"), .count.calls = 2 };
	struct bpfprof_gpu_call call = call_of(count.key);
	struct aggregate_view view;

	send_stack(&call, 7, 1);
	call_table_complete(table, &count.key, 100);
	table_finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_COMPLETE_NS), 100);
	count.count.calls = 0;
	table_next(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_COMPLETED), 0);
	table_next(NULL, 0, NULL);
	call_table_complete(table, &count.key, 250);
	table_finish(&count, 1, &view);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_COMPLETED], 1);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_COMPLETE_NS], 250);
	cr_expect_eq(value_sum(&view, PROFILE_CALLS), 0);
}

/* A call that has not returned has waited: each interval has a part of the wait, with its stack. */
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
	call_table_waits(table, &open, 9, 4000); /* the process is not known */
	count.count.ns = 3000 + 100;
	table_finish(&count, 1, &view);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_BLOCKED_NS], 3000);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_BLOCKED_NS], 100);
	/* No other call came with this stack, but the stack is kept. */
	table_next(NULL, 0, NULL);
	other.begin_ns = 5000;
	send_stack(&other, 8, 2);
	call_table_waits(table, &open, 7, 6000);
	count.count = (struct bpfprof_gpu_count){ .calls = 1, .ns = 2000 + 50 };
	table_finish(&count, 1, &view);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_BLOCKED_NS], 2000);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_BLOCKED_NS], 50);
	/* It returns. */
	table_next(NULL, 0, NULL);
	other.begin_ns = 7000;
	send_stack(&other, 8, 2);
	event.call = call;
	event.call.flags = BPFPROF_CALL_STACK;
	event.call.ns = 5400;
	call_table_call(table, &event);
	count.count = (struct bpfprof_gpu_count){ .calls = 1, .ns = 400 + 50 };
	table_finish(&count, 1, &view);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_BLOCKED_NS], 400);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_BLOCKED_NS], 50);
}

/* Half of the next aggregate is for stacks that roll over; stacks without room are counted. */
Test(call_table, next_interval_is_bounded)
{
	struct aggregate *before = table_aggregate;
	struct bpfprof_gpu_call call;

	call_table_bound(table, 4);
	for (uint32_t i = 0; i < 3000; i++) {
		call = call_of(launch_of(7, i + 1));
		send_stack(&call, 7, i + 1);
	}
	cr_expect_eq(table_lost("stacks_no_room"), 0);
	cr_assert_eq(aggregate_new(&table_aggregate, false, MIB / 4), 0);
	call_table_next(table, table_aggregate, MIB / 4);
	aggregate_free(before);
	cr_expect_lt(aggregate_bytes(table_aggregate), MIB / 4 * 3 / 4);
	cr_expect_gt(table_lost("stacks_no_room"), 0);
	cr_expect_lt(table_lost("stacks_no_room"), 3000);
}
