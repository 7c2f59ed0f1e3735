// SPDX-License-Identifier: GPL-2.0-only
/* Iterators over tasks: the executable mappings of one process, or of all. */
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

SEC("iter/task_vma")
int task_vmas(struct bpf_iter__task_vma *ctx)
{
	struct vm_area_struct *vma = ctx->vma;
	struct task_struct *task = ctx->task;
	struct seq_file *seq = ctx->meta->seq;
	struct vma_scratch *s;
	__u32 zero = 0;
	__s64 len = 0;

	if (!vma || !task || !(vma->vm_flags & VM_EXEC))
		return 0;
	s = bpf_map_lookup_elem(&vma_scratches, &zero);
	if (!s)
		return 0;
	task_id_fill(&s->rec.task, task);
	BPF_CORE_READ_STR_INTO(&s->rec.comm, task, group_leader, comm);
	vma_fill(&s->rec.vma, vma);
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
