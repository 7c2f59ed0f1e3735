/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_PUSH_QUEUE_H
#define BPFPROF_DAEMON_PUSH_QUEUE_H

/*
 * Profiles that wait for being pushed, the oldest first: names of files, not their bytes, so that a
 * server that is away for hours costs no memory. Bounded: where there is no room the oldest goes,
 * for the newest are what people look for. To be used under one lock.
 */

#include <stddef.h>
#include <stdint.h>

/* One file; all strings are the item's own. */
struct push_item {
	char *path;
	char *namespace, *pod; /* or NULL: of the whole node, or of what lives in no pod */
	uint64_t start, until; /* Unix time */
};

/* Copies. 0 or -ENOMEM, then item holds nothing. */
int push_item_init(struct push_item *item, const char *path, const char *namespace,
		   const char *pod);
void push_item_fini(struct push_item *item);

struct push_queue {
	struct push_item *items; /* a ring */
	size_t cap, first, nr;
};

int push_queue_init(struct push_queue *queue, size_t cap); /* 0 or -ENOMEM; cap is at least 1 */
void push_queue_fini(struct push_queue *queue);

/* Takes what item holds. The number of items that had to go for it, 0 or 1. */
size_t push_queue_add(struct push_queue *queue, const struct push_item *item);
/* The oldest becomes the caller's. 0, or -ENOENT: it is empty. */
int push_queue_take(struct push_queue *queue, struct push_item *ret);
/* Takes back what push_queue_take() gave, as the oldest. 0, or 1: there was no room, it is gone. */
size_t push_queue_return(struct push_queue *queue, const struct push_item *item);

/*
 * How long to wait after so many failures in a row: twice as long each time, from one second to half
 * a minute, less up to a half by random, so that the agents of a cluster do not come back all at once.
 */
uint64_t push_wait_ms(unsigned int failures, uint32_t random);

#endif
