/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_PUSHER_H
#define BPFPROF_DAEMON_PUSHER_H

/*
 * Sends finished profiles to a server, in a thread of its own: whoever adds one never waits for
 * network, server or disk. One that fails is tried again, later and later (push_queue.h), until it is
 * delivered, refused for good, removed by retention, or pushed out of the queue by newer ones; each of these is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/push_post.h"
#include "daemon/push_request.h"

struct push_item;
struct pusher;

struct pusher_options {
	const char *url; /* good for push_url_check() */
	struct push_access access;
	struct push_labels labels;
	size_t queue; /* profiles that wait, at most */
};

enum push_drop {
	PUSH_DROP_QUEUE_FULL,
	PUSH_DROP_REFUSED,
	PUSH_DROP_GONE,
	PUSH_DROP_FILE,
	PUSH_DROP_NO_MEMORY,
	PUSH_NR_DROPS
};
const char *push_drop_name(enum push_drop drop);

struct pusher_stats {
	uint64_t pushed, bytes;
	uint64_t failed[PUSH_NR_OUTCOMES]; /* tries */
	uint64_t dropped[PUSH_NR_DROPS]; /* profiles that will not be pushed */
	uint64_t waiting; /* profiles; the one that is being sent too */
	uint64_t last_pushed_s; /* Unix time, 0 = never */
	uint64_t failures; /* in a row, now */
	uint64_t wait_ms; /* until the next try, as it was when the last one failed */
	struct push_result last_failure;
};

/* Borrows options. 0 or -errno; -EOPNOTSUPP: built without. Signals must be blocked by now. */
int pusher_new(struct pusher **ret, const struct pusher_options *options);
/* Takes what item holds. */
void pusher_add(struct pusher *pusher, const struct push_item *item);
/* One that could not even become an item. */
void pusher_no_memory(struct pusher *pusher);
void pusher_stats_get(struct pusher *pusher, struct pusher_stats *ret);
/* Tries at once what waits, until nothing does, or for so long, or until one fails. */
void pusher_drain(struct pusher *pusher, unsigned int timeout_ms);
/* Ends the thread; what still waits is lost. NULL is fine. */
void pusher_free(struct pusher *pusher);

#endif
