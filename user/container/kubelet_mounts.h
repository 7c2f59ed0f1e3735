/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CONTAINER_KUBELET_MOUNTS_H
#define BPFPROF_CONTAINER_KUBELET_MOUNTS_H

/*
 * Which pod and container a process is of, from the files that kubelet mounts into each container (/etc/hosts,
 * /dev/termination-log): their place on the node names both. The last resort: it needs nothing of the node's
 * file system, but a pod can do without these mounts.
 */

#include "container/cgroup_path.h"

struct mount_line;

#define KUBELET_NAME_MAX 64 /* a DNS label and its NUL */

struct kubelet_mounts {
	char pod_uid[CGROUP_POD_UID_MAX];
	char container[KUBELET_NAME_MAX];
};

/* Call for each line of the process's mountinfo, on an empty struct at first. */
void kubelet_mounts_note(struct kubelet_mounts *ret, const struct mount_line *line);

#endif
