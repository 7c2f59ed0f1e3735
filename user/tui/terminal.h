/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TUI_TERMINAL_H
#define BPFPROF_TUI_TERMINAL_H

/*
 * Leaves the terminal as it was: its settings and its screen, also when the process dies of a
 * fault (SIGSEGV, SIGABRT, ...). Between guard and restore, messages on standard error, if that is a
 * terminal, are kept in memory (the first MiB of them) and said at the end.
 */

/* Notes how the terminal is set. 0; -ENOTTY: standard input or output is none; -errno. */
int terminal_save(void);
/* After newterm(): from here on a fault puts it back. */
void terminal_guard(void);
/* After endwin(). */
void terminal_restore(void);
/* Now and then: no more messages than there is room for. */
void terminal_bound_messages(void);

#endif
