/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_TASKS_H
#define BPFPROF_KERNEL_TASKS_H

/*
 * What every thread of a process does now: registers, kernel stack, whether it sleeps. Read by
 * an iterator that touches no user memory, so it neither blocks nor needs rights over the process.
 */

#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"

struct session;

#define TASKS_MAX 32768 /* threads of one process */

struct tasks {
	struct bpfprof_task_state *states;
	size_t nr;
};

/*
 * Some threads of a process, each of which is asked for by itself: for a few of very many. Numbers as our
 * pid namespace has them.
 */
struct tasks_choice {
	uint32_t kernel_pid; /* of the process, as the kernel numbers it: others are passed over */
	const uint32_t *tids;
	size_t nr;
};

/*
 * Has each thread told, borrowed during the call, until that returns something other than 0. 0; -ESRCH
 * no such process; that; -errno. One that ends while it is being told of may take the rest with it.
 */
int tasks_each(struct session *session, uint32_t pid,
	       int (*each)(void *arg, const struct bpfprof_task_state *state), void *arg);
/*
 * choice: NULL, all. 0; -ESRCH no such process, or none of the threads that were chosen; -E2BIG after the
 * first TASKS_MAX; -errno.
 */
int tasks_read(struct tasks *ret, struct session *session, uint32_t pid,
	       const struct tasks_choice *choice);
void tasks_fini(struct tasks *tasks);
/* The thread's, or NULL; hint is where it was before. */
const struct bpfprof_task_state *tasks_find(const struct tasks *tasks, uint32_t tid, size_t hint);

#endif
