/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CONTAINER_FINDER_H
#define BPFPROF_CONTAINER_FINDER_H

/*
 * Finds the container of one process, which costs some file reads: /proc of the process, then the bundles, and the node's
 * mounts if these have changed and the bundle is not where the cgroup path says. Remembers nothing of processes; that is
 * containers.c's part.
 */

#include <stdbool.h>
#include <stdint.h>

#include "container/containers.h"
#include "container/oci_config.h"
#include "container/placement.h"

struct finder;

struct finding {
	bool of_node; /* no container; for this process only, unless whole_space */
	bool whole_space; /* holds for all processes of its mount namespace */
	bool more_later; /* something was not to be had now that may be later */
	enum container_source source; /* CONTAINER_FROM_NOWHERE: nothing found */
	char id[CGROUP_ID_MAX];
	struct oci_config config; /* with what the other sources gave where it says nothing */
	char rootfs[OCI_PATH_MAX];
};

/* As containers_new(); stats is counted into and borrowed. */
int finder_new(struct finder **ret, struct deadline_runner *runner, const char *proc,
	       const char *host_root, struct containers_stats *stats);
void finder_free(struct finder *finder);

/* Reads where the process is; borrowed until the next call. NULL: it is gone, or cannot be read. */
const struct placement *finder_scan(struct finder *finder, uint32_t pid);
/* What that place says; borrowed until the next call. */
const struct finding *finder_find(struct finder *finder);

#endif
