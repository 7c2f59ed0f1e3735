/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_GPU_STEPS_H
#define BPFPROF_CMD_GPU_STEPS_H

/*
 * --steps of `bpfprof gpu`: a step of a process is a window that it makes with cudaProfilerStart and
 * cudaProfilerStop, which the kernel counts exactly. Of a process that has made none, with --worker, it is a call of a
 * method as worker_steps.h knows it; that begins and ends here, some milliseconds late. Where one of both was asked for
 * the other is no step.
 */

#include <stdbool.h>

struct gpu_job;
struct gpu_snapshot;
struct gpu_monitor;
struct steps_range;

#define GPU_STEPS_MS 2 /* how late a step that is a call may begin */

/* Before the first look for libraries; without --steps, range->stop 0, nothing. 0 or -errno. */
int gpu_steps_begin(struct gpu_monitor *watch, const struct steps_range *range);
/* Has everybody who has begun a step ended the last one that was asked for? */
bool gpu_steps_through(const struct gpu_job *job);
/* Of processes that make windows nothing else is left in the picture. */
void gpu_steps_choose(const struct gpu_monitor *watch, const struct steps_range *range,
		      struct gpu_snapshot *picture);
/* How far everybody came, on standard error. */
void gpu_steps_tell(struct gpu_job *job);

#endif
