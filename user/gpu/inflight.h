/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_INFLIGHT_H
#define BPFPROF_GPU_INFLIGHT_H

/*
 * Calls of CUDA and NCCL in flight: they began before the hooks were attached, so no hook saw them
 * begin. Threads that sleep in one are found by their stacks, as `dump` reads them; threads that poll
 * in one are found by samples (polling_threads.h). No hook sees these calls end either: each poll checks
 * whether the thread is still in the call. Number, memory and time are bounded; the rest is counted.
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
		since_ns; /* CLOCK_MONOTONIC: since then the thread sleeps, or samples show it there */
	char thread[BPFPROF_COMM_LEN + 1];
	const char *function; /* "ncclAllReduce"; functions of libcuda share one name */
	const char **stack; /* leaf first; the leaf is the function */
	size_t nr_stack;
	bool arguments_known; /* of a collective; else the arguments are 0 */
	struct thread_collective arguments;
};

/* Borrows job, whose libraries are hooked by now. 0 or -ENOMEM. */
int gpu_inflight_new(struct gpu_inflight **ret, struct gpu_job *job);
void gpu_inflight_free(struct gpu_inflight *inflight);

/*
 * Finds the calls in all watched processes that map a hooked library. To be called once. Runs the
 * sampler between the processes.
 */
void gpu_inflight_begin(struct gpu_inflight *inflight);
/* Takes samples of polling threads. To be called as often as possible. */
void gpu_inflight_run(struct gpu_inflight *inflight, uint64_t now_ns);
/*
 * Removes calls that are over, and at the end also calls that may be over. The snapshot was just taken
 * and has the calls that began since. To be called once per second at most.
 */
void gpu_inflight_poll(struct gpu_inflight *inflight, const struct gpu_snapshot *snapshot,
		       bool at_end);

/* Does the process have NCCL, and was it in no known call at the start? With NULL: false. */
bool gpu_inflight_was_silent(const struct gpu_inflight *inflight, uint32_t pid, uint64_t start_ns);
/* In no order; borrowed until the next poll. With NULL: none. */
const struct gpu_inflight_call *gpu_inflight_calls(const struct gpu_inflight *inflight,
						   size_t *ret_nr);
extern const struct counter gpu_inflight_counters[];
void gpu_inflight_lost(const struct gpu_inflight *inflight, struct stats_reasons *dst);

#endif
