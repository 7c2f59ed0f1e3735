/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CONTAINER_PLACEMENT_H
#define BPFPROF_CONTAINER_PLACEMENT_H

/*
 * The place of a process, from files of /proc that need no ptrace rights: its root mount, its cgroups,
 * and the mounts that kubelet made for it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "container/cgroup_path.h"
#include "container/kubelet_mounts.h"

#define PLACEMENT_PATH_MAX 4096

struct placement {
	bool has_root; /* its root folder is a mount: not after a chroot */
	dev_t root_dev;
	char root[PLACEMENT_PATH_MAX]; /* the folder of that file system */
	struct kubelet_mounts kubelet;
	struct cgroup_ids cgroup;
	bool cut; /* it has more mounts or cgroups than are read */
};

/* proc: "/proc". 0, -ESRCH (exited), -ENOMEM, -errno of the files. */
int placement_read(struct placement *ret, const char *proc, uint32_t pid);

#endif
