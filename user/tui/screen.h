/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TUI_SCREEN_H
#define BPFPROF_TUI_SCREEN_H

/*
 * Draws pages on the terminal: the only file that uses ncurses. There is one screen at a time. The
 * terminal is restored on close, and when the process dies of a fault (SIGSEGV, SIGABRT, ...). While
 * the screen is open, messages on standard error, if that is a terminal, are kept and printed afterwards.
 */

#include <stddef.h>
#include <stdint.h>

struct page;

/* 0; -ENOTTY: standard input or output is no terminal; -ENOENT: TERM is not known; or -errno. */
int screen_open(void);
void screen_close(void); /* does nothing if it is not open */

/* The terminal may have another size now. */
void screen_resize(void);
void screen_size(size_t *ret_columns, size_t *ret_rows);
void screen_draw(const struct page *page);
/* The next key that was pressed (a byte of text, or enum view_key); 0: none. */
uint32_t screen_key(void);

#endif
