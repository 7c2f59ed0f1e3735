/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_AWAITS_H
#define BPFPROF_PYTHON_AWAITS_H

/*
 * Walks from a suspended coroutine to what it awaits: coroutines, generators and asynchronous generators,
 * down to a future. Those of Cython have no frames, but their types describe the field with the awaited
 * object. The target controls all of it: the walk is as bounded as that of a thread, and ends where it meets
 * an object again.
 */

#include <stddef.h>
#include <stdint.h>

#include "python/chain.h"

struct python_heap;

#define PYTHON_AWAITS_OUTER 8

/* The outer end of a chain. */
struct python_awaits_root {
	uint64_t frame; /* address of the outermost frame; 0: there is none (any more) */
	/* The objects above it, outermost first. */
	struct python_chain_frame outer[PYTHON_AWAITS_OUTER];
	uint32_t nr_outer;
};

/*
 * Fills in *ret with the frames, the innermost first (ret->stop as in python/chain.h: COMPLETE, or the
 * reason why frames are missing). *ret_end is the object at the end, which has no frame of its own: a
 * future, any other awaitable, or 0. An object without a frame has an entry with PYTHON_CHAIN_NO_FRAME.
 */
void python_awaits_walk(struct python_chain *ret, struct python_heap *heap, uint64_t coroutine,
			uint64_t *ret_end);

/* Finds the outer end of the chain of a coroutine, whether it runs or is suspended. */
void python_awaits_root(struct python_awaits_root *ret, struct python_heap *heap,
			uint64_t coroutine);

/* The text that stands for an object without a frame: "[type]", cut. */
void python_awaits_name(struct python_heap *heap, const struct python_chain_frame *frame, char *ret,
			size_t bytes);

#endif
