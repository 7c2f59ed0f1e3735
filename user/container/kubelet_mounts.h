/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CONTAINER_KUBELET_MOUNTS_H
#define BPFPROF_CONTAINER_KUBELET_MOUNTS_H

/*
 * The pod and container of a process, from the files that kubelet mounts into each container (/etc/hosts,
 * /dev/termination-log): their paths on the node name both. This is the last resort: it needs no access
 * to the file system of the node, but a pod can do without these mounts.
 */

#include "container/cgroup_path.h"

struct mount_line;

#define KUBELET_NAME_MAX 64 /* a DNS label and its NUL */

struct kubelet_mounts {
	char pod_uid[CGROUP_POD_UID_MAX];
	char container[KUBELET_NAME_MAX];
};

/* Reads one line of the mountinfo of the process into ret, which is all zero at first. */
void kubelet_mounts_note(struct kubelet_mounts *ret, const struct mount_line *line);

#endif
