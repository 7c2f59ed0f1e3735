/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_THREADS_BPF_H
#define BPFPROF_BPF_GPU_THREADS_BPF_H

/*
 * Threads with hooked calls, and their tokens: a call with a known key sends a stack while its
 * thread has tokens.
 */

#include "gpu/maps.bpf.h"

/* The initial value of a thread, too large for a program's stack. Never written. */
ARRAY_MAP(gpu_new_thread, 1, struct bpfprof_gpu_thread);

/* The current thread, added if needed; NULL if there is no room. */
static __always_inline struct bpfprof_gpu_thread *thread_get(struct task_struct *task)
{
	__u32 tid = task->pid, zero = 0;
	__u64 start_ns = task->group_leader->start_boottime;
	struct bpfprof_gpu_thread *t = bpf_map_lookup_elem(&gpu_threads, &tid), *fresh;

	if (t && t->start_ns == start_ns)
		return t;
	fresh = bpf_map_lookup_elem(&gpu_new_thread, &zero);
	if (!fresh)
		return NULL;
	if (!t) {
		if (bpf_map_update_elem(&gpu_threads, &tid, fresh, BPF_ANY))
			return NULL;
		t = bpf_map_lookup_elem(&gpu_threads, &tid);
		if (!t)
			return NULL;
	}
	t->start_ns = start_ns;
	t->pid = task->tgid;
	t->depth = 0;
	t->over = 0;
	t->tokens = cfg.call_tokens;
	t->wait_tokens = cfg.call_tokens;
	t->alloc_tokens = cfg.call_tokens;
	t->free_tokens = cfg.call_tokens;
	t->gc_tokens = cfg.call_tokens;
	t->refill_ns = bpf_ktime_get_ns();
	t->waits = 0;
	t->groups = 0;
	t->grouped = 0;
	return t;
}

static __always_inline __u32 token_add(__u32 tokens, __u64 more)
{
	return tokens + more < cfg.call_tokens ? tokens + more : cfg.call_tokens;
}

/* tokens: one of the token counts of t. */
static __always_inline bool token_take(struct bpfprof_gpu_thread *t, __u64 now, __u32 *tokens)
{
	__u64 passed = (now - t->refill_ns) / cfg.call_token_ns;

	if (passed) {
		t->refill_ns = now;
		t->tokens = token_add(t->tokens, passed);
		t->wait_tokens = token_add(t->wait_tokens, passed);
		t->alloc_tokens = token_add(t->alloc_tokens, passed);
		t->free_tokens = token_add(t->free_tokens, passed);
		t->gc_tokens = token_add(t->gc_tokens, passed);
	}
	if (!*tokens) {
		gpu_count(GPU_COUNT_NO_TOKEN);
		return false;
	}
	--*tokens;
	return true;
}

#endif
