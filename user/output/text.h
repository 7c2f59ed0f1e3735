/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_OUTPUT_TEXT_H
#define BPFPROF_OUTPUT_TEXT_H

/*
 * Names that targets chose, made safe to write. Invalid UTF-8 becomes U+FFFD;
 * what controls a terminal or the direction of text becomes a blank. Names
 * longer than TEXT_MAX bytes are cut and end in "...".
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TEXT_MAX 4096

struct buf;
struct profile;
struct profile_location;
struct profile_process;

void text_add(struct buf *dst, const char *str);
/* The same for a part of a collapsed stack: `;` becomes `:`. */
void text_add_part(struct buf *dst, const char *str);
/* For a terminal: what would control it becomes `?`. */
void text_add_shown(struct buf *dst, const char *str);
/* Columns of safe text, one per character: close enough for names. */
size_t text_columns(const char *text);
/* Safe text in at most `columns` (> 0) of them; what is too long loses its middle. */
void text_add_cut(struct buf *dst, const char *text, size_t columns);
/* A JSON string with its quotes; control characters are escaped, nothing is cut. */
void text_add_json(struct buf *dst, const char *str);
/* A JSON string with its quotes; also safe inside <script>. */
void text_json(FILE *out, const char *str);
/* Content of an HTML or XML element or attribute. */
void text_xml(FILE *out, const char *str);

/* Last part of a path. */
const char *text_base_name(const char *path);

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
