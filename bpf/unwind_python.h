/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_UNWIND_PYTHON_H
#define BPFPROF_BPF_UNWIND_PYTHON_H

/*
 * One step up a chain of CPython frames (CPython: Include/cpython/frameobject.h up to 3.10,
 * Include/internal/pycore_frame.h 3.11-3.13, pycore_interpframe_structs.h 3.14+). Plain C, compiled into
 * the BPF programs, into user space and into the tests. The includer defines the reader:
 *
 *	static int python_frame_read(struct unwind_reader *reader, __u64 va, __u32 len,
 *				     __u8 dst[PYTHON_FRAME_ROOM]);
 *	static int unwind_read_u64(struct unwind_reader *reader, __u64 va, __u64 *dst);
 *
 * (0 or negative). An includer with frames in its own memory defines python_frame_at() and PYTHON_FRAME_AT
 * instead: it returns the address, or NULL.
 *
 * Addresses pair C frames with Python frames. From 3.11 on every C call of the eval loop has an object of
 * the chain in its own C frame: its cframe (3.11), or the shim frame that ends its part of the chain
 * (3.12+). Up to 3.10 each C call of the eval loop runs one frame and holds its address, in a register or
 * in its C frame. Frames that no call of the eval loop runs belong to the next call outside of them: frames
 * of waiting coroutines into which something is thrown (up to 3.11), and frames of compiled Python.
 */

#include "bpfprof.h"

#define PYTHON_FRAME_ROOM (BPFPROF_PYTHON_FRAME_BYTES + 8)
#define PYTHON_MIN_VA 4096ULL

struct python_walk {
	__u64 frame; /* the next frame to read */
	__u64 cframe; /* 3.11: cframe of the present C call of the eval loop */
	__u64 outer; /* 3.11: cframe of the next outer call */
	__u64 boundary; /* 3.11: current frame of the outer call when the present one began */
	__u64 further; /* 3.11: cframe of the call after that */
	/* The frame just read: */
	__u64 code; /* address of its code object, 0 = a shim */
	/*
	 * An address that identifies the C call of the eval loop that ends here: an address in its
	 * C frame, or up to 3.10 the frame that it holds. 0 = no call ends here.
	 */
	__u64 entry;
	__u32 lasti; /* index of the instruction, or BPFPROF_LASTI_NONE */
	__u32 begun; /* 3.11: boundary is known */
};

#ifndef PYTHON_FRAME_AT
static inline const __u8 *python_frame_at(struct unwind_reader *reader, __u64 va, __u32 len,
					  __u8 room[PYTHON_FRAME_ROOM])
{
	return python_frame_read(reader, va, len, room) ? 0 : room;
}
#endif

static inline __u64 python_u64(const __u8 *buf, __u32 off)
{
	return *(const __u64 *)(buf + off);
}

static inline int python_plausible(__u64 va)
{
	return va >= PYTHON_MIN_VA && va < BPFPROF_USER_VA_END;
}

/* Instruction index of a pointer into the code of the object at code. */
static inline __u32 python_lasti_of(const struct bpfprof_python_layout *layout, __u64 code,
				    __u64 instruction)
{
	__u64 lasti = (instruction - code - layout->code_adaptive) / 2;

	return lasti < BPFPROF_LASTI_NONE ? lasti : BPFPROF_LASTI_NONE;
}

static inline __u32 python_lasti_int(const struct bpfprof_python_layout *layout, __s32 lasti)
{
	if (lasti < 0)
		return BPFPROF_LASTI_NONE;
	if (layout->lasti_unit != 2)
		lasti /= 2;
	return (__u32)lasti < BPFPROF_LASTI_NONE ? (__u32)lasti : BPFPROF_LASTI_NONE;
}

#ifndef UNWIND_READ_TWO
/* Reads two neighbouring numbers. */
static inline int unwind_read_two(struct unwind_reader *reader, __u64 va, __u64 *first,
				  __u64 *second)
{
	return unwind_read_u64(reader, va, first) || unwind_read_u64(reader, va + 8, second);
}
#endif

/*
 * 3.11: reads the cframe w->outer, which has the current frame and the next cframe side by side. 0
 * or -1.
 */
static inline int python_outer_read(struct python_walk *w,
				    const struct bpfprof_python_layout *layout,
				    struct unwind_reader *reader)
{
	w->boundary = 0;
	w->further = 0;
	return w->outer && unwind_read_two(reader, w->outer + layout->cframe_frame, &w->boundary,
					   &w->further)
		       ? -1
		       : 0;
}

