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

/* 0; -ESRCH no such process; -E2BIG after the first TASKS_MAX; -errno. */
int tasks_read(struct tasks *ret, struct session *session, uint32_t pid);
void tasks_fini(struct tasks *tasks);
/* The thread's, or NULL; hint is where it was before. */
const struct bpfprof_task_state *tasks_find(const struct tasks *tasks, uint32_t tid, size_t hint);

#endif
