/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_VMA_BPF_H
#define BPFPROF_BPF_VMA_BPF_H

/* Converts a struct vm_area_struct to the wire format. */

#include "inode_time.bpf.h"
#include "maps.bpf.h"

#define VM_READ 1
#define VM_EXEC 4
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#define TMPFS_MAGIC 0x01021994
#define HUGETLBFS_MAGIC 0x958458f6

static __always_inline __s64 inode_mtime_sec(struct inode *inode)
{
	struct inode___6_11 *newest = (void *)inode;
	struct inode___6_6 *newer = (void *)inode;
	struct inode___6_1 *old = (void *)inode;

	if (bpf_core_field_exists(newest->i_mtime_sec))
		return BPF_CORE_READ(newest, i_mtime_sec);
	if (bpf_core_field_exists(newer->__i_mtime))
		return BPF_CORE_READ(newer, __i_mtime.tv_sec);
	return BPF_CORE_READ(old, i_mtime.tv_sec);
}

static __always_inline void vma_fill(struct bpfprof_vma *dst, struct vm_area_struct *vma,
				     struct file *file)
{
	struct inode *inode;
	__u64 magic;

	dst->start = vma->vm_start;
	dst->end = vma->vm_end;
	dst->off = vma->vm_pgoff << PAGE_SHIFT;
	dst->ino = 0;
	dst->size = 0;
	dst->dev = 0;
	dst->ino_gen = 0;
	dst->flags = 0;
	dst->path_len = 0;
	dst->mtime_sec = 0;
	if (!file) {
		if ((__u64)BPF_CORE_READ(vma, vm_mm, context.vdso) == vma->vm_start)
			dst->flags = BPFPROF_VMA_VDSO;
		return;
	}
	inode = BPF_CORE_READ(file, f_inode);
	dst->ino = BPF_CORE_READ(inode, i_ino);
	dst->dev = BPF_CORE_READ(inode, i_sb, s_dev);
	dst->ino_gen = BPF_CORE_READ(inode, i_generation);
	dst->size = BPF_CORE_READ(inode, i_size);
	dst->mtime_sec = inode_mtime_sec(inode);
	if (!BPF_CORE_READ(inode, i_nlink))
		dst->flags |= BPFPROF_VMA_UNLINKED;
	magic = BPF_CORE_READ(inode, i_sb, s_magic);
	if (magic == TMPFS_MAGIC || magic == HUGETLBFS_MAGIC)
		dst->flags |= BPFPROF_VMA_MEMORY;
	if (BPF_CORE_READ(file, f_path.dentry, d_sb, s_magic) == OVERLAYFS_SUPER_MAGIC)
		dst->flags |= BPFPROF_VMA_OVERLAY;
}

#endif
