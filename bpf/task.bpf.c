// SPDX-License-Identifier: GPL-2.0-only
/* Iterators over tasks: the executable mappings of a process, and its memory. */
#include "vma.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct vma_scratch {
	struct bpfprof_vma_record rec;
	char path[BPFPROF_PATH_MAX + 8];
};

/* Key 0: room for one record, too large for the stack. Iterator programs of one CPU do not nest. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct vma_scratch);
} vma_scratches SEC(".maps");

/* Executable mappings; of files that only memory still has (memfd, deleted) the others too. */
static __always_inline bool is_told(struct vm_area_struct *vma)
{
	if (vma->vm_flags & VM_EXEC)
		return true;
	return vma->vm_file && vma->vm_flags & VM_READ &&
	       !BPF_CORE_READ(vma, vm_file, f_inode, i_nlink);
}

SEC("iter/task_vma")
int task_vmas(struct bpf_iter__task_vma *ctx)
{
	struct vm_area_struct *vma = ctx->vma;
	struct task_struct *task = ctx->task;
	struct seq_file *seq = ctx->meta->seq;
	struct vma_scratch *s;
	__u32 zero = 0;
	__s64 len = 0;

	if (!vma || !task || !is_told(vma))
		return 0;
	s = bpf_map_lookup_elem(&vma_scratches, &zero);
	if (!s)
		return 0;
	task_id_fill(&s->rec.task, task);
	BPF_CORE_READ_STR_INTO(&s->rec.comm, task, group_leader, comm);
	vma_fill(&s->rec.vma, vma);
	if (!(vma->vm_flags & VM_EXEC))
		s->rec.vma.flags |= BPFPROF_VMA_DATA;
	if (vma->vm_file) {
		len = bpf_d_path((struct path *)&vma->vm_file->f_path, s->path, BPFPROF_PATH_MAX);
		if (len < 0 || len > BPFPROF_PATH_MAX)
			len = 0;
	}
	s->rec.vma.path_len = len;
	bpf_seq_write(seq, &s->rec, sizeof(s->rec));
	len = (len + 7) & ~7;
	if (len > 0 && len <= BPFPROF_PATH_MAX)
		bpf_seq_write(seq, s->path, len);
	return 0;
}

/* Key: slot of the reader. A read that hangs keeps its slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, struct bpfprof_memory_request);
} memory_requests SEC(".maps");

/* Which slot the pass is for. One reader at a time starts passes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} memory_slot SEC(".maps");

/*
 * Memory of one thread's process, as if by ptrace but without its rights: may fault
 * and so may block; user space runs it under a deadline. Never inside a VMA
 * iterator, which holds the mmap_lock that a fault needs.
 */
SEC("iter.s/task")
int task_memory(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct bpfprof_memory_request *req;
	__u32 zero = 0, *slot, at, len;

	if (!task)
		return 0;
	slot = bpf_map_lookup_elem(&memory_slot, &zero);
	if (!slot)
		return 0;
	at = *slot;
	req = bpf_map_lookup_elem(&memory_requests, &at);
	if (!req)
		return 0;
	len = req->len;
	if (len > BPFPROF_MEMORY_BYTES)
		return 0;
	if (bpf_copy_from_user_task(req->data, len, (void *)req->va, task, 0))
		return 0;
	bpf_seq_write(ctx->meta->seq, req->data, len);
	return 0;
}
