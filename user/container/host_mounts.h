/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CONTAINER_HOST_MOUNTS_H
#define BPFPROF_CONTAINER_HOST_MOUNTS_H

/*
 * The mounts of the node by file system: the mountinfo of pid 1, or our own if that cannot be read. It is
 * read again when it has changed (proc(5): poll() reports that), since every container that starts
 * changes it. At most 4 MiB; file systems of the kernel itself (proc, cgroup, ...) are left out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct host_mounts;

/* host_root: the folder with the file system of the node, or NULL. 0 or -ENOMEM. */
int host_mounts_new(struct host_mounts **ret, const char *proc, const char *host_root);
void host_mounts_free(struct host_mounts *mounts);

/* Reads the mounts again if they have changed. 0; -ENOMEM or -errno: the old table stays. */
int host_mounts_refresh(struct host_mounts *mounts);

/* Is that the root of the node? */
bool host_mounts_is_root(const struct host_mounts *mounts, dev_t dev, const char *root);

/*
 * Writes the path, as pid 1 sees it, of the folder root of file system dev. 1: the folder is mounted
 * there; the rootfs of a bundle is preferred. 0: a folder above it is mounted. -ENOENT, -ENAMETOOLONG.
 */
int host_mounts_path(const struct host_mounts *mounts, dev_t dev, const char *root, char *dst,
		     size_t cap);

size_t host_mounts_count(const struct host_mounts *mounts);
uint64_t
host_mounts_nr_left_out(const struct host_mounts *mounts); /* since the start, for lack of room */

#endif
