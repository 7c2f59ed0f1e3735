/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TASKS_TASK_TIMELINE_H
#define BPFPROF_TASKS_TASK_TIMELINE_H

/*
 * The calls of Ray workers as a file that opens in Perfetto: a process for each worker, with one track,
 * that of its main thread; a slice for each task and each call of an actor.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "formats/trace_facts.h"

struct task_cpu;
struct task_trace;

struct task_timeline {
	struct task_trace *trace; /* closed */
	const struct task_cpu *cpus; /* NULL: not known; of many the last ones are left out */
	size_t nr_cpus;
	struct trace_facts facts;
};

/* timeline: struct task_timeline. 0 or -errno; errors of the stream are the caller's to ask for. */
int task_timeline_write(FILE *out, void *timeline);

#endif
