/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_TRACE_BPF_H
#define BPFPROF_BPF_GPU_TRACE_BPF_H

/*
 * Sends each call with its begin and end, for a trace. All code depends on cfg.gpu_trace, a
 * constant at load: without a trace the verifier removes it.
 */

#include "gpu/arguments.bpf.h"

/* Sends a call that has ended. Results by kind: see open_push() and gpu_return(). */
static __noinline int trace_send(struct bpfprof_gpu_thread *t, const struct bpfprof_gpu_open *open,
				 __u64 end_ns, __s32 result, __u32 flags)
{
	struct bpfprof_gpu_trace *e = NULL;
	__u32 i;

	if (ring_has_room())
		e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e) {
		gpu_count(GPU_COUNT_TRACE_LOST);
		return 0;
	}
	record_fill(&e->rec, BPFPROF_KIND_GPU_TRACE, sizeof(*e));
	e->start_ns = open->key.start_ns;
	e->pid = open->key.pid;
	e->tid = bpf_get_current_task_btf()->pid;
	e->begin_ns = open->begin_ns;
	e->ns = end_ns - open->begin_ns;
	e->handle = open->key.handle ? open->key.handle : open->out;
	e->stream = open->key.stream;
	e->bytes = open->bytes;
	e->function = open->key.function;
	e->result = result;
	for (i = 0; i < 6; i++)
		e->dims[i] = open->key.dims[i];
	e->flags = open->flags | flags;
	e->pad = 0;
	__builtin_memcpy(e->comm, t->comm, sizeof(e->comm));
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Marks the call just added by open_push(): its end will be sent. */
static __always_inline void trace_begin(struct pt_regs *ctx, const struct bpfprof_gpu_function *f,
					struct bpfprof_gpu_thread *t, __u32 flags)
{
	struct bpfprof_gpu_open *open = &t->open[(t->depth - 1) & (BPFPROF_GPU_MAX_OPEN - 1)];

	open->flags |= BPFPROF_CALL_TRACED | flags;
	if (!f->out && f->kind != GPU_KIND_GRAPH) /* the freed or awaited object */
		open->out = argument(ctx, f->handle);
}

/* call: the facts that gpu_return() has so far. */
static __always_inline void trace_end(const struct bpfprof_gpu_function *f,
				      struct bpfprof_gpu_thread *t, struct bpfprof_gpu_open *open,
				      const struct bpfprof_gpu_call *call)
{
	__u64 out = call->va;

	if (f->kind == GPU_KIND_COMM_INIT && !call->result)
		user_read(&out, sizeof(out), open->out);
	if (f->out)
		open->out = out;
	open->bytes = call->bytes;
	trace_send(t, open, call->begin_ns + call->ns, call->result, 0);
}

/* Sends a call that can never return. */
static __always_inline void trace_drop(struct bpfprof_gpu_thread *t,
				       const struct bpfprof_gpu_open *open, __u64 now)
{
	if (open->flags & BPFPROF_CALL_TRACED)
		trace_send(t, open, now, 0, BPFPROF_CALL_UNRETURNED);
}

#endif
