/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_PYTHON_FRAMES_BPF_H
#define BPFPROF_BPF_PYTHON_FRAMES_BPF_H

/*
 * The Python part of a sample: the frames of each thread state of the interrupted thread, each as
 * (code object, instruction).
 */
#include "python/awaiters.bpf.h"

#define PYTHON_FRAMES_A_STEP 4 /* divides the maxima of frames and entries */

/* Appends the frame just read, unless it is hidden. 0, or a stop. */
static __always_inline int frame_append(struct unwind_reader *r, __u64 frame)
{
	__u64 nr = r->rec.sample.nr_python, at = r->rec.sample.nr_kernel + nr;

	if (!frame)
		return PYTHON_STOP_READ_FAULT;
	barrier_var(at); /* Linux 6.1 loses the bound of a spilled variable */
	if (nr >= BPFPROF_MAX_PYTHON_FRAMES || at >= BPFPROF_MAX_FRAMES)
		return PYTHON_STOP_DEPTH;
	if (frame != FRAME_HIDDEN) {
		r->rec.frames[at] = frame;
		r->rec.sample.nr_python = nr + 1;
	}
	return 0;
}

/* 1 = the walk has ended. */
static __always_inline int python_walk_frame(struct unwind_reader *r)
{
	struct python_scratch *py = &r->py;
	__u64 frame = py->walk.frame;
	__u32 at, nr;
	int stop;

	stop = python_step(&py->walk, &py->layout, r, py->frame);
	if (!stop && py->walk.code)
		stop = frame_append(r, python_frame_make(r, py->walk.code, py->walk.lasti));
	if (stop) {
		py->stop = stop;
		return 1;
	}
	if (cfg.async)
		awaits_note(r, frame);
	nr = r->rec.sample.nr_python;
	at = r->rec.at.nr_entries;
	if (py->walk.entry && nr != py->entered) {
		if (at >= BPFPROF_MAX_PYTHON_ENTRIES) {
			py->stop = PYTHON_STOP_ENTRIES;
			return 1;
		}
		r->entries[at].va = py->walk.entry;
		r->entries[at].nr = nr;
		r->rec.at.nr_entries = at + 1;
		py->entered = nr;
	}
	if (py->walk.frame)
		return 0;
	py->stop = PYTHON_STOP_COMPLETE; /* set now, which may save a step of bpf_loop */
	return 1;
}

/*
 * A step of bpf_loop, as walk_frames() in walk.bpf.h. A frame is inlined, because here a call would
 * cost a tenth of it. The barrier keeps clang from reading most of r before the loop and spilling it in
 * each step.
 */
static long python_walk_frames(__u32 i, struct reader_ctx *ctx)
{
	struct unwind_reader *r = ctx->r;
	__u32 nr;

#pragma clang loop unroll(disable)
	for (nr = 0; nr < PYTHON_FRAMES_A_STEP; nr++) {
		barrier_var(r);
		if (python_walk_frame(r))
			return 1;
	}
	return 0;
}

/* Walks the chain of the thread state in py->tstate. */
static __always_inline void chain_walk(struct reader_ctx *ctx)
{
	struct unwind_reader *r = ctx->r;
	struct python_scratch *py = &r->py;

	py->walk.frame = tstate_u64(py, py->layout.tstate_frame);
	py->walk.cframe = py->walk.frame;
	py->walk.begun = 0;
	if (py->layout.chain == PYTHON_CHAIN_ENTRY_FLAG ||
	    py->layout.chain == PYTHON_CHAIN_CFRAME) {
		if (!py->walk.cframe)
			return;
		if (unwind_read_u64(r, py->walk.cframe + py->layout.cframe_frame,
				    &py->walk.frame)) {
			py->stop = PYTHON_STOP_READ_FAULT;
			return;
		}
	}
	py->last_va = py->walk.frame;
	if (py->layout.chain == PYTHON_CHAIN_OBJECTS && py->walk.frame)
		r->rec.sample.python_flags |= BPFPROF_PYTHON_OBJECTS;
	py->stop = PYTHON_STOP_DEPTH; /* unless the chain ends before */
	bpf_loop((BPFPROF_MAX_PYTHON_FRAMES + BPFPROF_MAX_PYTHON_ENTRIES) / PYTHON_FRAMES_A_STEP,
		 python_walk_frames, ctx, 0);
}

/* Walks thread state i; a step of bpf_loop, so that the verifier checks it once. */
static long tstate_walk(__u32 i, struct reader_ctx *ctx)
{
	struct unwind_reader *r = ctx->r;
	struct python_scratch *py = &r->py;
	__u64 va = py->tstates[i & (MAX_TSTATES - 1)];

	/* The walk of the lists may have read another thread state last. */
	if ((py->nr_interpreters && tstate_read(py, va)) || !tstate_is_ours(py))
		return 0;
	if (!(r->rec.sample.python_flags & BPFPROF_PYTHON_GIL_HELD))
		gil_note(r, va);
	if (cfg.async)
		awaits_prepare(ctx, va);
	chain_walk(ctx);
	if (cfg.async)
		awaits_walk(ctx);
	return 0;
}

/*
 * Walks the thread's frames in the runtime py->next, if that runtime is in use: then its lists lead
 * to a thread state of this thread. A step of bpf_loop.
 */
static long runtime_walk(__u32 i, struct reader_ctx *ctx)
{
	struct unwind_reader *r = ctx->r;
	struct python_scratch *py = &r->py;
	struct bpfprof_python_layout *layout;
	struct bpfprof_python *p;
	__u32 nr = py->next, slot = nr;

	p = nr ? bpf_map_lookup_elem(&pythons, &nr) : NULL;
	if (!p || !p->id || p->start_ns != r->rec.sample.task.start_ns)
		return 1;
	py->next = p->next;
	py->nth = i;
	nr = p->layout;
	if (py->layout_nr != nr || !py->layout.chain) {
		layout = bpf_map_lookup_elem(&layouts, &nr);
		if (!layout)
			return 1;
		py->layout = *layout;
		py->layout_nr = nr;
	}
	if (!i) {
		py->id = p->id;
		py->prints.seed = mix(cfg.hash_seed, py->id);
		r->rec.sample.python_flags |= BPFPROF_PYTHON_PROCESS;
	}
	py->runtime = p->runtime;
	py->stop = PYTHON_STOP_NONE;
	py->nr_pending = 0;
	tstates_find(r);
	if (cfg.async)
		awaits_begin(r, slot);
	bpf_loop(py->nr_tstates, tstate_walk, ctx, 0);
	if (py->nr_pending)
		pending_send(r);
	if (py->stop > r->rec.sample.python_stop)
		r->rec.sample.python_stop = py->stop;
	return !py->next;
}

/*
 * Walks all Python frames of the interrupted thread, before the native ones. Inlined, and with the
 * ctx of its caller: the verifier allows 8 nested calls and 512 bytes of stack in all of them, and
 * hooked calls reach both.
 */
static __always_inline void python_walk(struct reader_ctx *ctx, __u32 slot)
{
	struct python_scratch *py = &ctx->r->py;

	py->slot = slot;
	py->next = slot;
	py->entered = 0;
	spans_begin(&py->prints.spans);
	bpf_loop(BPFPROF_MAX_RUNTIMES, runtime_walk, ctx, 0);
}

#endif
