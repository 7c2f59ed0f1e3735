// SPDX-License-Identifier: GPL-2.0-only
/*
 * The wakers of waits: the thread or interrupt that wakes another thread, and its stack.
 *
 * The stack exists only during the wake-up, when it is open whether the wait will have a sample
 * (offcpu.bpf.c decides that when the thread is on a CPU again). So BPF sends the waker of each
 * wait that may have one, a few times as many; user space joins both by wait_nr. The waker of a
 * short wait with a long wait for a CPU afterwards may be missing.
 *
 * thread_wakes() runs with interrupts off, and with the lock that keeps others from waking the
 * thread.
 */
#include "waiters.bpf.h"
#include "own_frames.h"

char LICENSE[] SEC("license") = "GPL";

#define STACKS_MAX 64 /* at a time: a thread wakes a crowd with interrupts off */

/* Key: 0. Writer: BPF. */
PERCPU_MAP(waker_tokens, struct token_bucket);

/* An int up to Linux 7.1, a byte in later ones. */
struct task_struct___queued {
	int on_rq;
} __attribute__((preserve_access_index));

/*
 * When the wait began, 0: the thread does not wait. A thread without events since the recording
 * began has slept since then, unless it is still in a run queue, as it may be on its way to sleep.
 */
static __always_inline __u64 wait_since(const struct bpfprof_waiter *w, struct task_struct *task,
					const struct bpfprof_wait_control *control)
{
	const struct task_struct___queued *queued = (void *)task;

	if (w && w->task.start_ns == task->group_leader->start_boottime)
		return w->state >= THREAD_SLEEPS ? w->since_ns : 0;
	if (BPF_CORE_READ_BITFIELD(queued, on_rq) || task->start_boottime > control->start_boot_ns)
		return 0;
	return control->start_ns;
}

/*
 * May a wait that has lasted ns so far have a sample? It may get about twice as long until it ends;
 * and when a period of short waits is full, the point in the next one is random.
 */
static __always_inline bool may_count(const struct bpfprof_waiter *w, __u64 ns, __u64 period)
{
	__u64 end;

	if (ns >= period || !w)
		return true;
	end = w->past_ns + 2 * ns;
	return w->due_ns || end >= period || (w->point_ns >= w->past_ns && w->point_ns < end);
}

/*
 * Takes the thread's kernel stack from the caller of the wake-up on; in an interrupt only the
 * interrupt's part. False: there is none.
 */
static __always_inline bool kernel_take(struct unwind_reader *r, struct task_struct *task,
					void *ctx)
{
	struct bpfprof_sample *s = &r->rec.sample;
	int called = in_syscall(task);
	__u32 nr, i;
	__u64 va;
	long len;

	len = bpf_get_stack(ctx, r->rec.frames, BPFPROF_MAX_KERNEL_FRAMES * 8, 0);
	if (len <= 0)
		return false;
	nr = (__u64)len / 8;
	if (!task->pid) /* idle: an interrupt is the cause of its wake-ups */
		s->flags |= BPFPROF_SAMPLE_INTERRUPT;
	for (i = 0; i < BPFPROF_MAX_KERNEL_FRAMES; i++) {
		if (i >= nr)
			break;
		va = r->rec.frames[i];
		if (is_wake_function(&cfg, va))
			s->skip = i + 1;
		if (is_interrupt_exit(&cfg, va))
			break;
		if (!is_interrupt_entry(&cfg, va, called))
			continue;
		s->flags |= BPFPROF_SAMPLE_INTERRUPT;
		nr = i + 1;
		break;
	}
	s->nr_kernel = nr;
	return true;
}

static __always_inline void waker_send(void *ctx, struct task_struct *wakee, __u32 nr,
				       const struct bpfprof_wait_control *control, __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct unwind_reader *r = scratch_take();
	struct token_bucket *bucket;
	__u32 zero = 0;

	if (!r) {
		wait_count(WAIT_COUNT_WAKERS_BUSY);
		return;
	}
	sample_fill(r, task, 0, BPFPROF_SAMPLE_WAKER);
	r->rec.sample.holder_tid = wakee->pid;
	r->rec.sample.wait_nr = nr;
	if (!kernel_take(r, task, ctx)) {
		wait_count(WAIT_COUNT_WAKERS_UNCLEAR);
		r->busy = 0;
		return;
	}
	bucket = bpf_map_lookup_elem(&waker_tokens, &zero);
	wait_count(WAIT_COUNT_WAKERS);
	if (r->rec.sample.flags & BPFPROF_SAMPLE_INTERRUPT) {
		r->stop = BPFPROF_STOP_NO_USER;
	} else if (bucket && token_take(bucket, control, STACKS_MAX, now)) {
		stack_walk(r, task);
	} else {
		wait_count(WAIT_COUNT_WAKERS_LIMITED);
		r->stop = BPFPROF_STOP_MISS_RATE;
	}
	sample_send(r, task);
	r->busy = 0;
}

SEC("?tp_btf/sched_waking")
int BPF_PROG(thread_wakes, struct task_struct *wakee)
{
	struct bpfprof_wait_control *control;
	struct bpfprof_waiter *w;
	__u64 now, since;

	if (!is_watched(wakee))
		return 0;
	control = wait_control_get();
	now = bpf_ktime_get_ns();
	if (!control || !control->start_ns || now < control->start_ns)
		return 0;
	w = waiter_find(wakee->pid);
	since = wait_since(w, wakee, control);
	if (since && now > since && may_count(w, now - since, control->period_ns))
		waker_send(ctx, wakee, wait_nr(since), control, now);
	return 0;
}
