// SPDX-License-Identifier: Apache-2.0
/* Memory in the table of calls, and the bounds of the table. */
#include "gpu/call_table.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "container/containers.h"
#include "cuda/functions.h"
#include "proc/ranks.h"
#include "profile/aggregate.h"
#include "call_table_made.h"

Test(call_table, live_and_peak)
{
	struct call_table_memory memory;

	send_alloc(7, VA, 1000);
	send_alloc(7, VA + 1000, 500);
	send_release(7, VA);
	send_alloc(7, VA + 2000, 200);
	memory = memory_of(7);
	cr_expect(memory.live_bytes == 700 && memory.peak_bytes == 1500);
	cr_expect(memory.allocations == 3 && memory.frees == 1 && !memory.unknown_frees);
	send_release(7, VA); /* twice */
	send_release(7, VA + 1); /* allocated before the recording */
	send_release(7, 0); /* allowed; frees nothing */
	send_release(8, VA + 1000); /* another process's address */
	memory = memory_of(7);
	cr_expect(memory.live_bytes == 700 && memory.frees == 3 && memory.unknown_frees == 2);
	cr_expect(memory_of(8).unknown_frees == 1 && memory_of(8).live_bytes == 0);
	/* Its free raised no event: two allocations at one address are impossible. */
	send_alloc(7, VA + 1000, 50);
	memory = memory_of(7);
	cr_expect(memory.live_bytes == 250 && memory.peak_bytes == 1500);
	cr_expect_eq(memory.allocations, 4);
	send_release(7, VA + 1000);
	send_release(7, VA + 2000);
	cr_expect_eq(memory_of(7).live_bytes, 0);
}

/* A failed call has allocated nothing, and a nested call counts once. */
Test(call_table, failed_and_nested)
{
	struct bpfprof_gpu_call call = call_of(key_of(7, "cuMemAlloc_v2"));

	call.va = VA;
	call.bytes = 100;
	call.result = 2;
	send_call(&call, 7);
	cr_expect(memory_of(7).allocations == 0 && memory_of(7).live_bytes == 0);
	send_alloc(7, VA, 100);
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

/*
 * Memory by handle lives until its last reference and its last mapping are gone, in either order.
 */
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
	let_go(0x20); /* one release too many */
	expect_memory(0, 3, 1);
	cr_expect_eq(memory_of(7).peak_bytes, 1100);
	cr_expect_eq(memory_of(7).allocations, 2);
}

/* A retained handle needs as many releases. One release too many frees unknown memory. */
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
	/* Memory of another process, or from before the recording, has no bytes here. */
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

/* A handle that is allocated again must have been freed, though this raised no event. */
Test(call_table, handles_again)
{
	create(0x10, 100);
	map(VA, 100, 0x10);
	create(0x10, 30);
	expect_memory(30, 0, 0);
	unmap(VA, 100); /* this is the older mapping */
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
	cr_expect_eq(table_lost("mappings_no_room"), 0);
}

/* A mapping without room does not keep its memory. */
Test(call_table, mappings_are_bounded)
{
	uint64_t most = CALL_TABLE_MAX_PROCESS_LIVE, i;

	create(0x10, 100);
	for (i = most + 3; i; i--)
		map(VA + i * 10, 10, 0x10);
	cr_expect_eq(table_lost("mappings_no_room"), 3);
	let_go(0x10);
	expect_memory(100, 0, 0);
	unmap(VA + 40, 10);
	create(0x20, 3);
	map(VA + 40, 10, 0x20);
	cr_expect_eq(table_lost("mappings_no_room"), 3);
	let_go(0x20);
	expect_memory(103, 0, 0);
	unmap(VA, (most + 4) * 10);
	expect_memory(0, 2, 0);
	call_table_exit(table, &(struct bpfprof_task_id){ .pid = 7, .start_ns = START_NS }, 0);
}

/* Nested calls and calls outside of the steps are followed, and not counted. */
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

/* Live bytes stay with the stack that allocated them, whichever stack frees them. */
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
	send_alloc(7, VA + 2, 200);
	send_release(7, VA + 1);
	table_finish(&count, 1, &view);
	cr_assert_eq(view.nr_call_samples, 3);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_INUSE_BYTES], 100);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_INUSE_BYTES], 0);
	cr_expect_eq(values_at(&view, 1, 2)[PROFILE_ALLOCATED_BYTES], 400);
	cr_expect_eq(value_sum(&view, PROFILE_INUSE_BYTES), 300);
	cr_expect_eq(value_sum(&view, PROFILE_ALLOCATED_BYTES), 700);
	cr_expect_eq(value_sum(&view, PROFILE_CALLS), 3);
}

