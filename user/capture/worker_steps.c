// SPDX-License-Identifier: Apache-2.0
#include "capture/worker_steps.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/process_map.h"
#include "base/text.h"
#include "base/time.h"
#include "capture/container_filter.h"
#include "capture/sampler.h"
#include "capture/worker_titles.h"
#include "kernel/probes/gpu_probes.h"
#include "kernel/titles.h"
#include "proc/processes.h"
#include "proc/title.h"
#include "profile/stats.h"
#include "ray/calls.h"
#include "ray/steps.h"
#include "ray/worker_match.h"
#include "bpfprof.h"
#include "gpu_calls.h"

#define NAME_BYTES (TITLE_MAX + 1024)
#define MAX_CALLS_BYTES (8U << 20) /* of titles and calls in flight, of all workers */
#define MAX_REPORTED 64 /* lines at the end */

struct worker {
	struct hash_node node;
	struct process_key key;
	struct bpfprof_task_id task;
	uint32_t own_pid; /* in bpfprof's pid namespace, 0: not known */
	char *name; /* the name in the first title */
	int pattern;
	struct calls calls; /* those that are chosen are wanted steps */
	struct steps steps;
	uint64_t nr_lost; /* changes of the title that were lost */
	bool reported, exited;
	bool windows; /* its steps are windows: it has made one, or the user wants windows */
	bool window_open;
};

struct worker_steps {
	struct sampler *sampler;
	struct gpu_probes *probes; /* probes that report windows, or NULL */
	struct hash_table workers;
	struct calls_room room;
	uint64_t from_ns; /* a call that begins earlier is no step */
	bool changed; /* some worker may have made its last step */
	uint64_t nr_changes, nr_bad, nr_full, nr_forgotten, nr_no_room;
	uint64_t nr_unread; /* processes that could not be read at the start */
	/* Samples outside of wanted steps; samples too old to decide. */
	uint64_t nr_outside, nr_late;
	uint64_t
		nr_forgotten_samples; /* samples in calls that counted as steps before the first window */
	void (*notify)(void *arg, const struct bpfprof_task_id *task, bool begins);
	void *notify_arg;
};

