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
/* SIGHUP, SIGINT, SIGQUIT, SIGTERM: a process with a handler ends by them in order. */
#define REQUESTS (1U << 1 | 1U << 2 | 1U << 3 | 1U << 15)
/* TRACE_SIGNAL_DELIVERED (include/trace/events/signal.h) */
#define SIGNAL_DELIVERED 0
/* Pids are less (include/linux/threads.h), addresses of the kernel are greater. */
#define PID_MAX (1U << 22)
/* Values of a pointer to siginfo for signals that have none (include/linux/sched/signal.h). */
#define SEND_SIG_PRIV ((void *)1)

/* include/uapi/asm-generic/siginfo.h */
#define SI_CODE_OFF 8
#define SI_TIMER (-2)

#define PF_EXITING 0x4 /* include/linux/sched.h */
#define KERNEL_STACK_BYTES 32768 /* the largest of a thread; most have half of it */
#define MAX_ANCESTORS 8
#define NS_PER_SECOND 1000000000ULL
#define SENT_PER_SECOND 4 /* records of signals of a kind to a process */
#define MAX_CGROUPS 8 /* that of the process and those above it */
#define PAGES_NO_LIMIT ((1ULL << 51) - 1) /* PAGE_COUNTER_MAX, include/linux/page_counter.h */

enum sent_kind { SENT_FAULT, SENT_REQUEST, SENT_NR_KINDS };

struct sent_key {
	__u32 pid;
	__u32 kind; /* enum sent_kind: user space keeps the last signal of each */
};

struct sent {
	__u64 since_ns;
	__u32 nr; /* signals since then */
	__u32 waits; /* 1: the last signal has no record yet */
	struct bpfprof_kill_event last;
};

/* The last signals that a process was sent. Writer: BPF, which holds the lock of the signals of the process. */
MAP(signals_sent, LRU_HASH, 1024, struct sent_key, struct sent, 0);

static const struct sent no_signals;

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

/*
 * The kernel sends signals of its own, such as those of timers, also while any process runs. A sender may choose
 * any code of 0 or less. The code of a POSIX timer counts only from the timer's own memory: the siginfo of a
 * sender lies on its kernel stack.
 */
static __always_inline bool is_of_kernel(const void *info, struct task_struct *sender)
{
	__u64 at;
	__s32 code = 0;

	if (info == SEND_SIG_PRIV)
		return true;
	if (!info) /* cgroup.kill and PR_SET_PDEATHSIG, by the process that runs */
		return false;
	bpf_probe_read_kernel(&code, sizeof(code), info + SI_CODE_OFF);
	at = (__u64)info - (__u64)BPF_CORE_READ(sender, stack);
	return code > 0 || (code == SI_TIMER && at >= KERNEL_STACK_BYTES);
}

static __always_inline bool is_ancestor(struct task_struct *sender, struct task_struct *task)
{
	__u32 i, pid = sender->tgid;

	for (i = 0; i < MAX_ANCESTORS && task; i++) {
		task = BPF_CORE_READ(task, real_parent);
		if (BPF_CORE_READ(task, tgid) == pid)
			return true;
	}
	return false;
}

/*
 * timeout(1) and shells signal their whole process group. A process of it may have lost its parent by then, so that
 * the leader is no ancestor any more.
 */
static __always_inline bool is_leader(struct task_struct *sender, struct task_struct *task)
{
	struct pid *own = BPF_CORE_READ(sender, group_leader, thread_pid);

	return own == BPF_CORE_READ(task, signal, pids[PIDTYPE_PGID]) ||
	       own == BPF_CORE_READ(task, signal, pids[PIDTYPE_SID]);
}

/* A process that ends sends PR_SET_PDEATHSIG of its children, which have another parent by then. */
static __always_inline bool is_parent_death(__u32 signal, const void *info,
					    struct task_struct *sender, struct task_struct *task)
{
	return !info && sender->flags & PF_EXITING && signal == BPF_CORE_READ(task, pdeath_signal);
}

/* The facts by which user space tells an end in order from a death. info: of the signal. */
static __always_inline void sender_note(struct bpfprof_kill_event *e, struct task_struct *sender,
					struct task_struct *task, const void *info)
{
	__u32 nr, of_sender;
	bool inside;

	e->parent = BPF_CORE_READ(task, real_parent, tgid);
	e->start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	inside = pid_ns_of(sender, &of_sender) == pid_ns_of(task, &nr);
	if (!inside)
		e->flags |= BPFPROF_KILL_OUTSIDE;
	if (is_of_kernel(info, sender)) {
		e->flags |= BPFPROF_KILL_KERNEL;
		if (inside && of_sender == 1 && nr != 1)
			e->flags |= BPFPROF_KILL_NAMESPACE;
	} else if (is_ancestor(sender, task) || is_leader(sender, task) ||
		   is_parent_death(e->signal, info, sender, task)) {
		e->flags |= BPFPROF_KILL_ABOVE;
	}
}

