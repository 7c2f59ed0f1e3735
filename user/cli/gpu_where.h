/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CLI_GPU_WHERE_H
#define BPFPROF_CLI_GPU_WHERE_H

/*
 * Where processes with NCCL are that are in no call of it: one of them may be what all the others wait
 * for, and then it matters where. Of each its main thread, read as `dump` reads it. Bounded in number,
 * memory and time; what was left out is counted.
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

struct gpu_where_stack {
	uint32_t pid; /* in the outermost pid namespace */
	uint64_t start_ns; /* of the process */
	uint32_t tid; /* as we see it */
	char thread[BPFPROF_COMM_LEN + 1];
	bool running; /* on a CPU: then there is no stack */
	const char **frames; /* leaf first */
	size_t nr_frames;
};

/* picture tells who is in a call; so does job->before. 0 or -ENOMEM. */
int gpu_where_new(struct gpu_where **ret, struct gpu_job *job, const struct gpu_picture *picture);
void gpu_where_free(struct gpu_where *where); /* NULL is fine */
/* Of that process; NULL: not known, or it is in a call. Of no where it is NULL, too. */
const struct gpu_where_stack *gpu_where_of(const struct gpu_where *where, uint32_t pid,
					   uint64_t start_ns);
void gpu_where_lost(const struct gpu_where *where, struct stats_reasons *dst); /* NULL is fine */

#define GPU_WHERE_FRAME_BYTES 1024
/* What is shown of a frame, in room: "train (loop.py:12)", "cuStreamSynchronize". */
void gpu_where_frame(const struct dump *dump, const struct thread_frame *frame,
		     char room[GPU_WHERE_FRAME_BYTES]);

#endif
