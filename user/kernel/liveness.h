/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_LIVENESS_H
#define BPFPROF_KERNEL_LIVENESS_H

/*
 * Finds processes whose exit event was lost because the ring buffer was full, or came before they
 * were known. It checks all known processes and all targets in turn, some hundred a second. A
 * second later it checks an ended one again, because its event may still be in the ring.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct liveness;
struct process;
struct processes;
struct session;

struct liveness_handlers {
	/* A known process without an exit event. */
	void (*process)(void *arg, struct process *process);
	void (*target)(void *arg, uint32_t pid); /* a target that is no known process */
	void *arg;
};

/* Borrows both. 0 or -ENOMEM. */
int liveness_new(struct liveness **ret, struct session *session, struct processes *processes,
		 const struct liveness_handlers *handlers);
void liveness_free(struct liveness *liveness);

/* Call it about once a second, after the ring buffer is empty. */
void liveness_run(struct liveness *liveness);

/* Ended processes found so far. */
uint64_t liveness_count(const struct liveness *liveness);

#endif
