/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_RECENT_H
#define BPFPROF_GPU_RECENT_H

/* What has been counted of calls between the last two pictures, for who shows rates as they are now. */

#include <stdint.h>

struct bpfprof_gpu_key;
struct gpu_snapshot;
struct gpu_recent;

/* Until there are two pictures the first one is of all since start_ns. 0 or -ENOMEM. */
int gpu_recent_new(struct gpu_recent **ret, uint64_t start_ns);
void gpu_recent_free(struct gpu_recent *recent); /* NULL is fine */
/* The snapshot is the newest one from now on. 0 or -ENOMEM: then it is as it was. */
int gpu_recent_take(struct gpu_recent *recent, const struct gpu_snapshot *snapshot);
/* Between the two. */
double gpu_recent_seconds(const struct gpu_recent *recent);
/* Calls with that key, and the time in them, also in those that have not returned. */
void gpu_recent_find(const struct gpu_recent *recent, const struct bpfprof_gpu_key *key,
		     uint64_t *ret_calls, uint64_t *ret_ns);

#endif
