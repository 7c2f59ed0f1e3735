/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_HOOKED_BPF_H
#define BPFPROF_BPF_HOOKED_BPF_H

/*
 * Threads with hooked calls. The kernel has replaced return addresses of hooked calls with its own,
 * where a walk would end; these are restored. Also: is the device of such a process idle?
 *
 * An object that includes this walks over hooked returns, so it includes this before any other
 * header.
 */
#ifdef BPFPROF_BPF_READER_BPF_H
#error "hooked.bpf.h comes first"
#endif
#define HOOKED_RETURNS
#include "send.bpf.h"

/* Key tid. Writer: BPF; user space deletes idle threads and those of processes that have ended. */
HASH_MAP(gpu_threads, 8192, __u32, struct bpfprof_gpu_thread);

/*
 * Shares of a process in gpu_counts and gpu_kernels. Writer: BPF; user space deletes processes that
 * have ended.
 */
HASH_MAP(gpu_processes, 4096, struct bpfprof_gpu_process_key, struct bpfprof_gpu_process);

/* Writer: BPF; user space clears an element when its process has ended. */
ARRAY_MAP(gpu_waits, BPFPROF_GPU_MAX_WAITS, struct bpfprof_gpu_waits);

/*
 * The time at which the device of a process became idle; 0: it is busy, or its state is not known.
 * The element is usually the first one tried. The function is global, so that the verifier checks
 * it once.
 */
__weak __noinline __u64 gap_of(__u32 pid, __u64 start_ns)
{
	struct bpfprof_gpu_process_key key = { .start_ns = start_ns, .pid = pid };
	struct bpfprof_gpu_waits *p;
	__u32 i, at;

	if (!bpf_map_lookup_elem(&gpu_processes, &key)) /* most processes make no calls */
		return 0;
	for (i = 0; i < BPFPROF_GPU_MAX_WAITS; i++) {
		at = (pid + i) % BPFPROF_GPU_MAX_WAITS;
		p = bpf_map_lookup_elem(&gpu_waits, &at);
		if (!p)
			break;
		if (p->start_ns == start_ns && p->pid == pid)
			return p->idle_ns;
	}
	return 0;
}

/* Call it before user_walk(); t belongs to the current thread. */
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
