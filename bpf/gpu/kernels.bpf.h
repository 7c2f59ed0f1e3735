/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_KERNELS_BPF_H
#define BPFPROF_BPF_GPU_KERNELS_BPF_H

/*
 * Handles of kernels and their names. Launches are counted by handle; when a module is unloaded,
 * its handles may be given to other kernels. A look-up by another name with the same result shows
 * that: no launch of the new kernel can have been made yet, so all counted launches belong to the
 * old one. BPF then sends the present counts of each key to user space, which separates them;
 * launches themselves cost nothing more. The new name is valid only after all counts were sent:
 * otherwise the launches have no name until the handle is looked up again.
 */

#include "gpu/maps.bpf.h"

/*
 * Value: hash of the name; 0: the kernel was launched before BPF saw a name of it, or was found by
 * an unknown handle, or its counts got lost. Writer: BPF; user space deletes those of processes
 * that have ended.
 */
HASH_MAP(gpu_kernels, 16384, struct bpfprof_gpu_graph_key, __u64);

struct name_sum {
	const struct bpfprof_gpu_name *e;
	__u64 hash;
	__u32 len; /* with the NUL */
	__u32 pad;
};

/* Adds eight bytes; a step of bpf_loop, so that the verifier checks it once. */
static long name_add(__u32 step, struct name_sum *sum)
{
	__u32 left;
	__u64 word;

	if (step >= BPFPROF_GPU_NAME_BYTES / 8 || 8 * step >= sum->len)
		return 1;
	left = sum->len - 8 * step;
	word = *(const __u64 *)&sum->e->name[8 * step];
	if (left < 8)
		word &= (1ULL << 8 * left) - 1;
	sum->hash = (sum->hash ^ word) * 0x9e3779b97f4a7c15ULL;
	sum->hash ^= sum->hash >> 32;
	return 0;
}

/* Hash of a name of len bytes, with its NUL; not 0. */
static __noinline __u64 name_hash(const struct bpfprof_gpu_name *e, __u32 len)
{
	struct name_sum sum = { .e = e, .len = len };

	bpf_loop(BPFPROF_GPU_NAME_BYTES / 8, name_add, &sum, 0);
	return sum.hash ?: 1;
}

static __always_inline void kernel_key(struct bpfprof_gpu_graph_key *key, __u64 start_ns, __u32 pid,
				       __u64 handle)
{
	key->start_ns = start_ns;
	key->handle = handle;
	key->pid = pid;
	key->pad = 0;
}

/* Hash of the name of a kernel; 0: not known. */
static __noinline __u64 kernel_find(__u64 start_ns, __u32 pid, __u64 handle)
{
	struct bpfprof_gpu_graph_key key;
	__u64 *hash;

	kernel_key(&key, start_ns, pid, handle);
	hash = bpf_map_lookup_elem(&gpu_kernels, &key);
	return hash ? *hash : 0;
}

/* Adds a handle, unless it is known. -1: there is no room, so its reuse will not be noticed. */
static __noinline int kernel_add(const struct bpfprof_gpu_graph_key *key, __u64 hash)
{
	struct bpfprof_gpu_process_key process = { .start_ns = key->start_ns, .pid = key->pid };
	struct bpfprof_gpu_process *p = process_get(&process);

	if (p && p->kernels < BPFPROF_GPU_MAX_KERNELS &&
	    !bpf_map_update_elem(&gpu_kernels, key, &hash, BPF_NOEXIST)) {
		__sync_fetch_and_add(&p->kernels, 1);
		return 0;
	}
	if (p && bpf_map_lookup_elem(&gpu_kernels, key)) /* it was known */
		return 0;
	gpu_count(GPU_COUNT_KERNELS_FULL);
	return -1;
}

/* Are calls with that key launches of kernels? */
static __noinline bool counts_kernels(__u32 function)
{
	struct bpfprof_gpu_function *f = bpf_map_lookup_elem(&gpu_functions, &function);

	return f && BPFPROF_GPU_IS_LAUNCH(f->kind);
}

/* Handles the first call with a key. */
static __noinline int kernel_launched(const struct bpfprof_gpu_key *key)
{
	struct bpfprof_gpu_graph_key at;

	if (!counts_kernels(key->function))
		return 0;
	kernel_key(&at, key->start_ns, key->pid, key->handle);
	return kernel_add(&at, 0);
}

/* Sends a record that is no call. -1: there is no room. */
static __noinline int key_send(const struct bpfprof_gpu_key *key, __u64 calls, __u32 flags)
{
	struct bpfprof_gpu_event *e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);

	if (!e)
		return -1;
	record_fill(&e->rec, BPFPROF_KIND_GPU_CALL, sizeof(*e));
	task_id_fill(&e->task, bpf_get_current_task_btf());
	__builtin_memset(&e->call, 0, sizeof(e->call));
	e->call.key = *key;
	e->call.bytes = calls;
	e->call.flags = flags;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Sends the present counts of a key. */
