// SPDX-License-Identifier: Apache-2.0
#include "cmd/record_timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/host_name.h"
#include "base/log.h"
#include "base/time.h"
#include "capture/container_filter.h"
#include "capture/sampler.h"
#include "capture/worker_titles.h"
#include "container/containers.h"
#include "formats/output.h"
#include "formats/trace_place.h"
#include "kernel/titles.h"
#include "options/options.h"
#include "proc/processes.h"
#include "proc/title.h"
#include "profile/stats.h"
#include "ray/calls.h"
#include "ray/ray_role.h"
#include "ray/worker_match.h"
#include "tasks/task_calls.h"
#include "tasks/task_cpu.h"
#include "tasks/task_timeline.h"
#include "tasks/task_trace.h"
#include "bpfprof.h"

#define MAX_WORKERS 16384 /* at the same time */
#define LABEL_BYTES 1024
#define SPOOL_SHARE 2 /* an event takes at least this many times its record's bytes in the file */

_Static_assert(SPOOL_SHARE * sizeof(struct task_trace_event) <=
		       sizeof("{'ph':'X','pid':1,'tid':1,'ts':1.000,'name':'ray::f',"
			      "'cat':'task','dur':1.000,'args':{'node':'','pid':1,'tid':1}}"),
	       "the spool holds no less than the file");

struct record_timeline {
	struct sampler *sampler;
	const struct record_options *options;
	struct task_calls *calls;
	struct task_trace *trace;
	struct buf label;
	uint64_t start_ns, start_wall_ns, end_ns;
	uint64_t nr_bad, nr_unread; /* bad titles; processes that could not be read at the start */
	uint64_t nr_missed; /* lost changes of titles, of wanted workers */
	uint64_t counters[BPFPROF_NR_COUNTERS]; /* values at the end of sampling */
	uint64_t nr_no_container; /* calls of workers with an unknown container */
};

/*
 * Do the filters (pid, name or worker, as for samples) choose the worker? Without filters all
 * workers are chosen.
 */
static bool is_chosen(const struct record_timeline *timeline, uint32_t pid, const char *title)
{
	const struct capture_options *options = timeline->sampler->options;
	const struct session *session = &timeline->sampler->reader.session;
	char comm[BPFPROF_COMM_LEN] = { 0 };
	const struct worker_names names = { .title = title, .comm = comm };

	if (!options->nr_comms && !options->nr_workers)
		return !session->options.filter || session_is_target(session, (pid_t)pid);
	strncpy(comm, title, sizeof(comm) - 1);
	return sampler_comm_matches(options, comm) ||
	       worker_match(options->workers, options->nr_workers, &names) >= 0 ||
	       session_is_target(session, (pid_t)pid);
}

/* NULL: the process has no container, or it is not known. */
static const struct container *container_of(const struct record_timeline *timeline,
					    const struct task_call *call)
{
	struct process *process = processes_find(timeline->sampler->reader.processes, call->pid);

	if (!process || process->start_ns != call->start_ns)
		return NULL;
	return sampler_container(timeline->sampler, process);
}

static const char *label_of(void *arg, const struct task_call *call)
{
	struct record_timeline *timeline = arg;
	const struct container *container = container_of(timeline, call);

	buf_reset(&timeline->label);
	if (container && *container->pod)
		buf_printf(&timeline->label, "pod %s/%s", container->namespace, container->pod);
	return buf_error(&timeline->label) ? NULL : timeline->label.data;
}

static void on_call(void *arg, const struct task_call *call)
{
	struct record_timeline *timeline = arg;
	const struct container_filter *filter = &timeline->options->capture.containers;
	const struct container *container;

	/* This was decided at the begin: a worker that has exited is no target any more. */
	if (!call->chosen)
		return;
	if (container_filter_is_set(filter)) {
		container = container_of(timeline, call);
		timeline->nr_no_container += !container;
		if (!container_filter_matches(filter, container))
			return;
	}
	task_trace_add(timeline->trace, call, label_of, timeline);
}

static bool title_is_wanted(void *arg, const char *title)
{
	(void)arg;
	return ray_role_of_argv(title, strlen(title)) == RAY_ROLE_WORKER;
}

