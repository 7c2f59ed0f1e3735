/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_TEXT_H
#define BPFPROF_BASE_TEXT_H

/*
 * Makes names that targets chose safe to write. Invalid UTF-8 becomes U+FFFD; a character that controls
 * a terminal or the direction of text becomes a blank. Names longer than TEXT_MAX bytes are cut and end
 * in "...".
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TEXT_MAX 4096

struct buf;

void text_add(struct buf *dst, const char *str);
/* The same for a part of a collapsed stack: `;` becomes `:`. */
void text_add_part(struct buf *dst, const char *str);
/* The same for a terminal: a control character becomes `?`. */
void text_add_shown(struct buf *dst, const char *str);
/* Columns of safe text, one per character: close enough for names. */
size_t text_columns(const char *text);
/* Safe text in at most `columns` (> 0) columns; a longer one loses its middle. */
void text_add_cut(struct buf *dst, const char *text, size_t columns);
/* A JSON string with its quotes; control characters are escaped, nothing is cut. */
void text_add_json(struct buf *dst, const char *str);
/* A JSON string with its quotes; also safe inside <script>. */
void text_json(FILE *out, const char *str);
/* Content of an HTML or XML element or attribute. */
void text_xml(FILE *out, const char *str);

/* A word of a shell's command, in quotes if it needs them; nothing is cut or replaced. */
void text_add_word(struct buf *dst, const char *str);

bool text_begins(const char *text, const char *begin);
bool text_ends(const char *text, const char *end);
/* Last part of a path. */
const char *text_base_name(const char *path);

/* Adds text that a user typed: cut to a readable length, what a terminal may not get as '?'. */
void text_add_typed(struct buf *dst, const char *text);

#endif
