// SPDX-License-Identifier: GPL-2.0-only
/* Why processes are killed: the sender of a deadly signal, and the processes that the OOM killer chose. */
#include "maps.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define SIGKILL 9
/*
 * SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGALRM, SIGTERM, SIGXCPU, SIGSYS:
 * without a handler they end a process. Programs that use SIGUSR1 as a message send it without end.
 */
#define DEADLY                                                                                     \
	(1U << 1 | 1U << 2 | 1U << 3 | 1U << 4 | 1U << 5 | 1U << 6 | 1U << 7 | 1U << 8 |           \
	 1U << 11 | 1U << 14 | 1U << 15 | 1U << 24 | 1U << 31)
/* TRACE_SIGNAL_DELIVERED (include/trace/events/signal.h) */
#define SIGNAL_DELIVERED 0
/* Pids are less (include/linux/threads.h), addresses of the kernel are greater. */
#define PID_MAX (1U << 22)
/* Values of a pointer to siginfo for signals that have none (include/linux/sched/signal.h). */
#define SEND_SIG_PRIV ((void *)1)

/* include/uapi/asm-generic/siginfo.h */
#define SI_CODE_OFF 8
#define SI_USER 0
#define SI_QUEUE (-1)
#define SI_TKILL (-6)

#define MAX_CGROUPS 8 /* that of the process and those above it */
#define PAGES_NO_LIMIT ((1ULL << 51) - 1) /* PAGE_COUNTER_MAX, include/linux/page_counter.h */

/* The memory that the cgroup of a process has; NULL: this kernel counts none. */
static __always_inline struct page_counter *memory_counter(struct task_struct *task)
{
	struct cgroup_subsys_state *css = NULL;
	struct mem_cgroup *memcg = NULL;
	struct css_set *set;
	__u64 slot;

	if (!bpf_core_field_exists(task->cgroups) || !bpf_core_field_exists(memcg->memory) ||
	    !bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id))
		return NULL;
	set = BPF_CORE_READ(task, cgroups);
	slot = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
	if (!set ||
	    bpf_probe_read_kernel(&css, sizeof(css),
				  (void *)set + bpf_core_field_offset(struct css_set, subsys) +
					  slot * sizeof(css)) ||
	    !css)
		return NULL;
	memcg = (void *)css - bpf_core_field_offset(struct mem_cgroup, css);
	return (void *)memcg + bpf_core_field_offset(struct mem_cgroup, memory);
}

/*
 * The memory of the cgroup is read here, not by the caller: with its last process the group may go, and what
 * it used is less a moment later.
 */
static __always_inline void cgroup_read(struct bpfprof_kill_event *e, struct task_struct *task)
{
	struct page_counter *counter = task ? memory_counter(task) : NULL;
	__u64 least = PAGES_NO_LIMIT, max, used, left;
	__u32 i;

	e->cgroup_above = 0;
	e->cgroup_max_bytes = e->cgroup_used_bytes = 0;
	for (i = 0; i < MAX_CGROUPS && counter; i++) {
		max = BPF_CORE_READ(counter, max);
		used = BPF_CORE_READ(counter, usage.counter);
		left = max > used ? max - used : 0;
		if (max < PAGES_NO_LIMIT && left < least) {
			least = left;
			e->cgroup_above = i;
			e->cgroup_max_bytes = max * PAGE_BYTES;
			e->cgroup_used_bytes = used * PAGE_BYTES;
		}
		counter = BPF_CORE_READ(counter, parent);
	}
}

static __always_inline void *pid_ns_of(struct task_struct *task, __u32 *ret_nr)
{
	struct pid *pid = BPF_CORE_READ(task, group_leader, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level);
	struct upid *upid = upid_at(pid, level);

	*ret_nr = level ? BPF_CORE_READ(upid, nr) : 0;
	return BPF_CORE_READ(upid, ns);
}

/* The kernel sends signals of its own, such as those of timers, also while any process runs. */
static __always_inline bool is_of_kernel(const void *info)
{
	__s32 code = 0;

	if (info == SEND_SIG_PRIV)
		return true;
	if (!info) /* a process has sent it, by cgroup.kill */
		return false;
	bpf_probe_read_kernel(&code, sizeof(code), info + SI_CODE_OFF);
	return code != SI_USER && code != SI_QUEUE && code != SI_TKILL;
}

/* The facts by which user space tells an end in order from a death. */
static __always_inline void sender_note(struct bpfprof_kill_event *e, struct task_struct *sender,
					struct task_struct *task)
{
	__u32 nr, of_sender;

	if (!task)
		return;
	e->parent = BPF_CORE_READ(task, real_parent, tgid);
	e->start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	if (pid_ns_of(sender, &of_sender) != pid_ns_of(task, &nr))
		e->flags |= BPFPROF_KILL_OUTSIDE;
	else if (of_sender == 1 && nr != 1)
		e->flags |= BPFPROF_KILL_NAMESPACE;
}

/* task: the process that is killed; NULL: not known. */
static __always_inline struct bpfprof_kill_event *kill_new(struct task_struct *task, __u32 signal)
{
	struct bpfprof_kill_event *e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	struct task_struct *sender = bpf_get_current_task_btf();

	if (!e) {
		count_add(BPFPROF_COUNT_EVENT_LOST, 1);
		return NULL;
	}
	record_fill(&e->rec, BPFPROF_KIND_KILL, sizeof(*e));
	e->sender = sender->tgid;
	BPF_CORE_READ_STR_INTO(&e->comm, sender, comm);
	e->flags = 0;
	e->signal = signal;
	e->parent = 0;
	e->start_ns = 0;
	sender_note(e, sender, task);
	cgroup_read(e, task);
	return e;
}

static __always_inline bool is_watched(__u32 pid)
{
	return !cfg.filter || target_find(pid);
}

SEC("?raw_tp/signal_generate")
int BPF_PROG(signal_sent, int sig, void *info, struct task_struct *task, int group, int result)
{
	struct bpfprof_kill_event *e;
	__u32 pid = BPF_CORE_READ(task, tgid);

	/* A process that is killed already may be sent more of them, without end. */
	if (result != SIGNAL_DELIVERED || !is_watched(pid))
		return 0;
	/* Signals to itself need no sender. */
	if (sig != SIGKILL && (!cfg.deaths || (__u32)sig > 31 || !(DEADLY >> sig & 1) ||
			       bpf_get_current_task_btf()->tgid == pid))
		return 0;
	e = kill_new(task, sig);
	if (!e)
		return 0;
	e->pid = pid;
	if (is_of_kernel(info))
		e->flags |= BPFPROF_KILL_KERNEL;
	else
		e->flags &= ~BPFPROF_KILL_NAMESPACE;
	bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* Its first argument is a pid, since Linux 6.8 the task. */
SEC("?raw_tp/mark_victim")
int BPF_PROG(oom_victim, __u64 victim)
{
	struct task_struct *task = victim >= PID_MAX ? (void *)victim : NULL;
	struct bpfprof_kill_event *e;
	__u32 pid = task ? BPF_CORE_READ(task, tgid) : victim;

	if (!is_watched(pid))
		return 0;
	e = kill_new(task, SIGKILL); /* mostly a second event: that of the signal came before */
	if (!e)
		return 0;
	e->pid = pid;
	e->flags |= BPFPROF_KILL_KERNEL | BPFPROF_KILL_OOM;
	bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
	return 0;
}
