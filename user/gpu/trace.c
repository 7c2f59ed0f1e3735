// SPDX-License-Identifier: Apache-2.0
#include "gpu/trace.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/process_map.h"
#include "base/spool.h"
#include "base/strtab.h"
#include "base/vec.h"
#include "cuda/functions.h"
#include "proc/title.h"
#include "profile/stats.h"
#include "ray/calls.h"
#include "bpfprof.h"

_Static_assert(sizeof(struct gpu_trace_event) == 80, "as many as can be had");

struct process_entry {
	struct hash_node node;
	struct process_key key;
	uint32_t index; /* in processes */
	struct calls *calls; /* of a Ray worker, or NULL */
	uint32_t title; /* id of its present title, or 0 */
};

struct thread_key {
	uint32_t process, tid;
};

struct thread_entry {
	struct hash_node node;
	struct thread_key key;
	uint32_t index; /* in threads */
};

struct gpu_trace {
	struct spool *spool;
	struct strtab *titles;
	struct calls_room titles_room; /* of the processes' calls in flight */
	struct hash_table by_process, by_thread;
	struct gpu_trace_process processes[GPU_TRACE_MAX_PROCESSES];
	struct gpu_trace_thread *threads;
	size_t nr_processes, nr_threads, cap_threads;
	struct bpfprof_gpu_trace *open; /* calls that were open at the end */
	size_t nr_open, cap_open;
	uint64_t nr_calls;
	uint64_t calls_lost, titles_lost;
};

static struct process_entry *process_get(struct gpu_trace *trace, uint32_t pid, uint64_t start_ns,
					 size_t max)
{
	struct process_entry *entry = process_map_find(&trace->by_process, pid, start_ns);

	if (entry || trace->nr_processes >= max)
		return entry;
	entry = process_map_add(&trace->by_process, pid, start_ns);
	if (!entry)
		return NULL;
	entry->index = (uint32_t)trace->nr_processes;
	trace->processes[trace->nr_processes++] =
		(struct gpu_trace_process){ .pid = pid, .start_ns = start_ns };
	return entry;
}

static struct thread_entry *thread_get(struct gpu_trace *trace, uint32_t process, uint32_t tid)
{
	struct thread_key key = { .process = process, .tid = tid };
	struct thread_entry *entry = hash_table_find(&trace->by_thread, &key);

	if (entry || vec_grow(trace->threads, trace->nr_threads + 1, trace->cap_threads,
			      GPU_TRACE_MAX_THREADS))
		return entry;
	entry = hash_table_add(&trace->by_thread, &key);
	if (!entry)
		return NULL;
	entry->index = (uint32_t)trace->nr_threads;
	trace->threads[trace->nr_threads++] =
		(struct gpu_trace_thread){ .process = process, .tid = tid };
	return entry;
}

static void call_add(struct gpu_trace *trace, const struct bpfprof_gpu_trace *call)
{
	const struct gpu_function *function = gpu_function(call->function);
	bool returned = !(call->flags & BPFPROF_CALL_UNRETURNED);
	struct gpu_trace_event event = {
		.begin_ns = call->begin_ns,
		.ns = call->ns,
		.stream = call->stream,
		.bytes = call->bytes,
		.result = call->result,
		.function = function->name ? (uint16_t)call->function : 0,
		.flags = (call->flags & BPFPROF_CALL_NESTED ? GPU_TRACE_NESTED : 0) |
			 (call->flags & BPFPROF_CALL_CAPTURED ? GPU_TRACE_CAPTURED : 0) |
			 (returned ? 0 : GPU_TRACE_UNRETURNED),
	};
	struct process_entry *process;
	struct thread_entry *thread = NULL;

	process = process_get(trace, call->pid, call->start_ns, GPU_TRACE_MAX_PROCESSES);
	if (process)
		thread = thread_get(trace, process->index, call->tid);
	if (!thread) {
		trace->calls_lost++;
		return;
	}
	trace->nr_calls++;
	trace->processes[process->index].nr_calls++;
	memcpy(trace->threads[thread->index].name, call->comm, BPFPROF_COMM_LEN);
	event.thread = thread->index;
	/* A handle that is a result is valid if the call has returned without an error. */
	if (!function->wire.out || (returned && !call->result))
		event.handle = call->handle;
	memcpy(event.dims, call->dims, sizeof(event.dims));
	spool_add(trace->spool, &event);
}

