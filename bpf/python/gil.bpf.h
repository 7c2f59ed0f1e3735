/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_PYTHON_GIL_BPF_H
#define BPFPROF_BPF_PYTHON_GIL_BPF_H

/*
 * The holder of the GIL that a thread has waited for. The address that the thread passed to futex()
 * shows the GIL: take_gil() waits for a condition inside it. CPython keeps the thread state of the
 * last holder; the TLS base, which is in the thread state and in the task, leads to the thread.
 */
#include "python/frames.bpf.h"

#define MAX_HOLDER_STEPS 1024 /* threads that are searched */
#define HOLDER_NS 50000000ULL /* afterwards another thread may have the thread state */

/* The last thread found. */
struct gil_holder {
	__u64 tstate;
	__u64 until_ns;
	__u32 python; /* id of the process */
	__u32 tid;
	char comm[BPFPROF_COMM_LEN];
};

struct holder_ctx {
	struct task_struct *leader;
	struct list_head *at;
	struct gil_holder *holder;
	__u64 tls_base;
};

/* Checks one thread of the process; a step of bpf_loop. */
static long holder_step(__u32 i, struct holder_ctx *ctx)
{
	struct task_struct *task;

	task = (void *)ctx->at - bpf_core_field_offset(struct task_struct, thread_node);
	if (BPF_CORE_READ(task, TASK_TLS_BASE) == ctx->tls_base) {
		ctx->holder->tid = BPF_CORE_READ(task, pid);
		bpf_core_read(ctx->holder->comm, sizeof(ctx->holder->comm), &task->comm);
		return 1;
	}
	ctx->at = BPF_CORE_READ(task, thread_node.next);
	/* The list has ended: its head lies in no task. */
	return !ctx->at || ctx->at == &ctx->leader->signal->thread_head;
}

static __always_inline void holder_find(struct unwind_reader *r, struct gil_holder *holder,
					const struct bpfprof_python_layout *layout, __u64 tstate)
{
	struct bpfprof_sample *s = &r->rec.sample;
	struct task_struct *task = bpf_get_current_task_btf();
	struct holder_ctx ctx = { .leader = task, .holder = holder };

	if (holder->tstate == tstate && holder->python == r->py.id &&
	    s->rec.ts_ns < holder->until_ns)
		return;
	holder->tstate = tstate;
	holder->python = r->py.id;
	holder->until_ns = s->rec.ts_ns + HOLDER_NS;
	holder->tid = 0;
	if (user_u64(tstate + layout->tstate_thread, &ctx.tls_base) || !ctx.tls_base)
		return;
	ctx.at = task->signal->thread_head.next;
	bpf_loop(MAX_HOLDER_STEPS, holder_step, &ctx, 0);
}

/* Did the thread wait for the GIL of this runtime? */
static __always_inline bool gil_wait_find(struct unwind_reader *r, struct gil_holder *holder,
					  const struct bpfprof_python_layout *layout, __u64 runtime,
					  __u64 waited)
{
	__u64 gil = runtime + layout->gil, interpreter = 0, tstate = 0;
	struct bpfprof_sample *s = &r->rec.sample;

	if (!layout->gil || layout->free_threaded)
		return false;
	if (layout->version >= 0x30c &&
	    (user_u64(runtime + layout->runtime_interpreters, &interpreter) ||
	     user_u64(interpreter + layout->gil, &gil)))
		return false;
	if (waited - gil >= PYTHON_GIL_BYTES)
		return false;
	s->flags |= BPFPROF_SAMPLE_GIL_WAIT;
	if (user_u64(gil + layout->gil_holder, &tstate) || !tstate)
		return true;
	holder_find(r, holder, layout, tstate);
	if (holder->tid == s->task.tid) /* it has taken, or released, the GIL meanwhile */
		return true;
	s->holder_tid = holder->tid;
	__builtin_memcpy(s->holder_comm, holder->comm, sizeof(s->holder_comm));
	return true;
}

/* Notes the holder of the GIL for a thread that has just slept. Call it after the walk. */
static __noinline int gil_wait_note(struct unwind_reader *r, struct gil_holder *holder)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = task_regs(task);
	struct bpfprof_python_layout *layout;
	__u32 slot = r->py.slot, nr, i;
	struct bpfprof_python *p;

	if (!holder || regs_syscall(regs) != SYS_FUTEX)
		return 0;
	for (i = 0; i < BPFPROF_MAX_RUNTIMES && slot; i++) {
		p = bpf_map_lookup_elem(&pythons, &slot);
		if (!p || p->id != r->py.id)
			break;
		nr = p->layout;
		layout = bpf_map_lookup_elem(&layouts, &nr);
		if (!layout ||
		    gil_wait_find(r, holder, layout, p->runtime, regs_syscall_argument(regs)))
			break;
		slot = p->next;
	}
	return 0;
}

#endif
