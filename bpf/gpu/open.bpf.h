/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_OPEN_BPF_H
#define BPFPROF_BPF_GPU_OPEN_BPF_H

/*
 * The open calls of a thread, outermost first: from the begin of a call until it returns, or has
 * ended without a return.
 */

#include "gpu/arguments.bpf.h"
#include "gpu/kinds.bpf.h"
#include "gpu/steps.bpf.h"
#include "gpu/trace.bpf.h"

/*
 * Forgets calls that can never return: they began deeper on the stack than its present end
 * (longjmp, an exception).
 */
static __always_inline void open_prune(struct bpfprof_gpu_thread *t, __u64 sp)
{
	struct bpfprof_gpu_open *open;
	__u32 i;

	for (i = 0; i < BPFPROF_GPU_MAX_OPEN; i++) {
		open = &t->open[(t->depth - 1) & (BPFPROF_GPU_MAX_OPEN - 1)];
		if (!t->depth || open->sp > sp)
			break;
		if (cfg.gpu_trace)
			trace_drop(t, open, t->last_ns);
		gpu_count(GPU_COUNT_LEFT);
		t->depth--;
		t->over = 0;
	}
}

/*
 * Has an open call ended without a return, although the stack is as deep as then? An open call's
 * return address is the kernel's trampoline, or the original one if the hook failed. Otherwise
 * another call has overwritten it.
 */
static __always_inline bool was_left(const struct bpfprof_gpu_open *open)
{
	__u64 trampoline =
		BPF_CORE_READ(bpf_get_current_task_btf(), mm, uprobes_state.xol_area, vaddr);
	__u64 ret = 0;

	return trampoline && !bpf_probe_read_user(&ret, sizeof(ret), (void *)open->sp) &&
	       ret != trampoline && ret != open->ret;
}

/*
 * Forgets a call that ended without a return; calls inside it count as calls inside its outer call.
 */
static __always_inline void open_forget(struct bpfprof_gpu_thread *t, __u32 at)
{
	__u32 i;

	if (cfg.gpu_trace)
		trace_drop(t, &t->open[at & (BPFPROF_GPU_MAX_OPEN - 1)], t->last_ns);
	for (i = 0; i + 1 < BPFPROF_GPU_MAX_OPEN; i++)
		if (i >= at)
			t->open[i] = t->open[i + 1];
	t->depth--;
	gpu_count(GPU_COUNT_LEFT);
}

/* Index + 1 of the open call of this layer; 0: there is none. */
static __always_inline __u32 outer_find(struct bpfprof_gpu_thread *t, __u32 layer)
{
	struct bpfprof_gpu_function *f;
	__u32 i, nr;

	for (i = 0; i < BPFPROF_GPU_MAX_OPEN; i++) {
		if (i >= t->depth)
			break;
		/* Calls that are followed only for a trace must not change counts. */
		if (cfg.gpu_trace && t->open[i].flags & BPFPROF_CALL_TRACE_ONLY)
			continue;
		nr = t->open[i].key.function;
		f = bpf_map_lookup_elem(&gpu_functions, &nr);
		if (f && f->layer == layer && is_call(f->kind))
			return i + 1;
	}
	return 0;
}

/* Are there other open calls that are still running? Not static: see gpu/waits.bpf.h. */
__noinline int outer_check(struct bpfprof_gpu_thread *t, __u32 layer)
{
	__u32 i, at;

	for (i = 0; t && i < BPFPROF_GPU_MAX_OPEN; i++) {
		at = outer_find(t, layer);
		if (!at)
			return 0;
		if (!was_left(&t->open[(at - 1) & (BPFPROF_GPU_MAX_OPEN - 1)]))
			return 1;
		open_forget(t, at - 1);
	}
	return 0;
}

/* Is the thread in another call of this layer? */
static __always_inline bool is_nested(struct bpfprof_gpu_thread *t, __u32 layer)
{
	return t->depth && outer_find(t, layer) && outer_check(t, layer);
}

