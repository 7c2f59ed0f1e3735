// SPDX-License-Identifier: GPL-2.0-only
/*
 * Time that threads spend off a CPU.
 *
 * A stack is taken when the wait has ended, because its length decides whether it has a sample.
 * Each wait of a period or more has a sample with its own length. The shorter waits of a thread are
 * joined end to end and cut into periods; in each period the wait at a random point has a sample of
 * one period. So a wait counts with its length on average, and a storm of switches takes no more
 * samples than the clock would.
 *
 * thread_switched() runs with the lock of the run queue held, before the returning thread is the
 * current one. So it only requests an interrupt, with the only one that a program can request: a
 * ring buffer's wake-up of its reader. Interrupts are off, so it comes as soon as the switch has
 * finished, and wait_stack() finds the thread in the kernel at the place where it had waited, with
 * its memory readable.
 */
#include "waiters.bpf.h"
#include "python/gil.bpf.h"

char LICENSE[] SEC("license") = "GPL";

_Static_assert(BPFPROF_MAX_KERNEL_FRAMES == 127, "is a mask, too");

#define TASK_DEAD 0x80
#define TASK_UNINTERRUPTIBLE 2

struct kick_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 10);
};

/*
 * Rings without a reader and without content: BPF writes to them for the interrupt, 16 bytes a
 * wait. User space empties them now and then. Key: CPU, because a ring buffer has one interrupt at
 * a time. Writer: user space. Size set at load: possible CPUs.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct kick_ring);
} kicks SEC(".maps");

/* The sample to take on this CPU. */
struct wait_due {
	__u32 tid; /* 0: none */
	__u32 flags; /* of the sample */
	__u64 value_ns;
	__u64 runnable_ns; /* the part of the wait that was for a CPU */
	__u64 wait_ns; /* length of the wait */
	__u64 delay_ns; /* delay_ns of the waiter */
	__u64 clock_ns; /* clock of the run queue at the last switch */
	__u64 compared_ns; /* when it was compared with CLOCK_MONOTONIC */
	__u64 ahead_ns; /* CLOCK_MONOTONIC minus the clock at that time */
	struct token_bucket samples;
	__u32 nr_kernel;
	__u32 wait_nr; /* of the sample */
	__u64 kernel[BPFPROF_MAX_KERNEL_FRAMES];
};

/* Key: 0. Writer: BPF. */
PERCPU_MAP(waits_due, struct wait_due);

/* Key: 0. Writer: BPF. */
PERCPU_MAP(gil_holders, struct gil_holder);

/*
 * CLOCK_MONOTONIC, computed from the clock that the scheduler has just read: reading a clock costs
 * as much as the rest of a switch. The scheduler's clock may be late by the time that the switch
 * has taken so far, and its rate differs, so both are compared every millisecond. A clock that
 * stands still was not read, or is too coarse. Times of different CPUs may go back a little: no
 * time counts twice then.
 */
static __always_inline __u64 switch_ns(struct wait_due *due, struct task_struct *next)
{
	__u64 clock_ns;

	/* Kernels without CONFIG_FAIR_GROUP_SCHED lead to no run queue. */
	if (!bpf_core_field_exists(next->se.cfs_rq) ||
	    !bpf_core_field_exists(((struct cfs_rq *)0)->rq))
		return bpf_ktime_get_ns();
	clock_ns = next->se.cfs_rq->rq->clock;
	if (clock_ns == due->clock_ns)
		return bpf_ktime_get_ns();
	due->clock_ns = clock_ns;
	if (clock_ns - due->compared_ns >= NS_PER_MS) {
		due->compared_ns = clock_ns;
		due->ahead_ns = bpf_ktime_get_ns() - clock_ns;
	}
	return clock_ns + due->ahead_ns;
}

/* The wait gets no sample; a later sample has its time. */
static __always_inline void due_give_back(struct wait_due *due, struct bpfprof_waiter *w)
{
	waiter_owe(w, due->value_ns);
	due->tid = 0;
}

static __always_inline void waiter_send(const struct bpfprof_waiter *w)
{
	struct bpfprof_waiter_event *e;

	if (w->run_ns || w->owed_ns) {
		e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
		if (e) {
			record_fill(&e->rec, BPFPROF_KIND_WAITER, sizeof(*e));
			e->waiter = *w;
			bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
		} else {
			wait_count(WAIT_COUNT_ENDS_LOST);
		}
	}
}

static __always_inline void waiter_free(struct bpfprof_waiter *w)
{
	w->state = THREAD_STATE_INVALID;
	w->task.start_ns = 0;
	barrier();
	w->task.tid = 0; /* from here on another thread may take the entry */
}

/*
 * The last switch of a thread. A thread that executes a program takes the number of the first
 * thread, some time before the exec event: until then no time counts for it.
 */
