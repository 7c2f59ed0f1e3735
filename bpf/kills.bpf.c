// SPDX-License-Identifier: GPL-2.0-only
/* Why processes are killed: who sent SIGKILL, and which processes the OOM killer chose. */
#include "maps.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define SIGKILL 9
/* TRACE_SIGNAL_DELIVERED (include/trace/events/signal.h) */
#define SIGNAL_DELIVERED 0
/* Pids are less (include/linux/threads.h), addresses of the kernel are greater. */
#define PID_MAX (1U << 22)
/* Values of a pointer to siginfo for signals that have none (include/linux/sched/signal.h). */
#define SEND_SIG_PRIV ((void *)1)

static __always_inline struct bpfprof_kill_event *kill_new(void)
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
	e->pad = 0;
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
	if (sig != SIGKILL || result != SIGNAL_DELIVERED || !is_watched(pid))
		return 0;
	e = kill_new();
	if (!e)
		return 0;
	e->pid = pid;
	if (info == SEND_SIG_PRIV)
		e->flags = BPFPROF_KILL_KERNEL;
	bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* Its first argument is a pid, since Linux 6.8 the task. */
SEC("?raw_tp/mark_victim")
int BPF_PROG(oom_victim, __u64 victim)
{
	struct bpfprof_kill_event *e;
	__u32 pid = victim;

	if (victim >= PID_MAX)
		pid = BPF_CORE_READ((struct task_struct *)victim, tgid);
	if (!is_watched(pid))
		return 0;
	e = kill_new();
	if (!e)
		return 0;
	e->pid = pid;
	e->flags = BPFPROF_KILL_KERNEL | BPFPROF_KILL_OOM;
	bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
	return 0;
}
