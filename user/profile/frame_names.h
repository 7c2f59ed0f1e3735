/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_FRAME_NAMES_H
#define BPFPROF_PROFILE_FRAME_NAMES_H

/*
 * A cache of the names of frames, as numbers of texts that the caller keeps: of single frames, and of
 * ranges of frames with one name. Bounded: a name without room is not kept until
 * frame_names_make_room() is called. The caller owns the struct.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

struct frame_range;

struct frame_name {
	uint32_t function, line;
	uint64_t passing; /* the only interval in which the name holds, 0 = all */
};

struct frame_names {
	struct frame_name *names;
	struct map index; /* by frame */
	struct frame_range *ranges; /* ascending, none overlaps another */
	size_t nr_ranges;
};

int frame_names_init(struct frame_names *names); /* 0 or -ENOMEM */
void frame_names_fini(struct frame_names *names);

/* False: the frame has no name, or the name holds no more. */
bool frame_names_find(struct frame_names *names, uint64_t frame, uint64_t interval,
		      struct frame_name *ret);
void frame_names_add(struct frame_names *names, uint64_t frame, const struct frame_name *name);
/* Frames from start up to end have this name. Names of single frames in the range stay. */
void frame_names_add_range(struct frame_names *names, uint64_t start, uint64_t end,
			   uint32_t function);
void frame_names_forget(struct frame_names *names); /* all names */
/* Forgets all names if there is little room left. */
void frame_names_make_room(struct frame_names *names);

#endif