/* The open call has ended: its note is removed. */
static void open_forget(struct gpu_trace *trace, const struct bpfprof_gpu_trace *call)
{
	size_t i;

	for (i = 0; i < trace->nr_open; i++) {
		if (trace->open[i].tid != call->tid || trace->open[i].begin_ns != call->begin_ns ||
		    trace->open[i].function != call->function)
			continue;
		trace->open[i] = trace->open[--trace->nr_open];
		return;
	}
}

void gpu_trace_call(struct gpu_trace *trace, const struct bpfprof_gpu_trace *call)
{
	open_forget(trace, call);
	call_add(trace, call);
}

/* Makes a record of one of a thread's open calls. False: it is not traced. */
static bool open_fill(uint32_t tid, const struct bpfprof_gpu_thread *thread, uint32_t nr,
		      struct bpfprof_gpu_trace *ret)
{
	const struct bpfprof_gpu_open *open = &thread->open[nr];

	if (!(open->flags & BPFPROF_CALL_TRACED))
		return false;
	*ret = (struct bpfprof_gpu_trace){
		.start_ns = open->key.start_ns,
		.pid = open->key.pid,
		.tid = tid,
		.begin_ns = open->begin_ns,
		.handle = open->key.handle,
		.stream = open->key.stream,
		.bytes = open->bytes,
		.function = open->key.function,
		.flags = open->flags | BPFPROF_CALL_UNRETURNED,
	};
	if (!ret->handle && !gpu_function(open->key.function)->wire.out)
		ret->handle = open->out;
	memcpy(ret->dims, open->key.dims, sizeof(ret->dims));
	memcpy(ret->comm, thread->comm, sizeof(ret->comm));
	return true;
}

static void open_end(struct gpu_trace *trace, struct bpfprof_gpu_trace *call, uint64_t now_ns)
{
	call->ns = now_ns > call->begin_ns ? now_ns - call->begin_ns : 0;
	call_add(trace, call);
}

void gpu_trace_leave(struct gpu_trace *trace, uint32_t tid, const struct bpfprof_gpu_thread *thread,
		     uint64_t now_ns)
{
	struct bpfprof_gpu_trace call;
	uint32_t i;

	for (i = 0; i < thread->depth && i < BPFPROF_GPU_MAX_OPEN; i++)
		if (open_fill(tid, thread, i, &call))
			open_end(trace, &call, now_ns);
}

void gpu_trace_note_open(struct gpu_trace *trace, uint32_t tid,
			 const struct bpfprof_gpu_thread *thread)
{
	uint32_t i;

	for (i = 0; i < thread->depth && i < BPFPROF_GPU_MAX_OPEN; i++) {
		if (vec_grow(trace->open, trace->nr_open + 1, trace->cap_open, VEC_BOUNDED))
			trace->calls_lost++;
		else
			trace->nr_open += open_fill(tid, thread, i, &trace->open[trace->nr_open]);
	}
}

static int compare(const void *a, const void *b)
{
	const struct gpu_trace_event *x = a, *y = b;

	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	if (x->ns != y->ns) /* calls inside a call come after it */
		return x->ns > y->ns ? -1 : 1;
	return (x->thread > y->thread) - (x->thread < y->thread);
}

int gpu_trace_close(struct gpu_trace *trace, uint64_t now_ns)
{
	size_t i;

	for (i = 0; i < trace->nr_open; i++)
		open_end(trace, &trace->open[i], now_ns);
	trace->nr_open = 0;
	return spool_sort(trace->spool, compare);
}

