/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_KERNEL_PATH_H
#define BPFPROF_KERNEL_KERNEL_PATH_H

/*
 * Leads from a path to an inode, by the kernel's mount tree and name cache. It finds only names in
 * the cache, so the result is valid only in file systems that live in the cache (tmpfs, ramfs).
 * Mount points are always in the cache.
 */

#include <stdint.h>

struct kernel_view;

/* Fields of an inode. */
struct kernel_inode {
	uint64_t va;
	uint64_t sb, magic, mapping; /* struct super_block, its s_magic, struct address_space */
	uint64_t ino, size;
	int64_t mtime_sec;
	uint32_t generation, mode, uid, nr_links; /* uid in the outermost user namespace */
};

/*
 * mount (struct vfsmount) and dentry are the root folder of a process. The path is absolute and
 * without `..`; links are not followed. Each name or mount read is a step of one or two
 * microseconds; *steps is the budget, and returns the rest. 0, -ENOENT (*ret is the folder that
 * lacks the name), -ENOTDIR, -ELOOP (a folder of the path is a link), -EPERM (the last name is a
 * mount point), -EINVAL (the path), -E2BIG (no steps left), -EAGAIN (the tree changed in each try),
 * -EFAULT (unmapped memory).
 */
int kernel_path_find(const struct kernel_view *view, uint64_t mount, uint64_t dentry,
		     const char *path, uint32_t *steps, struct kernel_inode *ret);

/* 0, -EAGAIN (it is no inode, or is changing), -EFAULT. */
int kernel_inode_read(const struct kernel_view *view, uint64_t va, struct kernel_inode *ret);

#endif
