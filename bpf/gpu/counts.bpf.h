/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_COUNTS_BPF_H
#define BPFPROF_BPF_GPU_COUNTS_BPF_H

/* Counts calls when they begin; their time and errors when they return. */

#include "gpu/comms.bpf.h"
#include "gpu/kernels.bpf.h"
#include "gpu/maps.bpf.h"

/* Takes one more key for this process. False: it has no more. */
static __noinline bool key_allowed(const struct bpfprof_gpu_key *key)
{
	struct bpfprof_gpu_process_key at;
	struct bpfprof_gpu_process *process;

	if (!key)
		return false;
	at.start_ns = key->start_ns;
	at.pid = key->pid;
	at.pad = 0;
	process = process_get(&at);
	if (!process || process->keys >= cfg.call_keys)
		return false;
	__sync_fetch_and_add(&process->keys, 1);
	kernel_launched(key);
	return true;
}

/*
 * The counts of key; *fresh: the key is new. NULL if there is no room. To leave room for others, a
 * process over its share counts its calls under a common key.
 */
static __always_inline struct bpfprof_gpu_count *count_get(struct bpfprof_gpu_key *key, bool *fresh)
{
	struct bpfprof_gpu_count *count = bpf_map_lookup_elem(&gpu_counts, key), zero = { 0 };

	*fresh = !count;
	if (count)
		return count;
	if (!key_allowed(key)) {
		gpu_count(GPU_COUNT_OTHER);
		key->handle = BPFPROF_GPU_OTHER;
		key->stream = BPFPROF_GPU_OTHER;
		__builtin_memset(key->dims, 0, sizeof(key->dims));
		count = bpf_map_lookup_elem(&gpu_counts, key);
		*fresh = !count;
		if (count)
			return count;
	}
	bpf_map_update_elem(&gpu_counts, key, &zero, BPF_NOEXIST);
	count = bpf_map_lookup_elem(&gpu_counts, key);
	if (!count)
		gpu_count(GPU_COUNT_KEYS_FULL);
	return count;
}

/* Counts a call that begins. True: it is the first with its key. */
static __always_inline bool call_count(const struct bpfprof_gpu_function *f,
				       struct bpfprof_gpu_call *call, __u32 file)
{
	struct bpfprof_gpu_count *count;
	bool fresh;

	if (f->kind == GPU_KIND_COLLECTIVE)
		comm_use(&call->key, file, call->begin_ns);
	count = count_get(&call->key, &fresh);
	if (!count)
		return false;
	__sync_fetch_and_add(&count->calls, 1);
	count->last_ns = call->begin_ns;
	/* An allocation may fail, so its bytes are counted at the return. */
	if (f->kind != GPU_KIND_ALLOC && call->bytes)
		__sync_fetch_and_add(&count->bytes, call->bytes);
	return fresh;
}

static __always_inline void count_return(const struct bpfprof_gpu_function *f,
					 const struct bpfprof_gpu_call *call)
{
	struct bpfprof_gpu_count *count = bpf_map_lookup_elem(&gpu_counts, &call->key);

	if (!count)
		return;
	__sync_fetch_and_add(&count->ns, call->ns);
	if (call->ns > count->max_ns)
		count->max_ns = call->ns;
	if (call->result)
		__sync_fetch_and_add(&count->errors, 1);
	else if (f->kind == GPU_KIND_ALLOC)
		__sync_fetch_and_add(&count->bytes, call->bytes);
}

#endif
