/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_WAIT_TIMES_H
#define BPFPROF_BPF_WAIT_TIMES_H

/*
 * The wire contract of what is told of threads that wait: time off a CPU, and with --wall time on it,
 * too. Rules as in bpfprof.h.
 */

#include "bpfprof.h"

/* What a thread does. */
enum bpfprof_thread_state {
	THREAD_STATE_INVALID = 0,
	THREAD_RUNS = 1,
	THREAD_RUNNABLE = 2, /* waits for a CPU */
	THREAD_SLEEPS = 3,
	THREAD_UNINTERRUPTIBLE = 4, /* sleeps, and no signal wakes it: mostly disks */
};

/*
 * Element of the map waiters, an array that is a hash table: each thread has BPFPROF_WAITER_PROBES places
 * to be in, waiter_place(tid, 0 ...). Written by BPF.
 */
struct bpfprof_waiter {
	struct bpfprof_task_id task; /* tid 0: free. Taken by setting tid at once, if it is 0 */
	__u64 since_ns; /* when it began what it does, or was last accounted for; CLOCK_MONOTONIC */
	__u64 wake_ns; /* when it was woken since, 0: not yet, or not asked for */
	__u64 delay_ns; /* that it had waited for a CPU in all its life, when it left one last */
	__u64 run_ns; /* time on a CPU that is in no sample yet */
	__s64 owed_ns; /* time off it that is in none; less than 0: samples told more than there was */
	__u64 due_ns; /* of samples that were not taken: the next short wait's tells it */
	__u64 past_ns; /* short waits so far, in the present period of them; */
	__u64 point_ns; /* the one in which this lies has a sample */
	__u32 state; /* enum bpfprof_thread_state */
	__u32 refused; /* of the place: of a thread that it is the first one of, all were taken once */
	char comm[BPFPROF_COMM_LEN];
	char leader_comm[BPFPROF_COMM_LEN];
};

/* WAITER: a thread has ended, and this is what is in no sample. */
struct bpfprof_waiter_event {
	struct bpfprof_record rec;
	struct bpfprof_waiter waiter;
};

/* The one element of the map wait_control. Written by user space. */
struct bpfprof_wait_control {
	__u64 start_ns; /* of the recording: nothing before it counts; 0: it has not begun */
	__u64 start_boot_ns; /* the same by CLOCK_BOOTTIME */
	__u64 end_ns; /* nothing after it counts; 0: it goes on */
	__u64 period_ns; /* waits this long have a sample each, of shorter ones one per period */
	__u32 tokens_per_ms; /* samples that a CPU may take, */
	__u32 tokens_max; /* and save up */
};

#define BPFPROF_WAITER_PLACES 32768 /* half of them may well be taken; a power of two */
#define BPFPROF_WAITER_PROBES 8 /* the same */

/*
 * Threads that were made one after another get in nobody's way by the low bits of their numbers; those
 * that find another one there have the places in common that these share a hash with.
 */
static inline __u32 waiter_place(__u32 tid, __u32 probe)
{
	__u32 hash = (tid * 0x9e3779b1U) >> 16;

	if (!probe)
		return tid & (BPFPROF_WAITER_PLACES - 1);
	return ((hash & ~(BPFPROF_WAITER_PROBES - 1U)) + probe) & (BPFPROF_WAITER_PLACES - 1);
}

enum bpfprof_wait_counter {
	WAIT_COUNT_INVALID = 0,
	WAIT_COUNT_SWITCHES = 1, /* of threads that were asked for, off a CPU */
	WAIT_COUNT_WAITS = 2, /* times that one came back */
	WAIT_COUNT_LONG = 3, /* of which it took a period or more */
	WAIT_COUNT_KEPT = 4, /* waits that a stack was to be taken of */
	WAIT_COUNT_LIMITED = 5, /* and was not: too many at once. Told by the thread's next one */
	WAIT_COUNT_MISSED = 6, /* or the interrupt for it did not come. The same */
	WAIT_COUNT_BUSY = 7, /* or the scratch was in use. The same */
	WAIT_COUNT_FULL = 8, /* switches of threads that the map has no room for */
	WAIT_COUNT_ENDS_LOST = 9, /* WAITER events that the ring buffer had no room for */
	WAIT_COUNT_UNSEEN = 10, /* times that a thread was found back of which that was not told */
	WAIT_COUNT_LATER_NS = 11, /* time of these and of LIMITED, MISSED and BUSY */
	WAIT_COUNT_WAKERS =
		12, /* threads and interrupts told of that ended a wait, maybe of a sample */
	WAIT_COUNT_WAKERS_LIMITED = 13, /* of which no stack was taken: too many at once */
	WAIT_COUNT_WAKERS_BUSY = 14, /* not told: the scratch was in use */
	WAIT_COUNT_WAKERS_UNCLEAR = 15, /* nor these: no kernel stack, so it may be an interrupt */
	WAIT_NR_COUNTERS,
};

_Static_assert(sizeof(struct bpfprof_waiter) == 128, "wire");
_Static_assert(sizeof(struct bpfprof_wait_control) == 40, "wire");

#endif
