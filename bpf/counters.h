/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_COUNTERS_H
#define BPFPROF_BPF_COUNTERS_H

/*
 * Part of the wire contract (bpfprof.h): what the BPF programs count.
 */

#include "arch.h"

/* Per-CPU counters (map counters, one __u64 each). */
enum bpfprof_counter {
	BPFPROF_COUNT_INVALID = 0,
	BPFPROF_COUNT_TICKS = 1, /* program runs of the sampling clock */
	BPFPROF_COUNT_IDLE = 2, /* of which the CPU was idle */
	BPFPROF_COUNT_FILTERED = 3, /* of which the process was not asked for */
	BPFPROF_COUNT_SAMPLES = 4, /* samples sent, misses included */
	BPFPROF_COUNT_MISSES = 5, /* samples sent with a copy of the stack */
	BPFPROF_COUNT_RING_FULL = 6, /* samples lost: ring buffer full */
	BPFPROF_COUNT_EVENT_LOST = 7, /* process events lost: ring buffer full */
	BPFPROF_COUNT_SCRATCH_BUSY = 8, /* samples lost: scratch in use */
	BPFPROF_COUNT_KSOFTIRQD = 9, /* timer ticks that landed in ksoftirqd */
	BPFPROF_COUNT_TIMER_MOVED = 10, /* timer ticks on another CPU than armed on */
	BPFPROF_COUNT_TIMER_ERROR = 11, /* timer could not be armed again */
	BPFPROF_COUNT_SELF_NS = 12, /* time of the timed samples */
	BPFPROF_COUNT_SELF_RUNS = 13, /* number of timed samples */
	BPFPROF_COUNT_PC_CACHE_HIT = 14,
	BPFPROF_COUNT_PC_CACHE_MISS = 15,
	BPFPROF_COUNT_STALE = 16, /* searches repeated or given up: slice replaced meanwhile */
	BPFPROF_COUNT_TARGET_LOST = 17, /* child of a target could not be added to the filter */
	BPFPROF_COUNT_TIMER_LATE = 18, /* timer ticks left out because the one before came late */
	BPFPROF_COUNT_CODES_FULL = 19, /* code objects for which the map codes had no room */
	BPFPROF_COUNT_KERNEL_WORKER = 20, /* samples of threads that never enter user mode */
	BPFPROF_COUNT_OWN_UNKNOWN = 21, /* timer ticks whose own frames could not be told */
	BPFPROF_COUNT_NO_KERNEL_STACK = 22, /* samples whose kernel stack the kernel did not give */
	BPFPROF_COUNT_TITLES_LOST = 23, /* changes of titles not told: no room, or not to be read */
	BPFPROF_COUNT_TITLES_LIMITED = 24, /* the same: a process changed its title too often */
	BPFPROF_COUNT_WINDOWS_LOST = 25, /* begins and ends of windows not told: no room */
	BPFPROF_NR_COUNTERS = 26,
};

#endif
