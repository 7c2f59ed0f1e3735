/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TUI_WIDTH_H
#define BPFPROF_TUI_WIDTH_H

/*
 * Makes names that targets chose safe for a terminal, and cuts them to a width. A character that controls
 * the terminal or the direction of text, is not UTF-8 or has no known width becomes '?'. Needs a UTF-8
 * LC_CTYPE for wcwidth().
 */

#include <stddef.h>

struct buf;

/* Sets a UTF-8 LC_CTYPE: that of the user if it is UTF-8. */
void width_init(void);

/* The columns that the safe text takes. */
size_t width_of(const char *text);

/*
 * Adds text in at most `columns` columns (0: no limit); an ellipsis replaces the end of a longer text.
 * Returns the columns taken.
 */
size_t width_add(struct buf *dst, const char *text, size_t columns);
/* The same, but cuts the middle if there is room for both ends: `name (fi...:12)`. */
size_t width_add_ends(struct buf *dst, const char *text, size_t columns);
/* width_add(), then blanks up to exactly `columns`. */
void width_pad(struct buf *dst, const char *text, size_t columns);

#endif
