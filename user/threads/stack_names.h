/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_STACK_NAMES_H
#define BPFPROF_THREADS_STACK_NAMES_H

/*
 * Gives names to the frames of a dump that have none, the same names that `record` gives them.
 */

#include <stdbool.h>
#include <stdint.h>

struct codes;
struct dump;
struct stats_reasons;
struct thread_reader;

struct stack_names_options {
	bool kernel; /* kernel frames are named too: reading their symbols takes its time */
	bool sampled; /* frames of threads that were sampled; else those of all the others */
	struct codes
		*codes; /* the code objects of Python frames in samples; NULL: there are none */
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: none */
	struct stats_reasons *files; /* problems of files are added here; or NULL */
	int *kernel_hidden; /* becomes 1 if kernel addresses are hidden; or NULL */
};

/* 0; -ETIME: the deadline is over, and some names may be mere addresses; -ENOMEM. */
int stack_names_find(struct dump *dump, const struct thread_reader *reader,
		     const struct stack_names_options *options);

#endif
