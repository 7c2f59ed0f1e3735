/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_ASYNC_EDGES_H
#define BPFPROF_PYTHON_ASYNC_EDGES_H

/*
 * Finds which tasks wait for which. Tasks of 3.14 and later have the tasks that await them. Before that the
 * way leads from a task's callbacks to the future that another task waits for: gather(), wait(), wait_for()
 * and shield() hold it in a closure or an argument, and a TaskGroup has its task.
 */

#include "python/async_tasks.h"

/* Fills in tasks->edges. 0 or -ENOMEM. */
int python_async_edges_find(struct python_async_tasks *tasks, struct python_heap *heap,
			    const struct python_async_layout *described,
			    python_async_pause_fn pause, void *arg);

#endif
