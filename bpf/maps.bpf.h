/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_MAPS_BPF_H
#define BPFPROF_BPF_MAPS_BPF_H

/*
 * Maps shared by the BPF programs. max_entries marked "set at load" are sized
 * by user/kernel/session.c within the memory budget.
 */

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpfprof.h"

#define PF_KTHREAD 0x00200000
#define RAY_NAME 0x3a3a796172ULL /* "ray::", as the first five bytes of a name lie in a word */
#define RAY_NAME_MASK 0xffffffffffULL

const volatile struct bpfprof_cfg cfg __weak = {};

/* Everything that is sent. Bytes set at load. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} ring __weak SEC(".maps");

/* Key 0, value: counters of this CPU. Writer: BPF; summed by user space. */
struct counters {
	__u64 count[BPFPROF_NR_COUNTERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters __weak SEC(".maps");

/* Key pid, value its mappings' place. Writer: user space (BPF only sets flags in it). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct bpfprof_proc);
} procs __weak SEC(".maps");

/* Arena of mappings, sorted per process. Writer: user space, memory-mapped. Set at load. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct bpfprof_mapping);
} mappings __weak SEC(".maps");

/*
 * Key pid, value: bits, who asked for the process. Writer: user space, and BPF for new children.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} targets __weak SEC(".maps");

/*
 * Bit pid % BPFPROF_TARGET_BITS: there was such a key in targets once. Of a switch of threads that nobody
 * asked for, looking for them there would cost more than all the rest. Set before the key is added.
 */
__u64 target_bits[BPFPROF_TARGET_BITS / 64] __weak;

static __always_inline __u32 *target_entry(__u32 pid)
{
	if (!(target_bits[pid / 64 % (BPFPROF_TARGET_BITS / 64)] >> pid % 64 & 1))
		return NULL;
	return bpf_map_lookup_elem(&targets, &pid);
}

/* Who asked for the process; NULL: nobody, or not yet. */
static __always_inline __u32 *target_find(__u32 pid)
{
	__u32 *asked = target_entry(pid);

	return asked && !(*asked & BPFPROF_TARGET_AT_EXEC) ? asked : NULL;
}

static __always_inline void count_add(__u32 counter, __u64 n)
{
	__u32 zero = 0;
	struct counters *c = bpf_map_lookup_elem(&counters, &zero);

	if (c && counter < BPFPROF_NR_COUNTERS)
		c->count[counter] += n;
}

/* The registers with which the thread entered the kernel. */
static __always_inline struct pt_regs *task_regs(struct task_struct *task)
{
	return (struct pt_regs *)bpf_task_pt_regs(task);
}

static __always_inline void task_id_fill(struct bpfprof_task_id *id, struct task_struct *task)
{
	id->pid = task->tgid;
	id->tid = task->pid;
	id->start_ns = task->group_leader->start_boottime;
	id->exec_id = task->self_exec_id;
}

/*
 * Which mount namespace: the number of its inode goes to the next one as soon as it is gone, so that
 * is the last resort. ns_id since 6.18; seq until then counts all that there were since boot.
 */
struct mnt_namespace___6_17 {
	__u64 seq;
} __attribute__((preserve_access_index));

struct ns_common___6_18 {
	__u64 ns_id;
} __attribute__((preserve_access_index));

static __always_inline __u64 mnt_ns_number(struct task_struct *task)
{
	struct mnt_namespace *ns = BPF_CORE_READ(task, nsproxy, mnt_ns);
	struct mnt_namespace___6_17 *old = (void *)ns;
	struct ns_common___6_18 *newest =
		(void *)ns + bpf_core_field_offset(struct mnt_namespace, ns);

	if (bpf_core_field_exists(newest->ns_id))
		return BPF_CORE_READ(newest, ns_id);
	if (bpf_core_field_exists(old->seq))
		return BPF_CORE_READ(old, seq);
	return BPF_CORE_READ(ns, ns.inum);
}

/* Read, not followed: Linux 6.1 adds no variable to a pointer that it knows. */
static __always_inline struct upid *upid_at(struct pid *pid, __u32 level)
{
	return (void *)pid + bpf_core_field_offset(struct pid, numbers) +
	       level * bpf_core_type_size(struct upid);
}

#define PID_LEVELS 5 /* how deep our own pid namespace may be: 1 in kind, 2 in a container there */

/* For rare events only: some probe reads. */
static __always_inline void place_fill(struct bpfprof_place *place, struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, group_leader, thread_pid);
	__u32 i, level = BPF_CORE_READ(pid, level);
	struct upid *upid = upid_at(pid, level);

	place->mnt_ns = mnt_ns_number(task);
	place->pod_pid = BPF_CORE_READ(upid, nr);
	place->agent_pid = task->tgid;
	if (!cfg.pid_ns) /* known when it is loaded: nothing of the rest is there then */
		return;
	place->agent_pid = 0;
	for (i = 1; i < PID_LEVELS; i++) {
		if (i > level)
			break;
		upid = upid_at(pid, i);
		if (BPF_CORE_READ(upid, ns, ns.inum) == cfg.pid_ns)
			place->agent_pid = BPF_CORE_READ(upid, nr);
	}
}

static __always_inline void record_fill(struct bpfprof_record *rec, __u32 kind, __u32 size)
{
	rec->kind = kind;
	rec->size = size;
	rec->ts_ns = bpf_ktime_get_ns();
	rec->cpu = bpf_get_smp_processor_id();
	rec->pad = 0;
}

/*
 * Index after the last mapping of [first, first + nr] (slice header at first)
 * that starts at or below va; first + 1 if none does.
 */
static __always_inline __u32 mapping_upper(__u32 first, __u32 nr, __u64 va)
{
	__u32 lo = first + 1, hi = first + 1 + nr, mid, i;
	struct bpfprof_mapping *m;

	for (i = 0; i < 17 && lo < hi; i++) {
		mid = lo + (hi - lo) / 2;
		m = bpf_map_lookup_elem(&mappings, &mid);
		if (!m)
			break;
		if (m->start <= va)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

#endif
