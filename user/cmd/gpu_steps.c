// SPDX-License-Identifier: Apache-2.0
#include "cmd/gpu_steps.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "capture/worker_steps.h"
#include "cmd/gpu_workers.h"
#include "gpu/job.h"
#include "kernel/probes/gpu_maps.h"
#include "kernel/probes/gpu_probes.h"
#include "kernel/session.h"
#include "options/gpu_options.h"
#include "proc/title.h"
#include "bpfprof.h"

#define MAX_REPORTED 64 /* lines at the end */
#define NAME_BYTES (TITLE_MAX + 1024)
#define NO_WINDOW UINT64_MAX

static const struct steps_range *range_of(const struct gpu_job *job)
{
	const struct steps_range *range = &job->options->record.capture.steps;

	return range->stop ? range : NULL;
}

static void on_step(void *arg, const struct bpfprof_task_id *task, bool begins)
{
	gpu_probes_step(arg, task->pid, task->start_ns, begins);
}

int gpu_steps_begin(struct gpu_monitor *watch, const struct steps_range *range)
{
	if (!range->stop)
		return 0;
	if (watch->sampler->steps)
		worker_steps_notify(watch->sampler->steps, on_step, watch->probes);
	if (range->kind == STEPS_CALLS)
		return gpu_maps_steps(&watch->sampler->reader.session, NO_WINDOW, NO_WINDOW);
	return gpu_maps_steps(&watch->sampler->reader.session, range->start, range->stop);
}

struct progress {
	const struct gpu_job *job;
	const struct steps_range *range;
	uint64_t nr, nr_through;
	uint64_t nr_none; /* workers without a window */
};

/*
 * Begins a walk over the windows of all processes. False: the steps are calls of methods, not
 * windows.
 */
static bool windows_begin(const struct progress *progress, struct gpu_map_walk *walk)
{
	if (progress->range->kind == STEPS_CALLS)
		return false;
	gpu_map_begin(walk, &progress->job->sampler.reader.session, GPU_MAP_WINDOWS);
	return true;
}

static bool is_through(const struct steps_range *range, const struct bpfprof_gpu_window *window)
{
	return window->begun >= range->stop || (window->begun == range->stop - 1 && !window->open);
}

bool gpu_steps_through(const struct gpu_job *job)
{
	struct progress progress = { .job = job, .range = range_of(job) };
	const struct bpfprof_gpu_window *window;
	struct gpu_map_walk walk;

	if (!progress.range)
		return false;
	if (windows_begin(&progress, &walk))
		while (gpu_map_next(&walk)) {
			window = &walk.value.window;
			progress.nr += window->begun > 0;
			progress.nr_through += is_through(progress.range, window);
		}
	if (progress.nr)
		return progress.nr_through == progress.nr;
	return job->sampler.steps && worker_steps_through(job->sampler.steps);
}

/* Drops the calls of a process that lie outside of its windows. */
static void choose(struct gpu_snapshot *snapshot, const struct bpfprof_gpu_process_key *process)
{
	const struct bpfprof_gpu_key *key;
	size_t i, kept = 0;

	for (i = 0; i < snapshot->nr_counts; i++) {
		key = &snapshot->counts[i].key;
		if (key->pid != process->pid || key->start_ns != process->start_ns ||
		    key->flags & BPFPROF_KEY_WINDOW)
			snapshot->counts[kept++] = snapshot->counts[i];
	}
	snapshot->nr_counts = kept;
}

void gpu_steps_choose(const struct gpu_monitor *watch, const struct steps_range *range,
		      struct gpu_snapshot *snapshot)
{
	struct gpu_map_walk walk;

	if (!range->stop || range->kind == STEPS_CALLS)
		return;
	gpu_map_begin(&walk, &watch->sampler->reader.session, GPU_MAP_WINDOWS);
	while (gpu_map_next(&walk))
		choose(snapshot, &walk.key.process);
}

