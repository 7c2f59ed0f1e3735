/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_TIMELINE_H
#define BPFPROF_GPU_TIMELINE_H

/*
 * A trace of CUDA and NCCL calls as a file that opens in Perfetto: per process a track of each thread
 * with its calls, one of each CUDA stream with what was enqueued there (when the host did: what the
 * GPU does is not seen), spans from the first launch on a stream to the return of the call that
 * waited for it, and what a Ray worker was busy with.
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
	/* What is known of a communicator; false: nothing. */
	bool (*comm)(void *arg, uint32_t pid, uint64_t start_ns, uint64_t comm,
		     struct gpu_timeline_comm *ret);
	void *arg;
	struct trace_facts facts;
};

/* timeline: struct gpu_timeline. 0 or -errno; errors of the stream are the caller's to ask for. */
int gpu_timeline_write(FILE *out, void *timeline);

#endif
