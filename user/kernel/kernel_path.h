/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_KERNEL_PATH_H
#define BPFPROF_KERNEL_KERNEL_PATH_H

/*
 * From a path to an inode, by the kernel's tree of mounts and its cache of names. A name that is not
 * in the cache is not found. So the result counts only in a file system that lives in the cache
 * alone (tmpfs, ramfs). Folders that something is mounted on are always in the cache.
 */

#include <stdint.h>

struct kernel_view;

/* What an inode says of itself. */
struct kernel_inode {
	uint64_t va;
	uint64_t sb, magic, mapping; /* struct super_block, its s_magic, struct address_space */
	uint64_t ino, size;
	int64_t mtime_sec;
	uint32_t generation, mode, uid, nr_links; /* uid as the outermost user namespace has it */
};

/*
 * mount (struct vfsmount) and dentry are the root folder of a process. The path is absolute and has no
 * `..`; links are not followed. Each name and mount that is looked at is a step of a microsecond or
 * two; *steps is how many may be taken, and then how many are left.
 * 0, -ENOENT (*ret is the folder that lacks the name), -ENOTDIR, -ELOOP (a folder of the path is a
 * link), -EPERM (something is mounted on the last name), -EINVAL (the path), -E2BIG (no steps are left),
 * -EAGAIN (the tree changed in each try), -EFAULT (memory that is not there).
 */
int kernel_path_find(const struct kernel_view *view, uint64_t mount, uint64_t dentry,
		     const char *path, uint32_t *steps, struct kernel_inode *ret);

/* 0, -EAGAIN (it is no inode now, or is changing), -EFAULT. */
int kernel_inode_read(const struct kernel_view *view, uint64_t va, struct kernel_inode *ret);

#endif
