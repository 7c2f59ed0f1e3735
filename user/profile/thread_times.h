/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_THREAD_TIMES_H
#define BPFPROF_PROFILE_THREAD_TIMES_H

/*
 * Adds samples of the time of threads, on a CPU and off it, to an aggregate; the daemon has one aggregate
 * per interval. A sample of a thread covers all its time since its last one. So at the end, and at each
 * boundary of two intervals, there is time without a sample: thread_times_settle() and
 * thread_times_open() add it, and subtract it from later samples. The sum of a thread in an interval is
 * then the time that it existed. A sample with time on both sides of a boundary is split.
 * Bound: THREAD_TIMES_MAX threads, at 150 bytes each; others lose the time at boundaries, which is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "bpfprof.h"

struct aggregate;
struct aggregate_input;
struct stats_reasons;
struct thread_times;

#define THREAD_TIMES_MAX 32768

#define THREAD_LEAF_RUNNABLE "[runnable]" /* the thread waits for a CPU */
#define THREAD_LEAF_UNINTERRUPTIBLE "[uninterruptible]" /* the thread sleeps, mostly for a disk */
#define THREAD_LEAF_GIL "[GIL last held by " /* NAME-TID]: the thread waits for Python's GIL */
#define THREAD_LEAF_NOT_SAMPLED "[not sampled]" /* time too short for a sample */

/* The time of a thread up to some moment that no sample has covered yet. */
struct thread_rest {
	uint64_t run_ns;
	int64_t wait_ns; /* of finished waits; less than 0: samples covered more than there was */
	uint64_t open_ns; /* of a wait that goes on */
	uint64_t since_ns; /* begin of that wait, which identifies it */
	uint64_t
		after_ns; /* the part of run_ns, wait_ns and of samples that is later than the moment */
};

/* Borrows aggregate. Time before from_ns (CLOCK_MONOTONIC) does not count. 0 or -ENOMEM. */
int thread_times_new(struct thread_times **ret, struct aggregate *aggregate, uint64_t from_ns);
void thread_times_free(struct thread_times *times); /* NULL is fine */

/* Adds a sample of the clock or of a wait. */
void thread_times_add(struct thread_times *times, const struct aggregate_input *input);

/*
 * Time after boundary_ns goes to the aggregate next (borrowed; NULL: it counts nowhere). Until
 * thread_times_close(), settled time is of before the boundary and goes to the old aggregate.
 */
void thread_times_boundary(struct thread_times *times, struct aggregate *next,
			   uint64_t boundary_ns);
/* All threads are settled; those without a sample are forgotten. */
void thread_times_close(struct thread_times *times);

/* Has the thread waited so long without a known stack that its stack should be read? */
bool thread_times_wants_stack(const struct thread_times *times, const struct bpfprof_task_id *task,
			      const struct thread_rest *rest);
/* Adds the time of that wait; input has the stack. */
void thread_times_open(struct thread_times *times, const struct aggregate_input *input,
		       const struct thread_rest *rest);
/* Adds the rest of a thread to its last samples, or without one to the stack of input (mostly empty). */
void thread_times_settle(struct thread_times *times, const struct aggregate_input *input,
			 const struct thread_rest *rest);
/* Was the thread settled since the boundary? Its later samples are then of the time after it. */
bool thread_times_settled(const struct thread_times *times, const struct bpfprof_task_id *task);
/* Did a sample of the thread come since the last call? Then its rest may be older than the sample. */
bool thread_times_heard(struct thread_times *times, const struct bpfprof_task_id *task);
/* The thread has exited; rest is its last time. */
void thread_times_end(struct thread_times *times, const struct aggregate_input *input,
		      const struct thread_rest *rest);

/* The memory it takes, without aggregates. */
size_t thread_times_bytes(const struct thread_times *times);
extern const struct counter thread_times_counters[];

/* Adds the counters since the start: waits for the GIL, and threads for which there was no room. */
void thread_times_stats(const struct thread_times *times, struct stats_reasons *waits);

#endif
