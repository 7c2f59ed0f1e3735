/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_ABSENT_RANKS_H
#define BPFPROF_GPU_ABSENT_RANKS_H

/*
 * Where processes with NCCL are that are in no call of it: one of them may be what all the others wait
 * for, and then it matters where. Of each its main thread, and the one that was seen in NCCL last (a
 * backward pass calls it in a thread of its own), read as `dump` reads them: of those on a CPU, a sample.
 * Bounded in number, memory and time; what was left out is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"

struct dump;
struct gpu_job;
struct gpu_picture;
struct gpu_where;
struct stats_reasons;
struct thread_frame;

struct gpu_where_thread {
	uint32_t tid; /* as we see it */
	uint32_t kernel_tid;
	char name[BPFPROF_COMM_LEN + 1];
	bool was_in_nccl; /* as the last of its process that was seen there */
	bool running; /* on a CPU: without frames if no sample met it */
	const char **frames; /* leaf first */
	size_t nr_frames;
};

#define GPU_WHERE_THREADS 2

struct gpu_where_process {
	uint32_t pid; /* in the outermost pid namespace */
	uint64_t start_ns;
	/* The main one is the first, unless it has ended. */
	struct gpu_where_thread threads[GPU_WHERE_THREADS];
	size_t nr_threads;
};

/* picture tells who is in a call; so does job->before. 0 or -ENOMEM. */
int gpu_where_new(struct gpu_where **ret, struct gpu_job *job, const struct gpu_picture *picture);
void gpu_where_free(struct gpu_where *where); /* NULL is fine */
/* Of that process; NULL: not known, or it is in a call. Of no where it is NULL, too. */
const struct gpu_where_process *gpu_where_of(const struct gpu_where *where, uint32_t pid,
					     uint64_t start_ns);
void gpu_where_lost(const struct gpu_where *where, struct stats_reasons *dst); /* NULL is fine */

#define GPU_WHERE_FRAME_BYTES 1024
/* What is shown of a frame, in room: "train (loop.py:12)", "cuStreamSynchronize". */
void gpu_where_frame(const struct dump *dump, const struct thread_frame *frame,
		     char room[GPU_WHERE_FRAME_BYTES]);

#endif
