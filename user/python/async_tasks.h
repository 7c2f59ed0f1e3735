/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_ASYNC_TASKS_H
#define BPFPROF_PYTHON_ASYNC_TASKS_H

/*
 * Reads the tasks of asyncio: those of every loop that runs in a thread. Tasks of _asyncio are in lists from
 * 3.14 on; before that, and if they are written in Python, they are in sets of the module asyncio.tasks.
 * The target controls all of it: each list, set and search is bounded, and what is left out is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

struct python_async_layout;
struct python_heap;
struct python_tstates;

#define PYTHON_MAX_ASYNC_TASKS (1U << 17)
#define PYTHON_MAX_ASYNC_LOOPS 4096
#define PYTHON_NO_TASK UINT32_MAX

/* A loop that runs. */
struct python_async_loop {
	uint64_t va;
	uint64_t thread_id; /* as in struct python_tstate */
	uint64_t running; /* address of the task that runs in it; 0: none */
	uint64_t interpreter_va;
};

struct python_async_task {
	uint64_t va;
	uint64_t coroutine;
	uint64_t waiter; /* the future that it waits for; 0: none */
	uint64_t name; /* a str or int object */
	uint64_t awaited_by; /* a task, or a set of them (3.14+); 0: none */
	uint32_t loop; /* index in loops */
	bool awaited_by_is_set;
	bool in_c; /* of _asyncio: its fields have offsets. Else they are attributes */
	bool is_running;
};

/* One task waits for another one. */
struct python_async_edge {
	uint32_t task, awaiter; /* indices in tasks */
};

struct python_async_tasks {
	struct python_async_loop *loops;
	size_t nr_loops;
	struct python_async_task *tasks;
	size_t nr;
	struct map numbers; /* indices in tasks by address */
	struct python_async_edge *edges; /* async_edges.h: by task, then by awaiter; each once */
	size_t nr_edges;
	uint64_t nr_idle; /* tasks whose loop does not run */
	uint64_t nr_over; /* tasks that were not read: too many, or there was no time */
	uint64_t nr_bad; /* objects that are no tasks, or contradict themselves */
	bool torn; /* a list or a set ended early, since it changed meanwhile: tasks are missing */
	bool undescribed; /* 3.14+: _asyncio has no description of its objects */
};

/*
 * Called from time to time, when nothing that was read is needed any more. False: there is no time left.
 * NULL: there is no limit.
 */
typedef bool (*python_async_pause_fn)(void *arg);

/*
 * Reads all tasks of the interpreters in tstates. described: NULL if the target has no description of its
 * _asyncio. 0 (also without any task), -ENOTSUP (no heap->has_objects), -ENOMEM.
 */
int python_async_tasks_read(struct python_async_tasks *ret, struct python_heap *heap,
			    const struct python_tstates *tstates,
			    const struct python_async_layout *described,
			    python_async_pause_fn pause, void *arg);
void python_async_tasks_fini(struct python_async_tasks *tasks);

/* Index of the task at va, or PYTHON_NO_TASK. */
uint32_t python_async_task_find(const struct python_async_tasks *tasks, uint64_t va);
/* The name of a task; the caller frees it. NULL: it cannot be read. 0 or -ENOMEM. */
int python_async_task_name(struct python_heap *heap, const struct python_async_task *task,
			   char **ret);

#endif
