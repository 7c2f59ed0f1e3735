// SPDX-License-Identifier: Apache-2.0
/*
 * Reads all calls twice: first to find the size of the output, then to write it. The size decides
 * how many of the oldest calls are left out.
 */
#include "tasks/task_timeline.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/vec.h"
#include "formats/chrome_trace.h"
#include "ray/calls.h"
#include "tasks/task_calls.h"
#include "tasks/task_cpu.h"
#include "tasks/task_trace.h"

#define MAX_CPUS_BYTES (4U << 20)
#define MAX_CPU_BYTES (2 * TITLE_MAX + 128) /* one row: a title with escapes, and its time */
#define MAX_OTHER_BYTES (MAX_CPUS_BYTES + (1U << 20))
#define CPUS_SHARE 4 /* CPU times take at most this part (1/4) of the file */
#define MAX_ARGS_BYTES 1024
#define PIDS (1U << 22) /* PID_MAX_LIMIT */
#define MAX_LANES (2 * CALLS_MAX) /* the clocks of CPUs may differ: calls seem to overlap then */
#define REST_BYTES 8192 /* bytes of the file beside events and CPU times */
#define NOTE                                                                                       \
	"Begin and end of each call are when its worker changed its title. Between two calls a "   \
	"worker is idle. cpu_seconds of tasks are sampled."

/*
 * The calls of one worker that do not overlap share a lane, which is a track of its own: slices of a
 * track must not overlap. A call takes the first lane that is free when it begins.
 */
struct lanes {
	uint64_t *end_ns; /* of the last call of each lane */
	size_t nr, cap;
};

struct timeline {
	struct task_timeline *ask;
	const struct task_trace_worker *workers;
	size_t nr_workers;
	struct lanes *lanes; /* of each worker */
	struct chrome_trace chrome;
	struct buf args;
	uint16_t *named; /* tracks that have a name, by pid */
};

static const char *category(uint16_t kind)
{
	switch (kind) {
	case TASK_CALL_TASK:
		return "task";
	case TASK_CALL_ACTOR:
		return "actor";
	default:
		return "unclear";
	}
}

static void args_make(struct timeline *t, const struct task_trace_event *e)
{
	const struct task_trace_worker *worker = &t->workers[e->worker];

	buf_reset(&t->args);
	json_key_text(&t->args, "node", t->ask->facts.host);
	json_key_number(&t->args, "pid", worker->pid);
	if (e->tid)
		json_key_number(&t->args, "tid", e->tid);
	if (e->flags & TASK_TRACE_BEFORE)
		json_key_bool(&t->args, "begun_before", true);
	if (e->flags & TASK_TRACE_RUNS)
		json_key_bool(&t->args, "ended", false);
	if (e->kind == TASK_CALL_UNCLEAR)
		json_key_text(&t->args, "what",
			      "a task that runs, or an actor that rests: the title was the same "
			      "all the time");
}

/* The lane of the next call of a worker, by the order of begin; or -errno. */
static int lane_take(struct lanes *lanes, const struct task_trace_event *e)
{
	size_t i = 0;
	int err;

	/* In the last lane of all, calls may overlap. */
	while (i < lanes->nr && i < MAX_LANES - 1 && lanes->end_ns[i] > e->begin_ns)
		i++;
	if (i == lanes->nr) {
		err = vec_grow(lanes->end_ns, lanes->nr + 1, lanes->cap, MAX_LANES);
		if (err)
			return err;
		lanes->nr++;
	}
	lanes->end_ns[i] = e->begin_ns + e->ns;
	return (int)i;
}

/* A number that no thread has; the first lane takes that of the main thread. */
static uint32_t lane_tid(const struct task_trace_worker *worker, size_t lane)
{
	return lane ? PIDS + (uint32_t)lane : worker->pid;
}

static int on_event(void *arg, const void *record)
{
	struct timeline *t = arg;
	const struct task_trace_event *e = record;
	const struct task_trace_worker *worker = &t->workers[e->worker];
	int lane = lane_take(&t->lanes[e->worker], e);
	const struct chrome_event event = { .name = task_trace_name(t->ask->trace, e->name),
					    .category = category(e->kind),
					    .pid = worker->pid,
					    .tid = lane_tid(worker, lane > 0 ? (size_t)lane : 0),
					    .ts_ns = e->begin_ns,
					    .args = &t->args };

	if (lane < 0)
		return lane;
	args_make(t, e);
	chrome_trace_slice(&t->chrome, &event, e->ns);
	if (!chrome_trace_skipped(&t->chrome))
		t->ask->facts.nr_kept++;
	return t->chrome.error;
}

/* Writes all events but the first skip_bytes bytes of them. */
static int pass(struct timeline *t, uint64_t skip_bytes)
{
	size_t i, k;

	for (i = 0; i < t->nr_workers; i++)
		for (k = 0; k < t->lanes[i].nr; k++)
			t->lanes[i].end_ns[k] = 0;
	t->ask->facts.nr_kept = 0;
	chrome_trace_skip(&t->chrome, skip_bytes);
	return task_trace_each(t->ask->trace, on_event, t) ?: t->chrome.error;
}