static void on_worker(void *arg, const struct bpfprof_task_id *task, uint32_t own_pid,
		      const char *title, uint64_t ts_ns)
{
	struct record_timeline *timeline = arg;
	const struct task_change change = {
		.pid = task->pid,
		.own_pid = own_pid,
		.start_ns = task->start_ns,
		.ts_ns = ts_ns,
		.tid = task->pid,
		.main_thread = true,
		.chosen = true,
		.title = title,
		.old_comm = "",
	};

	if (is_chosen(timeline, task->pid, title))
		task_calls_poll(timeline->calls, &change, timeline->start_ns);
}

static void look(struct record_timeline *timeline)
{
	struct worker_titles_ask ask = { .wants = title_is_wanted,
					 .found = on_worker,
					 .arg = timeline };
	int err = worker_titles_each(timeline->sampler, &ask);

	timeline->nr_unread = ask.nr_unread;
	if (err)
		log_warn("not all processes could be read (%s): calls that ran at the beginning "
			 "may be missing in the timeline",
			 strerror(-err));
}

static int open_in(void *arg, const char *folder)
{
	struct record_timeline *timeline = arg;

	return task_trace_new(&timeline->trace, folder,
			      timeline->options->max_trace_bytes / SPOOL_SHARE);
}

static int place(struct record_timeline *timeline, const char *path)
{
	int err = trace_place_open(path, open_in, timeline);

	if (err)
		log_error("%s: no room to store calls until the end: %s; remedy: TMPDIR=FOLDER, or "
			  "-o FOLDER/NAME.json",
			  path, strerror(-err));
	return err;
}

int record_timeline_new(struct record_timeline **ret, struct sampler *sampler,
			const struct record_options *options, const char *path, uint64_t start_ns)
{
	struct record_timeline *timeline = calloc(1, sizeof(*timeline));
	int err;

	if (!timeline)
		return -ENOMEM;
	timeline->sampler = sampler;
	timeline->options = options;
	timeline->start_ns = start_ns;
	timeline->start_wall_ns = time_wall_ns() - (time_monotonic_ns() - start_ns);
	buf_init(&timeline->label, LABEL_BYTES);
	err = task_calls_new(&timeline->calls, MAX_WORKERS, on_call, timeline);
	if (!err) {
		look(timeline);
		err = place(timeline, path);
	}
	if (err) {
		record_timeline_free(timeline);
		return err;
	}
	*ret = timeline;
	return 0;
}

void record_timeline_free(struct record_timeline *timeline)
{
	if (!timeline)
		return;
	task_calls_free(timeline->calls);
	task_trace_free(timeline->trace);
	buf_fini(&timeline->label);
	free(timeline);
}

void record_timeline_title(struct record_timeline *timeline,
			   const struct bpfprof_title_event *event)
{
	struct task_change_texts texts;
	struct task_change change;
	struct session *session;

	if (!timeline)
		return;
	session = &timeline->sampler->reader.session;
	if (task_change_read(&change, &texts, session, event)) {
		timeline->nr_bad++;
		titles_judge(session, event, false);
		return;
	}
	/* A change to IDLE counts only if it ends a call. */
	titles_judge(session, event, !calls_is_idle(change.title));
	change.chosen = is_chosen(timeline, event->task.pid, change.title);
	timeline->nr_missed += change.chosen ? event->lost : 0;
	/* A title that is not chosen may end a call that is. */
	task_calls_see(timeline->calls, &change);
}

/* Counts lost changes of a title if no next change came that would report them. */
static void on_lost(void *arg, const struct bpfprof_task_id *task, uint32_t lost)
{
	struct record_timeline *timeline = arg;

	if (task_calls_lose(timeline->calls, task->pid, task->start_ns, lost))
		timeline->nr_missed += lost;
}

void record_timeline_exit(struct record_timeline *timeline, const struct bpfprof_task_id *task,
			  uint64_t ts_ns)
{
	if (!timeline)
		return;
	on_lost(timeline, task, titles_lost(&timeline->sampler->reader.session, task));
	task_calls_exit(timeline->calls, task->pid, task->start_ns, ts_ns);
	titles_forget(&timeline->sampler->reader.session, task->pid);
}

