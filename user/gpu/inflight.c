// SPDX-License-Identifier: Apache-2.0
#include "gpu/inflight_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/strtab.h"
#include "base/time.h"
#include "cuda/functions.h"
#include "gpu/job.h"
#include "gpu/polling_threads.h"
#include "kernel/probes/gpu_maps.h"
#include "kernel/probes/gpu_probes.h"
#include "kernel/tasks.h"
#include "options/gpu_options.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "profile/aggregate.h"
#include "profile/stats.h"
#include "threads/thread_dump.h"

/* Limit for reading all processes: the kernel's buffer fills meanwhile. */
#define BEGIN_NS (2 * NS_PER_SECOND)
#define POLL_NS (NS_PER_SECOND / 10)
#define POLL_END_NS (NS_PER_SECOND / 2)
#define RECENT_NS (NS_PER_SECOND / 2) /* a sample shows the position of its thread for this time */

/* Does the process map a hooked library of these layers? */
static bool maps_one_of(const struct gpu_inflight *inflight, const struct process *process,
			const struct gpu_probes_library *libraries, size_t nr, uint32_t layers)
{
	const struct image *image;
	size_t i, k;

	for (i = 0; i < process->nr_mappings; i++) {
		image = images_get(inflight->job->sampler.reader.images,
				   (uint32_t)process->mappings[i].image);
		for (k = 0; image && image->path && k < nr; k++)
			if (!libraries[k].problem && libraries[k].layers & layers &&
			    !strcmp(libraries[k].path, image->path))
				return true;
	}
	return false;
}

/*
 * Fills in the kernel's pids of the processes to read, since reading one changes the table of processes.
 * The oldest come first: a rank is older than the workers that it forked to load its data, which have its
 * libraries and its environment.
 */
static size_t processes_choose(struct gpu_inflight *inflight, uint32_t pids[INFLIGHT_MAX_PROCESSES])
{
	struct sampler *sampler = &inflight->job->sampler;
	const struct gpu_probes_library *libraries;
	const struct process *process;
	uint64_t starts[INFLIGHT_MAX_PROCESSES];
	size_t nr_libraries, nr = 0, at;

	libraries = gpu_probes_libraries(inflight->job->watch.probes, &nr_libraries);
	for (process = processes_first(sampler->reader.processes); process;
	     process = hash_table_next(process)) {
		if (process->dead || !process->mappings_known ||
		    (sampler->reader.session.options.filter &&
		     !session_is_target(&sampler->reader.session, (pid_t)process->pid)) ||
		    !maps_one_of(inflight, process, libraries, nr_libraries, UINT32_MAX))
			continue;
		if (nr == INFLIGHT_MAX_PROCESSES) {
			inflight->processes_unread++;
			if (starts[nr - 1] <= process->start_ns)
				continue;
			nr--;
		}
		for (at = nr++; at && starts[at - 1] > process->start_ns; at--) {
			starts[at] = starts[at - 1];
			pids[at] = pids[at - 1];
		}
		starts[at] = process->start_ns;
		pids[at] = process->pid;
	}
	return nr;
}

/* The thread ran: samples will show its stack. */
static void polling_add(struct gpu_inflight *inflight, const struct bpfprof_task_state *task,
			uint32_t own_pid)
{
	const char *host_root = inflight->job->options->record.capture.host_root;

	if ((!inflight->polling && polling_threads_new(&inflight->polling, host_root)) ||
	    polling_threads_add(inflight->polling, own_pid, task))
		inflight->running++;
}

/* Adds the calls of a process. The caller read the tasks before the stacks. */
static void calls_add(struct gpu_inflight *inflight, const struct dump *dump,
		      const struct process_dump *process, const struct tasks *tasks,
		      uint32_t own_pid)
{
	const struct bpfprof_task_state *task;
	const struct thread_dump *thread;
	size_t i;

	for (i = 0; i < process->nr_threads; i++) {
		thread = &process->threads[i];
		task = tasks_find(tasks, thread->kernel_tid, i);
		/* A thread that waits for a CPU counts as running. */
		if (task && (thread->running || !task->state))
			polling_add(inflight, task, own_pid);
		else if (task)
			inflight_sleeper_add(inflight, dump, thread, task, own_pid);
	}
}

