/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_THREAD_READ_H
#define BPFPROF_THREADS_THREAD_READ_H

/*
 * Room threads: reads the stacks of all threads of a process without stopping it.
 *
 * Reads what the threads of one process are doing, without stopping it: states and kernel
 * stacks first, which always works; then memory, and the walkers of the sampler over it. A thread
 * that ran meanwhile, by its context switches, is read again, and marked if it never
 * holds still. Those on a CPU have no registers to read: they are left to the sampler (dump_burst.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/deadline.h"

struct dump;
struct remote_child;
struct session;
struct tasks_choice;
struct walker;

struct dump_reader {
	struct session *session;
	struct walker *walker;
	struct remote_child *child;
	struct deadline_runner *runner;
	bool native, kernel; /* frames that are wanted, besides Python's */
	bool waits; /* what threads wait for is wanted */
	const struct tasks_choice *threads; /* these alone; NULL: all of the process */
	/* Limits; 0: none but those of everybody. */
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
	size_t max_frames, max_pages; /* of the dump; of memory, while it is read */
	unsigned int locals; /* 0: not; else PYTHON_REPR_CHARS times this many characters */
};

/* What did not go well, of one process. */
struct dump_read_counts {
	uint64_t nr_rounds; /* times that threads were read */
	uint64_t nr_inconsistent; /* threads that ran all the time */
	uint64_t nr_late; /* threads not read before the deadline */
	uint64_t nr_hung; /* reads that were given up */
	uint64_t nr_refused; /* pages beyond what is kept of one process, or after reads hung */
	uint64_t nr_unreadable; /* objects of Python's */
	uint64_t nr_bad; /* objects that make no sense, cyclic lists, more than our limits */
	uint64_t nr_beyond; /* places where a Python may be, more than are looked at */
	uint64_t nr_cut; /* stacks and lists of variables that were more than we keep */
	bool too_many_threads; /* it has more than TASKS_MAX: the first of them are there */
	bool gone; /* it ended while it was read: what was read until then is there */
	const char *other_python; /* that it runs, and is not CPython; NULL: none. Never freed */
	struct deadline_wait hung; /* what the last of nr_hung waited for */
	int mappings_error; /* -errno: why mappings are not known; 0 */
	struct deadline_wait mappings_wait; /* after -ETIMEDOUT: what that waited for */
	int python_error; /* -errno: why Python's state is not known; 0 */
	uint64_t nr_passes, nr_pages; /* of reading memory */
	uint64_t read_ns; /* from the first state to the last memory */
};

/*
 * Adds process pid to dump; frames of native code and of the kernel have no names yet. 0; -ESRCH no
 * such process; -ENODATA it has ended and only waits for its parent; -ENOMEM; -errno.
 */
int dump_read(const struct dump_reader *reader, struct dump *dump, uint32_t pid,
	      struct dump_read_counts *ret_counts);

#endif