void gpu_trace_title(struct gpu_trace *trace, const struct bpfprof_title_event *e)
{
	/* Half of the room is left for processes that make calls. */
	struct process_entry *process =
		process_get(trace, e->task.pid, e->task.start_ns, GPU_TRACE_MAX_PROCESSES / 2);
	struct gpu_trace_event event = { .begin_ns = e->rec.ts_ns, .flags = GPU_TRACE_TITLE };
	char title[TITLE_MAX + 1], old_comm[BPFPROF_COMM_LEN + 1] = { 0 };
	/* Calls of the GPU belong to a process: they show the one title that it has at a time. */
	const struct calls_change change = {
		.main_thread = true, .wanted = true, .title = title, .old_comm = old_comm
	};
	uint32_t id;

	trace->titles_lost += e->lost;
	if (process && !process->calls) {
		process->calls = calloc(1, sizeof(*process->calls));
		if (process->calls)
			process->calls->room = &trace->titles_room;
	}
	if (!process || !process->calls || title_parse(title, e->title, sizeof(e->title))) {
		trace->titles_lost++;
		return;
	}
	memcpy(old_comm, e->old_comm, BPFPROF_COMM_LEN);
	if (e->lost)
		calls_lose(process->calls);
	if (calls_see(process->calls, calls_ended_by(process->calls, &change), &change) < 0)
		trace->titles_lost++;
	id = process->calls->state == CALLS_CALL ? strtab_add(trace->titles, title) : 0;
	if (!id && !process->title)
		return;
	process->title = id;
	event.handle = id;
	event.thread = process->index;
	spool_add(trace->spool, &event);
}

int gpu_trace_each(struct gpu_trace *trace, int (*each)(void *arg, const void *event), void *arg)
{
	return spool_each(trace->spool, each, arg);
}

const struct gpu_trace_process *gpu_trace_processes(const struct gpu_trace *trace, size_t *ret_nr)
{
	*ret_nr = trace->nr_processes;
	return trace->processes;
}

const struct gpu_trace_thread *gpu_trace_threads(const struct gpu_trace *trace, size_t *ret_nr)
{
	*ret_nr = trace->nr_threads;
	return trace->threads;
}

const char *gpu_trace_title_text(const struct gpu_trace *trace, uint64_t handle)
{
	return strtab_get(trace->titles, (uint32_t)handle);
}

uint64_t gpu_trace_nr_calls(const struct gpu_trace *trace)
{
	return trace->nr_calls;
}

int gpu_trace_error(const struct gpu_trace *trace)
{
	return spool_error(trace->spool);
}

#define AT(field) offsetof(struct gpu_trace, field)

const struct counter gpu_trace_counters[] = {
	{ COUNTER_GPU, "traced_calls_no_room", AT(calls_lost),
	  .help = "calls of a trace (`-o x.json`) over the limit" },
	{ COUNTER_GPU, "traced_titles", AT(titles_lost),
	  .help = "titles of a trace over the limit" },
	{ 0 },
};

void gpu_trace_lost(const struct gpu_trace *trace, struct stats_reasons *dst)
{
	stats_add_rows(dst, gpu_trace_counters, trace, true);
}

int gpu_trace_new(struct gpu_trace **ret, const char *folder, uint64_t max_bytes)
{
	struct gpu_trace *trace = calloc(1, sizeof(*trace));
	int err;

	if (!trace)
		return -ENOMEM;
	hash_table_init(&trace->by_process, GPU_TRACE_MAX_PROCESSES, struct process_entry, key);
	hash_table_init(&trace->by_thread, GPU_TRACE_MAX_THREADS, struct thread_entry, key);
	trace->titles_room.max = GPU_TRACE_TITLE_BYTES;
	err = strtab_new(&trace->titles, GPU_TRACE_TITLE_BYTES);
	if (!err)
		err = spool_new(&trace->spool, folder, sizeof(struct gpu_trace_event), max_bytes);
	if (err) {
		gpu_trace_free(trace);
		return err;
	}
	*ret = trace;
	return 0;
}

void gpu_trace_free(struct gpu_trace *trace)
{
	struct process_entry *process;

	if (!trace)
		return;
	hash_table_each(&trace->by_process, process) {
		if (process->calls)
			calls_fini(process->calls);
		free(process->calls);
	}
	hash_table_clear(&trace->by_process);
	hash_table_clear(&trace->by_thread);
	free(trace->threads);
	free(trace->open);
	spool_free(trace->spool);
	strtab_free(trace->titles);
	free(trace);
}