int worker_steps_new(struct worker_steps **ret, struct sampler *sampler)
{
	struct worker_steps *all = calloc(1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	all->sampler = sampler;
	all->room.max = MAX_CALLS_BYTES;
	hash_table_init(&all->workers, WORKER_STEPS_MAX, struct worker, key);
	*ret = all;
	return 0;
}

void worker_steps_notify(struct worker_steps *all,
			 void (*step)(void *arg, const struct bpfprof_task_id *task, bool begins),
			 void *arg)
{
	all->notify = step;
	all->notify_arg = arg;
}

void worker_steps_windows(struct worker_steps *all, struct gpu_probes *probes)
{
	all->probes = probes;
}

void worker_steps_from(struct worker_steps *all, uint64_t from_ns)
{
	all->from_ns = from_ns;
}

static void worker_remove(struct worker_steps *all, struct worker *worker)
{
	if (all->probes)
		gpu_probes_report_windows(all->probes, worker->key.pid, worker->key.start_ns,
					  false);
	calls_fini(&worker->calls);
	free(worker->name);
	hash_table_remove(&all->workers, worker);
}

void worker_steps_free(struct worker_steps *all)
{
	struct worker *worker;

	if (!all)
		return;
	hash_table_each(&all->workers, worker)
		worker_remove(all, worker);
	free(all);
}

static struct worker *worker_find(struct worker_steps *all, const struct bpfprof_task_id *task)
{
	return process_map_find(&all->workers, task->pid, task->start_ns);
}

/* Removes a worker that has exited if the table is full. False: all workers live. */
static bool make_room(struct worker_steps *all)
{
	struct worker *worker;

	if (all->workers.nr < WORKER_STEPS_MAX)
		return true;
	hash_table_each(&all->workers, worker) {
		if (!worker->exited)
			continue;
		all->nr_forgotten++;
		worker_remove(all, worker);
		return true;
	}
	all->nr_full++;
	return false;
}

static struct worker *worker_add(struct worker_steps *all, const struct bpfprof_task_id *task,
				 const char *title, int pattern)
{
	struct worker *worker;
	char *name = NULL;

	if (!make_room(all))
		return NULL;
	if (title_keep(&name, title, SIZE_MAX)) {
		all->nr_full++;
		return NULL;
	}
	worker = process_map_add(&all->workers, task->pid, task->start_ns);
	if (!worker) {
		free(name);
		all->nr_full++;
		return NULL;
	}
	worker->name = name;
	worker->task = *task;
	worker->pattern = pattern;
	worker->calls.room = &all->room;
	worker->windows = all->sampler->options->steps.kind == STEPS_WINDOWS;
	if (all->probes) /* probes report windows of this worker from now on */
		gpu_probes_report_windows(all->probes, task->pid, task->start_ns, true);
	return worker;
}

static void worker_report(const struct worker_steps *all, const struct worker *worker)
{
	const struct worker_names names = { .title = worker->name };
	__cleanup(buf_fini) struct buf name = { .max = NAME_BYTES };

	text_add_shown(&name, worker_name(&names));
	log_info("watching worker '%s' pid %u (matched '%s')", name.data ? name.data : "",
		 worker->own_pid, all->sampler->options->workers[worker->pattern]);
}

/* Is the worker in a wanted pod and container? If so, it is reported once. */
static bool worker_is_asked_for(struct worker_steps *all, struct worker *worker)
{
	const struct capture_options *options = all->sampler->options;
	struct process *process;

	if (worker->reported)
		return true;
	if (container_filter_is_set(&options->containers)) {
		process = processes_find(all->sampler->reader.processes, worker->task.pid);
		if (!process || process->start_ns != worker->task.start_ns ||
		    !container_filter_matches(&options->containers,
					      sampler_container(all->sampler, process)))
			return false;
	}
	worker->reported = true;
	worker_report(all, worker);
	return true;
}

/* The pattern that matches a title or the name beside it; -1: none. */
static int judge(const struct worker_steps *all, const char *title, bool class_too)
{
	const struct capture_options *options = all->sampler->options;
	char comm[BPFPROF_COMM_LEN] = { 0 };
	const struct worker_names names = { .title = title, .comm = comm };

	strncpy(comm, title, sizeof(comm) - 1);
	return class_too ? worker_match_class(options->workers, options->nr_workers, &names)
			 : worker_match(options->workers, options->nr_workers, &names);
}

static bool is_through(const struct worker_steps *all, const struct worker *worker)
{
	return steps_through(&worker->steps, &all->sampler->options->steps);
}

/* True: the step is wanted. */
static bool step_begins(struct worker_steps *all, struct worker *worker, uint64_t ts_ns)
{
	uint64_t before = worker->steps.nr_windows;
	bool wanted;

	if (ts_ns < all->from_ns && !worker->windows)
		return false;
	wanted = steps_begin(&worker->steps, &all->sampler->options->steps, ts_ns);
	if (all->notify && !worker->windows && worker->steps.nr_windows > before)
		all->notify(all->notify_arg, &worker->task, true);
	return wanted;
}

/* Steps break off: their end will not be known. */
static void steps_break_off(struct worker_steps *all, const struct worker *worker)
{
	if (all->notify && !worker->windows && worker->steps.nr_open)
		all->notify(all->notify_arg, &worker->task, false);
}

static void step_was_last(struct worker_steps *all, struct worker *worker)
{
	titles_finish(&all->sampler->reader.session, &worker->task);
	all->changed = true;
}

static void step_ends(struct worker_steps *all, struct worker *worker, uint64_t ts_ns)
{
	if (!worker->steps.nr_open)
		return;
	steps_end(&worker->steps, ts_ns);
	if (all->notify && !worker->windows && !worker->steps.nr_open)
		all->notify(all->notify_arg, &worker->task, false);
	if (is_through(all, worker))
		step_was_last(all, worker);
}

/* Changes of the title were lost: the steps that run end now, for all that is known. */
static void worker_loses(struct worker_steps *all, struct worker *worker, uint32_t lost,
			 uint64_t ts_ns)
{
	worker->nr_lost += lost;
	calls_lose(&worker->calls);
	while (!worker->windows && worker->steps.nr_open)
		step_ends(all, worker, ts_ns);
}

static void worker_title(struct worker_steps *all, struct worker *worker,
			 const struct bpfprof_title_event *e, const char *title, bool wanted)
{
	char old_comm[BPFPROF_COMM_LEN + 1] = { 0 };
	const struct calls_change change = { .ts_ns = e->rec.ts_ns,
					     .sp = e->sp,
					     .tid = e->task.tid,
					     .main_thread = e->task.tid == e->task.pid,
					     .wanted = wanted,
					     .title = title,
					     .old_comm = old_comm };
	struct call *ended;
	int begun;

	memcpy(old_comm, e->old_comm, sizeof(e->old_comm));
	if (e->lost)
		worker_loses(all, worker, e->lost, e->rec.ts_ns);
	ended = calls_ended_by(&worker->calls, &change);
	if (!e->lost && !calls_is_change(&worker->calls, ended, &change))
		return;
	if (ended && ended->chosen && !worker->windows)
		step_ends(all, worker, e->rec.ts_ns);
	begun = calls_see(&worker->calls, ended, &change);
	if (begun < 0) {
		all->nr_no_room++;
		worker->nr_lost++;
	}
	if (begun > 0 && wanted && !worker->windows && calls_is_step(title) &&
	    !is_through(all, worker))
		worker->calls.running[worker->calls.nr_running - 1].chosen =
			step_begins(all, worker, e->rec.ts_ns);
}

void worker_steps_title(struct worker_steps *all, const struct bpfprof_title_event *e,
			struct process *process)
{
	struct worker *worker = worker_find(all, &e->task);
	char title[TITLE_MAX + 1];
	int pattern;

	all->nr_changes++;
	if (title_parse(title, e->title, sizeof(e->title))) {
		all->nr_bad++;
		titles_judge(&all->sampler->reader.session, e, false);
		if (worker && e->lost)
			worker_loses(all, worker, e->lost, e->rec.ts_ns);
		return;
	}
	pattern = judge(all, title, false);
	titles_judge(&all->sampler->reader.session, e, pattern >= 0);
	if (!worker && pattern >= 0)
		worker = worker_add(all, &e->task, title, pattern);
	if (!worker)
		return;
	if (!worker->own_pid)
		worker->own_pid = session_own_pid(&all->sampler->reader.session, e->task.pid,
						  process ? process->ns_context.agent_pid : 0);
	worker_is_asked_for(all, worker);
	worker_title(all, worker, e, title, pattern >= 0);
}

/* The worker makes windows: its calls are no steps, and its earlier calls are not counted. */
static void windows_are_steps(struct worker_steps *all, struct worker *worker)
{
	const struct event forget = { .kind = EVENT_FORGET,
				      .task = &worker->task,
				      .nr_forgotten = &all->nr_forgotten_samples };

	if (worker->windows)
		return;
	steps_break_off(all, worker);
	worker->windows = true;
	worker->steps = (struct steps){ 0 };
	sampler_emit(all->sampler, &forget);
	if (worker_is_asked_for(all, worker))
		log_info("worker pid %u makes windows with cudaProfilerStart: the windows are its "
			 "steps, and not its calls",
			 worker->own_pid);
}

void worker_steps_window(struct worker_steps *all, const struct bpfprof_window_event *e)
{
	struct worker *worker = worker_find(all, &e->task);

	if (!worker || (!worker->windows && !e->begins))
		return;
	windows_are_steps(all, worker);
	/*
	 * A window inside another one is a part of it. With a new number it is not: the record of
	 * the end was lost.
	 */
	if (worker->window_open == !!e->begins &&
	    !(e->begins && e->number > worker->steps.nr_begun))
		return;
	worker->window_open = e->begins;
	if (!e->begins) {
		step_ends(all, worker, e->rec.ts_ns);
		return;
	}
	steps_skip_to(&worker->steps, e->number, e->rec.ts_ns);
	/* The record of the last window's end was lost if that window is still open. */
	steps_end_all(&worker->steps, e->rec.ts_ns);
	if (is_through(all, worker))
		step_was_last(all, worker);
	else
		step_begins(all, worker, e->rec.ts_ns);
}

void worker_steps_exit(struct worker_steps *all, const struct bpfprof_task_id *task)
{
	struct worker *worker = worker_find(all, task);

	titles_forget(&all->sampler->reader.session, task->pid);
	if (!worker)
		return;
	worker->exited = true;
	all->changed = true;
	steps_break_off(all, worker);
}

static bool title_is_wanted(void *arg, const char *title)
{
	return !calls_is_idle(title) && judge(arg, title, true) >= 0;
}

static void on_worker(void *arg, const struct bpfprof_task_id *task, uint32_t own_pid,
		      const char *title, uint64_t ts_ns)
{
	struct worker_steps *all = arg;
	struct worker *worker = worker_add(all, task, title, judge(all, title, true));

	(void)ts_ns;
	if (!worker)
		return;
	worker->own_pid = own_pid;
	worker_is_asked_for(all, worker);
}

void worker_steps_poll(struct worker_steps *all)
{
	struct worker_titles_ask ask = { .wants = title_is_wanted, .found = on_worker, .arg = all };
	int err = worker_titles_each(all->sampler, &ask);

	all->nr_unread = ask.nr_unread;
	if (err)
		log_warn("not all processes could be read (%s): the recording may end before "
			 "workers that have not begun a call",
			 strerror(-err));
	else if (all->nr_unread)
		log_warn("%" PRIu64 " processes could not be read: workers among them that "
			 "have not begun a call are not waited for",
			 all->nr_unread);
}

bool worker_steps_want(struct worker_steps *all, const struct bpfprof_sample *sample)
{
	struct worker *worker = worker_find(all, &sample->task);
	int have;

	if (!worker)
		return false;
	have = steps_have(&worker->steps, sample->rec.ts_ns);
	all->nr_late += have < 0;
	all->nr_outside += !have;
	return have > 0;
}

bool worker_steps_know(struct worker_steps *all, const struct bpfprof_task_id *task)
{
	struct worker *worker = worker_find(all, task);

	return worker && worker_is_asked_for(all, worker);
}

bool worker_steps_through(struct worker_steps *all)
{
	bool some = false, unclear = false;
	struct worker *worker;

	if (!all->changed)
		return false;
	hash_table_each(&all->workers, worker) {
		if (!worker_is_asked_for(all, worker)) { /* the container may not be known yet */
			unclear = true;
			continue;
		}
		if (!worker->exited && !is_through(all, worker))
			break;
		/* A worker that exits before its first call makes room for others: Ray has many of them. */
		some |= worker->steps.nr_begun > 0;
	}
	all->changed = unclear;
	return !worker && some;
}

bool worker_steps_found(const struct worker_steps *all)
{
	const struct worker *worker;

	hash_table_each(&all->workers, worker)
		if (worker->reported)
			return true;
	return false;
}

static void worker_report_end(const struct worker *worker, const struct steps_range *range)
{
	const struct worker_names names = { .title = worker->name };
	const struct steps *steps = &worker->steps;
	__cleanup(buf_fini) struct buf text = { .max = NAME_BYTES };

	text_add_shown(&text, worker_name(&names));
	buf_printf(&text, "' pid %u: %" PRIu64 " of %" PRIu64 " %s recorded", worker->own_pid,
		   steps->nr_recorded, range->stop - range->start,
		   worker->windows ? "windows of the profiler" : "steps");
	if (steps->nr_recorded)
		buf_printf(&text, ", %.3f s in all", (double)steps->recorded_ns / 1e9);
	if (steps->nr_open > 1)
		buf_printf(&text, ", %" PRIu64 " steps in part", steps->nr_open);
	else if (steps->nr_open)
		buf_printf(&text, ", step %" PRIu64 " in part", steps->nr_begun);
	if (!steps_through(steps, range))
		buf_printf(&text, "; %" PRIu64 " seen%s", steps->nr_begun,
			   worker->exited ? " when it exited" : "");
	if (worker->nr_lost && !worker->windows)
		buf_printf(&text,
			   "; %" PRIu64 " changes of its title were lost: steps may be miscounted",
			   worker->nr_lost);
	if (!buf_error(&text))
		log_info("worker '%s", text.data);
}

void worker_steps_report(struct worker_steps *all)
{
	struct worker *worker;
	uint64_t nr = 0;

	hash_table_each(&all->workers, worker) {
		/*
		 * A worker that was not reported is not wanted, or its container was never found.
		 */
		if (!worker->reported)
			continue;
		if (nr++ < MAX_REPORTED)
			worker_report_end(worker, &all->sampler->options->steps);
	}
	if (nr > MAX_REPORTED || all->nr_forgotten)
		log_info("and %" PRIu64 " more workers",
			 (nr > MAX_REPORTED ? nr - MAX_REPORTED : 0) + all->nr_forgotten);
	if (all->nr_full)
		log_warn("more than %d workers: the others were left out", WORKER_STEPS_MAX);
}

void worker_steps_report_one(struct worker_steps *all, const struct bpfprof_task_id *task)
{
	const struct worker *worker = worker_find(all, task);

	if (worker && worker->reported)
		worker_report_end(worker, &all->sampler->options->steps);
}

/* The struct that the rows of counters read. */
struct steps_counts {
	uint64_t workers, seen, recorded, in_part, outside, late, before_windows, windows;
	uint64_t changes, bad, no_room, unread, full, forgotten;
};

#define AT(field) offsetof(struct steps_counts, field)

const struct counter worker_steps_counters[] = {
	{ COUNTER_STEPS, "workers", AT(workers), .help = "workers that matched", .zero = true },
	{ COUNTER_STEPS, "seen", AT(seen), .help = "steps of these workers", .zero = true },
	{ COUNTER_STEPS, "recorded", AT(recorded), .help = "steps that were recorded",
	  .zero = true },
	{ COUNTER_STEPS, "recorded_in_part", AT(in_part),
	  .help = "windows that were recorded, and had begun before" },
	{ COUNTER_STEPS, "samples_outside", AT(outside), .help = "samples that belong to no step" },
	{ COUNTER_STEPS, "samples_too_late", AT(late),
	  .help = "samples that came after their step was over" },
	{ COUNTER_STEPS, "samples_before_windows", AT(before_windows),
	  .help = "samples before it was known that there are windows" },
	{ COUNTER_STEPS, "workers_with_windows", AT(windows),
	  .help = "workers whose job marks its steps itself (cudaProfilerStart)" },
	{ COUNTER_STEPS, "title_changes", AT(changes), .help = "changes of titles" },
	{ COUNTER_STEPS, "titles_bad", AT(bad), .help = "titles that could not be read" },
	{ COUNTER_STEPS, "calls_no_room", AT(no_room),
	  .help = "calls of workers over the limit of calls at once" },
	{ COUNTER_STEPS, "processes_unread", AT(unread),
	  .help = "workers without steps, as their process could not be read" },
	{ COUNTER_STEPS, "workers_no_room", AT(full), .help = "workers over the limit" },
	{ COUNTER_STEPS, "workers_forgotten", AT(forgotten),
	  .help = "workers that ended long ago" },
	{ 0 },
};

void worker_steps_stats(const struct worker_steps *all, struct stats_reasons *dst)
{
	const struct worker *worker;
	struct steps_counts c = {
		.outside = all->nr_outside,
		.late = all->nr_late,
		.before_windows = all->nr_forgotten_samples,
		.changes = all->nr_changes,
		.bad = all->nr_bad,
		.unread = all->nr_unread,
		.full = all->nr_full,
		.forgotten = all->nr_forgotten,
		.no_room = all->nr_no_room,
	};

	hash_table_each(&all->workers, worker) {
		if (!worker->reported)
			continue;
		c.workers++;
		c.seen += worker->steps.nr_begun;
		c.recorded += worker->steps.nr_recorded;
		c.in_part += worker->steps.nr_open;
		c.windows += worker->windows && worker->steps.nr_begun;
	}
	stats_add_rows(dst, worker_steps_counters, &c, false);
}
