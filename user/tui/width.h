/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TUI_WIDTH_H
#define BPFPROF_TUI_WIDTH_H

/*
 * Text for columns of a terminal: names that targets chose, made harmless and cut to width. What
 * controls a terminal or the direction of text, is not UTF-8 or has no width of its own to tell
 * becomes '?'. Needs a UTF-8 LC_CTYPE for wcwidth().
 */

#include <stddef.h>

struct buf;

/* Sets a UTF-8 LC_CTYPE: the user's if it is one. */
void width_init(void);

/* Columns that text takes once it is made harmless. */
size_t width_of(const char *text);

/*
 * Adds text in at most `columns` columns (0: in as many as it takes); what is too long loses its
 * end to an ellipsis. Returns the columns taken.
 */
size_t width_add(struct buf *dst, const char *text, size_t columns);
/* The same, but the middle is lost where there is room for both ends: `name (fi...:12)`. */
size_t width_add_ends(struct buf *dst, const char *text, size_t columns);
/* width_add() with blanks behind, to exactly `columns`. */
void width_pad(struct buf *dst, const char *text, size_t columns);

#endif
