/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_PUSHER_H
#define BPFPROF_DAEMON_PUSHER_H

/*
 * Sends items, which are finished profiles or notices, to a server. A thread does it, so that the caller never waits for
 * network, server or disk. A failed item is tried again with growing waits (push_queue.h), until it is delivered,
 * refused, removed by retention, or evicted from the queue by newer ones. Each is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/push_post.h"
#include "daemon/push_request.h"

struct push_item;
struct pusher;

struct pusher_options {
	const char *url; /* valid for push_url_check() */
	bool as_is; /* the URL is requested as it is; else it is a Pyroscope server's */
	struct push_access access;
	struct push_labels labels; /* for Pyroscope */
	size_t queue; /* the most items that may wait */
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
	uint64_t dropped[PUSH_NR_DROPS]; /* items that are given up */
	uint64_t waiting; /* items, with the one that is being sent */
	uint64_t last_pushed_s; /* Unix time, 0 = never */
	uint64_t failures; /* in a row, now */
	uint64_t wait_ms; /* the wait after the last failure */
	struct push_result last_failure;
};

/* Borrows options. 0 or -errno; -EOPNOTSUPP: built with PUSH=0. The caller has blocked signals. */
int pusher_new(struct pusher **ret, const struct pusher_options *options);
/* Takes over the strings of item. */
void pusher_add(struct pusher *pusher, const struct push_item *item);
/* Counts an item that could not be made, without memory for it. */
void pusher_no_memory(struct pusher *pusher);
void pusher_stats_get(struct pusher *pusher, struct pusher_stats *ret);
/*
 * Sends the queue at once, until it is empty, the time (CLOCK_MONOTONIC) is over, or a try fails. The second function
 * waits for that; between the two others may be drained, too.
 */
void pusher_drain_begin(struct pusher *pusher);
void pusher_drain_wait(struct pusher *pusher, uint64_t until_ns);
/* Ends the thread; items in the queue are lost. NULL is fine. */
void pusher_free(struct pusher *pusher);

#endif
