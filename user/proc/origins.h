/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_ORIGINS_H
#define BPFPROF_PROC_ORIGINS_H

/*
 * The origin of a process: where the files lie that it names by path (the map of its JIT code, the
 * folders of its Python packages), the user that owns them, and the processes that it was forked from.
 * It is recorded with the mappings and kept by pid after the process has exited. At most ORIGINS_MAX;
 * then the one recorded longest ago is evicted.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "bpfprof.h"

#define ORIGINS_MAX 8192

struct origins;

struct origin {
	struct hash_node node;
	uint32_t pid; /* in our own pid namespace */
	uint32_t pod_pid; /* in its own one */
	uint64_t start_ns; /* CLOCK_BOOTTIME */
	uint64_t exec_id;
	uint64_t since_ns; /* CLOCK_BOOTTIME: its memory is not older than this */
	uint64_t mnt_ns;
	struct bpfprof_origin facts;
	char *root; /* its root folder if that lies among our mounts and is not ours; else NULL */
};

int origins_new(struct origins **ret); /* 0 or -ENOMEM */
void origins_free(struct origins *origins);

/*
 * Copies origin; its root may be NULL. An ancestor that was known before stays after it has exited,
 * until the process calls exec.
 */
void origins_set(struct origins *origins, const struct origin *origin);
/* A child inherits the origin of parent; ids: its own pid, pod_pid, start_ns, exec_id. */
void origins_fork(struct origins *origins, uint32_t parent, const struct origin *ids);
/* Borrowed until the next origins_set(); NULL: not known. */
const struct origin *origins_find(const struct origins *origins, uint32_t pid);

/* Does it have our mounts and our root folder, so that its paths are ours? */
bool origin_is_here(const struct origin *origin);
/* Did the node make its mounts, not a process that has rights only in a user namespace? */
bool origin_mounts_are_trusted(const struct origin *origin);
/* A time of CLOCK_MONOTONIC as one of CLOCK_BOOTTIME. */
uint64_t origin_boot_ns(uint64_t monotonic_ns);
/* A time of CLOCK_BOOTTIME as seconds of CLOCK_REALTIME. */
int64_t origin_real_seconds(uint64_t boot_ns);

#endif
