/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TUI_TERMINAL_H
#define BPFPROF_TUI_TERMINAL_H

/*
 * Restores the settings and the screen of the terminal, also when the process dies of a fault (SIGSEGV,
 * SIGABRT, ...). Between guard and restore, messages on standard error, if that is a terminal, are kept
 * in memory (the first MiB) and printed at the end.
 */

/* Saves the settings. 0; -ENOTTY: standard input or output is no terminal; or -errno. */
int terminal_save(void);
/* Call it after newterm(): from now on a fault restores the terminal. */
void terminal_guard(void);
/* Call it after endwin(). */
void terminal_restore(void);
/* Drops messages beyond the limit; call it now and then. */
void terminal_bound_messages(void);

#endif
