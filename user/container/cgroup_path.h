/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CONTAINER_CGROUP_PATH_H
#define BPFPROF_CONTAINER_CGROUP_PATH_H

/*
 * The ids of containers in /proc/PID/cgroup. Many programs make such paths (kubelet with either driver,
 * docker, podman, containerd's ctr, LXC, ECS). Paths can be nested (docker in docker, kind, groups of
 * Ray below that of the container) and are cut if bpfprof runs in a cgroup namespace (0::/../../x). A
 * container that may write its cgroups can choose names: the caller should prove an id.
 */

#include <stddef.h>

#define CGROUP_ID_MAX 128 /* bytes with the NUL */
#define CGROUP_POD_UID_MAX 40
#define CGROUP_MAX_IDS 8

struct cgroup_ids {
	/* Innermost first. An id from nr_sure on may be no name of a container at all. */
	char ids[CGROUP_MAX_IDS][CGROUP_ID_MAX];
	size_t nr, nr_sure;
	char pod_uid[CGROUP_POD_UID_MAX]; /* with dashes, or 32 hex digits (static pods); "" */
};

/* text: the file, with a NUL. Uses the line with the most facts: that of v2, then those of v1. */
void cgroup_ids_parse(struct cgroup_ids *ret, const char *text);

/* Is text the uid of a pod? */
int cgroup_is_pod_uid(const char *text, size_t len);

#endif
