// SPDX-License-Identifier: Apache-2.0
#include "cmd/gpu_workers.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "base/vec.h"
#include "capture/worker_processes.h"
#include "gpu/job.h"
#include "kernel/probes/gpu_maps.h"
#include "kernel/probes/gpu_probes.h"
#include "options/gpu_options.h"
#include "proc/pids.h"
#include "proc/processes.h"
#include "proc/usage.h"
#include "bpfprof.h"

#define SCAN_NS (2 * NS_PER_SECOND)
#define OTHERS_NS NS_PER_SECOND /* other processes are watched for this time at the end */
#define OTHERS_GROUP (SAMPLER_GROUP << 1)
#define MAX_OTHERS 64 /* processes of one worker's Ray node */
#define MAX_REPORTED 16 /* workers without a call that are listed by name */
#define TEXT_BYTES 4096
#define POLL_MS 20

struct worker {
	pid_t pid, parent; /* parent: the raylet */
	uint64_t started_ns; /* from /proc */
	struct bpfprof_task_id task; /* from the kernel's maps; pid 0: the worker had ended */
	char *name;
	bool reported; /* as a worker without a window */
};

struct gpu_workers {
	struct gpu_job *job;
	struct worker *list;
	size_t nr, cap;
	struct pids fresh; /* found in the present scan */
	uint64_t due_ns;
	bool waiting_reported;
	/* The Ray node of the last reported worker: most workers are on the same one. */
	pid_t reported_parent;
	struct buf others_text;
};

int gpu_workers_new(struct gpu_workers **ret, struct gpu_job *job)
{
	struct gpu_workers *workers = calloc(1, sizeof(*workers));

	if (!workers)
		return -ENOMEM;
	workers->job = job;
	workers->others_text.max = TEXT_BYTES;
	*ret = workers;
	return 0;
}

void gpu_workers_free(struct gpu_workers *workers)
{
	size_t i;

	if (!workers)
		return;
	for (i = 0; i < workers->nr; i++)
		free(workers->list[i].name);
	free(workers->list);
	pids_fini(&workers->fresh);
	buf_fini(&workers->others_text);
	free(workers);
}

static bool is_known(const struct gpu_workers *workers, pid_t pid, uint64_t started_ns)
{
	size_t i;

	for (i = 0; i < workers->nr; i++)
		if (workers->list[i].pid == pid && workers->list[i].started_ns == started_ns)
			return true;
	return false;
}

static int found(void *arg, pid_t pid, const struct proc_usage *usage, const char *name,
		 const char *pattern)
{
	struct gpu_workers *workers = arg;
	struct worker *worker;

	if (workers->nr == GPU_WORKERS_MAX || is_known(workers, pid, usage->start_ns))
		return 0;
	if (vec_grow(workers->list, workers->nr + 1, workers->cap, GPU_WORKERS_MAX))
		return -ENOMEM;
	worker = &workers->list[workers->nr];
	*worker = (struct worker){ .pid = pid,
				   .parent = usage->parent,
				   .started_ns = usage->start_ns,
				   .name = strdup(name) };
	if (!worker->name)
		return -ENOMEM;
	workers->nr++;
	if (!workers->job->sampler.steps) /* steps report workers themselves */
		worker_processes_report(pid, name, pattern);
	return pids_add(&workers->fresh, pid);
}

/*
 * Reads the mappings of a process, as hooks need them. Children became targets with their parents.
 */
static int learn(void *arg, pid_t pid, const struct proc_usage *usage)
{
	struct sampler *sampler = arg;

	if (!proc_usage_has_memory(usage))
		return 0;
	if (!session_pids_are_the_nodes(&sampler->reader.session) ||
	    session_is_target(&sampler->reader.session, pid))
		walker_learn(&sampler->reader.walker, (uint32_t)pid, time_monotonic_ns(), NULL);
	return 0;
}

static int targets_add(struct gpu_workers *workers, const pid_t *pids, size_t nr, uint32_t groups)
{
	struct sampler *sampler = &workers->job->sampler;
	int err = sampler_targets_add(sampler, pids, nr, groups, NULL);

	return err ?: pids_each(learn, sampler);
}