static bool has_nccl(const struct gpu_inflight *inflight, const struct process *process)
{
	const struct gpu_probes_library *libraries;
	size_t nr;

	libraries = gpu_probes_libraries(inflight->job->watch.probes, &nr);
	return maps_one_of(inflight, process, libraries, nr, 1U << GPU_LAYER_NCCL);
}

static void process_begin(struct gpu_inflight *inflight, uint32_t pid)
{
	struct sampler *sampler = &inflight->job->sampler;
	const struct process *process = processes_find(sampler->reader.processes, pid);
	size_t nr_before = inflight->nr_calls;
	const struct process_dump *read;
	struct dump dump = { 0 };
	struct aggregate_input input;
	struct bpfprof_sample sample;
	struct tasks tasks;
	uint32_t own_pid;
	bool nccl;

	nccl = process && has_nccl(inflight, process);
	own_pid = process ? session_own_pid(&sampler->reader.session, pid,
					    process->ns_context.agent_pid)
			  : 0;
	if (!own_pid)
		return;
	inflight->read_ns = time_monotonic_ns();
	if (tasks_read(&tasks, &sampler->reader.session, own_pid, NULL))
		return;
	if (tasks.nr && sampler_thread_input(sampler, &tasks.states[0], &sample, &input)) {
		read = inflight_process_read(inflight, &dump, own_pid);
		if (read)
			calls_add(inflight, &dump, read, &tasks, own_pid);
		else
			inflight->processes_unread++;
		inflight->unread += read ? inflight->counts.nr_late : 0;
		inflight->cut += inflight->counts.nr_cut;
		inflight->pages += inflight->counts.nr_refused;
		/* If the job hangs, other ranks may wait for this process. */
		if (read && nccl && inflight->nr_calls == nr_before)
			inflight->silent[inflight->nr_silent++] =
				(struct silent){ .pid = pid,
						 .start_ns = tasks.states[0].task.start_ns };
		if ((read && nccl) || inflight->nr_calls > nr_before)
			call_table_describe(inflight->job->watch.table, &input);
		dump_fini(&dump);
	}
	tasks_fini(&tasks);
}

void gpu_inflight_begin(struct gpu_inflight *inflight)
{
	uint64_t begin_ns = time_monotonic_ns();
	uint32_t pids[INFLIGHT_MAX_PROCESSES];
	size_t nr, i;

	nr = processes_choose(inflight, pids);
	for (i = 0; i < nr; i++) {
		inflight->deadline_ns = time_monotonic_ns() + INFLIGHT_PROCESS_NS;
		if (inflight->deadline_ns > begin_ns + BEGIN_NS)
			inflight->deadline_ns = begin_ns + BEGIN_NS;
		process_begin(inflight, pids[i]);
		sampler_run(&inflight->job->sampler);
	}
	thread_read_end(&inflight->job->sampler.reader, THREAD_OWNER_INFLIGHT);
	inflight_polling_begin(inflight);
	log_debug("calls that began before: %zu in %zu processes, read in %.1f ms",
		  inflight->nr_calls, nr, (double)(time_monotonic_ns() - begin_ns) / 1e6);
}

/*
 * Did the hooks see the thread begin the found call again, or a call that replaces it? A driver
 * call that NCCL makes inside a collective does not count.
 */
static bool began_since(const struct gpu_inflight *inflight, size_t at,
			const struct gpu_snapshot *snapshot)
{
	const struct gpu_inflight_call *call = &inflight->calls[at];
	const struct gpu_function *functions, *function;
	const struct bpfprof_gpu_key *key;
	size_t nr, i;

	functions = gpu_functions(&nr);
	for (i = 0; i < snapshot->nr_open; i++) {
		key = &snapshot->open[i].open.key;
		if (snapshot->open[i].tid != inflight->states[at].kernel_tid ||
		    key->pid != call->pid || key->start_ns != call->start_ns || key->function >= nr)
			continue;
		function = &functions[key->function];
		if (!strcmp(function->shown, call->function) ||
		    (function->wire.layer == GPU_LAYER_DRIVER &&
		     strncmp(call->function, "nccl", strlen("nccl"))))
			return true;
	}
	return false;
}

