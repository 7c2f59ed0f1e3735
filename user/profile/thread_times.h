/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_THREAD_TIMES_H
#define BPFPROF_PROFILE_THREAD_TIMES_H

/*
 * Samples of the time that threads spend, on a CPU and off it, on their way into an aggregate; or, for
 * who runs for ever, into one aggregate per interval. A thread's sample tells of all its time since its
 * last one, so at the end, and at each border of two intervals, there is time that no sample has told
 * yet: thread_times_settle() and thread_times_open() tell it, and what they have told is taken from the
 * samples that come later. So the sum of a thread in an interval is the time that it was there. A sample
 * that comes of a time on both sides of the border is cut there.
 * Bounded: THREAD_TIMES_MAX threads, at 150 bytes each; others lose what is told at borders, which is counted.
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

#define THREAD_LEAF_RUNNABLE "[runnable]" /* waits for a CPU */
#define THREAD_LEAF_UNINTERRUPTIBLE "[uninterruptible]" /* sleeps: mostly for a disk */
#define THREAD_LEAF_GIL "[GIL last held by " /* NAME-TID]: waits for Python's GIL */
#define THREAD_LEAF_NOT_SAMPLED "[not sampled]" /* too short for a sample */

/* What a thread had done until some moment that samples taken until now have not told. */
struct thread_rest {
	uint64_t run_ns;
	int64_t wait_ns; /* of waits that are over; less than 0: samples told more than there was */
	uint64_t open_ns; /* of one that was not over */
	uint64_t since_ns; /* when that began: the same number, the same wait */
	uint64_t after_ns; /* so much of run_ns, wait_ns and of what samples told is of later */
};

/* Borrows aggregate. Nothing before from_ns (CLOCK_MONOTONIC; 0: there is nothing) counts. 0 or -ENOMEM. */
int thread_times_new(struct thread_times **ret, struct aggregate *aggregate, uint64_t from_ns);
void thread_times_free(struct thread_times *times); /* NULL is fine */

/* A sample of the clock's or of a wait. */
void thread_times_add(struct thread_times *times, const struct aggregate_input *input);

/*
 * Time after boundary_ns goes to next (borrowed, too; NULL: it counts nowhere). What is settled is of
 * the time before it, which still goes to the aggregate until now, until thread_times_close().
 */
void thread_times_boundary(struct thread_times *times, struct aggregate *next,
			   uint64_t boundary_ns);
/* All threads have been settled; those of which nothing was heard are forgotten. */
void thread_times_close(struct thread_times *times);

/* Has the thread waited for so long, in a wait of which no stack is known yet, that it wants one? */
bool thread_times_wants_stack(const struct thread_times *times, const struct bpfprof_task_id *task,
			      const struct thread_rest *rest);
/* The same, and input has its stack. */
void thread_times_open(struct thread_times *times, const struct aggregate_input *input,
		       const struct thread_rest *rest);
/* Where there is no sample that the time can go to, input's stack, mostly empty, takes it. */
void thread_times_settle(struct thread_times *times, const struct aggregate_input *input,
			 const struct thread_rest *rest);
/* Has it been, since the border? What its samples tell from then on is of the time after it. */
bool thread_times_settled(const struct thread_times *times, const struct bpfprof_task_id *task);
/* Has a sample of the thread come since this was asked last? Then its rest may be of before that. */
bool thread_times_heard(struct thread_times *times, const struct bpfprof_task_id *task);
/* The thread has ended, and rest is all there will be. */
void thread_times_end(struct thread_times *times, const struct aggregate_input *input,
		      const struct thread_rest *rest);

/* What it takes, without aggregates. */
size_t thread_times_bytes(const struct thread_times *times);
extern const struct counter thread_times_counters[];
/* Adds what was counted since the start: waits for the GIL, and threads that there was no room for. */
void thread_times_stats(const struct thread_times *times, struct stats_reasons *waits);

#endif
