/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_HOOKED_BPF_H
#define BPFPROF_BPF_HOOKED_BPF_H

/*
 * Threads that have made hooked calls, and the way over their hooked returns: where the kernel has
 * put its own address in the place of a return address, a stack would end. For objects with
 * HOOKED_RETURNS.
 */
#include "walk.bpf.h"

/* Key tid. Writer: BPF; user space deletes idle ones and those of processes that are gone. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct bpfprof_gpu_thread);
} gpu_threads __weak SEC(".maps");

/* To be called before user_walk(): t is of the current thread. */
static __always_inline void returns_take(struct unwind_reader *r, struct bpfprof_gpu_thread *t)
{
	__u32 i;

	for (i = 0; i < BPFPROF_GPU_MAX_OPEN; i++) {
		if (i >= t->depth)
			break;
		r->returns[i].va = t->open[i].flags & BPFPROF_CALL_INSIDE ? 0 : t->open[i].sp;
		r->returns[i].to = t->open[i].ret;
		r->nr_returns = i + 1;
	}
}

#endif
