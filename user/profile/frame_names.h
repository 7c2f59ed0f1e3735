/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_FRAME_NAMES_H
#define BPFPROF_PROFILE_FRAME_NAMES_H

/*
 * What frames are called, as numbers of somebody else's texts: of single frames, and of ranges of
 * frames with one name. Bounded; what there is no room for is not kept, until
 * frame_names_make_room(). The caller owns the struct.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

struct frame_range;

struct frame_name {
	uint32_t function, line;
	uint64_t passing; /* number of the only interval that this holds in, 0 = all */
};

struct frame_names {
	struct frame_name *names;
	struct map index; /* by frame */
	struct frame_range *ranges; /* ascending, none within another */
	size_t nr_ranges;
};

int frame_names_init(struct frame_names *names); /* 0 or -ENOMEM */
void frame_names_fini(struct frame_names *names);

/* False if the frame has to be named (again). */
bool frame_names_find(struct frame_names *names, uint64_t frame, uint64_t interval,
		      struct frame_name *ret);
void frame_names_add(struct frame_names *names, uint64_t frame, const struct frame_name *name);
/* Frames from start up to end have this name. What is known of some of them stays. */
void frame_names_add_range(struct frame_names *names, uint64_t start, uint64_t end,
			   uint32_t function);
void frame_names_forget(struct frame_names *names); /* all of them */
/* Forgets all if there are many. */
void frame_names_make_room(struct frame_names *names);

#endif
