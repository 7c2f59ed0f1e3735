/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_NOTIFICATION_H
#define BPFPROF_WATCH_NOTIFICATION_H

/*
 * An event of watched processes for other programs: one JSON object in one line, which --notify sends.
 * notification_begin() is first and notification_end() is last; the caller may add keys in between. Texts are cut, so
 * that a notification whose keys are these has less than NOTIFICATION_BYTES.
 */

#include <stdint.h>

struct buf;
struct profile;
struct profile_process;

#define NOTIFICATION_BYTES (64U << 10)

/* event: its kind, such as "death". why: the sentence. wall_ns: Unix time. */
void notification_begin(struct buf *dst, const char *event, const char *why, uint64_t wall_ns,
			const char *host);
/* A fact; "" and NULL are left out. */
void notification_text(struct buf *dst, const char *name, const char *text);
/* The container, the pod, the Ray task and the ranks of a process, as in labels of samples. NULL: none. */
void notification_process(struct buf *dst, const struct profile *profile,
			  const struct profile_process *process);
/* summary: a page; NULL: there is none. */
void notification_end(struct buf *dst, const char *summary);

#endif
