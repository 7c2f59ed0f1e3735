/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_KERNELS_BPF_H
#define BPFPROF_BPF_GPU_KERNELS_BPF_H

/*
 * Which handles are kernels', and by which name they were looked up. Launches are counted by handle, and
 * when a module is unloaded its kernels' handles may be given to others. That is noticed where a look-up by
 * another name has the same result: no launch of the new kernel can have been made yet, and those
 * that were counted are all of the one before. How many they are by then, of each key, is told to
 * user space, which takes them apart; launches themselves pay nothing for that. Only when all is told
 * does the new name hold: else the launches have no name until the handle is looked up again.
 */

#include "gpu/maps.bpf.h"

/*
 * Value: hash of the name; 0: it was launched, or looked up by the handle of one that is not known, before
 * any name of it was told, or what was to be told of it got lost. Writer: BPF; user space deletes those of processes that are gone.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bpfprof_gpu_graph_key);
	__type(value, __u64);
} gpu_kernels SEC(".maps");

struct name_sum {
	const struct bpfprof_gpu_name *e;
	__u64 hash;
	__u32 len; /* with the NUL */
	__u32 pad;
};

/* Eight bytes more; a step of bpf_loop: the verifier goes through it once. */
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

/* Of a name of len bytes, with its NUL; not 0. */
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

/* Of the name of a kernel; 0: none is known. */
static __noinline __u64 kernel_find(__u64 start_ns, __u32 pid, __u64 handle)
{
	struct bpfprof_gpu_graph_key key;
	__u64 *hash;

	kernel_key(&key, start_ns, pid, handle);
	hash = bpf_map_lookup_elem(&gpu_kernels, &key);
	return hash ? *hash : 0;
}

/* One more handle, unless it is known. -1: there is no room, and what becomes of it cannot be noticed. */
static __noinline int kernel_add(const struct bpfprof_gpu_graph_key *key, __u64 hash)
{
	struct bpfprof_gpu_process_key process = { .start_ns = key->start_ns, .pid = key->pid };
	struct bpfprof_gpu_process *p = process_get(&process);

	if (p && p->kernels < BPFPROF_GPU_MAX_KERNELS &&
	    !bpf_map_update_elem(&gpu_kernels, key, &hash, BPF_NOEXIST)) {
		__sync_fetch_and_add(&p->kernels, 1);
		return 0;
	}
	if (p && bpf_map_lookup_elem(&gpu_kernels, key)) /* it was there */
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

/* A call is the first with that key. */
static __noinline int kernel_launched(const struct bpfprof_gpu_key *key)
{
	struct bpfprof_gpu_graph_key at;

	if (!counts_kernels(key->function))
		return 0;
	kernel_key(&at, key->start_ns, key->pid, key->handle);
	return kernel_add(&at, 0);
}

/* A call that is none. -1: there is no room to tell it. */
static __noinline int key_tell(const struct bpfprof_gpu_key *key, __u64 calls, __u32 flags)
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

/* With that key so many calls were counted by now. */
static __always_inline int reused_tell(const struct bpfprof_gpu_key *key, __u64 calls)
{
	return key_tell(key, calls, BPFPROF_CALL_REUSED);
}

/* The same of the kernel: whether all has been told of it. */
static __noinline int kernel_tell(const struct bpfprof_gpu_graph_key *at, bool all)
{
	struct bpfprof_gpu_key key = { .start_ns = at->start_ns,
				       .pid = at->pid,
				       .handle = at->handle };

	return reused_tell(&key, all);
}

/* The name of a kernel, or what was counted of the one before, gets lost: the next look-up is to tell that. */
static __noinline int kernel_unreported(const struct bpfprof_gpu_graph_key *at)
{
	int err = kernel_tell(at, false);
	__u64 *hash = bpf_map_lookup_elem(&gpu_kernels, at);

	gpu_count(GPU_COUNT_NAMES_LOST);
	if (hash) /* after that was told: who finds it tells more */
		*hash = 0;
	else if (!err) /* who has elements is to be known */
		kernel_add(at, 0);
	return 0;
}

struct reuse {
	struct bpfprof_gpu_graph_key kernel;
	__u32 lost; /* some key could not be told: a number of them the verifier would count, too */
	__u32 pad;
};

/* Tells how often a key was counted, if it is the kernel's; of bpf_for_each_map_elem. */
static long reuse_send(void *map, const struct bpfprof_gpu_key *key,
		       const struct bpfprof_gpu_count *count, struct reuse *reuse)
{
	(void)map;
	if (key->handle != reuse->kernel.handle || key->pid != reuse->kernel.pid ||
	    key->start_ns != reuse->kernel.start_ns || !counts_kernels(key->function))
		return 0;
	if (!ring_has_room() || reused_tell(key, count->calls))
		reuse->lost = 1;
	return 0;
}

/* A handle is another kernel's, which has been told: now what was counted of the one before. */
static __noinline int kernel_reused(const struct bpfprof_gpu_graph_key *at)
{
	struct reuse reuse = { .kernel = *at };

	bpf_for_each_map_elem(&gpu_counts, reuse_send, &reuse, 0);
	if (reuse.lost || kernel_tell(at, true))
		kernel_unreported(at);
	return 0;
}

/* A handle is that of a kernel whose name has that hash. BPFPROF_NAME_*: what that says of it before. */
static __noinline __u32 kernel_named(const struct bpfprof_gpu_graph_key *at, __u64 hash)
{
	__u64 *before = bpf_map_lookup_elem(&gpu_kernels, at);

	if (!before) {
		if (hash)
			kernel_add(at, hash);
		return hash ? BPFPROF_NAME_UNSEEN : 0;
	}
	/* Of several threads that look it up at once one has noticed. */
	return __sync_lock_test_and_set(before, hash) == hash ? 0 : BPFPROF_NAME_REUSED;
}

/*
 * A kernel's handle lies at out now, looked up by the name at name, or by the other handle `name`. Not
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
