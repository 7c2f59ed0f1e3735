/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_ABSENT_RANKS_H
#define BPFPROF_GPU_ABSENT_RANKS_H

/*
 * Stacks of processes that have loaded NCCL and are in no call of NCCL: all others may wait for such a
 * process. Each has its main thread, and the thread that was seen in NCCL last (a
 * backward pass calls NCCL in its own thread), read as `dump` reads them. Threads on a CPU are sampled.
 * Bounded in number, memory and time; what was left out is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "bpfprof.h"

struct dump;
struct gpu_job;
struct gpu_snapshot;
struct absent_ranks;
struct stats_reasons;
struct thread_frame;

struct absent_rank_thread {
	uint32_t tid; /* as we see it */
	uint32_t kernel_tid;
	char name[BPFPROF_COMM_LEN + 1];
	bool was_in_nccl; /* as the last of its process that was seen there */
	bool running; /* on a CPU: without frames if no sample met it */
	const char **frames; /* leaf first */
	size_t nr_frames;
};

#define ABSENT_RANKS_THREADS 2

struct absent_rank {
	uint32_t pid; /* in the outermost pid namespace */
	uint64_t start_ns;
	/* The main one is the first, unless it has ended. */
	struct absent_rank_thread threads[ABSENT_RANKS_THREADS];
	size_t nr_threads;
};

/* The snapshot and job->inflight have the threads that are in a call. 0 or -ENOMEM. */
int absent_ranks_new(struct absent_ranks **ret, struct gpu_job *job,
		     const struct gpu_snapshot *snapshot);
void absent_ranks_free(struct absent_ranks *ranks); /* NULL is fine */
/* The entry of the process; NULL: not known, or in a call, or ranks is NULL. */
const struct absent_rank *absent_ranks_of(const struct absent_ranks *ranks, uint32_t pid,
					  uint64_t start_ns);
extern const struct counter absent_ranks_counters[];
void absent_ranks_lost(const struct absent_ranks *ranks,
		       struct stats_reasons *dst); /* NULL is fine */

#endif
