/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_INFLIGHT_H
#define BPFPROF_GPU_INFLIGHT_H

/*
 * Calls of CUDA and NCCL that began before we came, so that nothing saw them begin: threads that
 * sleep in one, by their stacks, as `dump` reads them, and those that poll in one, by samples
 * (polling_threads.h). None is seen to end either: each look asks whether its thread is still in there. Bounded in number, memory and time; what was left out is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "bpfprof.h"
#include "threads/thread_dump.h"

struct gpu_inflight;
struct gpu_job;
struct gpu_snapshot;
struct stats_reasons;

struct gpu_inflight_call {
	uint32_t pid; /* in the outermost pid namespace */
	uint64_t start_ns; /* of the process */
	uint32_t tid; /* as we see it */
	uint64_t
		since_ns; /* CLOCK_MONOTONIC: its thread has slept, or was seen there, since then */
	char thread[BPFPROF_COMM_LEN + 1];
	const char *function; /* "ncclAllReduce"; of libcuda only that it is one of its */
	const char **stack; /* leaf first, which is the function */
	size_t nr_stack;
	bool arguments_known; /* of a collective: else these are 0 */
	struct thread_collective arguments;
};

/* Borrows job, whose libraries are hooked by now. 0 or -ENOMEM. */
int gpu_inflight_new(struct gpu_inflight **ret, struct gpu_job *job);
void gpu_inflight_free(struct gpu_inflight *before);

/*
 * Once: finds them, in all processes that are watched and map a hooked library. Takes what the kernel
 * has for the sampler in between.
 */
void gpu_inflight_begin(struct gpu_inflight *before);
/* As often as possible: takes samples of threads that ran. */
void gpu_inflight_run(struct gpu_inflight *before, uint64_t now_ns);
/*
 * Forgets those that are over, and at the end also those that may be. picture tells calls that began
 * since; it was just taken. To be called once per second at most.
 */
void gpu_inflight_poll(struct gpu_inflight *before, const struct gpu_snapshot *picture,
		       bool at_end);

/* Has it NCCL, and was it in no call that is known when we came? NULL is fine: not known of any. */
bool gpu_inflight_was_silent(const struct gpu_inflight *before, uint32_t pid, uint64_t start_ns);
/* In no order; borrowed until the next look. NULL is fine: none. */
const struct gpu_inflight_call *gpu_inflight_calls(const struct gpu_inflight *before,
						   size_t *ret_nr);
extern const struct counter gpu_inflight_counters[];
void gpu_inflight_lost(const struct gpu_inflight *before, struct stats_reasons *dst);

#endif