static __always_inline int reused_send(const struct bpfprof_gpu_key *key, __u64 calls)
{
	return key_send(key, calls, BPFPROF_CALL_REUSED);
}

/* Sends whether all keys of the kernel were sent. */
static __noinline int kernel_send(const struct bpfprof_gpu_graph_key *at, bool all)
{
	struct bpfprof_gpu_key key = { .start_ns = at->start_ns,
				       .pid = at->pid,
				       .handle = at->handle };

	return reused_send(&key, all);
}

/* The name of a kernel, or counts of the old one, got lost: the next look-up sends them again. */
static __noinline int kernel_unreported(const struct bpfprof_gpu_graph_key *at)
{
	int err = kernel_send(at, false);
	__u64 *hash = bpf_map_lookup_elem(&gpu_kernels, at);

	gpu_count(GPU_COUNT_NAMES_LOST);
	if (hash) /* after the record was sent: a later look-up sends more */
		*hash = 0;
	else if (!err) /* user space deletes only elements of processes that it knows */
		kernel_add(at, 0);
	return 0;
}

struct reuse {
	struct bpfprof_gpu_graph_key kernel;
	__u32 lost; /* 1: some key could not be sent (no number: the verifier would check each) */
	__u32 pad;
};

/* Sends the counts of a key if it belongs to the kernel; called by bpf_for_each_map_elem. */
static long reuse_send(void *map, const struct bpfprof_gpu_key *key,
		       const struct bpfprof_gpu_count *count, struct reuse *reuse)
{
	(void)map;
	if (key->handle != reuse->kernel.handle || key->pid != reuse->kernel.pid ||
	    key->start_ns != reuse->kernel.start_ns || !counts_kernels(key->function))
		return 0;
	if (!ring_has_room() || reused_send(key, count->calls))
		reuse->lost = 1;
	return 0;
}

/* The handle has another kernel, whose record was sent: now sends the counts of the old one. */
static __noinline int kernel_reused(const struct bpfprof_gpu_graph_key *at)
{
	struct reuse reuse = { .kernel = *at };

	bpf_for_each_map_elem(&gpu_counts, reuse_send, &reuse, 0);
	if (reuse.lost || kernel_send(at, true))
		kernel_unreported(at);
	return 0;
}

/* A handle has a kernel whose name has this hash. Returns BPFPROF_NAME_*: its state before. */
static __noinline __u32 kernel_named(const struct bpfprof_gpu_graph_key *at, __u64 hash)
{
	__u64 *before = bpf_map_lookup_elem(&gpu_kernels, at);

	if (!before) {
		if (hash)
			kernel_add(at, hash);
		return hash ? BPFPROF_NAME_UNSEEN : 0;
	}
	/* Only one of several threads with the same look-up sees the change. */
	return __sync_lock_test_and_set(before, hash) == hash ? 0 : BPFPROF_NAME_REUSED;
}

/*
 * A kernel's handle lies at out, looked up by the name at name, or by the other handle `name`. Not
 * static: see gpu/waits.bpf.h.
 */
__noinline int name_send(__u64 out, __u64 name, __u32 kind)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 start_ns = task->group_leader->start_boottime, handle, hash;
	struct bpfprof_gpu_graph_key at;
	struct bpfprof_gpu_name *e = NULL;
	__u32 pid = task->tgid, flags;
	long len = 0;

	if (bpf_probe_read_user(&handle, 8, (void *)out)) {
		gpu_count(GPU_COUNT_ARGUMENT_FAULT);
		return 0;
	}
	kernel_key(&at, start_ns, pid, handle);
	if (ring_has_room())
		e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e)
		return kernel_unreported(&at);
	record_fill(&e->rec, BPFPROF_KIND_GPU_NAME, sizeof(*e));
	task_id_fill(&e->task, task);
	e->handle = handle;
	e->other = kind == GPU_KIND_ALIAS ? name : 0;
	e->pad = 0;
	e->name[0] = 0;
	if (kind == GPU_KIND_NAME) {
		len = bpf_probe_read_user_str(e->name, sizeof(e->name), (void *)name);
		if (len <= 0) {
			gpu_count(GPU_COUNT_ARGUMENT_FAULT);
			bpf_ringbuf_discard(e, BPF_RB_NO_WAKEUP);
			return kernel_unreported(&at);
		}
		hash = name_hash(e, len);
	} else {
		hash = kernel_find(start_ns, pid, name);
	}
	flags = kernel_named(&at, hash);
	e->flags = flags;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	/* The name is submitted first: user space cannot read past a record that is only reserved. */
	return flags & BPFPROF_NAME_REUSED ? kernel_reused(&at) : 0;
}

#endif
