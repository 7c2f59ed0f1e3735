/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_MAPS_BPF_H
#define BPFPROF_BPF_GPU_MAPS_BPF_H

/*
 * Maps that the programs of hooked calls share, and their common functions: count, read memory of
 * the target, send.
 */

#include "hooked.bpf.h"

#define FILE_OF(cookie) ((__u32)(cookie) >> BPFPROF_GPU_FUNCTION_BITS)
#define USE_OF(cookie) ((__u32)(((cookie) & ~BPFPROF_GPU_OF_ONE_PROCESS) >> 32))
#define FUNCTION_OF(cookie) ((__u32)(cookie) & ((1U << BPFPROF_GPU_FUNCTION_BITS) - 1))

/* See struct bpfprof_gpu_function. Writer: user space. */
ARRAY_MAP(gpu_functions, BPFPROF_GPU_MAX_FUNCTIONS, struct bpfprof_gpu_function);

/* See struct bpfprof_gpu_file. Writer: user space. */
ARRAY_MAP(gpu_files, BPFPROF_GPU_MAX_FILES, struct bpfprof_gpu_file);

/* Counts of all calls. Writer: BPF. */
HASH_MAP(gpu_counts, 16384, struct bpfprof_gpu_key, struct bpfprof_gpu_count);

/* Key: enum bpfprof_gpu_counter. Writer: BPF, atomically. */
ARRAY_MAP(gpu_counters, GPU_NR_COUNTERS, __u64);

/*
 * Key 0: gpu_stack; key 1 stays empty. Writer: user space.
 *
 * Linux 6.13 and later give programs of this type a stack per CPU, as if they could not be
 * preempted: two threads on one CPU overwrite each other's variables, and the kernel dies of it
 * (commit a76ab5731e32; seen in 7.2). A program with a tail call keeps the thread's own stack, so
 * each program here must have a tail call.
 */
MAP(gpu_programs, PROG_ARRAY, 2, __u32, __u32, 0);

static __always_inline void gpu_count(__u32 counter)
{
	__u64 *value = bpf_map_lookup_elem(&gpu_counters, &counter);

	if (value)
		__sync_fetch_and_add(value, 1);
}

/*
 * Has gpu_stack send the stack of the call in the thread's entry. It returns only without
 * gpu_stack, which never happens.
 */
static __always_inline void stack_send(struct pt_regs *ctx)
{
	bpf_tail_call(ctx, &gpu_programs, 0);
	gpu_count(GPU_COUNT_EVENTS_LOST);
}

static __always_inline int user_read(void *dst, __u32 len, __u64 va)
{
	if (!bpf_probe_read_user(dst, len, (void *)va))
		return 0;
	gpu_count(GPU_COUNT_ARGUMENT_FAULT);
	return -1;
}

/* The entry of the process, added if needed; NULL: there is no room. */
static __noinline struct bpfprof_gpu_process *process_get(const struct bpfprof_gpu_process_key *key)
{
	struct bpfprof_gpu_process fresh = { 0 };
	struct bpfprof_gpu_process *process = bpf_map_lookup_elem(&gpu_processes, key);

	if (process)
		return process;
	bpf_map_update_elem(&gpu_processes, key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&gpu_processes, key);
}

/* While probes replace others, as those of all processes do with those of single ones, both exist. */
static __always_inline bool probe_counts(__u64 cookie)
{
	__u32 nr = FILE_OF(cookie);
	struct bpfprof_gpu_file *file = bpf_map_lookup_elem(&gpu_files, &nr);

	return file && file->use == USE_OF(cookie) &&
	       !file->everywhere == !!(cookie & BPFPROF_GPU_OF_ONE_PROCESS);
}

static __always_inline void event_send(struct task_struct *task,
				       const struct bpfprof_gpu_call *call)
{
	struct bpfprof_gpu_event *e = NULL;

	if (ring_has_room())
		e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e) {
		gpu_count(GPU_COUNT_EVENTS_LOST);
		return;
	}
	record_fill(&e->rec, BPFPROF_KIND_GPU_CALL, sizeof(*e));
	task_id_fill(&e->task, task);
	e->call = *call;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

#endif
