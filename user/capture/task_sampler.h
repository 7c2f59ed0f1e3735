/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_TASK_SAMPLER_H
#define BPFPROF_CAPTURE_TASK_SAMPLER_H

/*
 * Samples the tasks of asyncio of the recorded processes. A child process reads them (threads/task_stacks.h), since that
 * may take long and may hang; it sends stacks with their times. The loop of the sampler only takes what has come.
 * The child reads each process ten times a second, at irregular moments, and less often where reading takes
 * more than 1/TASK_SAMPLER_CPU_SHARE of a CPU.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"

struct sampler;
struct stats_reasons;
struct task_sampler;

#define TASK_SAMPLER_CPU_SHARE 50

/* The time of tasks with one stack: EVENT_TASKS. */
struct task_time {
	const char *wait; /* names the reason: "timer", "socket", ... */
	bool parked; /* they have nothing to do */
	uint64_t count, ns;
};

/* Forks: before the sampler takes memory. 0 or -errno. */
int task_sampler_new(struct task_sampler **ret, const char *host_root);
/* Ends the child. NULL is fine. */
void task_sampler_free(struct task_sampler *tasks);
/* Before the first sample: waits until the child can read, but not long. */
void task_sampler_ready(struct sampler *sampler);
/* Time counts from now on. */
void task_sampler_start(struct sampler *sampler);
/* Takes what has come, and passes it on as EVENT_TASKS. Does not wait. */
void task_sampler_run(struct sampler *sampler);
/* The child reads for the last time. */
void task_sampler_stop(struct sampler *sampler);
/* After task_sampler_stop(): waits a short time for the records that the child still sends, and passes them on. */
void task_sampler_end(struct sampler *sampler);

extern const struct counter task_sampler_counters[];
/* CPU time and memory of the child; 0 without one. */
double task_sampler_cpu_seconds(const struct task_sampler *tasks);
uint64_t task_sampler_bytes(const struct task_sampler *tasks);
/* NULL: adds nothing. */
void task_sampler_stats(const struct task_sampler *tasks, struct stats_reasons *waits);

#endif
