// SPDX-License-Identifier: Apache-2.0
#include "cli/gpu_steps.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "bpfprof.h"
#include "cli/gpu_job.h"
#include "cli/gpu_options.h"
#include "cli/worker_steps.h"
#include "kernel/gpu_probes.h"

#define MAX_TOLD 64 /* lines at the end */

static const struct steps_range *range_of(const struct gpu_job *job)
{
	const struct steps_range *range = &job->options->record.steps;

	return range->stop ? range : NULL;
}

static void on_step(void *arg, const struct bpfprof_task_id *task, bool begins)
{
	struct gpu_job *job = arg;

	gpu_probes_step(job->watch.probes, task->pid, task->start_ns, begins);
}

int gpu_steps_begin(struct gpu_job *job)
{
	const struct steps_range *range = range_of(job);

	if (!range)
		return 0;
	if (job->sampler.steps)
		worker_steps_notify(job->sampler.steps, on_step, job);
	return gpu_probes_steps(job->watch.probes, range->start, range->stop);
}

struct progress {
	const struct steps_range *range;
	uint64_t nr, nr_through;
};

static bool is_through(const struct steps_range *range, const struct bpfprof_gpu_window *window)
{
	return window->begun >= range->stop || (window->begun == range->stop - 1 && !window->open);
}

static void look(void *arg, const struct bpfprof_gpu_process_key *key,
		 const struct bpfprof_gpu_window *window)
{
	struct progress *progress = arg;

	(void)key;
	progress->nr += window->begun > 0;
	progress->nr_through += is_through(progress->range, window);
}

bool gpu_steps_through(const struct gpu_job *job)
{
	struct progress progress = { .range = range_of(job) };

	if (!progress.range)
		return false;
	gpu_probes_windows(job->watch.probes, look, &progress);
	if (progress.nr)
		return progress.nr_through == progress.nr;
	return job->sampler.steps && worker_steps_through(job->sampler.steps);
}

static void choose(void *arg, const struct bpfprof_gpu_process_key *process,
		   const struct bpfprof_gpu_window *window)
{
	struct gpu_picture *picture = arg;
	const struct bpfprof_gpu_key *key;
	size_t i, kept = 0;

	(void)window;
	for (i = 0; i < picture->nr_counts; i++) {
		key = &picture->counts[i].key;
		if (key->pid != process->pid || key->start_ns != process->start_ns || key->window)
			picture->counts[kept++] = picture->counts[i];
	}
	picture->nr_counts = kept;
}

void gpu_steps_choose(const struct gpu_job *job, struct gpu_picture *picture)
{
	if (range_of(job))
		gpu_probes_windows(job->watch.probes, choose, picture);
}

static void tell(void *arg, const struct bpfprof_gpu_process_key *key,
		 const struct bpfprof_gpu_window *window)
{
	struct progress *progress = arg;
	uint64_t first = progress->range->start, stop = progress->range->stop;
	uint64_t wanted = window->begun >= stop	   ? stop - first
			  : window->begun >= first ? window->begun - first + 1
						   : 0;

	if (progress->nr++ >= MAX_TOLD)
		return;
	log_info("pid %u: %" PRIu64 " of %" PRIu64 " windows of the profiler counted%s; %" PRIu64
		 " seen",
		 key->pid, wanted, stop - first,
		 wanted && window->begun < stop && window->open ? ", the last one in part" : "",
		 (uint64_t)window->begun);
}

void gpu_steps_tell(const struct gpu_job *job)
{
	struct progress progress = { .range = range_of(job) };

	if (!progress.range)
		return;
	gpu_probes_windows(job->watch.probes, tell, &progress);
	if (progress.nr > MAX_TOLD)
		log_info("and %" PRIu64 " more processes", progress.nr - MAX_TOLD);
	if (progress.nr)
		return;
	if (job->sampler.steps)
		worker_steps_tell(job->sampler.steps);
	else
		log_warn("--steps: nobody made a window with cudaProfilerStart; with --worker "
			 "calls of "
			 "methods are steps");
}
