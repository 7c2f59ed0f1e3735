/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TUI_SCREEN_H
#define BPFPROF_TUI_SCREEN_H

/*
 * The terminal: ncurses' only user. There is one at a time, since there is one terminal; it is put
 * back as it was on close and when the process dies of a fault (SIGSEGV, SIGABRT, ...). While it
 * is open, messages on standard error, if that is a terminal, are kept and said afterwards.
 */

#include <stddef.h>
#include <stdint.h>

struct page;

/* 0; -ENOTTY: standard input or output is no terminal; -ENOENT: TERM is not known; -errno. */
int screen_open(void);
void screen_close(void); /* fine if it is not open */

/* The terminal may have another size now. */
void screen_resize(void);
void screen_size(size_t *ret_columns, size_t *ret_rows);
void screen_draw(const struct page *page);
/* The next key that was pressed (a byte of text or enum view_key); 0: none. */
uint32_t screen_key(void);

#endif
