/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_PUSH_QUEUE_H
#define BPFPROF_DAEMON_PUSH_QUEUE_H

/*
 * Profiles and notices that wait to be sent, the oldest first. It has the names of files, not their bytes, so that
 * it stays small while a server is down; a notice is a short text. A full queue evicts the oldest, as people look for
 * the newest ones. The caller has a lock.
 */

#include <stddef.h>
#include <stdint.h>

/* A file, or a text; the item owns its strings. */
struct push_item {
	char *path; /* or NULL */
	char *body; /* is sent if there is no path */
	char *namespace, *pod; /* NULL: the profile is of the node, or of the rest without pods */
	uint64_t start, until; /* Unix time */
};

/* Makes the item of a file, and copies the strings. 0, or -ENOMEM and item is empty. */
int push_item_init(struct push_item *item, const char *path, const char *namespace,
		   const char *pod);
void push_item_fini(struct push_item *item);

struct push_queue {
	struct push_item *items; /* a ring */
	size_t cap, first, nr;
};

int push_queue_init(struct push_queue *queue, size_t cap); /* 0 or -ENOMEM; cap is at least 1 */
void push_queue_fini(struct push_queue *queue);

/* Takes over the strings of item. Returns the number of evicted items, 0 or 1. */
size_t push_queue_add(struct push_queue *queue, const struct push_item *item);
/* Moves the oldest item to the caller. 0, or -ENOENT: the queue is empty. */
int push_queue_take(struct push_queue *queue, struct push_item *ret);
/* Takes back the item of push_queue_take(), as the oldest. Returns 1 if a full queue evicts it, or 0. */
size_t push_queue_return(struct push_queue *queue, const struct push_item *item);

/*
 * The wait after so many failures in a row. It doubles from one second to half a minute, and random
 * takes off up to a half, so that the agents of a cluster do not all try at once.
 */
uint64_t push_wait_ms(unsigned int failures, uint32_t random);

#endif
