/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_WALK_MARKS_H
#define BPFPROF_KERNEL_WALK_MARKS_H

/* Which frames of a walk are C calls of Python's eval loop, and how many Python frames they run. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/reader.h"
#include "unwind_native.h"

struct walker;
struct walker_stack;

/*
 * What tells which Python frames the calls of the eval loop run: as in bpf/walk.bpf.h, and for those
 * up to 3.10 in bpf/python/proof.bpf.h.
 */
struct marking {
	const struct walker *walker;
	const struct walker_stack *stack;
	uint32_t next, nr; /* entries */
	struct unwind_state before; /* in the frame that is stepped over */
	uint32_t in_vain; /* calls that hold none of the frames */
	/* Of the innermost call, while it is the last one that was taken for one that runs a frame. */
	uint64_t inner_frame;
	uint32_t inner_at;
	bool inner_last;
};

/* The frame stepped over reaches up to cfa: is it a C call of the eval loop? frames[at] is its place. */
uint64_t eval_mark(struct marking *m, uint64_t cfa, uint64_t frame, uint64_t *frames, uint32_t at);

#endif
