/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_TASK_WAIT_H
#define BPFPROF_THREADS_TASK_WAIT_H

/*
 * What a suspended task of asyncio waits for, by the future that it awaits and by its innermost frame, which
 * is one of asyncio's own functions if the task waits for a timer, a queue, a lock or a stream.
 */

#include <stdbool.h>
#include <stdint.h>

struct python_chain;
struct python_code_cache;
struct python_heap;
struct strtab;
struct task_wait;

struct task_wait_view {
	struct python_heap *heap;
	struct python_code_cache *codes;
	const struct python_chain *chain; /* its frames, innermost first */
	struct strtab *strings;
	uint64_t waiter; /* the future; 0: none */
	const char *task; /* name of the task that the future is; NULL: it is none */
	bool details; /* numbers are read, too: of seconds, of a socket, of futures */
};

/* Sets the fields of *ret that are known. */
void task_wait_find(const struct task_wait_view *view, struct task_wait *ret);
bool task_wait_is_future(struct python_heap *heap, uint64_t va);

#endif
