/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_PROFILE_TEXT_H
#define BPFPROF_FORMATS_PROFILE_TEXT_H

/* What people read of a profile's frames, processes and containers, in every format the same. */

#include <stdbool.h>

struct buf;
struct profile;
struct profile_location;
struct profile_process;

/* Text of one frame as .folded, .html and .svg show it; `;` and control characters replaced. */
void frame_text(struct buf *dst, const struct profile *profile,
		const struct profile_location *location);

/*
 * NAMESPACE/POD/CONTAINER of a process, CONTAINER alone where it has no pod; without a name it is
 * the first 12 characters of its id. Nothing for a process in none. In front of its stacks.
 */
void container_text(struct buf *dst, const struct profile *profile,
		    const struct profile_process *process);
/* Do the processes live in more than one container, the node itself counted as one? */
bool containers_differ(const struct profile *profile);
/* What the first frame of a collapsed stack says of a process and, with --threads, the second. */
void process_text(struct buf *dst, const struct profile *profile,
		  const struct profile_process *process);
void thread_text(struct buf *dst, const char *name, unsigned int tid);

/*
 * As frame_text(), but all lines of a Python function are one, and so is all code of a file that
 * has no names: else each of its addresses had a row.
 */
void function_text(struct buf *dst, const struct profile *profile,
		   const struct profile_location *location);

/* What a flame graph is of. */
const char *flame_title(const struct profile *profile);
/* What its frames are as wide as, one of them ("call"); NULL: samples, which stand for time. */
const char *flame_unit(const struct profile *profile);
/* "host · 2024-01-31 12:00:00 UTC · 10.0 s at 99 Hz" */
void profile_caption(struct buf *dst, const struct profile *profile);

#endif
