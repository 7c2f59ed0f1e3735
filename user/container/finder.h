/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CONTAINER_FINDER_H
#define BPFPROF_CONTAINER_FINDER_H

/*
 * Finds the container of one process by reading files: /proc of the process, then the bundles, and the
 * mounts of the node if they have changed and the bundle is not where the cgroup path says. It keeps
 * nothing about processes; containers.c does.
 */

#include <stdbool.h>
#include <stdint.h>

#include "container/containers.h"
#include "container/oci_config.h"
#include "container/placement.h"

struct finder;

struct finding {
	bool of_node; /* the process is in no container */
	bool whole_space; /* the result holds for all processes of its mount namespace */
	bool more_later; /* a source was not available and may be later */
	enum container_source source; /* CONTAINER_FROM_NOWHERE: nothing found */
	char id[CGROUP_ID_MAX];
	struct oci_config config; /* facts that it lacks come from the other sources */
	char rootfs[OCI_PATH_MAX];
};

/* As containers_new(); borrows stats and counts in it. */
int finder_new(struct finder **ret, struct deadline_runner *runner, const char *proc,
	       const char *host_root, struct containers_stats *stats);
void finder_free(struct finder *finder);

/* Reads the place of the process; borrowed until the next call. NULL: it has exited, or cannot be read. */
const struct placement *finder_scan(struct finder *finder, uint32_t pid);
/* Finds the container of that place; borrowed until the next call. */
const struct finding *finder_find(struct finder *finder);

#endif
