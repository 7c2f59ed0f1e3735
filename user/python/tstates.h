/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_TSTATES_H
#define BPFPROF_PYTHON_TSTATES_H

/*
 * Reads all thread states of all interpreters of a process, and finds the one that holds the GIL, even
 * while its thread sleeps. A list that leads back into itself ends there and is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct python_heap;

#define PYTHON_MAX_TSTATES 16384
#define PYTHON_MAX_INTERPRETERS 64

struct python_tstate {
	uint64_t va;
	uint64_t interpreter_va;
	uint64_t thread_id; /* pthread_self(): with glibc and musl the fs base of the thread */
	uint64_t frame_start; /* for python_chain_walk() */
	uint32_t interpreter; /* 0 = the oldest one that still exists */
	uint32_t native_tid; /* in the pid namespace of the process (3.11+); 0: not known */
	bool holds_gil;
};

struct python_tstates {
	size_t nr;
	struct python_tstate *states; /* newest interpreter first, newest thread first */
	uint32_t nr_interpreters;
	uint64_t interpreters[PYTHON_MAX_INTERPRETERS]; /* addresses, newest first */
	bool gil_known; /* holds_gil means something: not free-threaded */
	bool complete; /* no list was unreadable, cyclic or cut */
};

/*
 * Does a CPython run in heap->runtime? 0: its list of interpreters leads to a thread state that points
 * back to it; -ENODATA: no interpreter has begun yet, or all have ended; -EBADMSG: the memory is not a
 * runtime; -EFAULT: it cannot be read.
 */
int python_runtime_check(struct python_heap *heap);

/*
 * Reads all thread states: 0, -ENODATA the interpreter has not begun yet (or has ended), -EFAULT its state
 * cannot be read, -ENOMEM. If a list ends early, the result is 0 and not complete.
 */
int python_tstates_read(struct python_tstates *ret, struct python_heap *heap);
void python_tstates_fini(struct python_tstates *tstates);

/*
 * The first state of the thread with this fs base after `after` (NULL: from the beginning), or NULL. A
 * thread in several interpreters has several states.
 */
const struct python_tstate *python_tstates_find(const struct python_tstates *tstates,
						uint64_t fs_base,
						const struct python_tstate *after);
/* The state that holds the GIL (the main interpreter's first, if each has its own GIL), or NULL. */
const struct python_tstate *python_tstates_gil_holder(const struct python_tstates *tstates);

#endif
