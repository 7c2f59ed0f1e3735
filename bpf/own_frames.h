/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_OWN_FRAMES_H
#define BPFPROF_BPF_OWN_FRAMES_H

/*
 * The number of frames at the leaf end of a kernel stack that belong to the timer's own interrupt.
 * Plain C; tests/hostbpf compiles it, too.
 */

#include "bpfprof.h"

#define MAX_IRQ_FRAMES 24

/* Is va in this range of cfg? A range is empty without kallsyms, or without FRED. */
#define OWN_FRAMES_IN(cfg, range, va) ((va) >= (cfg)->range##_start && (va) < (cfg)->range##_end)

/* Is va in an interrupt entry? in_syscall: the thread is in a system call. */
static __always_inline int is_interrupt_entry(const volatile struct bpfprof_cfg *cfg, __u64 va,
					      int in_syscall)
{
	return OWN_FRAMES_IN(cfg, irq, va) || OWN_FRAMES_IN(cfg, fred_kernel, va) ||
	       (!in_syscall && OWN_FRAMES_IN(cfg, fred_user, va));
}

/*
 * Is va in the exit of an interrupt, from where its thread goes on: to other threads or, from user
 * mode, to signals and its own end?
 */
static __always_inline int is_interrupt_exit(const volatile struct bpfprof_cfg *cfg, __u64 va)
{
	return OWN_FRAMES_IN(cfg, irq_exit, va) || OWN_FRAMES_IN(cfg, irq_exit_user, va);
}

static __always_inline int is_wake_function(const volatile struct bpfprof_cfg *cfg, __u64 va)
{
	return OWN_FRAMES_IN(cfg, wake, va);
}

/*
 * The interrupt's frames end at an interrupt entry or, when the timer ran at the end of a section
 * with bottom halves disabled, at do_softirq. With FRED a system call has the same entry as
 * interrupts of user mode, so inside a system call (in_syscall) only do_softirq counts. 0: none was
 * found.
 */
static __always_inline __u32 own_frames(const volatile struct bpfprof_cfg *cfg, const __u64 *frames,
					__u32 nr, int in_syscall)
{
	__u32 i, softirq = 0;
	__u64 va;

	for (i = 0; i < MAX_IRQ_FRAMES && i < nr; i++) {
		va = frames[i];
		if (is_interrupt_entry(cfg, va, in_syscall))
			return i + 1;
		if (OWN_FRAMES_IN(cfg, fred_user, va))
			return softirq;
		if (OWN_FRAMES_IN(cfg, softirq, va))
			softirq = i + 1;
	}
	return softirq;
}

#undef OWN_FRAMES_IN

#endif
