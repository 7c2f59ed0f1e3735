/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_CLOSER_H
#define BPFPROF_BASE_CLOSER_H

/*
 * Closes descriptors in its own threads. A link to uprobes takes some ten milliseconds, in which the
 * kernel mostly waits, so several at once take hardly longer. For one thread only.
 */

struct closer;

/*
 * Each thread calls before(arg), which may wait, before each close. NULL: nothing to call. The first descriptor starts
 * the threads. 0 or -errno.
 */
int closer_new(struct closer **ret, void (*before)(void *arg), void *arg);
/* Waits until everything is closed. NULL is fine. */
void closer_free(struct closer *closer);

/* Takes fd over; ignores a negative one. */
void closer_close(struct closer *closer, int fd);

#endif
