// SPDX-License-Identifier: Apache-2.0
#include "cli/gpu_before.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/strtab.h"
#include "base/time.h"
#include "cli/gpu_job.h"
#include "gpu/functions.h"
#include "kernel/gpu_probes.h"
#include "kernel/remote.h"
#include "kernel/tasks.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "profile/aggregate.h"
#include "profile/dump_gpu.h"
#include "profile/dump_names.h"
#include "profile/dump_read.h"
#include "profile/stats.h"
#include "profile/thread_dump.h"

#define MAX_PROCESSES 256
#define MAX_CALLS 1024
#define MAX_STACK 512 /* frames of a call */
#define MAX_FRAME_BYTES 1024
#define BEGIN_NS (2 * NS_PER_SECOND) /* for all processes together */
#define LOOK_NS (NS_PER_SECOND / 2)

/* What is kept of a call besides what is shown of it, at the same index. */
struct call_state {
	uint32_t kernel_tid, own_pid;
	uint64_t nr_switches; /* of its thread, before its stack was read */
	bool in_doubt; /* the thread has run since */
};

struct gpu_before {
	struct gpu_job *job;
	struct remote_child *child; /* while something is read */
	uint64_t deadline_ns;
	uint64_t read_ns; /* when the tasks of a process were */
	struct gpu_before_call calls[MAX_CALLS];
	struct call_state states[MAX_CALLS];
	size_t nr_calls;
	uint64_t processes_unread, running, unread, refused;
};

static void call_clear(struct gpu_before_call *call)
{
	size_t i;

	for (i = 0; i < call->nr_stack; i++)
		free(call->stack[i]);
	free(call->stack);
	free(call->function);
}

static void call_remove(struct gpu_before *before, size_t at)
{
	call_clear(&before->calls[at]);
	before->nr_calls--;
	before->calls[at] = before->calls[before->nr_calls];
	before->states[at] = before->states[before->nr_calls];
}

static bool maps_one_of(const struct gpu_before *before, const struct process *process,
			const struct gpu_probes_library *libraries, size_t nr)
{
	const struct image *image;
	size_t i, k;

	for (i = 0; i < process->nr_mappings; i++) {
		image = images_get(before->job->sampler.images,
				   (uint32_t)process->mappings[i].image);
		for (k = 0; image && image->path && k < nr; k++)
			if (!libraries[k].problem && !strcmp(libraries[k].path, image->path))
				return true;
	}
	return false;
}

/* Kernel's pids of processes to be read: reading one changes the table of them. */
static size_t processes_choose(struct gpu_before *before, uint32_t pids[MAX_PROCESSES])
{
	struct sampler *sampler = &before->job->sampler;
	const struct gpu_probes_library *libraries;
	const struct process *process;
	size_t nr_libraries, nr = 0;

	libraries = gpu_probes_libraries(before->job->watch.probes, &nr_libraries);
	for (process = processes_first(sampler->processes); process; process = process->hh.next) {
		if (process->dead || !process->mappings_known ||
		    (sampler->session.options.filter &&
		     !session_is_target(&sampler->session, (pid_t)process->pid)) ||
		    !maps_one_of(before, process, libraries, nr_libraries))
			continue;
		if (nr < MAX_PROCESSES)
			pids[nr++] = process->pid;
		else
			before->processes_unread++;
	}
	return nr;
}

/*
 * Reads what the threads of a process are doing, and names those that are in libraries of CUDA. dump
 * is empty, and to be freed whatever comes of this. NULL: it could not be read.
 */
static const struct process_dump *process_read(struct gpu_before *before, struct dump *dump,
					       uint32_t own_pid)
{
	struct sampler *sampler = &before->job->sampler;
	const struct dump_names_options options = { .runner = sampler->runner,
						    .now_ns = time_monotonic_ns() };
	struct dump_reader reader = { .session = &sampler->session,
				      .walker = &sampler->walker,
				      .runner = sampler->runner,
				      .native = true };
	struct stats_reasons files = { 0 };
	struct dump_read_counts counts;
	struct process_dump *process;
	size_t i, nr_near = 0;
	int hidden;

	if (dump_init(dump) || time_monotonic_ns() >= before->deadline_ns)
		return NULL;
	if (!before->child && remote_child_new(&before->child, &sampler->session))
		return NULL;
	reader.child = before->child;
	if (dump_read(&reader, dump, own_pid, &counts))
		return NULL;
	process = &dump->processes[0];
	for (i = 0; i < process->nr_threads; i++) {
		if (dump_gpu_is_near(&process->threads[i], sampler->images))
			nr_near++;
		else /* what is of no interest needs no names */
			process->threads[i].nr_frames = 0;
	}
	if (nr_near && dump_names(dump, sampler->images, &options, &files, &hidden))
		return NULL;
	dump_gpu(dump);
	return process;
}

