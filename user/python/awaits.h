/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_AWAITS_H
#define BPFPROF_PYTHON_AWAITS_H

/*
 * Walks from a suspended coroutine to what it awaits: coroutines, generators and asynchronous generators,
 * down to a future. The target controls all of it: the walk is as bounded as that of a thread, and ends
 * where it meets an object again.
 */

#include <stdint.h>

struct python_chain;
struct python_heap;

/*
 * Fills in *ret with the frames, the innermost first (ret->stop as in python/chain.h: COMPLETE, or the
 * reason why frames are missing). *ret_end is the object at the end, which has no frame of its own: a
 * future, any other awaitable, or 0.
 */
void python_awaits_walk(struct python_chain *ret, struct python_heap *heap, uint64_t coroutine,
			uint64_t *ret_end);

/* The address of the frame of a coroutine or generator; 0: it has none any more. */
uint64_t python_awaits_frame(struct python_heap *heap, uint64_t coroutine);

#endif
