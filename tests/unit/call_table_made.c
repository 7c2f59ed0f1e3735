// SPDX-License-Identifier: Apache-2.0
#include "call_table_made.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/strtab.h"
#include "cuda/functions.h"
#include "profile/stats.h"
#include "stack_frames.h"

struct aggregate *table_aggregate;

struct call_table *table;

uint64_t made_clock_ns = 100;

void table_make(size_t max_bytes)
{
	cr_assert_eq(aggregate_new(&table_aggregate, false, max_bytes), 0);
	cr_assert_eq(call_table_new(&table, table_aggregate), 0);
}

void table_setup(void)
{
	table_make(16 * MIB);
}

void table_teardown(void)
{
	call_table_free(table);
	aggregate_free(table_aggregate);
	table = NULL;
	table_aggregate = NULL;
}

TestSuite(call_table, .init = table_setup, .fini = table_teardown);

uint32_t function_nr(const char *name)
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

struct bpfprof_gpu_key key_of(uint32_t pid, const char *function)
{
	return (struct bpfprof_gpu_key){ .start_ns = START_NS,
					 .pid = pid,
					 .function = function_nr(function) };
}

struct bpfprof_gpu_key launch_of(uint32_t pid, uint64_t kernel)
{
	struct bpfprof_gpu_key key = key_of(pid, "cuLaunchKernel");

	key.handle = kernel;
	return key;
}

struct bpfprof_gpu_call call_of(struct bpfprof_gpu_key key)
{
	return (struct bpfprof_gpu_call){ .key = key, .begin_ns = made_clock_ns++ };
}

void send_stack(const struct bpfprof_gpu_call *call, uint32_t tid, uint64_t leaf)
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

void send_call(const struct bpfprof_gpu_call *call, uint32_t tid)
{
	struct bpfprof_gpu_event event = {
		.task = { .pid = call->key.pid, .tid = tid, .start_ns = call->key.start_ns },
		.call = *call
	};

	call_table_call(table, &event);
}

void alloc_by(const char *name, uint32_t pid, uint64_t start_ns, uint64_t va, uint64_t bytes)
{
	struct bpfprof_gpu_call call = call_of(key_of(pid, name));

	call.key.start_ns = start_ns;
	call.va = va;
	call.bytes = bytes;
	call.ns = 5;
	send_call(&call, pid);
}

void alloc_ns(uint32_t pid, uint64_t start_ns, uint64_t va, uint64_t bytes)
{
	alloc_by("cuMemAlloc_v2", pid, start_ns, va, bytes);
}

void send_alloc(uint32_t pid, uint64_t va, uint64_t bytes)
{
	alloc_ns(pid, START_NS, va, bytes);
}

void release_by(const char *name, uint32_t pid, uint64_t va)
{
	struct bpfprof_gpu_call call = call_of(key_of(pid, name));

	call.va = va;
	send_call(&call, pid);
}

void send_release(uint32_t pid, uint64_t va)
{
	release_by("cuMemFree_v2", pid, va);
}

const struct call_table_process *process_at(uint32_t pid, uint64_t start_ns)
{
	const struct call_table_process *all;
	size_t nr, i;

	all = call_table_processes(table, &nr);
	for (i = 0; i < nr; i++)
		if (all[i].kernel_pid == pid && all[i].start_ns == start_ns)
			return &all[i];
	return NULL;
}

struct call_table_memory memory_of(uint32_t pid)
{
	const struct call_table_process *process = process_at(pid, START_NS);

	cr_assert_not_null(process);
	return process->memory[GPU_SPACE_DEVICE];
}

void name_send_as(uint32_t flags, uint32_t pid, uint64_t handle, uint64_t other, const char *name)
{
	struct bpfprof_gpu_name e = { .rec.ts_ns = made_clock_ns++,
				      .task = { .pid = pid, .tid = pid, .start_ns = START_NS },
				      .handle = handle,
				      .other = other,
				      .flags = flags };

	snprintf(e.name, sizeof(e.name), "%s", name);
	call_table_name(table, &e);
}

void name_send(uint32_t pid, uint64_t handle, uint64_t other, const char *name)
{
	name_send_as(0, pid, handle, other, name);
}

const char *kernel_name(uint32_t pid, uint64_t handle)
{
	const struct bpfprof_gpu_key key = { .start_ns = START_NS, .pid = pid, .handle = handle };
	const char *name = call_table_kernel(table, &key);

	return name ? name : "(none)";
}

uint64_t table_lost(const char *reason)
{
	struct stats_reasons all = { 0 };
	size_t i;

	call_table_lost(table, &all);
	for (i = 0; i < all.nr; i++)
		if (!strcmp(all.reasons[i].name, reason))
			return all.reasons[i].count;
	return UINT64_MAX;
}

void no_comm(void *arg, const struct bpfprof_gpu_key *key, char comm[24], char rank[16])
{
	(void)arg;
	(void)key;
	(void)comm;
	(void)rank;
}

void table_finish(const struct call_table_count *counts, size_t nr, struct aggregate_view *view)
{
	call_table_finish(table, counts, nr, no_comm, NULL);
	aggregate_view_get(table_aggregate, view);
}

void table_next(const struct call_table_count *counts, size_t nr, struct aggregate_view *view)
{
	struct aggregate *before = table_aggregate;

	cr_assert_eq(aggregate_new(&table_aggregate, false, 16 * MIB), 0);
	call_table_next(table, table_aggregate, 16 * MIB);
	aggregate_free(before);
	if (view)
		table_finish(counts, nr, view);
}

uint64_t value_sum(const struct aggregate_view *view, enum profile_call_value value)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < view->nr_call_samples; i++)
		sum += view->call_samples[i].values[value];
	return sum;
}

const uint64_t *frames_of(const struct aggregate_view *view, size_t sample, size_t *ret_nr)
{
	return stack_frames(view, view->call_samples[sample].at.stack, ret_nr);
}

const char *label_at(const struct aggregate_view *view, size_t sample, size_t depth)
{
	const uint64_t *frames;
	size_t nr;

	frames = frames_of(view, sample, &nr);
	if (depth >= nr || frames[depth] >> BPFPROF_FRAME_SHIFT != BPFPROF_FRAME_LABEL)
		return "";
	return strtab_get(view->labels, (uint32_t)frames[depth]);
}

const uint64_t *values_at(const struct aggregate_view *view, size_t nr_labels, uint64_t leaf)
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
