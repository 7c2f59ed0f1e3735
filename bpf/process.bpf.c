// SPDX-License-Identifier: GPL-2.0-only
/* The life of processes: exec, fork, exit, and new address ranges. */
#include "maps.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define MAP_ANONYMOUS 0x20
#define SIGNAL_GROUP_EXIT 4 /* include/linux/sched/signal.h */

static __always_inline bool is_target(__u32 pid)
{
	return !cfg.filter || target_find(pid);
}

static __always_inline struct bpfprof_process_event *event_new(__u32 kind, struct task_struct *task)
{
	struct bpfprof_process_event *e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);

	if (!e) {
		count_add(BPFPROF_COUNT_EVENT_LOST, 1);
		return NULL;
	}
	record_fill(&e->rec, kind, sizeof(*e));
	task_id_read(&e->task, task);
	BPF_CORE_READ_STR_INTO(&e->comm, task, comm);
	e->va = 0;
	e->len = 0;
	e->cpu_ns = 0;
	e->flags = 0;
	e->parent = 0;
	e->ns_context.mnt_ns = 0;
	e->ns_context.pod_pid = 0;
	e->ns_context.agent_pid = 0;
	return e;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task)
{
	struct bpfprof_process_event *e;
	__u32 *asked = target_entry(task->tgid);

	if (asked && *asked & BPFPROF_TARGET_AT_EXEC)
		__sync_fetch_and_and(asked, ~BPFPROF_TARGET_AT_EXEC);
	if (!is_target(task->tgid))
		return 0;
	e = event_new(BPFPROF_KIND_EXEC, task);
	if (e) {
		ns_context_fill(&e->ns_context, task);
		bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
	}
	return 0;
}

/*
 * Deletes the state of an earlier process with this pid, whose end raised no event. The look-up
 * comes first: there is rarely any, and a delete takes a lock.
 */
static __always_inline void pid_renew(__u32 pid, __u64 start_ns)
{
	struct bpfprof_proc *proc = bpf_map_lookup_elem(&procs, &pid);

	if (target_entry(pid))
		bpf_map_delete_elem(&targets, &pid);
	/* User space may have seen the new process first. */
	if (proc && proc->start_ns != start_ns)
		bpf_map_delete_elem(&procs, &pid);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct bpfprof_fork_event *e;
	__u32 pid = child->tgid, parent_pid = parent->tgid, groups, *asked;

	if (child->pid != child->tgid)
		return 0;
	pid_renew(pid, child->start_boottime);
	asked = cfg.follow ? target_find(parent_pid) : NULL;
	if (asked) {
		groups = *asked;
		__sync_fetch_and_or(&target_bits[pid / 64 % (BPFPROF_TARGET_BITS / 64)],
				    1ULL << pid % 64);
		if (bpf_map_update_elem(&targets, &pid, &groups, BPF_ANY))
			count_add(BPFPROF_COUNT_TARGET_LOST, 1);
	}
	if (cfg.fork_wakes && is_target(parent_pid))
		__sync_fetch_and_add(&target_forks, 1);
	if (!is_target(pid))
		return 0;
	e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e) {
		count_add(BPFPROF_COUNT_EVENT_LOST, 1);
		return 0;
	}
	record_fill(&e->rec, BPFPROF_KIND_FORK, sizeof(*e));
	task_id_read(&e->parent, parent);
	task_id_read(&e->child, child);
	BPF_CORE_READ_STR_INTO(&e->comm, child, comm);
	ns_context_fill(&e->ns_context, child);
	/* If each process is hooked by itself, user space may have to hook the child at once. */
	bpf_ringbuf_submit(e, asked && cfg.fork_wakes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	return 0;
}

/* The status that wait(2) reports is that of the group's end, or else that of the first thread. */
static __always_inline __u32 wait_status(struct task_struct *task, struct signal_struct *signal)
{
	if (BPF_CORE_READ(signal, flags) & SIGNAL_GROUP_EXIT)
		return BPF_CORE_READ(signal, group_exit_code);
	return BPF_CORE_READ(task, group_leader, exit_code);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	struct bpfprof_process_event *e;
	struct signal_struct *signal = BPF_CORE_READ(task, signal);
	__u32 pid = task->tgid;

	/* do_exit() has already taken this thread off the count. */
	if (BPF_CORE_READ(signal, live.counter) > 0 || !is_target(pid))
		return 0;
	e = event_new(BPFPROF_KIND_EXIT, task);
	if (e) {
		e->cpu_ns = BPF_CORE_READ(signal, sum_sched_runtime) + task->se.sum_exec_runtime;
		e->va = wait_status(task, signal);
		e->parent = BPF_CORE_READ(task, real_parent, tgid);
		e->flags = 1;
		bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	}
	return 0;
}

/*
 * mmap, mremap or shmat is about to use this range. Known executable mappings in it are void:
 * samples must not use them any more. If it is for a file, user space reads the mappings a little
 * later.
 */
SEC("tp_btf/vm_unmapped_area")
int BPF_PROG(range_handed_out, unsigned long addr, struct vm_unmapped_area_info *info)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpfprof_process_event *e;
	struct bpfprof_mapping *m, *header;
	struct bpfprof_proc *proc;
	struct pt_regs *regs;
	__u32 pid = task->tgid, at, first;
	__u64 len = info->length;
	bool overlaps;

	proc = bpf_map_lookup_elem(&procs, &pid);
	if (!proc || (long)addr < 0) /* an error code: there is no range */
		return 0;
	first = proc->first;
	header = bpf_map_lookup_elem(&mappings, &first);
	if (!header || header->image != proc->asid)
		return 0;
	at = mapping_upper(first, proc->nr, addr + len - 1) - 1;
	m = at > first ? bpf_map_lookup_elem(&mappings, &at) : NULL;
	overlaps = m && m->start + ((__u64)m->nr_pages << 12) > addr;
	if (overlaps) {
		header->start = 1;
	} else {
		regs = task_regs(task);
		if (regs_syscall(regs) == cfg.mmap_nr &&
		    PT_REGS_PARM4_CORE_SYSCALL(regs) & MAP_ANONYMOUS)
			return 0;
		if (header->off)
			return 0;
	}
	e = event_new(BPFPROF_KIND_MMAP, task);
	if (!e)
		return 0;
	header->off = 1;
	e->va = addr;
	e->len = len;
	e->flags = overlaps;
	bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
	return 0;
}
