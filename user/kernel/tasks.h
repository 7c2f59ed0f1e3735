/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_TASKS_H
#define BPFPROF_KERNEL_TASKS_H

/*
 * The present state of each thread of a process: registers, kernel stack, asleep or not. Read by
 * an iterator that touches no user memory, so it neither blocks nor needs rights over the process.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"

struct session;

#define TASKS_MAX 32768 /* threads of one process */

struct tasks {
	struct bpfprof_task_state *states;
	size_t nr;
	bool cut; /* there are more than TASKS_MAX: these are the first */
};

/*
 * Some threads of a process; the kernel is asked for each by itself, which is quicker for a few of very many.
 * Numbers are those of our pid namespace.
 */
struct tasks_choice {
	uint32_t
		kernel_pid; /* of the process, as the kernel numbers it: threads of others are skipped */
	const uint32_t *tids;
	size_t nr;
};

/*
 * Calls each() for every thread, until that returns something other than 0. The state is borrowed during the
 * call. 0; -ESRCH no such process; the result of each(); -errno. A thread that ends meanwhile may hide the
 * threads behind it.
 */
int tasks_each(struct session *session, uint32_t pid,
	       int (*each)(void *arg, const struct bpfprof_task_state *state), void *arg);
/*
 * choice: NULL, all. 0; -ESRCH no such process, or none of the chosen threads; -errno. *ret is empty after
 * errors.
 */
int tasks_read(struct tasks *ret, struct session *session, uint32_t pid,
	       const struct tasks_choice *choice);
void tasks_fini(struct tasks *tasks);
/* The state of the thread, or NULL; hint: its previous index. */
const struct bpfprof_task_state *tasks_find(const struct tasks *tasks, uint32_t tid, size_t hint);

#endif
