/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_SIGNALS_H
#define BPFPROF_BASE_SIGNALS_H

/* Signals that the loop of a command reads from a file descriptor. */

#include <signal.h>

/*
 * Blocks the signals (0 ends the list). A non-blocking file descriptor that is readable when one has
 * arrived, or -errno. ret_old: the mask until now, or NULL.
 */
int signals_open(const int *signals, sigset_t *ret_old);
/*
 * From here on SIGINT comes when standard input ends or can be read: at once if it can already. 0 or
 * -errno.
 */
int signals_follow_stdin(void);
/* The next signal that has arrived, or 0. */
int signals_next(int fd);

#endif
