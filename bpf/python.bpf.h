/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_PYTHON_BPF_H
#define BPFPROF_BPF_PYTHON_BPF_H

/*
 * The Python part of a sample: of each thread state of the interrupted thread the frames, each as
 * (code object, instruction).
 */
#include "python_codes.bpf.h"

/*
 * From 3.11 on frames lie one above another in the thread's data stack, a caller below what it
 * called, so that one copy serves many; shims lie on the C stack. Others (generators,
 * 3.8-3.10) are somewhere in the heap.
 */
static __always_inline const __u8 *python_frame_at(struct unwind_reader *r, __u64 va, __u32 len,
						   __u8 *room)
{
	struct python_scratch *py = &r->py;
	__u64 off = va - r->rec.at.stack_va, size, start;

	len &= BPFPROF_PYTHON_FRAME_BYTES - 1;
	if (off < BPFPROF_STACK_BYTES - PYTHON_FRAME_ROOM && window_has(r, va, len))
		return r->rec.stack + (off & (BPFPROF_STACK_BYTES - 1));
	off = va - py->window_va;
	if (off < PYTHON_WINDOW_BYTES && off + len <= py->window_len)
		return py->window + (off & (PYTHON_WINDOW_BYTES - 1));
	if (py->layout.chain != PYTHON_CHAIN_OBJECTS && py->last_va - va < 4 * PAGE_BYTES) {
		/* Not into the page below: it may not be there, and a fault costs more than a read. */
		off = va & (PAGE_BYTES - 1);
		if (off > PYTHON_WINDOW_BYTES / 2)
			off = PYTHON_WINDOW_BYTES / 2;
		size = off + len;
		barrier_var(size);
		size &= PYTHON_WINDOW_BYTES - 1;
		if (!bpf_probe_read_user(py->window, size, (void *)(va - off))) {
			py->window_va = va - off;
			py->window_len = size;
			return py->window + (off & (PYTHON_WINDOW_BYTES - 1));
		}
	}
	py->last_va = va;
	start = py->layout.frame_start & (BPFPROF_PYTHON_FRAME_BYTES - 8);
	size = (len - start) & (BPFPROF_PYTHON_FRAME_BYTES - 1);
	return bpf_probe_read_user(room + start, size, (void *)(va + start)) ? NULL : room;
}

static long python_walk_frame(__u32 i, struct python_ctx *ctx)
{
	struct unwind_reader *r = ctx->r;
	struct python_scratch *py = &r->py;
	__u32 at, nr = r->rec.sample.nr_python;
	__u64 frame;
	int stop;

	stop = python_step(&py->walk, &py->layout, r, py->frame);
	if (!stop && py->walk.code) {
		at = r->rec.sample.nr_kernel + nr;
		frame = python_frame_make(r, py->walk.code, py->walk.lasti);
		if (!frame)
			stop = PYTHON_STOP_READ_FAULT;
		else if (nr >= BPFPROF_MAX_PYTHON_FRAMES || at >= BPFPROF_MAX_FRAMES)
			stop = PYTHON_STOP_DEPTH;
		else if (frame != FRAME_HIDDEN) {
			r->rec.frames[at] = frame;
			r->rec.sample.nr_python = ++nr;
		}
	}
	if (stop) {
		py->stop = stop;
		return 1;
	}
	at = r->rec.at.nr_entries;
	if (!py->walk.entry || nr == py->entered)
		return 0;
	if (at >= BPFPROF_MAX_PYTHON_ENTRIES) {
		py->stop = PYTHON_STOP_ENTRIES;
		return 1;
	}
	r->rec.entries[at].va = py->walk.entry;
	r->rec.entries[at].nr = nr;
	r->rec.at.nr_entries = at + 1;
	py->entered = nr;
	return 0;
}

/* The chain of the thread state in py->tstate. */
static __noinline int chain_walk(struct unwind_reader *r)
{
	struct python_scratch *py = &r->py;
	struct python_ctx ctx = { .r = r };

	py->walk.frame = tstate_u64(py, py->layout.tstate_frame);
	py->walk.cframe = py->walk.frame;
	py->walk.begun = 0;
	if (py->layout.chain == PYTHON_CHAIN_ENTRY_FLAG ||
	    py->layout.chain == PYTHON_CHAIN_CFRAME) {
		if (!py->walk.cframe)
			return 0;
		if (unwind_read_u64(r, py->walk.cframe + py->layout.cframe_frame,
				    &py->walk.frame)) {
			py->stop = PYTHON_STOP_READ_FAULT;
			return 0;
		}
	}
	py->window_len = 0;
	py->last_va = py->walk.frame;
	py->stop = PYTHON_STOP_DEPTH; /* unless it ends before */
	bpf_loop(BPFPROF_MAX_PYTHON_FRAMES + BPFPROF_MAX_PYTHON_ENTRIES, python_walk_frame, &ctx,
		 0);
	return 0;
}

/* All Python frames of the interrupted thread; before the native ones are walked. */
static __noinline int python_walk(struct unwind_reader *r, __u32 slot)
{
	struct python_scratch *py = &r->py;
	struct bpfprof_python *p = bpf_map_lookup_elem(&pythons, &slot);
	struct bpfprof_python_layout *layout;
	__u32 i, nr;

	if (!p || !p->id || p->start_ns != r->rec.sample.task.start_ns)
		return 0;
	if (py->layout_nr != p->layout || !py->layout.chain) {
		nr = p->layout;
		layout = bpf_map_lookup_elem(&layouts, &nr);
		if (!layout)
			return 0;
		py->layout = *layout;
		py->layout_nr = nr;
		__builtin_memset(py->code, 0, 256); /* code_read() leaves the rest as it is */
	}
	py->id = p->id;
	py->slot = slot;
	py->runtime = p->runtime;
	py->stop = PYTHON_STOP_NONE;
	py->nr_pending = 0;
	py->entered = 0;
	r->rec.sample.python_flags |= BPFPROF_PYTHON_PROCESS;
	tstates_find(r);
	for (i = 0; i < 4 && i < py->nr_tstates; i++) {
		/* After the lists were walked another one may have been read last. */
		if (py->nr_interpreters && tstate_read(py, py->tstates[i]))
			continue;
		if (tstate_is_ours(py)) {
			if (!(r->rec.sample.python_flags & BPFPROF_PYTHON_GIL_HELD))
				gil_note(r, py->tstates[i]);
			chain_walk(r);
		}
	}
	if (py->nr_pending)
		pending_send(r);
	r->rec.sample.python_stop = py->stop;
	return 0;
}

#endif
