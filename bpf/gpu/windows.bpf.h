/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_WINDOWS_BPF_H
#define BPFPROF_BPF_GPU_WINDOWS_BPF_H

/*
 * Windows of the profiler, for recordings that only take samples in some steps of a job: sends
 * their begins and ends. The map gpu_stepping has the processes whose windows matter.
 */

#include "gpu/steps.bpf.h"

SEC("?uprobe")
int window_called(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 function = FUNCTION_OF(cookie);
	struct bpfprof_gpu_function *f = bpf_map_lookup_elem(&gpu_functions, &function);
	struct task_struct *task = bpf_get_current_task_btf();

	bpf_tail_call(ctx, &gpu_programs, 1); /* comes back at once */
	if (f && probe_counts(cookie))
		window_send(task->group_leader->start_boottime, task->tgid,
			    f->kind == GPU_KIND_WINDOW_BEGIN, 0);
	return 0;
}

#endif
