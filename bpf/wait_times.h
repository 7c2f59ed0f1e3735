/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_WAIT_TIMES_H
#define BPFPROF_BPF_WAIT_TIMES_H

/*
 * The wire contract of waiting threads: their time off a CPU, and with --wall their time on a CPU,
 * too. The rules of bpfprof.h apply.
 */

#include "bpfprof.h"

/* State of a thread. */
enum bpfprof_thread_state {
	THREAD_STATE_INVALID = 0,
	THREAD_RUNS = 1,
	THREAD_RUNNABLE = 2, /* waits for a CPU */
	THREAD_SLEEPS = 3,
	THREAD_UNINTERRUPTIBLE = 4, /* sleeps, and signals cannot wake it: mostly for disks */
};

/*
 * Element of the map waiters, an array that serves as a hash table: a thread may be in
 * BPFPROF_WAITER_PROBES places, waiter_place(tid, 0 ...). Written by BPF.
 */
struct bpfprof_waiter {
	/* Tid 0: free; an atomic change of tid from 0 takes the place. */
	struct bpfprof_task_id task;
	__u64 since_ns; /* when its state began or was last accounted for, CLOCK_MONOTONIC */
	__u64 wake_ns; /* when it was woken, 0: not yet, or not recorded */
	__u64 delay_ns; /* total time that it has waited for a CPU, as of its last switch off one */
	__u64 run_ns; /* time on a CPU that no sample has yet */
	/* Time off a CPU that no sample has yet; negative: samples have more than there was. */
	__s64 owed_ns;
	__u64 due_ns; /* of samples that were not taken; the sample of the next short wait has it */
	__u64 past_ns; /* short waits so far in their present period */
	__u64 point_ns; /* the short wait at this point of the period is sampled */
	__u32 state; /* enum bpfprof_thread_state */
	/* 1: a thread with this first place found all its places taken. */
	__u32 refused;
	char comm[BPFPROF_COMM_LEN];
	char leader_comm[BPFPROF_COMM_LEN];
};

/* WAITER: a thread has ended; the times are in no sample. */
struct bpfprof_waiter_event {
	struct bpfprof_record rec;
	struct bpfprof_waiter waiter;
};

/* The one element of the map wait_control. Written by user space. */
struct bpfprof_wait_control {
	__u64 start_ns; /* begin of the recording: earlier time does not count; 0: not begun */
	__u64 start_boot_ns; /* the same by CLOCK_BOOTTIME */
	__u64 end_ns; /* later time does not count; 0: the recording goes on */
	__u64 period_ns; /* each wait this long has a sample; shorter ones have one per period */
	__u32 tokens_per_ms; /* samples that a CPU may take */
	__u32 tokens_max; /* samples that a CPU may save up */
};

#define BPFPROF_WAITER_PLACES 32768 /* at most half of them should be in use; a power of two */
#define BPFPROF_WAITER_PROBES 8 /* a power of two */

/*
 * Threads with consecutive numbers get different first places, by the low bits of their numbers.
 * The other places are a group that all threads with the same hash share.
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
	WAIT_COUNT_SWITCHES = 1, /* switches of watched threads off a CPU */
	WAIT_COUNT_WAITS = 2, /* returns of these threads to a CPU */
	WAIT_COUNT_LONG = 3, /* waits of a period or more */
	WAIT_COUNT_KEPT = 4, /* waits chosen for a stack */
	/* Chosen waits over the rate; a later sample of the thread has their time. */
	WAIT_COUNT_LIMITED = 5,
	WAIT_COUNT_MISSED = 6, /* chosen waits without an interrupt; time as for LIMITED */
	WAIT_COUNT_BUSY = 7, /* chosen waits with a busy scratch; time as for LIMITED */
	WAIT_COUNT_FULL = 8, /* switches of threads without room in the map */
	WAIT_COUNT_ENDS_LOST = 9, /* WAITER events without room in the ring */
	WAIT_COUNT_UNSEEN = 10, /* threads found running whose return to a CPU raised no event */
	WAIT_COUNT_LATER_NS = 11, /* time of UNSEEN, LIMITED, MISSED and BUSY */
	WAIT_COUNT_WAKERS = 12, /* wakers sent: threads and interrupts that ended a wait */
	WAIT_COUNT_WAKERS_LIMITED = 13, /* wakers sent without a stack: over the rate */
	WAIT_COUNT_WAKERS_BUSY = 14, /* wakers not sent: the scratch was in use */
	/* Wakers not sent: no kernel stack, so it may be an interrupt. */
	WAIT_COUNT_WAKERS_UNCLEAR = 15,
	WAIT_NR_COUNTERS,
};

_Static_assert(sizeof(struct bpfprof_waiter) == 128, "wire");
_Static_assert(sizeof(struct bpfprof_wait_control) == 40, "wire");

#endif
