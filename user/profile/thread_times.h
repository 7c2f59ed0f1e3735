/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_THREAD_TIMES_H
#define BPFPROF_PROFILE_THREAD_TIMES_H

/*
 * Samples of the time that threads spend, on a CPU and off it, on their way into an aggregate.
 * Remembers each thread's latest ones, so that what little is in no sample in the end goes to them,
 * and the sum of a thread is the time that it was there. Bounded: THREAD_TIMES_MAX threads; others
 * lose that little, which is counted.
 */

#include <stdint.h>

#include "bpfprof.h"

struct aggregate;
struct aggregate_input;
struct thread_times;

#define THREAD_TIMES_MAX 65536

#define THREAD_LEAF_RUNNABLE "[runnable]" /* waits for a CPU */
#define THREAD_LEAF_UNINTERRUPTIBLE "[uninterruptible]" /* sleeps: mostly for a disk */
#define THREAD_LEAF_GIL "[GIL last held by " /* NAME-TID]: waits for Python's GIL */
#define THREAD_LEAF_NOT_SAMPLED "[not sampled]" /* too short for a sample */

/* Borrows aggregate. 0 or -ENOMEM. */
int thread_times_new(struct thread_times **ret, struct aggregate *aggregate);
void thread_times_free(struct thread_times *times); /* NULL is fine */

/* A sample of the clock's or of a wait. */
void thread_times_add(struct thread_times *times, const struct aggregate_input *input);
/*
 * The input's thread ran for run_ns and waited for wait_ns that no sample tells of; wait_ns may be
 * less than 0. Where there was no sample at all, input's stack, mostly empty, takes it.
 */
void thread_times_settle(struct thread_times *times, const struct aggregate_input *input,
			 uint64_t run_ns, int64_t wait_ns);
/* Samples of waits for the GIL, and those of which nobody knows who held it. */
uint64_t thread_times_nr_gil_waits(const struct thread_times *times, uint64_t *ret_unknown);
uint64_t thread_times_nr_full(const struct thread_times *times);

#endif