static void worker_names(struct timeline *t, const struct task_trace_worker *worker)
{
	const struct task_trace *trace = t->ask->trace;

	chrome_trace_process(&t->chrome, worker->pid,
			     worker->class ? task_trace_name(trace, worker->class) : "Ray worker",
			     task_trace_name(trace, worker->label));
	chrome_trace_track(&t->chrome, worker->pid, worker->pid, "tasks and actor calls", 0);
}

/* Names the lanes of a worker from *named on. */
static void lanes_name(struct timeline *t, size_t worker, uint16_t *named)
{
	const struct task_trace_worker *of = &t->workers[worker];
	char name[48];

	for (; *named < t->lanes[worker].nr; (*named)++) {
		snprintf(name, sizeof(name), "calls at once: %u", *named + 1U);
		chrome_trace_track(&t->chrome, of->pid, lane_tid(of, *named), name, *named);
	}
}

/* Several workers may have had a pid, one after the other: it gets the name of the last one. */
static void names_write(struct timeline *t)
{
	uint16_t *named;
	size_t i;

	for (i = 0; i < t->nr_workers; i++)
		t->named[t->workers[i].pid % PIDS] = 0;
	for (i = t->nr_workers; i-- > 0;) {
		named = &t->named[t->workers[i].pid % PIDS];
		if (!*named) {
			worker_names(t, &t->workers[i]);
			*named = 1;
		}
		lanes_name(t, i, named);
	}
}

/*
 * Writes one row per line, so that a reader need not keep all. Returns the number of rows that fit.
 */
static size_t cpus_fill(const struct task_timeline *ask, struct buf *dst)
{
	uint64_t max = ask->facts.max_bytes / CPUS_SHARE;
	size_t i;

	if (max > MAX_CPUS_BYTES)
		max = MAX_CPUS_BYTES;
	for (i = 0; i < ask->nr_cpus && dst->len + MAX_CPU_BYTES <= max; i++) {
		json_item(dst);
		buf_add_str(dst, "\n{");
		json_key_text(dst, "name", ask->cpus[i].title);
		json_key_seconds(dst, "cpu_seconds", (double)ask->cpus[i].ns / 1e9);
		buf_add_char(dst, '}');
	}
	return i;
}

static void cpus_put(const struct task_timeline *ask, struct buf *dst)
{
	__cleanup(buf_fini) struct buf rows = { .max = MAX_CPUS_BYTES };
	size_t nr = cpus_fill(ask, &rows);

	if (nr < ask->nr_cpus)
		json_key_number(dst, "tasks_dropped", ask->nr_cpus - nr);
	json_key_open(dst, "tasks", '[');
	if (rows.len)
		buf_add(dst, rows.data, rows.len);
	buf_add_str(dst, "\n]");
	if (buf_error(&rows))
		dst->error = buf_error(&rows);
}

static void other_fill(const struct task_timeline *ask, struct buf *dst)
{
	trace_facts_put(&ask->facts, "ray", NOTE, dst);
	buf_add_char(dst, '}');
	if (ask->cpus)
		cpus_put(ask, dst); /* comes last: task_read.c handles each row as it reads it */
}

/* The number of bytes to skip; 0: all events fit. */
static uint64_t excess(struct timeline *t, uint64_t event_bytes)
{
	__cleanup(buf_fini) struct buf cpus = { .max = MAX_CPUS_BYTES };
	uint64_t rest = REST_BYTES, before = t->chrome.bytes;

	names_write(t);
	rest += t->chrome.bytes - before;
	cpus_fill(t->ask, &cpus);
	rest += cpus.len;
	if (rest + event_bytes <= t->ask->facts.max_bytes)
		return 0;
	return rest < t->ask->facts.max_bytes ? event_bytes - (t->ask->facts.max_bytes - rest)
					      : UINT64_MAX;
}

static int write_all(struct timeline *t, FILE *out)
{
	__cleanup(buf_fini) struct buf other = { .max = MAX_OTHER_BYTES };
	uint64_t skip;
	int err;

	chrome_trace_open(&t->chrome, NULL);
	err = pass(t, 0);
	skip = excess(t, t->chrome.bytes);
	buf_fini(&t->chrome.line);
	if (err)
		return err;
	chrome_trace_open(&t->chrome, out);
	names_write(t);
	err = pass(t, skip);
	t->ask->facts.nr_dropped = task_trace_nr_calls(t->ask->trace) - t->ask->facts.nr_kept;
	other_fill(t->ask, &other);
	return chrome_trace_close(&t->chrome, &other) ?: err ?: buf_error(&other);
}

int task_timeline_write(FILE *out, void *timeline)
{
	struct timeline t = { .ask = timeline };
	int err = -ENOMEM;
	size_t i;

	t.workers = task_trace_workers(t.ask->trace, &t.nr_workers);
	t.named = calloc(PIDS, sizeof(*t.named)); /* few pages of it are used */
	t.lanes = calloc(t.nr_workers + 1, sizeof(*t.lanes));
	buf_init(&t.args, MAX_ARGS_BYTES);
	if (t.named && t.lanes)
		err = write_all(&t, out);
	buf_fini(&t.args);
	for (i = 0; t.lanes && i < t.nr_workers; i++)
		free(t.lanes[i].end_ns);
	free(t.lanes);
	free(t.named);
	return err;
}
