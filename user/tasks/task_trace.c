// SPDX-License-Identifier: Apache-2.0
#include "tasks/task_trace.h"

#include <errno.h>
#include <stdlib.h>

#include "base/process_map.h"
#include "base/spool.h"
#include "base/strtab.h"
#include "base/vec.h"
#include "profile/stats.h"
#include "tasks/task_calls.h"

struct worker_entry {
	struct hash_node node;
	struct process_key key;
	uint32_t index; /* in workers */
};

struct task_trace {
	struct spool *spool;
	struct strtab *names;
	struct hash_table by_worker;
	struct task_trace_worker *workers;
	size_t nr_workers, cap_workers;
	uint64_t nr_calls, calls_lost;
};

static struct worker_entry *
worker_get(struct task_trace *trace, const struct task_call *call,
	   const char *(*label)(void *arg, const struct task_call *call), void *arg)
{
	struct worker_entry *entry = process_map_find(&trace->by_worker, call->pid, call->start_ns);
	const char *text;

	if (entry || vec_grow(trace->workers, trace->nr_workers + 1, trace->cap_workers,
			      TASK_TRACE_MAX_WORKERS))
		return entry;
	entry = process_map_add(&trace->by_worker, call->pid, call->start_ns);
	if (!entry)
		return NULL;
	entry->index = (uint32_t)trace->nr_workers++;
	text = label(arg, call);
	trace->workers[entry->index] = (struct task_trace_worker){
		.pid = call->own_pid ? call->own_pid : call->pid,
		.label = text ? strtab_add(trace->names, text) : 0,
		.start_ns = call->start_ns,
	};
	return entry;
}

void task_trace_add(struct task_trace *trace, const struct task_call *call,
		    const char *(*label)(void *arg, const struct task_call *call), void *arg)
{
	const struct worker_entry *entry = worker_get(trace, call, label, arg);
	bool same_pids = !call->own_pid || call->own_pid == call->pid;
	struct task_trace_event event = {
		.begin_ns = call->begin_ns,
		.ns = call->end_ns - call->begin_ns,
		.kind = (uint16_t)call->kind,
		.flags =
			(call->before ? TASK_TRACE_BEFORE : 0) | (call->runs ? TASK_TRACE_RUNS : 0),
	};

	if (!entry) {
		trace->calls_lost++;
		return;
	}
	if (*call->class)
		trace->workers[entry->index].class = strtab_add(trace->names, call->class);
	event.worker = entry->index;
	if (call->tid == call->pid)
		event.tid = trace->workers[entry->index].pid;
	else if (same_pids)
		event.tid = call->tid;
	event.name = strtab_add(trace->names, call->title);
	trace->nr_calls++;
	spool_add(trace->spool, &event);
}

static int compare(const void *a, const void *b)
{
	const struct task_trace_event *x = a, *y = b;

	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	if (x->worker != y->worker)
		return x->worker < y->worker ? -1 : 1;
	/* A call without duration ends before the next one. */
	return (x->ns > y->ns) - (x->ns < y->ns);
}

int task_trace_close(struct task_trace *trace)
{
	return spool_sort(trace->spool, compare);
}

int task_trace_each(struct task_trace *trace, int (*each)(void *arg, const void *event), void *arg)
{
	return spool_each(trace->spool, each, arg);
}

const struct task_trace_worker *task_trace_workers(const struct task_trace *trace, size_t *ret_nr)
{
	*ret_nr = trace->nr_workers;
	return trace->workers;
}

const char *task_trace_name(const struct task_trace *trace, uint32_t name)
{
	return strtab_get(trace->names, name);
}

uint64_t task_trace_nr_calls(const struct task_trace *trace)
{
	return trace->nr_calls;
}

int task_trace_error(const struct task_trace *trace)
{
	return spool_error(trace->spool);
}

/* The values that the rows read. */
struct task_trace_counts {
	uint64_t calls, names;
};

#define AT(field) offsetof(struct task_trace_counts, field)

const struct counter task_trace_counters[] = {
	{ COUNTER_TRACE, "calls_no_room", AT(calls), .help = "calls over the limit of a trace" },
	{ COUNTER_TRACE, "names_no_room", AT(names),
	  .help = "names of tasks over the limit of a trace" },
	{ 0 },
};

void task_trace_lost(const struct task_trace *trace, struct stats_reasons *dst)
{
	const struct task_trace_counts counts = { trace->calls_lost, strtab_nr_lost(trace->names) };

	stats_add_rows(dst, task_trace_counters, &counts, true);
}

int task_trace_new(struct task_trace **ret, const char *folder, uint64_t max_bytes)
{
	struct task_trace *trace = calloc(1, sizeof(*trace));
	int err;

	if (!trace)
		return -ENOMEM;
	hash_table_init(&trace->by_worker, TASK_TRACE_MAX_WORKERS, struct worker_entry, key);
	err = strtab_new(&trace->names, TASK_TRACE_NAME_BYTES);
	if (!err)
		err = spool_new(&trace->spool, folder, sizeof(struct task_trace_event), max_bytes);
	if (err) {
		task_trace_free(trace);
		return err;
	}
	*ret = trace;
	return 0;
}

void task_trace_free(struct task_trace *trace)
{
	if (!trace)
		return;
	hash_table_clear(&trace->by_worker);
	free(trace->workers);
	spool_free(trace->spool);
	strtab_free(trace->names);
	free(trace);
}
