/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_CHAIN_H
#define BPFPROF_PYTHON_CHAIN_H

/*
 * Walks the frames of a Python thread in user space by bpf/unwind_python.h, as bpf/python/frames.bpf.h
 * does, over any memory and as deep as py-spy. Bounded for any content of the memory.
 */

#include <stdint.h>

#include "bpfprof.h"
#include "unwind/reader.h"

#define PYTHON_CHAIN_MAX_FRAMES 4096
#define PYTHON_CHAIN_MAX_ENTRIES PYTHON_CHAIN_MAX_FRAMES

#define PYTHON_CHAIN_NO_FRAME UINT32_MAX

struct python_chain_frame {
	uint64_t
		code; /* address of its code object; of its type for an object that has no frame (awaits.h) */
	uint64_t frame_va; /* address of the frame itself, or of that object */
	uint32_t lasti; /* index of the instruction, BPFPROF_LASTI_NONE, or PYTHON_CHAIN_NO_FRAME */
};

struct python_chain {
	int stop; /* enum bpfprof_python_stop */
	uint32_t nr_steps;
	uint32_t nr_frames, nr_entries;
	struct python_chain_frame frames[PYTHON_CHAIN_MAX_FRAMES]; /* leaf first */
	/*
	 * C calls of the eval loop, leaf first: va identifies the call (struct bpfprof_python_entry),
	 * nr counts frames up to the last one that it runs.
	 */
	struct bpfprof_python_entry entries[PYTHON_CHAIN_MAX_ENTRIES];
};

/* start is the word of the thread state at tstate_frame (struct python_tstate). */
void python_chain_walk(struct python_chain *ret, const struct bpfprof_python_layout *layout,
		       struct unwind_reader *reader, uint64_t start);

/* Reads one frame alone, such as that of a coroutine: 0 or enum bpfprof_python_stop. */
int python_chain_frame_read(struct python_chain_frame *ret,
			    const struct bpfprof_python_layout *layout,
			    struct unwind_reader *reader, uint64_t frame_va);

/* Appends the frames of one more thread state: a thread has one in each of its interpreters. */
void python_chain_add(struct python_chain *chain, const struct bpfprof_python_layout *layout,
		      struct unwind_reader *reader, uint64_t start);

#endif
