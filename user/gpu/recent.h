/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_RECENT_H
#define BPFPROF_GPU_RECENT_H

/* The calls between the last two snapshots, for tables that show the present rates. */

#include <stdint.h>

struct bpfprof_gpu_key;
struct gpu_snapshot;
struct gpu_recent;

/* The first snapshot is compared with start_ns. 0 or -ENOMEM. */
int gpu_recent_new(struct gpu_recent **ret, uint64_t start_ns);
void gpu_recent_free(struct gpu_recent *recent); /* NULL is fine */
/* Makes the snapshot the newest one. 0; -ENOMEM: nothing has changed. */
int gpu_recent_take(struct gpu_recent *recent, const struct gpu_snapshot *snapshot);
/* The time between the two. */
double gpu_recent_seconds(const struct gpu_recent *recent);
/* The calls with that key and the time in them, with that of open calls. */
void gpu_recent_find(const struct gpu_recent *recent, const struct bpfprof_gpu_key *key,
		     uint64_t *ret_calls, uint64_t *ret_ns);

#endif
