/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_COUNTERS_H
#define BPFPROF_BPF_COUNTERS_H

/* Part of the wire contract (bpfprof.h): counters of the BPF programs. */

#include "arch.h"

/* Indices of the map counters: one __u64 each, per CPU. */
enum bpfprof_counter {
	BPFPROF_COUNT_INVALID = 0,
	BPFPROF_COUNT_TICKS = 1, /* program runs of the sampling clock */
	BPFPROF_COUNT_IDLE = 2, /* ticks on an idle CPU */
	BPFPROF_COUNT_FILTERED = 3, /* ticks in a process that is no target */
	BPFPROF_COUNT_SAMPLES = 4, /* samples sent, misses included */
	BPFPROF_COUNT_MISSES = 5, /* samples sent with a copy of the stack (part of SAMPLES) */
	BPFPROF_COUNT_RING_FULL = 6, /* samples lost: ring buffer full */
	BPFPROF_COUNT_EVENT_LOST = 7, /* process events lost: ring buffer full */
	BPFPROF_COUNT_SCRATCH_BUSY = 8, /* samples lost: scratch in use */
	BPFPROF_COUNT_KSOFTIRQD = 9, /* timer ticks that landed in ksoftirqd */
	/* Timer ticks on another CPU than the one they were armed on. */
	BPFPROF_COUNT_TIMER_MOVED = 10,
	BPFPROF_COUNT_TIMER_ERROR = 11, /* a timer could not be armed again */
	BPFPROF_COUNT_SELF_NS = 12, /* time of the timed samples */
	BPFPROF_COUNT_SELF_RUNS = 13, /* number of timed samples */
	BPFPROF_COUNT_PC_CACHE_HIT = 14,
	BPFPROF_COUNT_PC_CACHE_MISS = 15,
	/* Searches repeated or given up because user space replaced the slice. */
	BPFPROF_COUNT_STALE = 16,
	BPFPROF_COUNT_TARGET_LOST = 17, /* a child of a target could not be added to the filter */
	BPFPROF_COUNT_TIMER_LATE = 18, /* timer ticks left out because the one before came late */
	BPFPROF_COUNT_CODES_FULL = 19, /* the map codes was full: code objects are missing */
	BPFPROF_COUNT_KERNEL_WORKER = 20, /* samples of threads that never enter user mode */
	/* Timer ticks whose own interrupt frames were not recognized. */
	BPFPROF_COUNT_OWN_UNKNOWN = 21,
	/* Samples without a kernel stack: the kernel gave none. */
	BPFPROF_COUNT_NO_KERNEL_STACK = 22,
	BPFPROF_COUNT_TITLES_LOST = 23, /* title changes not sent: no room, or not readable */
	/* Title changes not sent: the process was over its rate. */
	BPFPROF_COUNT_TITLES_LIMITED = 24,
	BPFPROF_COUNT_WINDOWS_LOST = 25, /* window begins and ends not sent: no room */
	BPFPROF_COUNT_SIGNALS_LIMITED =
		26, /* stacks of handled signals that were not taken: over the rate */
	BPFPROF_NR_COUNTERS = 27,
};

#endif
