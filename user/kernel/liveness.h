/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_LIVENESS_H
#define BPFPROF_KERNEL_LIVENESS_H

/*
 * Processes whose end was not told: its event found the ring buffer full, or came before we knew
 * them. So all that are known, and all targets, are asked for in turn, some hundred a second. One
 * that is gone is asked for again a second later: its event may have been under way.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct liveness;
struct process;
struct processes;
struct session;

struct liveness_handlers {
	void (*process)(void *arg, struct process *process); /* not dead yet, as far as we knew */
	void (*target)(void *arg, uint32_t pid); /* one that is no known process */
	void *arg;
};

/* Borrows both. 0 or -ENOMEM. */
int liveness_new(struct liveness **ret, struct session *session, struct processes *processes,
		 const struct liveness_handlers *handlers);
void liveness_free(struct liveness *gone);

/* To be called about once a second, with the ring buffer read to its end. */
void liveness_run(struct liveness *gone);

/* How many were found so far. */
uint64_t liveness_count(const struct liveness *gone);

/*
 * Of a pid as it is known here: has that process ended? With zombies, which costs a read of
 * /proc/PID/stat, one that only waits for its parent has, too.
 */
bool liveness_is(pid_t pid, bool zombies);

#endif
