/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CONTAINER_CGROUP_PATH_H
#define BPFPROF_CONTAINER_CGROUP_PATH_H

/*
 * What /proc/PID/cgroup tells of a process's container. Paths are made by many programs (kubelet with
 * either driver, docker, podman, containerd's ctr, LXC, ECS), can be nested (docker in docker, kind, Ray's own groups
 * below the container's), are cut when we live in a cgroup namespace (0::/../../x), and a
 * container that may write its cgroups can make names of its own: an id from here should be proved.
 */

#include <stddef.h>

#define CGROUP_ID_MAX 128 /* bytes with the NUL */
#define CGROUP_POD_UID_MAX 40
#define CGROUP_MAX_IDS 8

struct cgroup_ids {
	/* Innermost first. Those from nr_sure on may be a container's name as well as anything else. */
	char ids[CGROUP_MAX_IDS][CGROUP_ID_MAX];
	size_t nr, nr_sure;
	char pod_uid[CGROUP_POD_UID_MAX]; /* with dashes, or 32 hex digits (static pods); "" */
};

/* text: the file, NUL-terminated. Takes the line that tells most: v2's, then v1's. */
void cgroup_ids_parse(struct cgroup_ids *ret, const char *text);

/* Is text a pod's uid? */
int cgroup_is_pod_uid(const char *text, size_t len);

#endif