static char *frame_copy(const struct dump *dump, const struct thread_frame *frame)
{
	const char *name = strtab_get(dump->strings, frame->name);
	char text[MAX_FRAME_BYTES];

	if (frame->kind != THREAD_FRAME_PYTHON)
		return strndup(name, sizeof(text));
	snprintf(text, sizeof(text), "%s (%s:%u)", name,
		 strtab_get(dump->strings, frame->short_file), frame->line);
	return strdup(text);
}

/* The call that a thread is in. 0 or -ENOMEM. */
static int call_take(struct gpu_before_call *ret, const struct dump *dump,
		     const struct thread_dump *thread)
{
	size_t i;

	*ret = (struct gpu_before_call){ .tid = thread->tid };
	ret->function = strdup(strtab_get(dump->strings, thread->gpu_call));
	ret->stack = calloc(MAX_STACK, sizeof(*ret->stack));
	for (i = thread->gpu_frame;
	     ret->stack && i < thread->nr_frames && ret->nr_stack < MAX_STACK; i++) {
		ret->stack[ret->nr_stack] = i == thread->gpu_frame
						    ? strdup(ret->function ? ret->function : "")
						    : frame_copy(dump, &thread->frames[i]);
		if (!ret->stack[ret->nr_stack])
			break;
		ret->nr_stack++;
	}
	if (ret->function && ret->nr_stack)
		return 0;
	call_clear(ret);
	return -ENOMEM;
}

static void call_add(struct gpu_before *before, const struct dump *dump,
		     const struct thread_dump *thread, const struct bpfprof_task_state *task,
		     uint32_t own_pid)
{
	struct gpu_before_call *call = &before->calls[before->nr_calls];

	if (before->nr_calls == MAX_CALLS || call_take(call, dump, thread)) {
		before->refused++;
		return;
	}
	call->pid = task->task.pid;
	call->start_ns = task->task.start_ns;
	call->since_ns = before->read_ns - task->asleep_ns;
	memcpy(call->thread, task->comm, BPFPROF_COMM_LEN);
	before->states[before->nr_calls++] = (struct call_state){
		.kernel_tid = task->task.tid, .own_pid = own_pid, .nr_switches = task->nr_switches
	};
}

/* Threads of a process that was read; tasks are from before that. */
static void calls_add(struct gpu_before *before, const struct dump *dump,
		      const struct process_dump *process, const struct tasks *tasks,
		      uint32_t own_pid)
{
	const struct bpfprof_task_state *task;
	const struct thread_dump *thread;
	size_t i;

	for (i = 0; i < process->nr_threads; i++) {
		thread = &process->threads[i];
		task = tasks_find(tasks, thread->kernel_tid, i);
		if (thread->running)
			before->running++;
		else if (!thread->gpu_call || !task)
			continue;
		else if (!thread->consistent)
			before->unread++;
		else
			call_add(before, dump, thread, task, own_pid);
	}
}

static void process_begin(struct gpu_before *before, uint32_t pid)
{
	struct sampler *sampler = &before->job->sampler;
	const struct process *process = processes_find(sampler->processes, pid);
	size_t nr_before = before->nr_calls;
	const struct process_dump *read;
	struct dump dump = { 0 };
	struct aggregate_input input;
	struct bpfprof_sample sample;
	struct tasks tasks;
	uint32_t own_pid;
	int err;

	own_pid = process ? session_own_pid(&sampler->session, pid, process->place.agent_pid) : 0;
	if (!own_pid)
		return;
	before->read_ns = time_monotonic_ns();
	err = tasks_read(&tasks, &sampler->session, own_pid);
	if (err && err != -E2BIG)
		return;
	if (tasks.nr && sampler_thread_input(sampler, &tasks.states[0], &sample, &input)) {
		read = process_read(before, &dump, own_pid);
		if (read)
			calls_add(before, &dump, read, &tasks, own_pid);
		else
			before->processes_unread++;
		if (before->nr_calls > nr_before)
			gpu_tally_describe(before->job->watch.tally, &input);
		dump_fini(&dump);
	}
	tasks_fini(&tasks);
}

static void reading_end(struct gpu_before *before)
{
	remote_child_free(before->child);
	before->child = NULL;
}

void gpu_before_begin(struct gpu_before *before)
{
	uint64_t begin_ns = time_monotonic_ns();
	uint32_t pids[MAX_PROCESSES];
	size_t nr, i;

	before->deadline_ns = begin_ns + BEGIN_NS;
	nr = processes_choose(before, pids);
	for (i = 0; i < nr; i++)
		process_begin(before, pids[i]);
	reading_end(before);
	log_debug("calls that began before: %zu in %zu processes, read in %.1f ms",
		  before->nr_calls, nr, (double)(time_monotonic_ns() - begin_ns) / 1e6);
}

/*
 * Is the thread in a call that we saw begin, and that is or stands for the one that was found? What
 * NCCL calls of the driver's while it is in a collective is neither.
 */
