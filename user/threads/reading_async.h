/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_READING_ASYNC_H
#define BPFPROF_THREADS_READING_ASYNC_H

/* Reads the tasks of asyncio of one Python: what dumps (reading_tasks.c) and samples of tasks (task_stacks.c) share. */

#include <stdbool.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "python/async_tasks.h"
#include "threads/reading.h"

struct task_wait;

struct reading_async {
	struct reading *reading;
	struct reading_python *python;
	struct python_async_tasks tasks;
	uint64_t end_ns, end_cpu_ns, pages, walked, seed;
	char **names; /* by index in tasks; NULL: not wanted */
	/* Of dumps alone. */
	uint32_t *order; /* indices in tasks: as they are shown */
	struct hash_table sums;
};

/*
 * Reads the tasks, which of them run, and which wait for which. reading_async_close() is due whatever this
 * returns. 0; -ENOTSUP (this Python has no objects that can be read); -ENOMEM.
 */
int reading_async_open(struct reading_async *a, struct reading *reading,
		       struct reading_python *python);
void reading_async_close(struct reading_async *a);

/* python_async_pause_fn: lets go of memory that was read. Nothing of it is in use by the caller. */
bool reading_async_pause(void *arg);
/* The thread in which the loop runs; NULL: not known. */
const struct bpfprof_task_state *reading_async_thread(const struct reading_async *a, uint32_t loop);
/* Fills in reading->chain with the frames of the task. *ret_end as in python_awaits_walk(). */
void reading_async_chain(struct reading_async *a, const struct python_async_task *task,
			 uint64_t *ret_end);
/* Sets what the task of the present reading->chain waits for. details: as in task_wait.h. */
void reading_async_wait(struct reading_async *a, const struct python_async_task *task,
			struct task_wait *ret, bool details);

#endif