int gpu_workers_poll(struct gpu_workers *workers, uint64_t now_ns)
{
	struct sampler *sampler = &workers->job->sampler;
	const struct record_options *record = &workers->job->options->record;
	size_t first = workers->nr, i;
	int err;

	if (now_ns < workers->due_ns)
		return 0;
	workers->due_ns = now_ns + SCAN_NS;
	workers->fresh.nr = 0;
	err = worker_processes_each(sampler->reader.runner, record->capture.workers,
				    record->capture.nr_workers, found, workers);
	if (!err && workers->fresh.nr)
		err = targets_add(workers, workers->fresh.list, workers->fresh.nr, SAMPLER_GROUP);
	for (i = first; i < workers->nr && !err; i++)
		walker_learn(&sampler->reader.walker, (uint32_t)workers->list[i].pid, now_ns,
			     &workers->list[i].task);
	if (!err && !workers->nr && !workers->waiting_reported)
		log_info("no process matches --worker yet");
	workers->waiting_reported = true;
	return err;
}

/* The calls of a process, by its pid in the root pid namespace. */
struct tally {
	struct bpfprof_task_id task;
	uint64_t calls;
};

static uint64_t calls_of(const struct gpu_snapshot *snapshot, const struct bpfprof_task_id *task)
{
	uint64_t calls = 0;
	size_t i;

	for (i = 0; i < snapshot->nr_counts; i++)
		if (snapshot->counts[i].key.pid == task->pid &&
		    snapshot->counts[i].key.start_ns == task->start_ns)
			calls += snapshot->counts[i].count.calls;
	return calls;
}

struct tree {
	struct {
		pid_t pid, parent;
	} * list;
	size_t nr, cap;
};

static int tree_add(void *arg, pid_t pid, const struct proc_usage *usage)
{
	struct tree *tree = arg;
	if (vec_grow(tree->list, tree->nr + 1, tree->cap, VEC_BOUNDED))
		return -ENOMEM;
	tree->list[tree->nr].pid = pid;
	tree->list[tree->nr++].parent = usage->parent;
	return 0;
}

/* Is the process a descendant of the raylet? Reused pids may make a loop. */
static bool is_below(const struct tree *tree, pid_t pid, pid_t raylet)
{
	size_t i, rounds;

	for (rounds = 0; pid > 1 && rounds < 64; rounds++) {
		for (i = 0; i < tree->nr && tree->list[i].pid != pid; i++)
			;
		if (i == tree->nr)
			return false;
		pid = tree->list[i].parent;
		if (pid == raylet)
			return true;
	}
	return false;
}

struct others {
	struct gpu_workers *workers;
	const struct tree *tree;
	const struct worker *worker;
	size_t nr;
	pid_t pids[MAX_OTHERS]; /* processes that were not watched */
	struct tally tallies[MAX_OTHERS];
	size_t nr_pids;
};

static void other_report(struct others *others, pid_t pid, uint64_t calls)
{
	struct buf *text = &others->workers->others_text;
	struct proc_usage usage = { .comm = "" };

	if (others->nr++ >= MAX_OTHERS)
		return;
	proc_usage_read(&usage, pid);
	buf_printf(text, "%s pid %d '", others->nr > 1 ? "," : "", pid);
	text_add_shown(text, usage.comm);
	buf_printf(text, "' (%" PRIu64 " calls)", calls);
}

static void others_watched(struct others *others, const struct gpu_snapshot *snapshot)
{
	const struct call_table_process *processes;
	struct bpfprof_task_id task = { 0 };
	pid_t pid;
	uint64_t calls;
	size_t nr, i;

	processes = call_table_processes(others->workers->job->watch.table, &nr);
	for (i = 0; i < nr; i++) {
		task.pid = processes[i].kernel_pid;
		task.start_ns = processes[i].start_ns;
		pid = (pid_t)(processes[i].pid ? processes[i].pid : processes[i].kernel_pid);
		calls = calls_of(snapshot, &task);
		if (calls && !processes[i].ended &&
		    is_below(others->tree, pid, others->worker->parent))
			other_report(others, pid, calls);
	}
}

static void count_add(struct others *others, const struct bpfprof_gpu_key *key, uint64_t calls)
{
	size_t i;

	for (i = 0; i < others->nr_pids; i++)
		if (others->tallies[i].task.pid == key->pid &&
		    others->tallies[i].task.start_ns == key->start_ns)
			others->tallies[i].calls += calls;
}

