/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_GPU_WORKERS_H
#define BPFPROF_CMD_GPU_WORKERS_H

/*
 * --worker of `bpfprof gpu`: processes become targets of the session as a pattern finds them, with
 * what descends from them, and stay so whatever their titles are then. Looked for among all
 * processes now and then, sleeping ones too. Bounded: at most GPU_WORKERS_MAX.
 */

#include <stdbool.h>
#include <stdint.h>

struct bpfprof_task_id;
struct gpu_job;
struct gpu_snapshot;
struct gpu_workers;

#define GPU_WORKERS_MAX 4096

/* Of a job whose sampler is open; borrows it. 0 or -ENOMEM. */
int gpu_workers_new(struct gpu_workers **ret, struct gpu_job *job);
void gpu_workers_free(struct gpu_workers *workers); /* NULL is fine */

/* Looks for new ones if it is time, each is told of on standard error. 0 or -errno. */
int gpu_workers_poll(struct gpu_workers *workers, uint64_t now_ns);

/* What it was called when it was found, and its pid as we see it; NULL: no worker. Borrowed. */
const char *gpu_workers_name(const struct gpu_workers *workers, uint32_t kernel_pid,
			     uint64_t start_ns, uint32_t *ret_pid);
/* Of each; one for which it returns true has been told of: gpu_workers_tell() leaves it out. */
void gpu_workers_each(struct gpu_workers *workers,
		      bool (*each)(void *arg, const struct bpfprof_task_id *task), void *arg);

/*
 * At the end: says which made no call, and which processes of the same Ray node made some. Where
 * these were not watched they are, for a second; nothing that was counted is of use after this.
 * With --steps only calls in a step are known: nothing is said of others then.
 */
void gpu_workers_tell(struct gpu_workers *workers, const struct gpu_snapshot *picture);

#endif