/* Memory of the device and of the host are never added up, even if their addresses are the same. */
Test(call_table, host_memory)
{
	struct call_table_count counts[] = {
		{ .key = key_of(7, "cuMemAlloc_v2"), .count = { .calls = 1, .bytes = 100 } },
		{ .key = key_of(7, "cuMemHostAlloc"), .count = { .calls = 1, .bytes = 30 } },
		{ .key = key_of(7, "cuMemHostRegister_v2"), .count = { .calls = 1, .bytes = 8 } },
	};
	const struct call_table_memory *host;
	struct aggregate_view view;

	send_alloc(7, VA, 100);
	alloc_by("cuMemHostAlloc", 7, START_NS, VA, 30);
	alloc_by("cuMemHostRegister_v2", 7, START_NS, VA + 1, 8);
	host = &process_at(7, START_NS)->memory[GPU_SPACE_HOST];
	cr_expect(host->live_bytes == 38 && host->peak_bytes == 38 && host->allocations == 2);
	cr_expect(memory_of(7).live_bytes == 100 && memory_of(7).allocations == 1);
	release_by("cuMemFreeHost", 7, VA);
	release_by("cuMemFreeHost", 7, VA);
	send_release(7, VA + 1);
	cr_expect(host->live_bytes == 8 && host->frees == 2 && host->unknown_frees == 1);
	cr_expect(memory_of(7).live_bytes == 100 && memory_of(7).unknown_frees == 1);
	table_finish(counts, 3, &view);
	cr_expect_eq(value_sum(&view, PROFILE_ALLOCATED_BYTES), 100);
	cr_expect_eq(value_sum(&view, PROFILE_INUSE_BYTES), 100);
	cr_expect_eq(value_sum(&view, PROFILE_HOST_ALLOCATED_BYTES), 38);
	cr_expect_eq(value_sum(&view, PROFILE_HOST_INUSE_BYTES), 8);
	cr_expect_eq(value_sum(&view, PROFILE_MOVED_BYTES), 0);
}

/*
 * Tensors lie in memory that the device's allocations count already: they are separate, with the
 * stack that came with them, or without.
 */
Test(call_table, tensor_memory)
{
	struct bpfprof_gpu_call call = call_of(key_of(7, "pytorch:malloc"));
	struct call_table_count count = { .key = call.key, .count = { .calls = 2, .bytes = 60 } };
	const struct call_table_memory *tensors;
	struct aggregate_view view;

	send_alloc(7, VA, 100);
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
	table_finish(&count, 1, &view);
	cr_expect_eq(value_sum(&view, PROFILE_TENSOR_ALLOCATED_BYTES), 60);
	cr_expect_eq(value_sum(&view, PROFILE_TENSOR_INUSE_BYTES), 40);
	cr_expect_eq(values_at(&view, 1, 1)[PROFILE_TENSOR_INUSE_BYTES], 40);
	cr_expect_eq(value_sum(&view, PROFILE_INUSE_BYTES), 0);
}

/* An exit drops the bytes of that process only; another process with the same pid keeps its own. */
Test(call_table, exit_drops_live_bytes)
{
	struct bpfprof_task_id task = { .pid = 7, .tid = 7, .start_ns = START_NS };
	struct bpfprof_task_id stranger = { .pid = 99, .tid = 99, .start_ns = START_NS };

	send_alloc(7, VA, 100);
	send_alloc(7, VA + 1, 100);
	send_alloc(8, VA, 30);
	alloc_ns(7, START_NS + 1, VA, 4);
	call_table_exit(table, &stranger, 0);
	call_table_exit(table, &task, 0);
	call_table_exit(table, &task, 0);
	cr_expect_eq(memory_of(7).live_bytes, 0);
	cr_expect_eq(memory_of(7).peak_bytes, 200);
	cr_expect(process_at(7, START_NS)->ended);
	cr_expect_eq(memory_of(8).live_bytes, 30);
	cr_expect_not(process_at(8, START_NS)->ended);
	cr_expect_eq(process_at(7, START_NS + 1)->memory[0].live_bytes, 4);
	cr_expect_not(process_at(7, START_NS + 1)->ended);
	cr_expect_null(process_at(99, START_NS), "one that made no call is none of ours");
	send_release(8, VA);
	cr_expect_eq(memory_of(8).live_bytes, 0);
}

Test(call_table, allocations_are_bounded)
{
	uint64_t most = CALL_TABLE_MAX_PROCESS_LIVE;

	for (uint64_t i = 1; i <= most + 5; i++)
		send_alloc(7, i, 2);
	cr_expect_eq(table_lost("allocations_no_room"), 5);
	cr_expect_eq(memory_of(7).allocations, most + 5);
	cr_expect_eq(memory_of(7).live_bytes, 2 * most);
	send_alloc(8, 1, 3);
	cr_expect_eq(memory_of(8).live_bytes, 3, "that is not the others' loss");
	send_release(7, 1);
	send_alloc(7, most + 1, 2);
	cr_expect_eq(memory_of(7).live_bytes, 2 * most);
	for (uint64_t i = 2; CALL_TABLE_MAX_LIVE - most >= i; i++)
		send_alloc(9, i, 1);
	cr_expect_eq(table_lost("allocations_no_room"), 5);
	send_alloc(10, 1, 1);
	cr_expect_eq(table_lost("allocations_no_room"), 6);
	cr_expect_eq(memory_of(10).live_bytes, 0);
	call_table_exit(table, &(struct bpfprof_task_id){ .pid = 7, .start_ns = START_NS }, 0);
	send_alloc(10, 1, 1);
	cr_expect_eq(memory_of(10).live_bytes, 1);
}

