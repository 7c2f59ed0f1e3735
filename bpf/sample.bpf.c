// SPDX-License-Identifier: GPL-2.0-only
/*
 * One sample: the current thread, its kernel stack, and its user stack, unwound without frame
 * pointers. The frames can be named without the process.
 *
 * Two clocks run the same code: a perf event per CPU (sample_perf), or, where that is refused, a
 * BPF timer per CPU (timer_tick, armed by arm_timer).
 */
#include "send.bpf.h"
#include "own_frames.h"
#include "waiters.bpf.h"

#ifndef HOOKED_RETURNS /* sample_hooked.bpf.c */
#define SAMPLE_PERF sample_perf
#define ARM_TIMER arm_timer
#endif

char LICENSE[] SEC("license") = "GPL";

#define SELF_TIMED_EVERY 64
#define BPF_F_TIMER_CPU_PIN 2 /* since 6.7 */
#define CLOCK_MONOTONIC 1
#define TIMER_MIN_WAIT_NS 20000

struct tick_timer {
	struct bpf_timer timer;
	__u32 armed;
	__u32 pad;
	__u64 period_ns; /* period of the next tick */
	__u64 due_ns; /* when the next tick is due */
};

/* Key: CPU. Writer: BPF. Set at load: possible CPUs. */
ARRAY_MAP(timers, 1, struct tick_timer);

#ifdef HOOKED_RETURNS
static __always_inline __u64 gap_poll(struct task_struct *task)
{
	return cfg.gpu_waits ? gap_of(task->tgid, task->group_leader->start_boottime) : 0;
}

/* Is a call other than a launch giving the device work? */
static __always_inline bool copies(const struct bpfprof_gpu_thread *t)
{
	__u32 i;

	for (i = 0; i < BPFPROF_GPU_MAX_OPEN; i++)
		if (i < t->depth && t->open[i].flags & BPFPROF_CALL_TO_DEVICE)
			return true;
	return false;
}

/*
 * Takes the open calls of this thread, and marks the sample if the device of the process is idle.
 */
static __always_inline void hooked_poll(struct unwind_reader *r, struct task_struct *task)
{
	__u32 tid = task->pid;
	struct bpfprof_gpu_thread *t = bpf_map_lookup_elem(&gpu_threads, &tid);
	bool copying = false;

	if (t && t->start_ns == r->rec.sample.task.start_ns) {
		returns_take(r, t);
		copying = copies(t);
	}
	r->rec.sample.gap_ns = copying ? 0 : gap_poll(task);
	if (r->rec.sample.gap_ns)
		r->rec.sample.flags |= BPFPROF_SAMPLE_GAP;
}
#define HOOKED_POLL(r, task) hooked_poll(r, task)
#define IS_LEFT_OUT(task) (cfg.gaps_alone && !gap_poll(task))
#else
#define HOOKED_POLL(r, task)
#define IS_LEFT_OUT(task) false
#endif

/*
 * The scratch of this CPU, marked busy; NULL for idle CPUs, other processes than targets, or a
 * scratch in use.
 */
static __always_inline struct unwind_reader *sample_begin(struct task_struct *task)
{
	struct unwind_reader *r;

	count_add(BPFPROF_COUNT_TICKS, 1);
	if (!task->pid) {
		count_add(BPFPROF_COUNT_IDLE, 1);
		return NULL;
	}
	if ((cfg.filter && !target_find(task->tgid)) || IS_LEFT_OUT(task)) {
		count_add(BPFPROF_COUNT_FILTERED, 1);
		return NULL;
	}
	r = scratch_take();
	if (!r)
		count_add(BPFPROF_COUNT_SCRATCH_BUSY, 1);
	return r;
}

static __always_inline void sample_finish(struct unwind_reader *r, struct task_struct *task)
{
	__u64 start = r->rec.sample.rec.ts_ns;

	if (cfg.wall)
		r->rec.sample.period_ns = waiter_run_take(task, start, r->rec.sample.period_ns);
	HOOKED_POLL(r, task);
	stack_walk(r, task);
	sample_send(r, task);
	if (!(r->nr_runs++ % SELF_TIMED_EVERY)) {
		count_add(BPFPROF_COUNT_SELF_NS, bpf_ktime_get_ns() - start);
		count_add(BPFPROF_COUNT_SELF_RUNS, 1);
	}
	r->busy = 0;
}

SEC("?perf_event")
int SAMPLE_PERF(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct unwind_reader *r = sample_begin(task);
	long len;

	if (!r)
		return 0;
	sample_fill(r, task, cfg.period_is_ns ? ctx->sample_period : cfg.period_ns, 0);
	if (perf_is_user(ctx)) {
		r->rec.sample.flags |= BPFPROF_SAMPLE_USER_MODE;
	} else {
		len = bpf_get_stack(ctx, r->rec.frames, BPFPROF_MAX_KERNEL_FRAMES * 8, 0);
		if (len > 0)
			r->rec.sample.nr_kernel = (__u64)len / 8;
		else
			count_add(BPFPROF_COUNT_NO_KERNEL_STACK, 1);
	}
	sample_finish(r, task);
	return 0;
}

