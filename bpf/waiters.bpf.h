/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_WAITERS_BPF_H
#define BPFPROF_BPF_WAITERS_BPF_H

/*
 * The state of every thread that --wall or --off-cpu watches, and its time that is in no sample
 * yet. The entry of a thread is written where it is switched, with the lock of its run queue held,
 * and in interrupts on the CPU that it runs on: never twice at a time.
 */
#include "send.bpf.h"
#include "wait_times.h"

#define NS_PER_MS 1000000

/*
 * See wait_times.h. An array, because look-ups are the largest cost of a switch. All its memory
 * exists from the beginning, because nothing can be allocated while a lock of a run queue is held.
 */
MMAPABLE_MAP(waiters, BPFPROF_WAITER_PLACES, struct bpfprof_waiter);

/* Times and limits, see struct bpfprof_wait_control. Writer: user space. */
ARRAY_MAP(wait_control, 1, struct bpfprof_wait_control);

struct wait_counters {
	__u64 count[WAIT_NR_COUNTERS];
};

/* Key 0, value: counters of this CPU. Writer: BPF; user space sums them. */
PERCPU_MAP(wait_counters, struct wait_counters);

static __always_inline bool is_watched(struct task_struct *task)
{
	if (!task->pid)
		return false;
	if (cfg.filter)
		return target_find(task->tgid);
	return !(task->flags & PF_KTHREAD);
}

/* Rate limit of a CPU. */
struct token_bucket {
	__u64 refill_ms; /* last time that tokens were added */
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

/* Number of a wait in its thread, from its begin: not 0. */
static __always_inline __u32 wait_nr(__u64 since_ns)
{
	return (__u32)since_ns | 1;
}

/*
 * The time that the thread has waited for a CPU since it began; the kernel counts it when the
 * thread gets a CPU, so BPF need not watch wake-ups. Not every configuration of the kernel has it.
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

/* Adds the time of a wait without a sample; a later sample has it. */
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
 * The point of the next period at which a short wait is sampled, at random. With a fixed point, a
 * thread that waits in two places by turns would always be found in one of them.
 */
static __always_inline __u64 point_choose(__u64 period)
{
	return period ? bpf_get_prandom_u32() % period : 0;
}

static __always_inline struct bpfprof_waiter *waiter_at(__u32 tid, __u32 probe)
{
	__u32 place = waiter_place(tid, probe);

	return bpf_map_lookup_elem(&waiters, &place);
}

static __noinline struct bpfprof_waiter *waiter_find_further(__u32 tid)
{
	struct bpfprof_waiter *w;
	__u32 i;

	for (i = 1; i < BPFPROF_WAITER_PROBES; i++) {
		w = waiter_at(tid, i);
		if (w && w->task.tid == tid)
			return w;
	}
	return NULL;
}

/* The entry of a thread, or of an earlier thread with its number; or NULL. */
static __always_inline struct bpfprof_waiter *waiter_find(__u32 tid)
{
	struct bpfprof_waiter *w = waiter_at(tid, 0);

	return w && w->task.tid == tid ? w : waiter_find_further(tid);
}

static __always_inline struct bpfprof_waiter *waiter_take(__u32 tid)
{
	struct bpfprof_waiter *w;
	__u32 i;

	for (i = 0; i < BPFPROF_WAITER_PROBES; i++) {
		w = waiter_at(tid, i);
		if (w && !w->task.tid && !__sync_val_compare_and_swap(&w->task.tid, 0, tid))
			return w;
	}
	wait_count(WAIT_COUNT_FULL);
	w = waiter_at(tid, 0);
	if (w)
		w->refused = 1;
	return NULL;
}

/* Makes the entry of a thread, in the place of an earlier thread's if there is one. */
static __noinline struct bpfprof_waiter *waiter_begin(struct task_struct *task,
						      struct bpfprof_waiter *w, __u32 state)
{
	struct bpfprof_wait_control *control = wait_control_get();

	if (!control)
		return NULL;
	if (!w)
		w = waiter_take(task->pid);
	if (!w)
		return NULL;
	task_id_fill(&w->task, task);
	comm_copy(w->comm, task);
	comm_copy(w->leader_comm, task->group_leader);
	w->since_ns = control->start_ns;
	if (task->start_boottime > control->start_boot_ns) {
		w->since_ns += task->start_boottime - control->start_boot_ns;
		if (state == THREAD_SLEEPS) /* a thread runs before it sleeps */
			state = THREAD_RUNNABLE;
	}
	w->wake_ns = 0;
	w->delay_ns = task_delay_ns(task);
	w->run_ns = 0;
	w->owed_ns = 0;
	w->due_ns = 0;
	w->past_ns = 0;
	w->point_ns = point_choose(control->period_ns);
	w->state = state;
	return w;
}

/*
 * The entry of a thread; makes one if there is none. A new entry assumes that the thread has been
 * in this state since the recording began, or since it began itself.
 */
static __always_inline struct bpfprof_waiter *waiter_get(struct task_struct *task, __u32 state)
{
	struct bpfprof_waiter *w = waiter_find(task->pid);

	if (w && w->task.start_ns == task->group_leader->start_boottime)
		return w;
	return waiter_begin(task, w, state);
}

/*
 * The thread runs, but no event showed its return to the CPU; kernels keep some tasks from being
 * traced. Its state since the last event is not known. A later sample has the time.
 */
static __always_inline void waiter_found_running(struct bpfprof_waiter *w, __u64 now)
{
	wait_count(WAIT_COUNT_UNSEEN);
	if (w->state && now > w->since_ns && (cfg.wall || w->state != THREAD_RUNNABLE))
		waiter_owe(w, now - w->since_ns);
	w->state = THREAD_RUNS;
	w->since_ns = now;
}

/* For a sample of the clock: all time that its thread has run since the last one. */
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
