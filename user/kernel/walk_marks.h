/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_WALK_MARKS_H
#define BPFPROF_KERNEL_WALK_MARKS_H

/*
 * Finds the frames of a walk that are C calls of Python's eval loop, and how many Python frames
 * they run.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/reader.h"
#include "unwind_native.h"

struct walker;
struct walker_stack;

/*
 * State of the search, as in bpf/walk.bpf.h, and for versions up to 3.10 in bpf/python/proof.bpf.h.
 */
struct marking {
	const struct walker *walker;
	const struct walker_stack *stack;
	uint32_t next, nr; /* entries */
	struct unwind_state before; /* state in the frame to step over */
	uint32_t in_vain; /* calls that hold none of the frames */
	/* The innermost call, while it is the last one marked. */
	uint64_t inner_frame;
	uint32_t inner_at;
	bool inner_last;
};

/*
 * The frame just stepped over ends at cfa: marks it if it is a C call of the eval loop. frames[at]
 * is its place.
 */
uint64_t eval_mark(struct marking *m, uint64_t cfa, uint64_t frame, uint64_t *frames, uint32_t at);

#endif
