/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_TARGET_MOUNT_H
#define BPFPROF_PROC_TARGET_MOUNT_H

/*
 * Leads from a path of another mount namespace to the file system behind it. The mountinfo of the
 * process says which file system is mounted there, and which folder of it; that file system may be
 * mounted here as well, as a container's rootfs or a volume. An overlay also has the folders of its
 * layers.
 */

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct mount_line;

#define TARGET_MOUNT_MAX_BYTES (1U << 20) /* read of mountinfo: some 8000 mounts */
#define TARGET_MOUNT_MAX_LAYERS 500 /* OVL_MAX_STACK of the kernel */

struct target_mount {
	dev_t dev;
	char path[PATH_MAX]; /* within the file system */
	char inside[PATH_MAX]; /* within the mount */
	char *layers; /* options of an overlay; NULL: it is none */
};

/*
 * Finds the mount that path lies on in the mountinfo file open as fd. 0, -ENOENT, -ENAMETOOLONG, -E2BIG
 * (too many mounts: the rest may hold a better one), -ENOMEM or -errno of read.
 */
int target_mount_find(struct target_mount *ret, int fd, const char *path);
void target_mount_fini(struct target_mount *mount);

/* The path below the mount of that line of another namespace; NULL: it does not lie there. */
const char *target_mount_below(const struct target_mount *mount, const struct mount_line *line);

/*
 * Writes the nth layer of the overlay, upper folder first, as a path of the node to ret[size]. Relative
 * paths are resolved as containerd and docker do. 0, -ENOENT (no more layers), -ENAMETOOLONG.
 */
int target_mount_layer(const struct target_mount *mount, unsigned int nth, char *ret, size_t size);

#endif