/* Hooks the other processes of the same Ray node for a moment, to see which of them make calls. */
static void others_try(struct others *others)
{
	struct gpu_job *job = others->workers->job;
	struct sampler *sampler = &job->sampler;
	struct gpu_map_walk walk;
	uint64_t end_ns;
	size_t i;
	pid_t pid;

	for (i = 0; i < others->tree->nr && others->nr_pids < MAX_OTHERS; i++) {
		struct tally *tally = &others->tallies[others->nr_pids];

		pid = others->tree->list[i].pid;
		if (!is_below(others->tree, pid, others->worker->parent) ||
		    walker_learn(&sampler->reader.walker, (uint32_t)pid, time_monotonic_ns(),
				 &tally->task) ||
		    !tally->task.pid ||
		    session_is_target(&sampler->reader.session, (pid_t)tally->task.pid))
			continue;
		others->pids[others->nr_pids++] = pid;
	}
	if (!others->nr_pids ||
	    targets_add(others->workers, others->pids, others->nr_pids, OTHERS_GROUP))
		return;
	for (end_ns = time_monotonic_ns() + OTHERS_NS; time_monotonic_ns() < end_ns;) {
		sampler_run(sampler);
		gpu_probes_scan(job->watch.probes, time_monotonic_ns(), OTHERS_NS);
		poll(NULL, 0, POLL_MS);
	}
	gpu_map_begin(&walk, &sampler->reader.session, GPU_MAP_COUNTS);
	while (gpu_map_next(&walk))
		count_add(others, &walk.key.call, walk.value.count.calls);
	for (i = 0; i < others->nr_pids; i++)
		if (others->tallies[i].calls)
			other_report(others, others->pids[i], others->tallies[i].calls);
}

/* Lists the other processes of the Ray node that make calls. */
static void others_find(struct gpu_workers *workers, const struct worker *worker,
			const struct tree *tree, const struct gpu_snapshot *snapshot)
{
	__cleanup(free_mem) struct others *others = calloc(1, sizeof(*others));

	if (!others)
		return;
	others->workers = workers;
	others->tree = tree;
	others->worker = worker;
	workers->reported_parent = worker->parent;
	buf_reset(&workers->others_text);
	others_watched(others, snapshot);
	if (!others->nr)
		others_try(others);
	if (others->nr > MAX_OTHERS)
		buf_printf(&workers->others_text, " and %zu more", others->nr - MAX_OTHERS);
}

static void worker_report(struct gpu_workers *workers, const struct worker *worker,
			  const struct tree *tree, const struct gpu_snapshot *snapshot)
{
	__cleanup(buf_fini) struct buf name = { .max = TEXT_BYTES };

	text_add_shown(&name, worker->name);
	if (workers->job->options->record.capture.steps.stop) {
		log_warn("worker '%s' pid %d made no GPU call in a step",
			 name.data ? name.data : "", worker->pid);
		return;
	}
	if (workers->reported_parent != worker->parent)
		others_find(workers, worker, tree, snapshot);
	if (workers->others_text.len)
		log_warn("worker '%s' pid %d made no GPU call; these of its Ray node did:%s",
			 name.data ? name.data : "", worker->pid, workers->others_text.data);
	else
		log_warn("worker '%s' pid %d made no GPU call, nor did others of its Ray node",
			 name.data ? name.data : "", worker->pid);
}

const char *gpu_workers_name(const struct gpu_workers *workers, uint32_t kernel_pid,
			     uint64_t start_ns, uint32_t *ret_pid)
{
	const struct worker *worker;
	size_t i;

	for (i = 0; i < workers->nr; i++) {
		worker = &workers->list[i];
		if (worker->task.pid != kernel_pid || worker->task.start_ns != start_ns)
			continue;
		*ret_pid = (uint32_t)worker->pid;
		return worker->name;
	}
	return NULL;
}

void gpu_workers_each(struct gpu_workers *workers,
		      bool (*each)(void *arg, const struct bpfprof_task_id *task), void *arg)
{
	size_t i;

	for (i = 0; i < workers->nr; i++)
		if (workers->list[i].task.pid && each(arg, &workers->list[i].task))
			workers->list[i].reported = true;
}

void gpu_workers_report(struct gpu_workers *workers, const struct gpu_snapshot *snapshot)
{
	struct tree tree = { 0 };
	size_t i, silent = 0;

	if (!workers->nr)
		log_info("no process matched --worker in that time");
	if (workers->nr && pids_each(tree_add, &tree))
		log_debug("not all processes could be read");
	for (i = 0; i < workers->nr; i++) {
		if (workers->list[i].reported || calls_of(snapshot, &workers->list[i].task))
			continue;
		if (silent++ < MAX_REPORTED)
			worker_report(workers, &workers->list[i], &tree, snapshot);
	}
	if (silent > MAX_REPORTED)
		log_warn("and %zu more workers made no GPU call", silent - MAX_REPORTED);
	free(tree.list);
}