/* 3.11: goes on to the next C call of the eval loop. 0 or -1. */
static inline int python_cframe_next(struct python_walk *w,
				     const struct bpfprof_python_layout *layout,
				     struct unwind_reader *reader)
{
	w->cframe = w->outer;
	w->outer = w->further;
	return python_outer_read(w, layout, reader);
}

/*
 * 3.11: goes on with the frame that the next C call of the eval loop ran when it began the call
 * before. The flag is_entry of a frame proves nothing: a waiting coroutine keeps it while an
 * exception is thrown through it. 0 or -1.
 */
static inline int python_cframe_begin(struct python_walk *w,
				      const struct bpfprof_python_layout *layout,
				      struct unwind_reader *reader)
{
	w->begun = 1;
	if (unwind_read_u64(reader, w->cframe + layout->cframe_previous, &w->outer) ||
	    python_outer_read(w, layout, reader))
		return -1;
	if (w->frame != w->boundary || !w->outer)
		return 0;
	return python_cframe_next(w, layout,
				  reader); /* the innermost call has finished, but for its return */
}

/*
 * Reads the frame at w->frame into w and goes on to its caller. 0, or enum bpfprof_python_stop:
 * COMPLETE if there was none left.
 */
static inline int python_step(struct python_walk *w, const struct bpfprof_python_layout *layout,
			      struct unwind_reader *reader, __u8 room[PYTHON_FRAME_ROOM])
{
	__u64 frame = w->frame;
	const __u8 *buf;
	__u8 owner;

	w->code = 0;
	w->entry = 0;
	if (!frame)
		return PYTHON_STOP_COMPLETE;
	if (!python_plausible(frame) || frame & 7)
		return PYTHON_STOP_BAD;
	if (layout->chain == PYTHON_CHAIN_ENTRY_FLAG && !w->begun &&
	    python_cframe_begin(w, layout, reader))
		return PYTHON_STOP_READ_FAULT;
	buf = python_frame_at(reader, frame, layout->frame_bytes, room);
	if (!buf)
		return PYTHON_STOP_READ_FAULT;
	w->code = python_u64(buf, layout->frame_code & (BPFPROF_PYTHON_FRAME_BYTES - 1));
	w->frame = python_u64(buf, layout->frame_previous & (BPFPROF_PYTHON_FRAME_BYTES - 1));
	w->code &= ~(__u64)layout->code_mask;
	if (layout->chain == PYTHON_CHAIN_OBJECTS) {
		w->entry = frame;
		w->lasti = python_lasti_int(
			layout,
			*(__s32 *)(buf + (layout->frame_lasti & (BPFPROF_PYTHON_FRAME_BYTES - 1))));
	} else {
		owner = buf[layout->frame_owner & (BPFPROF_PYTHON_FRAME_BYTES - 1)];
		if (layout->chain != PYTHON_CHAIN_ENTRY_FLAG && owner >= layout->shim_owner) {
			w->entry = frame;
			w->code = 0;
			return 0;
		}
		w->lasti = python_lasti_of(
			layout, w->code,
			python_u64(buf, layout->frame_lasti & (BPFPROF_PYTHON_FRAME_BYTES - 1)));
		if (layout->chain == PYTHON_CHAIN_ENTRY_FLAG && w->outer &&
		    w->frame == w->boundary) {
			w->entry = w->cframe;
			if (python_cframe_next(w, layout, reader))
				return PYTHON_STOP_READ_FAULT;
		}
	}
	return python_plausible(w->code) ? 0 : PYTHON_STOP_BAD;
}

/*
 * Does a traceback hide this code object (code: its beginning)? From 3.13 on a call of a class runs
 * __init__ above a frame of the interpreter (_Py_InitCleanup in Python/specialize.c), whose static
 * code object has one string for all its names, and no line.
 */
static inline int python_code_hidden(const struct bpfprof_python_layout *layout, const __u8 *code)
{
	return layout->chain == PYTHON_CHAIN_FRAMES &&
	       python_u64(code, layout->code_name & 0xff) ==
		       python_u64(code, layout->code_filename & 0xff) &&
	       !*(const __u32 *)(code + (layout->code_firstlineno & 0xff));
}

#endif
