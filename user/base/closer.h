/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_CLOSER_H
#define BPFPROF_BASE_CLOSER_H

/*
 * Closes descriptors in threads of its own: of a link to uprobes that takes some ten milliseconds
 * each, most of which the kernel waits, so that several at once take hardly longer. To be used from
 * one thread.
 */

struct closer;

/* Threads are made with the first descriptor. 0 or -errno. */
int closer_new(struct closer **ret);
/* Waits until everything is closed. NULL is fine. */
void closer_free(struct closer *closer);

/* Takes fd over. Negative ones are none. */
void closer_close(struct closer *closer, int fd);

#endif