/*
 * Reads the stacks of the threads with doubtful calls. Removes calls that are over, and calls whose
 * thread cannot be read. If only the time was too short, the next poll tries again.
 */
static void doubts_resolve(struct gpu_inflight *inflight, uint32_t own_pid, bool at_end)
{
	const struct thread_dump *thread;
	const struct process_dump *process;
	struct dump dump = { 0 };
	bool late, unread;
	size_t i;

	process = inflight_process_read(inflight, &dump, own_pid);
	late = time_monotonic_ns() >= inflight->deadline_ns;
	for (i = inflight->nr_calls; i; i--) {
		struct call_state *state = &inflight->states[i - 1];

		if (state->own_pid != own_pid || !state->doubts)
			continue;
		thread = process ? process_dump_find(process, state->kernel_tid) : NULL;
		unread = !process || (thread && (thread->running || !thread->consistent));
		/*
		 * The time was too short to read it, or the thread polls and got no CPU for a
		 * sample.
		 */
		if (unread && !at_end && (late || state->polling) &&
		    state->doubts < INFLIGHT_MAX_DOUBTS)
			continue;
		inflight->unread += unread;
		if (unread || !thread ||
		    !inflight_call_is_same(&inflight->calls[i - 1], &dump, thread))
			inflight_call_remove(inflight, i - 1);
		else
			state->doubts = 0;
	}
	dump_fini(&dump);
}

/* The answer of the samples: is a polling thread still in its call? */
enum polling_says { POLLING_SAYS_NOTHING, POLLING_SAYS_YES, POLLING_SAYS_NO };

static enum polling_says polling_ask(const struct gpu_inflight *inflight, size_t at,
				     const struct bpfprof_task_state *task)
{
	size_t polling = inflight->states[at].polling;

	if (!polling)
		return POLLING_SAYS_NOTHING;
	if (!polling_threads_holds(inflight->polling, polling - 1))
		return POLLING_SAYS_NO;
	return !task->state && polling_threads_get(inflight->polling, polling - 1)->last_ns +
					       RECENT_NS >=
				       time_monotonic_ns()
		       ? POLLING_SAYS_YES
		       : POLLING_SAYS_NOTHING;
}

/* Checks all calls of one process. */
static void process_scan(struct gpu_inflight *inflight, uint32_t own_pid,
			 const struct gpu_snapshot *snapshot, bool at_end)
{
	const struct bpfprof_task_state *task;
	struct tasks tasks;
	enum polling_says says;
	bool doubts = false;
	size_t i;

	/* Without a list no thread is found: the process has ended. */
	tasks_read(&tasks, &inflight->job->sampler.reader.session, own_pid, NULL);
	for (i = inflight->nr_calls; i; i--) {
		struct call_state *state = &inflight->states[i - 1];

		if (state->own_pid != own_pid)
			continue;
		task = tasks_find(&tasks, state->kernel_tid, 0);
		if (!task || task->exit_state ||
		    task->task.start_ns != inflight->calls[i - 1].start_ns ||
		    began_since(inflight, i - 1, snapshot) ||
		    inflight_called_since(inflight, i - 1)) {
			inflight_call_remove(inflight, i - 1);
			continue;
		}
		says = polling_ask(inflight, i - 1, task);
		if (says == POLLING_SAYS_NO)
			inflight_call_remove(inflight, i - 1);
		if (says != POLLING_SAYS_NOTHING)
			continue;
		/* The thread sleeps, and has not run since the last scan. */
		if (task->state && !(task->flags & BPFPROF_TASK_ON_CPU) &&
		    task->nr_switches == state->nr_switches && !state->doubts)
			continue;
		state->nr_switches = task->nr_switches;
		state->doubts++;
		doubts = true;
	}
	tasks_fini(&tasks);
	if (doubts)
		doubts_resolve(inflight, own_pid, at_end);
}

