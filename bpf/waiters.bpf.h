/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_WAITERS_BPF_H
#define BPFPROF_BPF_WAITERS_BPF_H

/*
 * What every thread that is watched with --wall or --off-cpu does at the moment, and the time of it
 * that no sample has told yet. Each thread's entry is written where it is switched, with the lock of
 * its run queue held, and in interrupts on the CPU that it runs on: never by two at once.
 */
#include "walk.bpf.h"
#include "wait_times.h"

#define NS_PER_MS 1000000

/*
 * Key tid. All memory is there from the beginning: nothing can be allocated with a run queue's lock
 * held. Set at load.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, struct bpfprof_waiter);
} waiters __weak SEC(".maps");

/* What an entry is made in; too large for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bpfprof_waiter);
} new_waiters __weak SEC(".maps");

/* Writer: user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bpfprof_wait_control);
} wait_control __weak SEC(".maps");

struct wait_counters {
	__u64 count[WAIT_NR_COUNTERS];
};

/* Key 0, value: counters of this CPU. Writer: BPF; summed by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wait_counters);
} wait_counters __weak SEC(".maps");

static __always_inline bool is_watched(struct task_struct *task)
{
	__u32 pid = task->tgid;

	if (!task->pid)
		return false;
	if (cfg.filter)
		return bpf_map_lookup_elem(&targets, &pid);
	return !(task->flags & PF_KTHREAD);
}

/* Of a CPU: what it may still take. */
struct token_bucket {
	__u64 refill_ms; /* when tokens were counted */
	__u32 tokens;
	__u32 pad;
};

static __always_inline bool token_take(struct token_bucket *bucket,
				       const struct bpfprof_wait_control *control, __u32 max,
				       __u64 now)
{
	__u64 ms = now / NS_PER_MS, passed = ms - bucket->refill_ms;

	if (passed) {
		bucket->refill_ms = ms;
		if (passed > max)
			passed = max;
		passed = passed * control->tokens_per_ms + bucket->tokens;
		bucket->tokens = passed < max ? passed : max;
	}
	if (!bucket->tokens)
		return false;
	bucket->tokens--;
	return true;
}

/* What tells a wait from others of its thread, by when it began: not 0. */
static __always_inline __u32 wait_nr(__u64 since_ns)
{
	return (__u32)since_ns | 1;
}

/*
 * What the thread has waited for a CPU in all its life, as the kernel counts it when it gets one: so
 * nobody has to note when it is woken. Not with every configuration of the kernel.
 */
#define DELAYS_ARE_COUNTED(task) bpf_core_field_exists((task)->sched_info.run_delay)

static __always_inline __u64 task_delay_ns(struct task_struct *task)
{
	return DELAYS_ARE_COUNTED(task) ? task->sched_info.run_delay : 0;
}

static __always_inline void wait_count_add(__u32 counter, __u64 n)
{
	__u32 zero = 0;
	struct wait_counters *c = bpf_map_lookup_elem(&wait_counters, &zero);

	if (c && counter < WAIT_NR_COUNTERS)
		c->count[counter] += n;
}

static __always_inline void wait_count(__u32 counter)
{
	wait_count_add(counter, 1);
}

/* Of a wait that has no sample of its own: a later one tells the time. */
static __always_inline void waiter_owe(struct bpfprof_waiter *w, __u64 ns)
{
	wait_count_add(WAIT_COUNT_LATER_NS, ns);
	w->owed_ns += ns;
	w->due_ns += ns;
}

static __always_inline struct bpfprof_wait_control *wait_control_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&wait_control, &zero);
}

/*
 * Which short wait of a period is sampled is left to chance each time: those of a thread that waits by
 * turns in two places would else be found in one of them.
 */
static __always_inline __u64 point_choose(__u64 period)
{
	return period ? bpf_get_prandom_u32() % period : 0;
}

/*
 * The thread's entry, made if there is none. What it did until now it has done since the recording
 * began or, if it is younger, since it did itself: state is what that was.
 */
static __always_inline struct bpfprof_waiter *waiter_get(struct task_struct *task, __u32 state)
{
	__u32 tid = task->pid, zero = 0;
	struct bpfprof_waiter *w = bpf_map_lookup_elem(&waiters, &tid), *fresh;
	struct bpfprof_wait_control *control;

	if (w && w->task.start_ns == task->group_leader->start_boottime)
		return w;
	control = wait_control_get();
	fresh = bpf_map_lookup_elem(&new_waiters, &zero);
	if (!control || !fresh)
		return NULL;
	task_id_fill(&fresh->task, task);
	comm_copy(fresh->comm, task);
	comm_copy(fresh->leader_comm, task->group_leader);
	fresh->since_ns = control->start_ns;
	fresh->state = state;
	if (task->start_boottime > control->start_boot_ns) {
		fresh->since_ns += task->start_boottime - control->start_boot_ns;
		if (state == THREAD_SLEEPS) /* nobody sleeps before having run */
			fresh->state = THREAD_RUNNABLE;
	}
	fresh->wake_ns = 0;
	fresh->delay_ns = task_delay_ns(task);
	fresh->run_ns = 0;
	fresh->owed_ns = 0;
	fresh->due_ns = 0;
	fresh->past_ns = 0;
	fresh->point_ns = point_choose(control->period_ns);
	if (bpf_map_update_elem(&waiters, &tid, fresh, BPF_ANY)) {
		wait_count(WAIT_COUNT_FULL);
		return NULL;
	}
	return bpf_map_lookup_elem(&waiters, &tid);
}

/*
 * It runs, but that it came back was not told, as by kernels that keep some tasks from being traced:
 * what it does since then is not known any more. A later sample tells the time.
 */
static __always_inline void waiter_found_running(struct bpfprof_waiter *w, __u64 now)
{
	wait_count(WAIT_COUNT_UNSEEN);
	if (now > w->since_ns && (cfg.wall || w->state != THREAD_RUNNABLE))
		waiter_owe(w, now - w->since_ns);
	w->state = THREAD_RUNS;
	w->since_ns = now;
}

/* For a sample of the clock: all the time that its thread has run since the last one. */
static __always_inline __u64 waiter_run_take(struct task_struct *task, __u64 now, __u64 period_ns)
{
	struct bpfprof_waiter *w = waiter_get(task, THREAD_RUNS);
	__u64 ns;

	if (!w)
		return period_ns;
	if (w->state != THREAD_RUNS)
		waiter_found_running(w, now);
	if (now < w->since_ns)
		return 0;
	ns = w->run_ns + now - w->since_ns;
	w->run_ns = 0;
	w->since_ns = now;
	return ns;
}

#endif