int record_timeline_finish(struct record_timeline *timeline, uint64_t end_ns)
{
	if (!timeline)
		return 0;
	timeline->end_ns = end_ns;
	titles_each_lost(&timeline->sampler->reader.session, on_lost, timeline);
	session_counters(&timeline->sampler->reader.session, timeline->counters);
	task_calls_close(timeline->calls, end_ns);
	return task_trace_close(timeline->trace);
}

/* The values that the rows read. */
struct timeline_counts {
	uint64_t bpf[BPFPROF_NR_COUNTERS];
	uint64_t bad, no_begin, no_room, unread, no_container;
};

#define AT(field) offsetof(struct timeline_counts, field)

const struct counter record_timeline_counters[] = {
	{ COUNTER_TRACE, "title_changes_lost", AT(bpf[BPFPROF_COUNT_TITLES_LOST]),
	  .help = "changes of titles that the kernel could not send, of all workers" },
	{ COUNTER_TRACE, "title_changes_too_many", AT(bpf[BPFPROF_COUNT_TITLES_LIMITED]),
	  .help = "changes of titles beyond 20,000 a second, of all workers" },
	{ COUNTER_TRACE, "titles_bad", AT(bad), .help = "titles that could not be read" },
	{ COUNTER_TRACE, "calls_without_begin", AT(no_begin),
	  .help = "calls of actors that run several at once: only the end was seen" },
	{ COUNTER_TRACE, "changes_no_room", AT(no_room),
	  .help = "changes of titles over the limit of a trace" },
	{ COUNTER_TRACE, "processes_unread", AT(unread),
	  .help = "workers whose process could not be read any more" },
	{ COUNTER_TRACE, "calls_without_container", AT(no_container),
	  .help = "calls that --pod or --container left out, as their container is not known" },
	{ 0 },
};

static void lost_fill(const struct record_timeline *timeline, struct stats_reasons *lost)
{
	struct timeline_counts counts = {
		.bad = timeline->nr_bad,
		.no_begin = task_calls_nr_no_begin(timeline->calls),
		.no_room = task_calls_nr_no_room(timeline->calls),
		.unread = timeline->nr_unread,
		.no_container = timeline->nr_no_container,
	};

	memcpy(counts.bpf, timeline->counters, sizeof(counts.bpf));
	stats_add_rows(lost, record_timeline_counters, &counts, true);
	task_trace_lost(timeline->trace, lost);
}

static void say_missing(const struct record_timeline *timeline, const char *path)
{
	uint64_t no_begin = task_calls_nr_no_begin(timeline->calls);

	if (timeline->nr_missed)
		log_warn("%s: %" PRIu64 " changes of titles came too fast: calls are missing", path,
			 timeline->nr_missed);
	if (no_begin)
		log_info("%s: %" PRIu64 " calls had begun before the recording, of actors that run "
			 "several at once: they are missing",
			 path, no_begin);
}

int record_timeline_write(struct record_timeline *timeline, const char *path,
			  const struct profile *profile)
{
	char host[HOST_NAME_BYTES];
	struct stats_reasons lost = { 0 };
	struct task_timeline made = { .trace = timeline->trace,
				      .facts = { .max_bytes = timeline->options->max_trace_bytes,
						 .host = host,
						 .start_ns = timeline->start_ns,
						 .start_wall_ns = timeline->start_wall_ns,
						 .end_ns = timeline->end_ns,
						 .lost = &lost } };
	struct task_cpu *cpus = NULL;
	int err;

	host_name(host);
	lost_fill(timeline, &lost);
	if (!timeline->options->capture.gil)
		cpus = task_cpu_list(profile, &made.nr_cpus);
	made.cpus = cpus;
	err = output_write_by(path, task_timeline_write, &made);
	free(cpus);
	if (err)
		return err;
	trace_place_say_missing(path, &made.facts, task_trace_error(timeline->trace));
	say_missing(timeline, path);
	return 0;
}
