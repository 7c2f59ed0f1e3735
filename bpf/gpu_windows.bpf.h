/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_WINDOWS_BPF_H
#define BPFPROF_BPF_GPU_WINDOWS_BPF_H

/*
 * Where samples alone are taken, and only in some steps of a job: when a program begins a window of the
 * profiler, and when it ends it. User space says whose windows matter, in the map gpu_stepping.
 */

SEC("?uprobe")
int window_called(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 function = FUNCTION_OF(cookie);
	struct bpfprof_gpu_function *f = bpf_map_lookup_elem(&gpu_functions, &function);
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpfprof_gpu_process_key key = { .start_ns = task->group_leader->start_boottime,
					       .pid = task->tgid };
	struct bpfprof_window_event *e = NULL;

	bpf_tail_call(ctx, &gpu_programs, 1); /* comes back at once */
	if (!f || !probe_counts(cookie) || !bpf_map_lookup_elem(&gpu_stepping, &key))
		return 0;
	if (ring_has_room())
		e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e) {
		count_add(BPFPROF_COUNT_WINDOWS_LOST, 1);
		return 0;
	}
	/* After its place in the ring, as for titles: what happens later stands behind it. */
	record_fill(&e->rec, BPFPROF_KIND_WINDOW, sizeof(*e));
	task_id_fill(&e->task, task);
	e->begins = f->kind == GPU_KIND_WINDOW_BEGIN;
	e->pad = 0;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