static __always_inline void waiter_end(struct bpfprof_waiter *w, struct task_struct *task)
{
	bool lives_on = task->signal->live.counter > 0;

	waiter_send(w);
	if (task->pid == task->tgid && lives_on) {
		w->state = THREAD_STATE_INVALID;
		w->run_ns = 0;
		w->owed_ns = 0;
		w->due_ns = 0;
		return;
	}
	waiter_free(w);
	if (lives_on || task->pid == task->tgid)
		return;
	w = waiter_find(task->tgid);
	if (w && !w->state && w->task.start_ns == task->group_leader->start_boottime)
		waiter_free(w);
}

static __always_inline void thread_leaves(struct task_struct *task, struct wait_counters *counters,
					  __u64 now, bool preempt, __u32 state)
{
	struct bpfprof_waiter *w = waiter_get(task, THREAD_RUNS);

	if (!w)
		return;
	counters->count[WAIT_COUNT_SWITCHES]++;
	if (w->state != THREAD_RUNS)
		waiter_found_running(w, now);
	if (now > w->since_ns) {
		w->run_ns += now - w->since_ns;
		w->since_ns = now;
	}
	w->wake_ns = 0;
	w->delay_ns = task_delay_ns(task);
	if (preempt || !state)
		w->state = THREAD_RUNNABLE;
	else
		w->state = state & TASK_UNINTERRUPTIBLE ? THREAD_UNINTERRUPTIBLE : THREAD_SLEEPS;
	if (state & TASK_DEAD) {
		comm_copy(w->comm, task);
		comm_copy(w->leader_comm, task->group_leader);
		waiter_end(w, task);
	}
}

/*
 * Adds a short wait of ns to its period. Returns the time that its sample stands for; 0: no sample.
 */
static __always_inline __u64 short_value(struct bpfprof_waiter *w, __u64 ns, __u64 period)
{
	__u64 end = w->past_ns + ns, value = 0;

	if (w->point_ns >= w->past_ns && w->point_ns < end)
		value = period;
	if (end >= period) {
		end -= period;
		if (end >= period) /* the last period was longer */
			end = 0;
		w->point_ns = point_choose(period);
		if (w->point_ns < end)
			value += period;
	}
	w->past_ns = end;
	return value;
}

/* The time that the sample of the wait that has just ended stands for; 0: no sample. */
static __always_inline __u64 wait_value(struct bpfprof_waiter *w, __u64 ns, __u64 period)
{
	__u64 value;

	if (ns >= period) {
		wait_count(WAIT_COUNT_LONG);
		return ns;
	}
	value = w->due_ns + short_value(w, ns, period);
	w->due_ns = 0;
	w->owed_ns += ns;
	w->owed_ns -= value;
	return value;
}

/* The part of a value, for waits of ns in total, in which the thread waited for a CPU. */
static __always_inline __u64 runnable_part(__u64 runnable, __u64 ns, __u64 value)
{
	/* In parts of 1024, so that nothing overflows. */
	return ns == value || !ns ? runnable : (runnable << 10) / ns * (value >> 10);
}

static __always_inline void sample_ask(struct wait_due *due, struct task_struct *task, __u64 value,
				       __u64 ns, __u64 runnable, __u32 flags)
{
	__u32 cpu = bpf_get_smp_processor_id();
	void *ring_of_cpu = bpf_map_lookup_elem(&kicks, &cpu);
	__u64 word = 0;
	long len;

	due->tid = task->pid;
	due->flags = flags;
	due->value_ns = value;
	due->wait_ns = ns;
	due->runnable_ns = runnable_part(runnable, ns, value);
	len = bpf_get_task_stack(task, due->kernel, sizeof(due->kernel), 0);
	due->nr_kernel = len > 0 ? (__u64)len / 8 : 0;
	wait_count(WAIT_COUNT_KEPT);
	if (ring_of_cpu)
		bpf_ringbuf_output(ring_of_cpu, &word, sizeof(word), BPF_RB_FORCE_WAKEUP);
}

