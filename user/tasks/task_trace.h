/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TASKS_TASK_TRACE_H
#define BPFPROF_TASKS_TASK_TRACE_H

/*
 * Every call of Ray workers, the newest up to a limit, in a file without a name (base/spool.h). Calls of
 * workers beyond TASK_TRACE_MAX_WORKERS are only counted; names beyond TASK_TRACE_NAME_BYTES become one
 * name.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"

struct stats_reasons;
struct task_call;
struct task_trace;

#define TASK_TRACE_MAX_WORKERS 65536
#define TASK_TRACE_NAME_BYTES (4U << 20) /* of all names */

#define TASK_TRACE_BEFORE 1U /* the call began before the recording */
#define TASK_TRACE_RUNS 2U /* the call had not ended */

struct task_trace_event {
	uint64_t begin_ns, ns;
	uint32_t worker; /* index */
	uint32_t name;
	uint16_t kind; /* enum task_call_kind */
	uint16_t flags; /* TASK_TRACE_* */
	uint32_t tid; /* of the thread in the worker's namespace of pids, 0: not known there */
};

struct task_trace_worker {
	uint32_t pid; /* in our own pid namespace, or else in the outermost one */
	uint32_t class; /* a name: the class of the actor, 0: no actor */
	uint32_t label; /* a name: the place of the worker, 0: not set */
	uint64_t start_ns;
};

/* As spool_new(). max_bytes: of events. */
int task_trace_new(struct task_trace **ret, const char *folder, uint64_t max_bytes);
void task_trace_free(struct task_trace *trace); /* NULL is fine */

/* label() gives the place of a worker with its first call; "" or NULL: none. */
void task_trace_add(struct task_trace *trace, const struct task_call *call,
		    const char *(*label)(void *arg, const struct task_call *call), void *arg);
/* Ends the trace: no call may be added. 0 or -errno. */
int task_trace_close(struct task_trace *trace);

/* Passes each struct task_trace_event, in the order of their begin, as spool_each() does. */
int task_trace_each(struct task_trace *trace, int (*each)(void *arg, const void *event), void *arg);
const struct task_trace_worker *task_trace_workers(const struct task_trace *trace, size_t *ret_nr);
const char *task_trace_name(const struct task_trace *trace, uint32_t name); /* borrowed */

/* Calls that were added, also if newer ones have replaced them. */
uint64_t task_trace_nr_calls(const struct task_trace *trace);
int task_trace_error(const struct task_trace *trace); /* spool_error() */
extern const struct counter task_trace_counters[];
void task_trace_lost(const struct task_trace *trace, struct stats_reasons *dst);

#endif
