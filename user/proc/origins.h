/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_ORIGINS_H
#define BPFPROF_PROC_ORIGINS_H

/*
 * Where the files lie that a process names by path (the map of its JIT code, the folders of its
 * Python packages), what user makes them, and from which processes it was forked: told with its
 * mappings, kept by pid so that it can still be asked for when the process has exited. At most
 * ORIGINS_MAX; past that the one told longest ago goes.
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
	uint64_t since_ns; /* CLOCK_BOOTTIME: its memory is not older, as far as is known */
	uint64_t mnt_ns;
	struct bpfprof_origin told;
	char *root; /* its root folder, where that is not ours but lies among our mounts; else NULL */
};

int origins_new(struct origins **ret); /* 0 or -ENOMEM */
void origins_free(struct origins *origins);

/*
 * All of it is copied; root may be NULL. An ancestor that was known before stays when it has exited, until
 * the process calls exec.
 */
void origins_set(struct origins *origins, const struct origin *origin);
/* What a process that parent has forked has of it; ids: pid, pod_pid, start_ns, exec_id of the child. */
void origins_fork(struct origins *origins, uint32_t parent, const struct origin *ids);
/* Borrowed until the next origins_set(); NULL: not known. */
const struct origin *origins_find(const struct origins *origins, uint32_t pid);

/* Has it our mounts and our root folder, so that its paths are ours? */
bool origin_is_here(const struct origin *origin);
/* Were its mounts made by the node's own, not by a process that has rights in a user namespace alone? */
bool origin_mounts_are_trusted(const struct origin *origin);
/* A time of CLOCK_MONOTONIC as one of CLOCK_BOOTTIME. */
uint64_t origin_boot_ns(uint64_t monotonic_ns);
/* A time of CLOCK_BOOTTIME as seconds of CLOCK_REALTIME. */
int64_t origin_real_seconds(uint64_t boot_ns);

#endif