static __always_inline void thread_comes(struct task_struct *task, struct wait_due *due,
					 struct wait_counters *counters,
					 const struct bpfprof_wait_control *control, __u64 now)
{
	struct bpfprof_waiter *w = waiter_get(task, THREAD_SLEEPS);
	__u64 ns, runnable = 0, value;
	__u32 flags = BPFPROF_SAMPLE_WAIT;

	if (!w)
		return;
	counters->count[WAIT_COUNT_WAITS]++;
	if (!w->state) /* see waiter_end() */
		w->since_ns = now;
	ns = now > w->since_ns ? now - w->since_ns : 0;
	if (w->state == THREAD_RUNNABLE || w->state == THREAD_RUNS)
		runnable = ns;
	else if (w->wake_ns > w->since_ns && w->wake_ns < now)
		runnable = now - w->wake_ns;
	if (w->state == THREAD_UNINTERRUPTIBLE)
		flags |= BPFPROF_SAMPLE_UNINTERRUPTIBLE;
	due->wait_nr = w->state >= THREAD_SLEEPS ? wait_nr(w->since_ns) : 0;
	w->state = THREAD_RUNS;
	w->since_ns += ns;
	if (!cfg.wall) { /* only blocked time counts */
		ns -= runnable;
		runnable = 0;
	}
	value = wait_value(w, ns, control->period_ns);
	if (!value)
		return;
	if (token_take(&due->samples, control, control->tokens_max, now)) {
		due->delay_ns = w->delay_ns;
		sample_ask(due, task, value, ns, runnable, flags);
		return;
	}
	wait_count(WAIT_COUNT_LIMITED);
	waiter_owe(w, value);
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(thread_switched, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	bool leaves = is_watched(prev), comes = is_watched(next);
	struct bpfprof_wait_control *control;
	struct bpfprof_waiter *w;
	struct wait_counters *counters;
	struct wait_due *due;
	__u32 zero = 0;
	__u64 now;

	if (!leaves && !comes)
		return 0;
	control = wait_control_get();
	counters = bpf_map_lookup_elem(&wait_counters, &zero);
	due = bpf_map_lookup_elem(&waits_due, &zero);
	if (!due || !counters || !control || !control->start_ns)
		return 0;
	now = switch_ns(due, next);
	if (now < control->start_ns)
		return 0;
	/* After the end, a returning thread still reports its wait until the end. */
	if (control->end_ns && now > control->end_ns)
		now = control->end_ns;
	if (due->tid) { /* the interrupt did not come */
		wait_count(WAIT_COUNT_MISSED);
		w = waiter_find(due->tid);
		if (w)
			due_give_back(due, w);
		due->tid = 0;
	}
	if (leaves)
		thread_leaves(prev, counters, now, preempt, prev_state);
	if (comes)
		thread_comes(next, due, counters, control, now);
	return 0;
}

/*
 * A thread that executes a program goes on under the number of the first thread, whose end was
 * recorded. If it is watched only from its exec on, its time begins there.
 */
SEC("?tp_btf/sched_process_exec")
int BPF_PROG(thread_execs, struct task_struct *task, pid_t old_tid)
{
	struct bpfprof_wait_control *control = wait_control_get();
	struct bpfprof_waiter *w, *old;
	__u64 now = bpf_ktime_get_ns();

	if (!control || !control->start_ns || control->end_ns || now < control->start_ns)
		return 0;
	if (cfg.filter && !target_entry(task->tgid))
		return 0;
	w = waiter_find(task->pid);
	if (old_tid != task->pid) {
		old = waiter_find(old_tid);
		if (old && old->task.pid == task->tgid) {
			if (old->state == THREAD_RUNS && now > old->since_ns)
				old->run_ns += now - old->since_ns;
			waiter_send(old);
			waiter_free(old);
		}
	} else if (w && w->task.start_ns == task->group_leader->start_boottime) {
		return 0;
	}
	w = waiter_begin(task, w, THREAD_RUNS);
	if (w)
		w->since_ns = now;
	return 0;
}

SEC("?tp_btf/sched_waking")
int BPF_PROG(thread_woken, struct task_struct *task)
{
	struct bpfprof_waiter *w = waiter_find(task->pid);

	if (w && w->state >= THREAD_SLEEPS && !w->wake_ns)
		w->wake_ns = bpf_ktime_get_ns();
	return 0;
}

/*
 * The time in due that was for a CPU, once the thread is on one: now the kernel has counted its
 * delay.
 */
static __always_inline __u64 runnable_ns(const struct wait_due *due, struct task_struct *task)
{
	__u64 ns = task_delay_ns(task) - due->delay_ns;

	if (!cfg.wall || !DELAYS_ARE_COUNTED(task))
		return due->runnable_ns;
	return runnable_part(ns < due->wait_ns ? ns : due->wait_ns, due->wait_ns, due->value_ns);
}

/* The requested interrupt, or another one of its kind. */
SEC("?tp_btf/irq_work_entry")
int BPF_PROG(wait_stack)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 zero = 0, tid = task->pid;
	__u64 nr;
	struct wait_due *due = bpf_map_lookup_elem(&waits_due, &zero);
	struct bpfprof_waiter *w;
	struct unwind_reader *r;

	if (!due || !due->tid || due->tid != tid)
		return 0;
	r = scratch_take();
	if (!r) {
		wait_count(WAIT_COUNT_BUSY);
		w = waiter_find(tid);
		if (w)
			due_give_back(due, w);
		return 0;
	}
	sample_fill(r, task, due->value_ns, due->flags);
	r->rec.sample.runnable_ns = runnable_ns(due, task);
	r->rec.sample.wait_nr = due->wait_nr;
	due->tid = 0;
	nr = due->nr_kernel;
	barrier_var(nr); /* or Linux 6.1 does not see the bound */
	nr &= BPFPROF_MAX_KERNEL_FRAMES;
	if (!bpf_probe_read_kernel(r->rec.frames, nr * 8, due->kernel))
		r->rec.sample.nr_kernel = nr;
	stack_walk(r, task);
	if (r->rec.sample.python_flags & BPFPROF_PYTHON_PROCESS)
		gil_wait_note(r, bpf_map_lookup_elem(&gil_holders, &zero));
	sample_send(r, task);
	r->busy = 0;
	return 0;
}
