// SPDX-License-Identifier: GPL-2.0-only
/*
 * These programs read the kernel's own memory for user space. They are an object of their own, which is
 * loaded where a file cannot be opened. A read of unmapped memory fails; no read takes a lock or sleeps.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpfprof.h"
#include "map.bpf.h"
#include "inode_time.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Children of a folder: a list until 6.8 (da549bdd15c2), whose end is its head. */
struct dentry___6_1 {
	struct list_head d_child;
	struct list_head d_subdirs;
} __attribute__((preserve_access_index));

struct dentry___6_8 {
	struct hlist_bl_node d_sib;
	struct hlist_bl_node d_children;
} __attribute__((preserve_access_index));

/* A number until 6.18 (53fbef56e07d). */
struct page___6_1 {
	unsigned long flags;
} __attribute__((preserve_access_index));

struct page___6_18 {
	memdesc_flags_t flags;
} __attribute__((preserve_access_index));

enum pageflags___any {
	PG_uptodate___any,
};

/* Key 0: the list to read, and the result. User space maps it and is its only user. */
MMAPABLE_MAP(kernel_reads, 1, struct bpfprof_kernel_read);

/* Key 0: see struct bpfprof_kernel_layout. */
ARRAY_MAP(kernel_layouts, 1, struct bpfprof_kernel_layout);

SEC("syscall")
int kernel_read(void *ctx)
{
	struct bpfprof_kernel_read *req;
	__u32 zero = 0, i, len;

	req = bpf_map_lookup_elem(&kernel_reads, &zero);
	if (!req)
		return 0;
	for (i = 0; i < BPFPROF_KERNEL_PIECES; i++) {
		if (i >= req->nr)
			break;
		len = req->len[i];
		if (len > BPFPROF_KERNEL_BYTES)
			break;
		req->result[i] =
			(__s32)bpf_probe_read_kernel(req->data[i], len, (void *)req->va[i]);
	}
	return 0;
}

/* The inode of an open file of the current process. */
static __always_inline __u64 own_inode(__u32 fd)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd), *file = NULL;

	if (fd >= BPF_CORE_READ(table, max_fds) ||
	    bpf_probe_read_kernel(&file, sizeof(file), files + fd))
		return 0;
	return (__u64)BPF_CORE_READ(file, f_inode);
}

static __always_inline void dentry_layout(struct bpfprof_kernel_layout *to)
{
	to->dentry_parent = bpf_core_field_offset(struct dentry, d_parent);
	to->dentry_inode = bpf_core_field_offset(struct dentry, d_inode);
	to->dentry_name = bpf_core_field_offset(struct dentry, d_name.name);
	to->dentry_name_len = bpf_core_field_offset(struct dentry, d_name.len);
	to->dentry_hash_pprev = bpf_core_field_offset(struct dentry, d_hash.pprev);
	if (bpf_core_field_exists(struct dentry___6_1, d_subdirs)) {
		to->dentry_children = bpf_core_field_offset(struct dentry___6_1, d_subdirs);
		to->dentry_next = bpf_core_field_offset(struct dentry___6_1, d_child);
	} else {
		to->dentry_children = bpf_core_field_offset(struct dentry___6_8, d_children);
		to->dentry_next = bpf_core_field_offset(struct dentry___6_8, d_sib);
	}
}

static __always_inline void inode_layout(struct bpfprof_kernel_layout *to)
{
	to->inode_mode = bpf_core_field_offset(struct inode, i_mode);
	to->inode_uid = bpf_core_field_offset(struct inode, i_uid);
	to->inode_sb = bpf_core_field_offset(struct inode, i_sb);
	to->inode_mapping = bpf_core_field_offset(struct inode, i_mapping);
	to->inode_ino = bpf_core_field_offset(struct inode, i_ino);
	to->inode_nlink = bpf_core_field_offset(struct inode, i_nlink);
	to->inode_size = bpf_core_field_offset(struct inode, i_size);
	to->inode_generation = bpf_core_field_offset(struct inode, i_generation);
	if (bpf_core_field_exists(struct inode___6_11, i_mtime_sec))
		to->inode_mtime_sec = bpf_core_field_offset(struct inode___6_11, i_mtime_sec);
	else if (bpf_core_field_exists(struct inode___6_6, __i_mtime))
		to->inode_mtime_sec = bpf_core_field_offset(struct inode___6_6, __i_mtime);
	else
		to->inode_mtime_sec = bpf_core_field_offset(struct inode___6_1, i_mtime);
	to->super_magic = bpf_core_field_offset(struct super_block, s_magic);
}

static __always_inline void folio_layout(struct bpfprof_kernel_layout *to)
{
	to->folio_flags = bpf_core_field_exists(struct page___6_1, flags)
				  ? bpf_core_field_offset(struct page___6_1, flags)
				  : bpf_core_field_offset(struct page___6_18, flags);
	to->folio_uptodate = bpf_core_enum_value(enum pageflags___any, PG_uptodate___any);
	to->folio_mapping = bpf_core_field_offset(struct folio, mapping);
	to->folio_index = bpf_core_field_offset(struct folio, index);
}

SEC("syscall")
int kernel_layout(void *ctx)
{
	struct bpfprof_kernel_layout *to;
	__u32 zero = 0;

	to = bpf_map_lookup_elem(&kernel_layouts, &zero);
	if (!to)
		return 0;
	to->own_inode = own_inode(to->own_fd);
	to->mount_mnt = bpf_core_field_offset(struct mount, mnt);
	to->mount_parent = bpf_core_field_offset(struct mount, mnt_parent);
	to->mount_point = bpf_core_field_offset(struct mount, mnt_mountpoint);
	to->mount_mounts = bpf_core_field_offset(struct mount, mnt_mounts);
	to->mount_child = bpf_core_field_offset(struct mount, mnt_child);
	to->vfsmount_root = bpf_core_field_offset(struct vfsmount, mnt_root);
	dentry_layout(to);
	inode_layout(to);
	to->mapping_host = bpf_core_field_offset(struct address_space, host);
	to->mapping_head = bpf_core_field_offset(struct address_space, i_pages) +
			   bpf_core_field_offset(struct xarray, xa_head);
	to->node_shift = bpf_core_field_offset(struct xa_node, shift);
	to->node_slots = bpf_core_field_offset(struct xa_node, slots);
	to->node_nr_slots = bpf_core_field_size(struct xa_node, slots) / sizeof(void *);
	folio_layout(to);
	to->page_bytes = bpf_core_type_size(struct page);
	return 0;
}

/* A thread that is ending has no root folder. */
SEC("iter/task")
int task_root(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct bpfprof_task_root root = { 0 };

	if (!task || !task->fs)
		return 0;
	root.task.pid = task->tgid;
	root.task.tid = task->pid;
	root.task.start_ns = task->group_leader->start_boottime;
	root.task.exec_id = task->self_exec_id;
	root.mount = (__u64)BPF_CORE_READ(task, fs, root.mnt);
	root.dentry = (__u64)BPF_CORE_READ(task, fs, root.dentry);
	bpf_seq_write(ctx->meta->seq, &root, sizeof(root));
	return 0;
}
