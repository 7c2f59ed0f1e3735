/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_TIMELINE_H
#define BPFPROF_GPU_TIMELINE_H

/*
 * Writes a trace of CUDA and NCCL calls as a file that opens in Perfetto. Each process has a track
 * per thread with its calls; a track per CUDA stream with the work that the host enqueued, at the
 * time of the call, since the GPU itself cannot be seen; spans from the first launch on a stream to
 * the return of the call that waited for it; and the tasks of a Ray worker.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "formats/trace_facts.h"

struct call_table;
struct gpu_trace;

struct gpu_timeline_comm {
	uint64_t hash; /* 0: not known */
	uint32_t rank, size; /* size 0: not known */
};

struct gpu_timeline {
	struct gpu_trace *trace; /* closed */
	const struct call_table *table; /* names of kernels and processes */
	/* Fills in a communicator; false: nothing is known of it. */
	bool (*comm)(void *arg, uint32_t pid, uint64_t start_ns, uint64_t comm,
		     struct gpu_timeline_comm *ret);
	void *arg;
	struct trace_facts facts;
};

/* timeline: struct gpu_timeline. 0 or -errno; the caller checks the stream for errors. */
int gpu_timeline_write(FILE *out, void *timeline);

#endif