static bool began_since(const struct gpu_before *before, size_t at,
			const struct gpu_picture *picture)
{
	const struct gpu_before_call *call = &before->calls[at];
	const struct gpu_function *functions, *function;
	const struct bpfprof_gpu_key *key;
	size_t nr, i;

	functions = gpu_functions(&nr);
	for (i = 0; i < picture->nr_open; i++) {
		key = &picture->open[i].open.key;
		if (picture->open[i].tid != before->states[at].kernel_tid ||
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

static bool is_same(const struct gpu_before_call *a, const struct gpu_before_call *b)
{
	size_t i;

	if (strcmp(a->function, b->function) || a->nr_stack != b->nr_stack)
		return false;
	for (i = 0; i < a->nr_stack && !strcmp(a->stack[i], b->stack[i]); i++)
		;
	return i == a->nr_stack;
}

/* Its thread has run: where is it now? */
static bool is_still_in(struct gpu_before *before, size_t at, const struct dump *dump,
			const struct process_dump *process)
{
	struct gpu_before_call now;
	bool same;
	size_t i;

	for (i = 0; i < process->nr_threads; i++)
		if (process->threads[i].kernel_tid == before->states[at].kernel_tid)
			break;
	if (i == process->nr_threads)
		return false;
	if (process->threads[i].running || !process->threads[i].consistent) {
		before->unread++;
		return false;
	}
	if (!process->threads[i].gpu_call || call_take(&now, dump, &process->threads[i]))
		return false;
	same = is_same(&before->calls[at], &now);
	call_clear(&now);
	return same;
}

/* Calls of the process that are in doubt: those that are none go, and so do all if it cannot be read. */
static void doubts_resolve(struct gpu_before *before, uint32_t own_pid)
{
	const struct process_dump *process;
	struct dump dump = { 0 };
	size_t i;

	process = process_read(before, &dump, own_pid);
	for (i = before->nr_calls; i; i--) {
		if (before->states[i - 1].own_pid != own_pid || !before->states[i - 1].in_doubt)
			continue;
		before->states[i - 1].in_doubt = false;
		before->unread += !process;
		if (!process || !is_still_in(before, i - 1, &dump, process))
			call_remove(before, i - 1);
	}
	dump_fini(&dump);
}

/* Looks at all calls of one process. */
static void process_look(struct gpu_before *before, uint32_t own_pid,
			 const struct gpu_picture *picture)
{
	const struct bpfprof_task_state *task;
	struct tasks tasks = { 0 };
	bool doubts = false;
	size_t i;
	int err;

	err = tasks_read(&tasks, &before->job->sampler.session, own_pid);
	for (i = before->nr_calls; i; i--) {
		struct call_state *state = &before->states[i - 1];

		if (state->own_pid != own_pid)
			continue;
		task = err && err != -E2BIG ? NULL : tasks_find(&tasks, state->kernel_tid, 0);
		if (!task || task->exit_state ||
		    task->task.start_ns != before->calls[i - 1].start_ns ||
		    began_since(before, i - 1, picture)) {
			call_remove(before, i - 1);
			continue;
		}
		/* Asleep, and it was not awake since. */
		if (task->state && !(task->flags & BPFPROF_TASK_ON_CPU) &&
		    task->nr_switches == state->nr_switches)
			continue;
		state->nr_switches = task->nr_switches;
		state->in_doubt = doubts = true;
	}
	tasks_fini(&tasks);
	if (doubts)
		doubts_resolve(before, own_pid);
}

void gpu_before_look(struct gpu_before *before, const struct gpu_picture *picture)
{
	uint32_t pids[MAX_PROCESSES];
	size_t nr = 0, i, k;

	if (!before->nr_calls)
		return;
	before->deadline_ns = time_monotonic_ns() + LOOK_NS;
	for (i = 0; i < before->nr_calls; i++) {
		for (k = 0; k < nr && pids[k] != before->states[i].own_pid; k++)
			;
		if (k == nr && nr < MAX_PROCESSES)
			pids[nr++] = before->states[i].own_pid;
	}
	for (k = 0; k < nr; k++)
		process_look(before, pids[k], picture);
	reading_end(before);
}

const struct gpu_before_call *gpu_before_calls(const struct gpu_before *before, size_t *ret_nr)
{
	*ret_nr = before ? before->nr_calls : 0;
	return before ? before->calls : NULL;
}

void gpu_before_lost(const struct gpu_before *before, struct stats_reasons *dst)
{
	if (!before)
		return;
	stats_add(dst, "processes_not_read_at_the_start", before->processes_unread);
	stats_add(dst, "threads_running_at_the_start_not_read", before->running);
	stats_add(dst, "threads_in_calls_from_before_not_read", before->unread);
	stats_add(dst, "calls_from_before_no_room", before->refused);
}

int gpu_before_new(struct gpu_before **ret, struct gpu_job *job)
{
	struct gpu_before *before = calloc(1, sizeof(*before));

	if (!before)
		return -ENOMEM;
	before->job = job;
	*ret = before;
	return 0;
}

void gpu_before_free(struct gpu_before *before)
{
	if (!before)
		return;
	while (before->nr_calls)
		call_remove(before, before->nr_calls - 1);
	free(before);
}
