/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TASKS_TASK_TIMELINE_H
#define BPFPROF_TASKS_TASK_TIMELINE_H

/*
 * Writes the calls of Ray workers as a file that Perfetto opens: a process for each worker, and a
 * slice for each task and each call of an actor. Calls that overlap are in different tracks.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "formats/trace_facts.h"

struct task_cpu;
struct task_trace;

struct task_timeline {
	struct task_trace *trace; /* closed */
	const struct task_cpu
		*cpus; /* NULL: not known; beyond a limit the last ones are left out */
	size_t nr_cpus;
	struct trace_facts facts;
};

/* timeline: a struct task_timeline. 0 or -errno; the caller checks the stream for errors. */
int task_timeline_write(FILE *out, void *timeline);

#endif