static __always_inline bool is_ksoftirqd(struct task_struct *task)
{
	return task->flags & PF_KTHREAD && task->comm[0] == 'k' && task->comm[1] == 's' &&
	       task->comm[2] == 'o' && task->comm[3] == 'f';
}

/*
 * A global function: the verifier then treats its result as any number. Inlined, it would check a
 * path for each number, which tripled the time to arm the timers.
 */
__weak __noinline int timer_frames(struct unwind_reader *r, __u32 nr, bool in_syscall)
{
	return r ? own_frames(&cfg, r->rec.frames, nr, in_syscall) : 0;
}

static __always_inline void timer_sample(struct task_struct *task, __u64 period_ns)
{
	struct unwind_reader *r = sample_begin(task);
	__u32 nr = 0, skip;
	long len;

	if (!r)
		return;
	sample_fill(r, task, period_ns, BPFPROF_SAMPLE_TIMER);
	len = bpf_get_task_stack(task, r->rec.frames, BPFPROF_MAX_KERNEL_FRAMES * 8, 0);
	if (len > 0)
		nr = (__u64)len / 8;
	else
		count_add(BPFPROF_COUNT_NO_KERNEL_STACK, 1);
	skip = timer_frames(r, nr, cfg.fred_user_start && in_syscall(task));
	if (skip && skip == nr) {
		r->rec.sample.flags |= BPFPROF_SAMPLE_USER_MODE;
	} else {
		r->rec.sample.nr_kernel = nr;
		r->rec.sample.skip = skip;
	}
	if (is_ksoftirqd(task)) {
		r->rec.sample.flags |= BPFPROF_SAMPLE_KSOFTIRQD;
		count_add(BPFPROF_COUNT_KSOFTIRQD, 1);
	} else if (nr && !skip) {
		count_add(BPFPROF_COUNT_OWN_UNKNOWN, 1);
	}
	sample_finish(r, task);
}

/*
 * Arms the next tick. It is due a period after this one was due, not after it came: lateness must
 * not lower the rate. Ticks that are missed altogether are counted.
 */
static __always_inline int timer_start(struct tick_timer *t)
{
	__u64 spread = cfg.period_ns / 1024 * cfg.jitter;
	__u64 period = cfg.period_ns, now = bpf_ktime_get_ns(), wait;

	if (spread)
		period += bpf_get_prandom_u32() % (2 * spread) - spread;
	t->period_ns = period;
	t->due_ns += period;
	if ((__s64)(t->due_ns - now) < 0) {
		if (now - t->due_ns > period)
			count_add(BPFPROF_COUNT_TIMER_LATE, (now - t->due_ns) / cfg.period_ns);
		t->due_ns = now + TIMER_MIN_WAIT_NS;
	}
	wait = t->due_ns - now;
	if (wait < TIMER_MIN_WAIT_NS)
		wait = TIMER_MIN_WAIT_NS;
	if (!bpf_timer_start(&t->timer, wait, BPF_F_TIMER_CPU_PIN))
		return 0;
	return bpf_timer_start(&t->timer, wait, 0);
}

static int timer_tick(void *map, __u32 *cpu, struct tick_timer *t)
{
	if (bpf_get_smp_processor_id() != *cpu) {
		/* Before 6.7 the kernel may move a timer: arm_timer starts it again on its CPU. */
		count_add(BPFPROF_COUNT_TIMER_MOVED, 1);
		t->armed = 0;
		return 0;
	}
	timer_sample(bpf_get_current_task_btf(), t->period_ns);
	if (timer_start(t)) {
		count_add(BPFPROF_COUNT_TIMER_ERROR, 1);
		t->armed = 0;
	}
	return 0;
}

/* Attached until every online CPU has its timer; again after hotplug and moves. */
SEC("?tp_btf/sched_switch")
int BPF_PROG(ARM_TIMER)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct tick_timer *t = bpf_map_lookup_elem(&timers, &cpu);
	long err;

	if (!t || t->armed)
		return 0;
	err = bpf_timer_init(&t->timer, &timers, CLOCK_MONOTONIC);
	if (err && err != -16) /* EBUSY: it exists already */
		return 0;
	if (bpf_timer_set_callback(&t->timer, timer_tick))
		return 0;
	t->armed = 1;
	t->due_ns = bpf_ktime_get_ns();
	if (timer_start(t))
		t->armed = 0;
	return 0;
}
