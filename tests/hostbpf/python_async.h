/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_PYTHON_ASYNC_H
#define BPFPROF_TESTS_PYTHON_ASYNC_H

/* A made heap (python_objects.h) with an interpreter, a loop that runs in its thread, and tasks of asyncio. */

#include <stdint.h>

#include "python/async_layout.h"
#include "python_objects.h"

#define MADE_TASKS 3

struct made_async {
	const struct python_async_layout *described; /* NULL up to 3.13 */
	uint64_t interpreter, tstate, loop, set, head;
	uint64_t outer, inner; /* coroutines of the first task */
	uint64_t middle; /* between both: a coroutine of Cython */
	uint64_t roots[MADE_TASKS]; /* the coroutines that the tasks have */
	uint64_t coroutines[MADE_TASKS], futures[MADE_TASKS], tasks[MADE_TASKS];
};

/*
 * Three tasks. The coroutine of the first task awaits one of Cython, which awaits a third one, which awaits the
 * second task. The second task is one of Cython, and has a coroutine that waits for the future of a gather(). The third task waits for a future, too; a callback that the
 * third task has leads to the future of the gather().
 */
void made_async(struct made_async *ret, struct made_objects *made);

/* A coroutine (or a generator) with a frame that awaits an object. */
uint64_t made_coroutine(struct made_objects *made, const char *type, uint64_t awaited);
/* A coroutine (or a generator) of Cython: its type describes the field with the awaited object. */
uint64_t made_described(struct made_objects *made, const char *type, const char *field,
			uint64_t awaited);
/* Describes field `number` of a type; member->name is set here. */
void made_member(struct made_objects *made, uint64_t type, uint32_t number, const char *name,
		 const struct python_member *member);
uint64_t made_wrapper(struct made_objects *made, const char *type, uint64_t awaited);
/* The address of its word with the awaited object. */
uint64_t made_coroutine_top(struct made_objects *made, uint64_t coroutine);
uint64_t made_set(struct made_objects *made, const uint64_t *keys, size_t nr);

#endif
