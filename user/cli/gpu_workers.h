/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CLI_GPU_WORKERS_H
#define BPFPROF_CLI_GPU_WORKERS_H

/*
 * --worker of `bpfprof gpu`: processes become targets of the session as a pattern finds them, with
 * what descends from them, and stay so whatever their titles are then. Looked for among all
 * processes now and then, sleeping ones too. Bounded: at most GPU_WORKERS_MAX.
 */

#include <stdint.h>

struct gpu_job;
struct gpu_picture;
struct gpu_workers;

#define GPU_WORKERS_MAX 4096

/* Of a job whose sampler is open; borrows it. 0 or -ENOMEM. */
int gpu_workers_new(struct gpu_workers **ret, struct gpu_job *job);
void gpu_workers_free(struct gpu_workers *workers); /* NULL is fine */

/* Looks for new ones if it is time, each is told of on standard error. 0 or -errno. */
int gpu_workers_look(struct gpu_workers *workers, uint64_t now_ns);

/*
 * At the end: says which made no call, and which processes of the same Ray node made some. Where
 * these were not watched they are, for a second; nothing that was counted is of use after this.
 */
void gpu_workers_tell(struct gpu_workers *workers, const struct gpu_picture *picture);

#endif
