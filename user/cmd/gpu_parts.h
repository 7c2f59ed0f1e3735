/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_GPU_PARTS_H
#define BPFPROF_CMD_GPU_PARTS_H

/* The files that `bpfprof gpu` writes; job: the state of the command (gpu/job.h). */

struct bpfprof_gpu_trace;
struct bpfprof_task_id;
struct bpfprof_title_event;
struct gpu_job;
struct gpu_snapshot;

/*
 * gpu_files.c. Each returns an exit status, and reports errors. check: before anything is opened;
 * start: before the sampler is opened; write: at the end.
 */
int gpu_files_check(const struct gpu_job *job);
int gpu_files_start(struct gpu_job *job);
int gpu_files_write(struct gpu_job *job, const struct gpu_snapshot *snapshot);

/* gpu_trace.c: path is the name of the trace. 0 or -errno. */
int gpu_trace_start(struct gpu_job *job, const char *path);
/* For the events of these names. */
void gpu_trace_on_call(struct gpu_job *job, const struct bpfprof_gpu_trace *call);
void gpu_trace_on_title(struct gpu_job *job, const struct bpfprof_title_event *event);
/* A process has ended. */
void gpu_trace_on_exit(struct gpu_job *job, const struct bpfprof_task_id *task);
/* A process that made calls has ended; gpu_probes still knows its threads. */
void gpu_trace_on_end(struct gpu_job *job, const struct bpfprof_task_id *task);
/* Takes the calls that still run. 0 or -errno. */
int gpu_trace_finish(struct gpu_job *job);
/* 0 or -errno. */
int gpu_trace_write(struct gpu_job *job, const struct gpu_snapshot *snapshot, const char *path);

#endif
