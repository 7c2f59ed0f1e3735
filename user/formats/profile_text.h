/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_PROFILE_TEXT_H
#define BPFPROF_FORMATS_PROFILE_TEXT_H

/* The texts of a profile's frames, processes and containers, the same in all formats. */

#include <stdbool.h>

struct buf;
struct profile;
struct profile_location;
struct profile_process;

/* Text of one frame as .folded, .html and .svg show it; `;` and control characters replaced. */
void frame_text(struct buf *dst, const struct profile *profile,
		const struct profile_location *location);

/*
 * Adds NAMESPACE/POD/CONTAINER of a process, or CONTAINER alone without a pod. A container without a
 * name has the first 12 characters of its id. Adds nothing for a process in no container.
 */
void container_text(struct buf *dst, const struct profile *profile,
		    const struct profile_process *process);
/* Do the processes have more than one container? The node itself counts as one. */
bool containers_differ(const struct profile *profile);
/* The first frame of a collapsed stack; and the second one with --threads. */
void process_text(struct buf *dst, const struct profile *profile,
		  const struct profile_process *process);
void thread_text(struct buf *dst, const char *name, unsigned int tid);

/*
 * As frame_text(), but without lines of Python functions and without addresses of code that has no
 * name, so that a function and a file have one row.
 */
void function_text(struct buf *dst, const struct profile *profile,
		   const struct profile_location *location);

/* The heading of a flame graph. */
const char *flame_title(const struct profile *profile);
/* The unit of the width of its frames ("call"); NULL: samples, which stand for time. */
const char *flame_unit(const struct profile *profile);
/* "host · 2024-01-31 12:00:00 UTC · 10.0 s at 99 Hz" */
void profile_caption(struct buf *dst, const struct profile *profile);

#endif