void gpu_inflight_poll(struct gpu_inflight *inflight, const struct gpu_snapshot *snapshot,
		       bool at_end)
{
	uint32_t pids[INFLIGHT_MAX_PROCESSES];
	size_t nr = 0, i, k;

	gpu_inflight_run(inflight, time_monotonic_ns());
	if (at_end && inflight->polling && !inflight->polling_judged)
		inflight_polling_judge(inflight, true);
	if (!inflight->nr_calls)
		return;
	inflight->deadline_ns = time_monotonic_ns() + (at_end ? POLL_END_NS : POLL_NS);
	for (i = 0; i < inflight->nr_calls; i++) {
		for (k = 0; k < nr && pids[k] != inflight->states[i].own_pid; k++)
			;
		if (k == nr && nr < INFLIGHT_MAX_PROCESSES)
			pids[nr++] = inflight->states[i].own_pid;
	}
	for (k = 0; k < nr; k++)
		process_scan(inflight, pids[k], snapshot, at_end);
	thread_read_end(&inflight->job->sampler.reader, THREAD_OWNER_INFLIGHT);
	for (i = 0; i < inflight->nr_calls && !inflight->states[i].polling; i++)
		;
	if ((at_end || i == inflight->nr_calls) && inflight->polling_judged)
		inflight_polling_end(inflight);
}

bool gpu_inflight_was_silent(const struct gpu_inflight *inflight, uint32_t pid, uint64_t start_ns)
{
	size_t i;

	for (i = 0; inflight && i < inflight->nr_silent; i++)
		if (inflight->silent[i].pid == pid && inflight->silent[i].start_ns == start_ns)
			return true;
	return false;
}

const struct gpu_inflight_call *gpu_inflight_calls(const struct gpu_inflight *inflight,
						   size_t *ret_nr)
{
	*ret_nr = inflight ? inflight->nr_calls : 0;
	return inflight ? inflight->calls : NULL;
}

#define AT(field) offsetof(struct gpu_inflight, field)

const struct counter gpu_inflight_counters[] = {
	{ COUNTER_GPU, "processes_not_read_at_the_start", AT(processes_unread),
	  .help = "processes that could not be read when `gpu` began" },
	{ COUNTER_GPU, "threads_running_at_the_start_not_read", AT(running),
	  .help = "threads that ran when `gpu` began, and could not be read" },
	{ COUNTER_GPU, "threads_in_calls_from_before_not_read", AT(unread),
	  .help = "threads in a call when `gpu` began, which could not be read" },
	{ COUNTER_GPU, "stacks_at_the_start_cut", AT(cut),
	  .help = "stacks of calls in flight when `gpu` began that are not complete" },
	{ COUNTER_GPU, "memory_pages_at_the_start_not_read", AT(pages),
	  .help = "pages of memory that could not be read when `gpu` began" },
	{ COUNTER_GPU, "calls_from_before_no_room", AT(refused),
	  .help = "calls in flight when `gpu` began, over the limit" },
	{ 0 },
};

void gpu_inflight_lost(const struct gpu_inflight *inflight, struct stats_reasons *dst)
{
	if (inflight)
		stats_add_rows(dst, gpu_inflight_counters, inflight, true);
}

int gpu_inflight_new(struct gpu_inflight **ret, struct gpu_job *job)
{
	struct gpu_inflight *inflight = calloc(1, sizeof(*inflight));

	if (!inflight)
		return -ENOMEM;
	if (strtab_new(&inflight->strings, INFLIGHT_STACK_BYTES)) {
		free(inflight);
		return -ENOMEM;
	}
	inflight->job = job;
	*ret = inflight;
	return 0;
}

void gpu_inflight_free(struct gpu_inflight *inflight)
{
	if (!inflight)
		return;
	while (inflight->nr_calls)
		inflight_call_remove(inflight, inflight->nr_calls - 1);
	inflight_polling_end(inflight);
	strtab_free(inflight->strings);
	free(inflight);
}
