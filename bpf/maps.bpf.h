/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_MAPS_BPF_H
#define BPFPROF_BPF_MAPS_BPF_H

/*
 * Maps shared by the BPF programs. user/kernel/session.c sets max_entries marked "set at load",
 * within the memory budget.
 */

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpfprof.h"
#include "map.bpf.h"

#define PF_KTHREAD 0x00200000
#define RAY_NAME 0x3a3a796172ULL /* "ray::", the first five bytes of a name as one word */
#define RAY_NAME_MASK 0xffffffffffULL

const volatile struct bpfprof_cfg cfg __weak = {};

/* All records. Size set at load. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} ring __weak SEC(".maps");

/* Key 0, value: counters of this CPU. Writer: BPF; user space sums them. */
struct counters {
	__u64 count[BPFPROF_NR_COUNTERS];
};

PERCPU_MAP(counters, struct counters);

/* Key pid, value: the state of its mappings. Writer: user space (BPF only sets flags). */
HASH_MAP(procs, 16384, __u32, struct bpfprof_proc);

/* Arena of mappings, sorted per process. Writer: user space, memory-mapped. Size set at load. */
MMAPABLE_MAP(mappings, 65536, struct bpfprof_mapping);

/*
 * Key pid, value: bits of the requesters of the process. Writer: user space, and BPF for new
 * children.
 */
HASH_MAP(targets, 32768, __u32, __u32);

/*
 * Bit pid % BPFPROF_TARGET_BITS: targets once had such a key. A look-up in targets would be the
 * largest cost of a switch between threads that are no targets. The bit is set before the key is
 * added.
 */
__u64 target_bits[BPFPROF_TARGET_BITS / 64] __weak;

/* Forks of targets, with cfg.fork_wakes. Their children have the breakpoints of uprobes, too. Writer: BPF. */
__u64 target_forks __weak;

static __always_inline __u32 *target_entry(__u32 pid)
{
	if (!(target_bits[pid / 64 % (BPFPROF_TARGET_BITS / 64)] >> pid % 64 & 1))
		return NULL;
	return bpf_map_lookup_elem(&targets, &pid);
}

/* The bits of a target; NULL: the process is no target, or not before its next exec. */
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

/* The user registers at the thread's entry into the kernel. */
static __always_inline struct pt_regs *task_regs(struct task_struct *task)
{
	return (struct pt_regs *)bpf_task_pt_regs(task);
}

/* Returns the thread group leader: a second load of it costs the verifier as much as this one. */
static __always_inline struct task_struct *task_id_fill(struct bpfprof_task_id *id,
							struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;

	id->pid = task->tgid;
	id->tid = task->pid;
	id->start_ns = leader->start_boottime;
	id->exec_id = task->self_exec_id;
	return leader;
}

/*
 * As task_id_fill(), for rare events: it has no plain load of a pointer, as each makes the verifier look
 * through all types.
 */
static __always_inline void task_id_read(struct bpfprof_task_id *id, struct task_struct *task)
{
	id->pid = task->tgid;
	id->tid = task->pid;
	id->start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	id->exec_id = task->self_exec_id;
}

/*
 * Numbers of mount namespaces. The inode number is the last resort, because the next namespace may
 * reuse it. ns_id exists since 6.18; before, seq counts all namespaces since boot.
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

/* A computed address: Linux 6.1 allows no variable offset from a pointer that it knows. */
static __always_inline struct upid *upid_at(struct pid *pid, __u32 level)
{
	return (void *)pid + bpf_core_field_offset(struct pid, numbers) +
	       level * bpf_core_type_size(struct upid);
}

/* Depth of our own pid namespace, at most: 1 in kind, 2 in a container there. */
#define PID_LEVELS 5

/* For rare events only: it takes several probe reads. */
static __always_inline void ns_context_fill(struct bpfprof_ns_context *ns, struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, group_leader, thread_pid);
	__u32 i, level = BPF_CORE_READ(pid, level);
	struct upid *upid = upid_at(pid, level);

	ns->mnt_ns = mnt_ns_number(task);
	ns->pod_pid = BPF_CORE_READ(upid, nr);
	ns->agent_pid = task->tgid;
	if (!cfg.pid_ns) /* a constant at load, so the verifier drops the rest then */
		return;
	ns->agent_pid = 0;
	for (i = 1; i < PID_LEVELS; i++) {
		if (i > level)
			break;
		upid = upid_at(pid, i);
		if (BPF_CORE_READ(upid, ns, ns.inum) == cfg.pid_ns)
			ns->agent_pid = BPF_CORE_READ(upid, nr);
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
 * Index after the last mapping in [first, first + nr] (slice header at first) that starts at or
 * below va; first + 1 if there is none.
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