/* Keeps a call until it returns. False: there is no room. */
static __always_inline bool open_push(struct pt_regs *ctx, const struct bpfprof_gpu_function *f,
				      struct bpfprof_gpu_thread *t,
				      const struct bpfprof_gpu_call *call, __u32 file)
{
	struct bpfprof_gpu_open *open;
	__u32 depth = t->depth;

	if (depth >= BPFPROF_GPU_MAX_OPEN) {
		t->over++;
		gpu_count(GPU_COUNT_TOO_DEEP);
		return false;
	}
	open = &t->open[depth & (BPFPROF_GPU_MAX_OPEN - 1)];
	open->key = call->key;
	open->begin_ns = call->begin_ns;
	open->sp = regs_sp(ctx);
	open->bytes = call->bytes;
	open->out = argument(ctx, f->out);
	open->name = argument(ctx, f->name);
	if (f->kind == GPU_KIND_MEMORY_INFO || f->size_rule == GPU_SIZE_PITCH)
		open->name = argument(ctx, f->size[0]);
	if (f->size_rule == GPU_SIZE_PITCH)
		open->bytes = argument(ctx, f->size[1]);
	if (f->kind == GPU_KIND_ALIAS || f->kind == GPU_KIND_SYNC ||
	    f->kind == GPU_KIND_EVENT_QUERY || f->kind == GPU_KIND_STREAM_WAIT ||
	    f->kind == GPU_KIND_GRAPH_COPY || f->kind == GPU_KIND_MEMORY_MAP ||
	    (f->kind == GPU_KIND_ALLOC && !f->out))
		open->name = argument(ctx, f->handle);
	if (f->kind == GPU_KIND_STREAM_QUERY || f->kind == GPU_KIND_STREAM_WAIT ||
	    f->kind == GPU_KIND_CAPTURE_BEGIN || f->kind == GPU_KIND_CAPTURE_END)
		open->key.stream = argument(ctx, f->stream);
	if (f->kind == GPU_KIND_MEMORY_MAP || (f->kind == GPU_KIND_GRAPH_COPY && !f->out))
		open->out = argument(ctx, f->extra);
	if (f->kind == GPU_KIND_COMM_INIT) {
		open->key.dims[0] = argument(ctx, f->extra);
		open->key.dims[1] = argument(ctx, f->count);
	}
	open->flags = call->flags |
		      (f->to_device && f->flags & BPFPROF_GPU_RETURNS ? BPFPROF_CALL_TO_DEVICE : 0);
	open->file = file;
	regs_return_read(ctx, &open->ret);
	t->depth = depth + 1;
	return true;
}

/* Drops calls that have ended with an outer call. */
static __always_inline void inner_drop(struct bpfprof_gpu_thread *t, __u32 first, __u64 now)
{
	__u32 i;

	for (i = BPFPROF_GPU_MAX_OPEN; i; i--)
		if (i - 1 >= first && i - 1 < t->depth)
			trace_drop(t, &t->open[i - 1], now);
}

/* Takes the call that began at sp and returns now; calls inside it have ended, too. */
static __always_inline struct bpfprof_gpu_open *open_pop(struct bpfprof_gpu_thread *t, __u64 sp,
							 __u64 now)
{
	struct bpfprof_gpu_open *open;
	__u32 i, depth = t->depth;

	for (i = 0; i < BPFPROF_GPU_MAX_OPEN; i++) {
		if (!depth || depth > BPFPROF_GPU_MAX_OPEN)
			return NULL;
		depth--;
		open = &t->open[depth & (BPFPROF_GPU_MAX_OPEN - 1)];
		if (open->sp == sp) {
			if (cfg.gpu_trace)
				inner_drop(t, depth + 1, now);
			t->depth = depth;
			return open;
		}
		if (open->sp > sp + CALL_PUSHES)
			return NULL;
	}
	return NULL;
}

/* As open_pop(), and puts the facts of the call into t->call. NULL: its begin was not seen. */
static __always_inline struct bpfprof_gpu_open *call_end(struct bpfprof_gpu_thread *t, __u64 sp,
							 __u64 now, __s32 result)
{
	struct bpfprof_gpu_open *open = open_pop(t, sp, now);
	struct bpfprof_gpu_call *call = &t->call;

	if (!open) {
		if (t->over)
			t->over--;
		else if (!steps_get()) /* the call began outside of the wanted steps */
			gpu_count(GPU_COUNT_RETURN_UNKNOWN);
		return NULL;
	}
	call->key = open->key;
	call->begin_ns = open->begin_ns;
	call->ns = now - open->begin_ns;
	call->bytes = open->bytes;
	call->va = 0;
	call->idle_ns = 0;
	call->result = result;
	call->flags = open->flags & ~BPFPROF_CALL_ENTRY;
	t->last_ns = now;
	return open;
}

#endif
