// SPDX-License-Identifier: GPL-2.0-only
/*
 * The stacks of threads that take a deadly signal, so that a process that dies of it leaves its evidence.
 *
 * signal_deliver runs in that thread, with its user registers, before a handler runs or the process ends. The
 * kernel holds the lock of the process's signals and has interrupts off, as in a tick of the clock: this is the
 * same walk with the same bounds. A handler may take the signal (a JVM, Go, faulthandler), so user space keeps the
 * stack and decides when the process ends.
 */
#include "send.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define SIGKILL 9
/* SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS: the thread has caused them itself. */
#define FAULTS (1U << 4 | 1U << 5 | 1U << 6 | 1U << 7 | 1U << 8 | 1U << 11 | 1U << 31)
#define SIGNAL_BITS 0x7f /* of the status of a process: the signal that ended it */
#define SIGNAL_UNKILLABLE 0x40 /* include/linux/sched/signal.h */
#define IGNORED ((void *)1) /* SIG_IGN */
#define NS_PER_SECOND 1000000000ULL
#define HANDLED_PER_SECOND 4 /* stacks of a thread whose program has a handler */
#define HANDLED_PER_CPU 32
/* The layout of siginfo, the same in the kernel and in programs (include/uapi/asm-generic/siginfo.h). */
#define SI_CODE_OFF 8
#define SI_ADDR_OFF 16
#define SI_ADDRESSES                                                                               \
	(1U << 4 | 1U << 5 | 1U << 7 | 1U << 8 | 1U << 11) /* signals that have si_addr */

/* Its first member has other names: a handler for each kind. */
struct sigaction___handler {
	void *sa_handler;
} __attribute__((preserve_access_index));

struct handled_rate {
	__u64 since_ns;
	__u32 nr;
	__u32 pad;
};

/* Key tid; the stacks of handled signals since since_ns. Writer: BPF; the oldest are evicted. */
MAP(handled_rates, LRU_HASH, 1024, __u32, struct handled_rate, 0);

/* Key 0: the same for all threads of this CPU. Writer: BPF. */
PERCPU_MAP(handled_cpu, struct handled_rate);

/* One more stack in this second? */
static __always_inline bool rate_take(struct handled_rate *rate, __u32 max, __u64 now)
{
	if (now - rate->since_ns > NS_PER_SECOND) {
		rate->since_ns = now;
		rate->nr = 0;
	}
	return rate->nr++ < max;
}

static __always_inline bool handled_allowed(__u32 tid)
{
	struct handled_rate *cpu, *thread, fresh = { 0 };
	__u64 now = bpf_ktime_get_ns();
	__u32 zero = 0;

	thread = bpf_map_lookup_elem(&handled_rates, &tid);
	if (!thread) {
		bpf_map_update_elem(&handled_rates, &tid, &fresh, BPF_ANY);
		thread = bpf_map_lookup_elem(&handled_rates, &tid);
	}
	cpu = bpf_map_lookup_elem(&handled_cpu, &zero);
	if (thread && cpu && rate_take(thread, HANDLED_PER_SECOND, now) &&
	    rate_take(cpu, HANDLED_PER_CPU, now))
		return true;
	count_add(BPFPROF_COUNT_SIGNALS_LIMITED, 1);
	return false;
}

/*
 * The signal whose stack is wanted; 0: none. A thread that ends with its group takes SIGKILL here, and the status of
 * the group has the signal that ended it. If another process has sent that one, the first thread is shown as it was.
 */
static __always_inline __u32 signal_of(struct task_struct *task, __u32 sig)
{
	__u32 ends;

	if (sig < 32 && FAULTS >> sig & 1)
		return sig;
	if (sig != SIGKILL || task->pid != task->tgid)
		return 0;
	ends = BPF_CORE_READ(task, signal, group_exit_code) & SIGNAL_BITS;
	return ends < 32 && FAULTS >> ends & 1 ? 0 : ends;
}

static __always_inline void signal_note(struct bpfprof_sample *s, __u32 sig, const void *info)
{
	s->signal.number = sig;
	s->signal.code = 0;
	bpf_probe_read_kernel(&s->signal.code, sizeof(s->signal.code), info + SI_CODE_OFF);
	if (s->signal.code > 0 && sig < 32 && SI_ADDRESSES >> sig & 1)
		bpf_probe_read_kernel(&s->fault_va, sizeof(s->fault_va), info + SI_ADDR_OFF);
}

/*
 * Does the kernel drop the signal right after this tracepoint? It does so if the signal is ignored, and for the first
 * process of a pid namespace that has no handler: such a process may take them without end. A fault of such a process
 * makes it killable before.
 */
static __always_inline bool is_dropped(struct task_struct *task, __u32 sig, const void *handler)
{
	return handler == IGNORED || (!handler && sig != SIGKILL &&
				      BPF_CORE_READ(task, signal, flags) & SIGNAL_UNKILLABLE);
}

SEC("?raw_tp/signal_deliver")
int BPF_PROG(signal_taken, int number, void *info, void *action)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 sig = signal_of(task, number), flags = BPFPROF_SAMPLE_SIGNAL;
	struct unwind_reader *r;
	void *handler;

	if (!sig || task->flags & PF_KTHREAD || (cfg.filter && !target_find(task->tgid)))
		return 0;
	handler = BPF_CORE_READ((struct sigaction___handler *)action, sa_handler);
	if (is_dropped(task, number, handler))
		return 0;
	if (handler && number != SIGKILL) {
		if (!handled_allowed(task->pid))
			return 0;
		flags |= BPFPROF_SAMPLE_HANDLED;
	}
	r = scratch_take();
	if (!r) {
		count_add(BPFPROF_COUNT_SCRATCH_BUSY, 1);
		return 0;
	}
	sample_fill(r, task, 0, flags);
	signal_note(&r->rec.sample, sig, info);
	stack_walk(r, task);
	sample_send(r, task);
	r->busy = 0;
	return 0;
}