/* The driver's allocations have room beside all the tensors. */
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
	cr_expect_eq(table_lost("allocations_no_room"), 5);
	for (uint64_t i = 1; i <= CALL_TABLE_MAX_PROCESS_LIVE / 8; i++)
		send_alloc(7, i, 3);
	cr_expect_eq(table_lost("allocations_no_room"), 5);
	cr_expect_eq(memory_of(7).live_bytes, 3 * (uint64_t)CALL_TABLE_MAX_PROCESS_LIVE / 8);
	send_alloc(7, CALL_TABLE_MAX_LIVE, 3);
	cr_expect_eq(table_lost("allocations_no_room"), 6);
}

/*
 * One process calls from very many stacks: its calls are counted, and stacks of other processes
 * still have room.
 */
Test(call_table, stacks_are_bounded)
{
	struct bpfprof_gpu_call call = call_of(launch_of(7, 1)), other = call_of(launch_of(8, 1));
	struct call_table_count counts[] = { { .key = call.key, .count.calls = 1000000 },
					     { .key = other.key, .count.calls = 5 } };
	struct aggregate_view view;

	for (uint64_t i = 1; i <= CALL_TABLE_MAX_PROCESS_STACKS + 7; i++)
		send_stack(&call, 7, i);
	cr_expect_eq(table_lost("stacks_no_room"), 7);
	send_stack(&call, 7, 1); /* known */
	send_stack(&other, 8, 1 << 20);
	cr_expect_eq(table_lost("stacks_no_room"), 7);
	table_finish(counts, 2, &view);
	cr_expect_eq(value_sum(&view, PROFILE_CALLS) + view.nr_calls_lost, 1000005);
	cr_expect_eq(values_at(&view, 2, 1 << 20)[PROFILE_CALLS], 5);
}

Test(call_table, processes_are_bounded)
{
	for (uint32_t pid = 1; pid <= CALL_TABLE_MAX_PROCESSES; pid++)
		send_alloc(pid, VA, 1);
	cr_expect_eq(table_lost("processes_no_room"), 0);
	send_alloc(CALL_TABLE_MAX_PROCESSES + 1, VA, 1);
	name_send(CALL_TABLE_MAX_PROCESSES + 1, 1, 0, "k");
	cr_expect_eq(table_lost("processes_no_room"), 2);
	cr_expect_null(process_at(CALL_TABLE_MAX_PROCESSES + 1, START_NS));
	send_alloc(1, VA + 1, 1);
	cr_expect_eq(memory_of(1).live_bytes, 2);
}

/* A full aggregate takes no new stack: its samples are still reported, and the rest is counted. */
Test(call_table, full_aggregate)
{
	static struct call_table_count counts[4000];
	struct bpfprof_gpu_call call;
	struct aggregate_view view;

	table_teardown();
	table_make(256 * 1024);
	for (uint64_t i = 0; i < 4000; i++) {
		call = call_of(launch_of(7, i + 1));
		send_stack(&call, 7, i + 1);
		counts[i] = (struct call_table_count){ .key = call.key, .count.calls = 10 };
	}
	table_finish(counts, 4000, &view);
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
		table_teardown();
		if (aggregate_new(&table_aggregate, false, bytes))
			continue;
		cr_assert_eq(call_table_new(&table, table_aggregate), 0);
		send_stack(&call, 7, 1);
		table_finish(&count, 1, &view);
		cr_expect_geq(value_sum(&view, PROFILE_CALLS) + view.nr_calls_lost +
				      table_lost("calls_no_place"),
			      10, "%zu bytes", bytes);
	}
}

/* Records that no kernel sends: they are bounded and counted, and nothing crashes. */
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
	table_finish(counts, 6, &view);
	cr_expect_eq(value_sum(&view, PROFILE_CALLS), 12);
	cr_expect_str_eq(label_at(&view, 0, 0), "[unknown]");
}

/* No device has so much memory: the sums of a process do not overflow. */
Test(call_table, absurd_allocations)
{
	struct call_table_memory memory;

	for (uint64_t i = 1; i <= 100; i++)
		send_alloc(7, i, UINT64_MAX);
	memory = memory_of(7);
	cr_expect_geq(memory.live_bytes, 100ULL << 40);
	cr_expect_eq(memory.peak_bytes, memory.live_bytes, "it never wrapped around");
	for (uint64_t i = 1; i <= 100; i++)
		send_release(7, i);
	memory = memory_of(7);
	cr_expect(memory.live_bytes == 0 && memory.frees == 100 && !memory.unknown_frees);
}

/* Stacks describe their process; a later description replaces an earlier one. */
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
	container.world_size = container.slurm_job = container.slurm_node = container.slurm_task =
		"";
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
