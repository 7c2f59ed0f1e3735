/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_GPU_STEPS_H
#define BPFPROF_CMD_GPU_STEPS_H

/*
 * --steps of `bpfprof gpu`: a step of a process is a window that it makes with cudaProfilerStart and
 * cudaProfilerStop; the kernel counts it exactly. With --worker, if a process makes no window, a step
 * is a call of a method (worker_steps.h), whose begin and end come some milliseconds late. --steps
 * windows: or calls: allows only one of both.
 */

#include <stdbool.h>

struct gpu_job;
struct gpu_snapshot;
struct gpu_monitor;
struct steps_range;

#define GPU_STEPS_MS 2 /* the most that a call begins too late as a step */

/* Before the first look for libraries; without --steps, range->stop 0, nothing. 0 or -errno. */
int gpu_steps_begin(struct gpu_monitor *watch, const struct steps_range *range);
/* Has every process that began a step ended its last wanted step? */
bool gpu_steps_through(const struct gpu_job *job);
/* Keeps only the windows of processes that make some in the snapshot. */
void gpu_steps_choose(const struct gpu_monitor *watch, const struct steps_range *range,
		      struct gpu_snapshot *snapshot);
/* Reports the steps of each process on standard error. */
void gpu_steps_report(struct gpu_job *job);

#endif
