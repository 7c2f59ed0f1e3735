/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CONTAINER_HOST_MOUNTS_H
#define BPFPROF_CONTAINER_HOST_MOUNTS_H

/*
 * What the node has mounted where, by file system: pid 1's mountinfo, or our own where pid 1's cannot be read. Read
 * again when it has changed (proc(5): poll() says so), since every container that starts changes it. At most
 * 4 MiB; file systems of the kernel's own (proc, cgroup, ...) are left out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct host_mounts;

/* host_root: where the node's file system is seen by us, or NULL; to make node paths of our own. 0, -ENOMEM. */
int host_mounts_new(struct host_mounts **ret, const char *proc, const char *host_root);
void host_mounts_free(struct host_mounts *mounts);

/* Reads what has changed since the last call. 0, -ENOMEM or -errno; the old table stays then. */
int host_mounts_refresh(struct host_mounts *mounts);

/* Is that the node's own root? */
bool host_mounts_is_root(const struct host_mounts *mounts, dev_t dev, const char *root);

/*
 * The path, as pid 1 sees it, of folder root of file system dev: where it is mounted, as a bundle's rootfs if there is a
 * choice (1), else below a mount of a folder above it (0). -ENOENT, -ENAMETOOLONG.
 */
int host_mounts_path(const struct host_mounts *mounts, dev_t dev, const char *root, char *dst,
		     size_t cap);

size_t host_mounts_count(const struct host_mounts *mounts);
uint64_t host_mounts_nr_left_out(const struct host_mounts *mounts); /* for want of room, in all */

#endif