/* The pid in bpfprof's namespace, if it is known. */
static uint32_t shown_pid(const struct gpu_job *job, const struct bpfprof_gpu_process_key *key)
{
	const struct call_table_process *processes;
	size_t nr, i;

	if (session_pids_are_the_nodes(&job->sampler.reader.session))
		return key->pid;
	processes = call_table_processes(job->watch.table, &nr);
	for (i = 0; i < nr; i++)
		if (processes[i].kernel_pid == key->pid && processes[i].start_ns == key->start_ns &&
		    processes[i].pid)
			return processes[i].pid;
	return key->pid;
}

/* Adds the begin of a line: "worker 'Trainer.fit' pid 42", or "pid 42". */
static void subject_add(struct buf *dst, const struct gpu_job *job,
			const struct bpfprof_gpu_process_key *key)
{
	uint32_t pid = shown_pid(job, key);
	const char *name = NULL;

	if (job->workers)
		name = gpu_workers_name(job->workers, key->pid, key->start_ns, &pid);
	if (name) {
		buf_add_str(dst, "worker '");
		text_add_shown(dst, name);
		buf_add_str(dst, "' ");
	}
	buf_printf(dst, "pid %u", pid);
}

static void windows_log(struct progress *progress, const struct bpfprof_gpu_process_key *key,
			const struct bpfprof_gpu_window *window)
{
	uint64_t first = progress->range->start, stop = progress->range->stop;
	uint64_t wanted = window->begun >= stop	   ? stop - first
			  : window->begun >= first ? window->begun - first + 1
						   : 0;
	__cleanup(buf_fini) struct buf subject = { .max = NAME_BYTES };

	if (progress->nr++ >= MAX_REPORTED)
		return;
	subject_add(&subject, progress->job, key);
	if (buf_error(&subject))
		return;
	log_info("%s: %" PRIu64 " of %" PRIu64 " windows of the profiler counted%s; %" PRIu64
		 " seen",
		 subject.data, wanted, stop - first,
		 wanted && window->begun < stop && window->open ? ", the last one in part" : "",
		 (uint64_t)window->begun);
}

/* Reports a worker without windows, when others made some. True: a line was written. */
static bool none_report(void *arg, const struct bpfprof_task_id *task)
{
	struct progress *progress = arg;
	const struct bpfprof_gpu_process_key key = { .start_ns = task->start_ns, .pid = task->pid };
	__cleanup(buf_fini) struct buf subject = { .max = NAME_BYTES };

	if (gpu_maps_has_window(&progress->job->sampler.reader.session, task->pid, task->start_ns))
		return false;
	if (progress->nr_none++ >= MAX_REPORTED)
		return true;
	subject_add(&subject, progress->job, &key);
	if (buf_error(&subject))
		return false;
	log_info("%s: made no window of the profiler", subject.data);
	if (progress->job->sampler.steps)
		worker_steps_report_one(progress->job->sampler.steps, task);
	return true;
}

void gpu_steps_report(struct gpu_job *job)
{
	struct progress progress = { .job = job, .range = range_of(job) };
	struct gpu_map_walk walk;

	if (!progress.range)
		return;
	if (windows_begin(&progress, &walk))
		while (gpu_map_next(&walk))
			windows_log(&progress, &walk.key.process, &walk.value.window);
	if (progress.nr > MAX_REPORTED)
		log_info("and %" PRIu64 " more processes", progress.nr - MAX_REPORTED);
	if (progress.nr && job->workers)
		gpu_workers_each(job->workers, none_report, &progress);
	if (progress.nr_none > MAX_REPORTED)
		log_info("and %" PRIu64 " more workers made none", progress.nr_none - MAX_REPORTED);
	if (progress.nr)
		return;
	if (job->sampler.steps)
		worker_steps_report(job->sampler.steps);
	else if (progress.range->kind == STEPS_WINDOWS)
		log_warn("--steps: no process made a window with cudaProfilerStart");
	else
		log_warn("--steps: no process made a window with cudaProfilerStart; with --worker "
			 "calls of methods are steps");
}