/* task: the process that is killed; NULL: not known. */
static __always_inline void kill_fill(struct bpfprof_kill_event *e, struct task_struct *task,
				      __u32 pid, __u32 signal, const void *info)
{
	struct task_struct *sender = bpf_get_current_task_btf();

	record_fill(&e->rec, BPFPROF_KIND_KILL, sizeof(*e));
	e->pid = pid;
	e->sender = sender->tgid;
	BPF_CORE_READ_STR_INTO(&e->comm, sender, comm);
	e->flags = 0;
	e->cgroup_above = 0;
	e->cgroup_max_bytes = e->cgroup_used_bytes = 0;
	e->signal = signal;
	e->parent = 0;
	e->start_ns = 0;
	if (task)
		sender_note(e, sender, task, info);
	if (signal == SIGKILL)
		cgroup_read(e, task);
}

static __always_inline bool is_watched(__u32 pid)
{
	return !cfg.filter || target_find(pid);
}

/* Sends a kill at once, with these flags on top. */
static __always_inline void kill_send(struct task_struct *task, __u32 pid, const void *info,
				      __u32 flags)
{
	struct bpfprof_kill_event *e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);

	if (!e) {
		count_add(BPFPROF_COUNT_EVENT_LOST, 1);
		return;
	}
	kill_fill(e, task, pid, SIGKILL, info);
	e->flags |= flags;
	bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
}

static __always_inline void sent_output(struct sent *sent)
{
	sent->waits = 0;
	if (bpf_ringbuf_output(&ring, &sent->last, sizeof(sent->last), BPF_RB_NO_WAKEUP))
		count_add(BPFPROF_COUNT_EVENT_LOST, 1);
}

/*
 * A process may handle thousands of signals a second. Those over the rate wait here, each in place of the one
 * before, and the last one gets its record when the process ends.
 */
static __always_inline void signal_note(struct task_struct *task, __u32 pid, __u32 signal,
					const void *info)
{
	struct sent_key key = { .pid = pid,
				.kind = REQUESTS >> signal & 1 ? SENT_REQUEST : SENT_FAULT };
	struct sent *sent = bpf_map_lookup_elem(&signals_sent, &key);
	__u64 now = bpf_ktime_get_ns();

	if (!sent) {
		bpf_map_update_elem(&signals_sent, &key, &no_signals, BPF_ANY);
		sent = bpf_map_lookup_elem(&signals_sent, &key);
		if (!sent)
			return;
	}
	if (now - sent->since_ns > NS_PER_SECOND) {
		sent->since_ns = now;
		sent->nr = 0;
	}
	kill_fill(&sent->last, task, pid, signal, info);
	sent->waits = 1;
	if (sent->nr++ < SENT_PER_SECOND)
		sent_output(sent);
}

SEC("?raw_tp/signal_generate")
int BPF_PROG(signal_sent, int number, void *info, struct task_struct *task, int group, int result)
{
	__u32 pid = BPF_CORE_READ(task, tgid), signal = number;
	struct task_struct *sender = bpf_get_current_task_btf();

	/* A process that is killed already may be sent more of them, without end. */
	if (result != SIGNAL_DELIVERED || !is_watched(pid))
		return 0;
	if (signal == SIGKILL) {
		kill_send(task, pid, info, 0);
		return 0;
	}
	/* Signals to itself need no sender. */
	if (!cfg.deaths || signal > 31 || !(DEADLY >> signal & 1) || sender->tgid == pid)
		return 0;
	/* A signal of the kernel explains an end only if it is a request, as a terminal sends it. */
	if (REQUESTS >> signal & 1 || !is_of_kernel(info, sender))
		signal_note(task, pid, signal, info);
	return 0;
}

static __always_inline void sent_end(__u32 pid, __u64 start_ns, __u32 kind)
{
	struct sent_key key = { .pid = pid, .kind = kind };
	struct sent *sent = bpf_map_lookup_elem(&signals_sent, &key);

	if (!sent)
		return;
	if (sent->waits && sent->last.start_ns == start_ns)
		sent_output(sent);
	bpf_map_delete_elem(&signals_sent, &key);
}

/* It is attached before process_exit, so that user space has all signals of a process when that ends. */
SEC("?raw_tp/sched_process_exit")
int BPF_PROG(signals_end, struct task_struct *task)
{
	__u32 pid = BPF_CORE_READ(task, tgid);
	__u64 start_ns;
	__u32 kind;

	if (BPF_CORE_READ(task, signal, live.counter) > 0)
		return 0;
	start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	for (kind = 0; kind < SENT_NR_KINDS; kind++)
		sent_end(pid, start_ns, kind);
	return 0;
}

/* Its first argument is a pid, since Linux 6.8 the task. */
SEC("?raw_tp/mark_victim")
int BPF_PROG(oom_victim, __u64 victim)
{
	struct task_struct *task = victim >= PID_MAX ? (void *)victim : NULL;
	__u32 pid = task ? BPF_CORE_READ(task, tgid) : victim;

	if (is_watched(pid)) /* mostly a second event: that of the signal came before */
		kill_send(task, pid, SEND_SIG_PRIV, BPFPROF_KILL_KERNEL | BPFPROF_KILL_OOM);
	return 0;
}
