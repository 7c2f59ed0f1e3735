/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_GPU_WORKERS_H
#define BPFPROF_CMD_GPU_WORKERS_H

/*
 * --worker of `bpfprof gpu`: a process that a pattern finds becomes a target of the session, with its
 * descendants, and remains one under any later title. All processes are scanned from time to time,
 * sleeping ones too. At most GPU_WORKERS_MAX workers are kept.
 */

#include <stdbool.h>
#include <stdint.h>

struct bpfprof_task_id;
struct gpu_job;
struct gpu_snapshot;
struct gpu_workers;

#define GPU_WORKERS_MAX 4096

/* Borrows a job whose sampler is open. 0 or -ENOMEM. */
int gpu_workers_new(struct gpu_workers **ret, struct gpu_job *job);
void gpu_workers_free(struct gpu_workers *workers); /* NULL is fine */

/* Scans for new workers if it is time, and reports each on standard error. 0 or -errno. */
int gpu_workers_poll(struct gpu_workers *workers, uint64_t now_ns);

/* The name when it was found, and the pid as we see it; NULL: no worker. Borrowed. */
const char *gpu_workers_name(const struct gpu_workers *workers, uint32_t kernel_pid,
			     uint64_t start_ns, uint32_t *ret_pid);
/* Calls the function for each; if it returns true, gpu_workers_report() leaves the worker out. */
void gpu_workers_each(struct gpu_workers *workers,
		      bool (*each)(void *arg, const struct bpfprof_task_id *task), void *arg);

/*
 * At the end: reports the workers without a call, and the processes of the same Ray node that call. If
 * these are not watched yet, they are for a second, and counts are invalid after this. With --steps only
 * calls in a step are known, and no other process is reported.
 */
void gpu_workers_report(struct gpu_workers *workers, const struct gpu_snapshot *snapshot);

#endif
