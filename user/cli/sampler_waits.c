// SPDX-License-Identifier: Apache-2.0
/*
 * Waits of threads: what a sampler has to do beside the clock for --wall and --off-cpu. Most of it
 * is done at the end, for threads that wait then: nobody has told of a wait that is not over, and
 * those that have slept since before the start have not been heard of at all.
 */
#include "cli/sampler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "base/time.h"
#include "kernel/remote.h"
#include "kernel/stream.h"
#include "kernel/tasks.h"
#include "kernel/waits.h"
#include "proc/pids.h"
#include "proc/processes.h"
#include "profile/aggregate.h"
#include "profile/dump_read.h"
#include "profile/thread_dump.h"
#include "profile/wakers.h"
#include "python/codes.h"
#include "python/merge.h"

/* A wait shorter than that needs no stack of its own. */
#define STACK_WORTH_NS 20000000ULL
/* Reading stacks of a whole node, at most. */
#define READING_NS (10 * NS_PER_SECOND)
#define UNMERGED ((uint64_t)BPFPROF_FRAME_MARKER << BPFPROF_FRAME_SHIFT | PYTHON_FRAME_UNMERGED)

struct ending {
	struct sampler *sampler;
	uint64_t deadline_ns;
	struct dump dump;
};

int sampler_waits_start(struct sampler *sampler)
{
	return waits_start(&sampler->waits, &sampler->session, sampler->options->hz);
}

static void sample_begin(struct bpfprof_sample *sample, const struct bpfprof_task_id *task,
			 const char *comm, const char *leader_comm)
{
	*sample = (struct bpfprof_sample){ .task = *task, .flags = BPFPROF_SAMPLE_WAIT };
	memcpy(sample->comm, comm, sizeof(sample->comm));
	memcpy(sample->leader_comm, leader_comm, sizeof(sample->leader_comm));
}

static void view_begin(struct sampler *sampler, struct sample_view *view,
		       const struct bpfprof_sample *sample)
{
	struct process *process = processes_find(sampler->processes, sample->task.pid);

	*view = (struct sample_view){ .sample = sample, .stop = BPFPROF_STOP_NO_USER };
	if (!process || process->start_ns != sample->task.start_ns)
		return;
	view->process = process;
	view->place = process->place;
	view->title = process->title;
}

void sampler_waits_settle(struct sampler *sampler, const struct bpfprof_waiter *waiter)
{
	uint64_t end_ns = waits_end_ns(sampler->waits), run_ns = 0;
	int64_t wait_ns = waiter->owed_ns;
	struct bpfprof_sample sample;
	struct aggregate_input input;
	struct sample_view view;

	if (sampler->options->waits == SESSION_WALL)
		run_ns = waiter->run_ns;
	/* Of a recording that has ended: what it did then. */
	if (end_ns > waiter->since_ns && waiter->state == THREAD_RUNS) {
		if (sampler->options->waits == SESSION_WALL)
			run_ns += end_ns - waiter->since_ns;
	} else if (end_ns) {
		wait_ns += (int64_t)waits_open_ns(sampler->waits, &waiter->task);
	}
	if (!run_ns && !wait_ns)
		return;
	sample_begin(&sample, &waiter->task, waiter->comm, waiter->leader_comm);
	view_begin(sampler, &view, &sample);
	if (sampler_input(sampler, &view, &input))
		sampler->handlers.settle(sampler->handlers.arg, &input, run_ns, wait_ns);
}

/* Kernel addresses as on the stack, and user frames; the thread's own, else of the kernel's only. */
static void frames_take(struct sampler *sampler, struct sample_view *view,
			const struct bpfprof_task_state *state, const struct dump *dump,
			const struct thread_dump *thread, uint64_t *user)
{
	const struct thread_frame *frame;
	size_t i;

	view->kernel = (const uint64_t *)state->kernel;
	view->nr_kernel = state->nr_kernel < BPFPROF_MAX_KERNEL_FRAMES ? state->nr_kernel
								       : BPFPROF_MAX_KERNEL_FRAMES;
	if (!thread)
		return;
	view->user = user;
	view->stop = BPFPROF_STOP_COMPLETE;
	for (i = 0; i < thread->nr_frames; i++) {
		frame = &thread->frames[i];
		if (view->nr_user == BPFPROF_MAX_FRAMES) {
			view->stop = BPFPROF_STOP_DEPTH;
			break;
		}
		switch (frame->kind) {
		case THREAD_FRAME_PYTHON:
			user[view->nr_user++] = codes_frame_of(
				sampler->codes, strtab_get(dump->strings, frame->name),
				strtab_get(dump->strings, frame->file), frame->line);
			break;
		case THREAD_FRAME_NATIVE:
			user[view->nr_user++] = frame->wire;
			break;
		case THREAD_FRAME_MARKER:
			if (strcmp(strtab_get(dump->strings, frame->name), "[unmerged]")) {
				view->stop = BPFPROF_STOP_READ_FAULT;
				break;
			}
			view->unmerged = true;
			user[view->nr_user++] = UNMERGED;
			break;
		default:
			break;
		}
	}
}

static const struct thread_dump *thread_of(const struct process_dump *process, uint32_t tid)
{
	size_t i;

	for (i = 0; process && i < process->nr_threads; i++)
		if (process->threads[i].kernel_tid == tid)
			return process->threads[i].nr_frames ? &process->threads[i] : NULL;
	return NULL;
}

static void wait_add(struct ending *ending, const struct bpfprof_task_state *state,
		     const struct process_dump *process, uint64_t ns)
{
	struct sampler *sampler = ending->sampler;
	const struct thread_dump *thread = thread_of(process, state->task.tid);
	uint64_t user[BPFPROF_MAX_FRAMES];
	struct bpfprof_sample sample;
	struct aggregate_input input;
	struct sample_view view;

	sample_begin(&sample, &state->task, state->comm, state->leader_comm);
	sample.period_ns = ns;
	if (state->state & 2)
		sample.flags |= BPFPROF_SAMPLE_UNINTERRUPTIBLE;
	view_begin(sampler, &view, &sample);
	frames_take(sampler, &view, state, &ending->dump, thread, user);
	sample.nr_python = thread && process->python_version;
	if (!sampler_input(sampler, &view, &input))
		return;
	sampler->waits_open++;
	sampler->waits_unread += !thread;
	sampler->handlers.sample(sampler->handlers.arg, &input);
}

bool sampler_thread_input(struct sampler *sampler, const struct bpfprof_task_state *state,
			  struct bpfprof_sample *sample, struct aggregate_input *ret)
{
	struct sample_view view;

	if (state->flags & BPFPROF_TASK_KTHREAD)
		return false;
	sample_begin(sample, &state->task, state->comm, state->leader_comm);
	view_begin(sampler, &view, sample);
	return sampler_input(sampler, &view, ret);
}

static bool is_asked_for(struct sampler *sampler, const struct bpfprof_task_state *state)
{
	struct bpfprof_sample sample;
	struct aggregate_input input;

	if (sampler->session.options.filter)
		return session_is_target(&sampler->session, (pid_t)state->task.pid);
	return sampler_thread_input(sampler, state, &sample, &input);
}

static bool is_waiting(const struct ending *ending, const struct bpfprof_task_state *state)
{
	return !state->exit_state && state->state &&
	       waits_open_ns(ending->sampler->waits, &state->task) >= STACK_WORTH_NS;
}

/* All threads of the process that wait. */
static void process_end(struct ending *ending, pid_t pid, const struct tasks *tasks)
{
	struct sampler *sampler = ending->sampler;
	const struct dump_reader reader = { .session = &sampler->session,
					    .walker = &sampler->walker,
					    .child = sampler->remote,
					    .runner = sampler->runner,
					    .native = true };
	struct process_dump *process = NULL;
	struct dump_read_counts counts;
	uint64_t ns;
	size_t i;

	if (time_monotonic_ns() < ending->deadline_ns &&
	    !dump_read(&reader, &ending->dump, (uint32_t)pid, &counts))
		process = &ending->dump.processes[ending->dump.nr_processes - 1];
	for (i = 0; i < tasks->nr; i++) {
		if (is_waiting(ending, &tasks->states[i]) &&
		    waits_claim(sampler->waits, &tasks->states[i].task, &ns))
			wait_add(ending, &tasks->states[i], process, ns);
	}
	if (process)
		dump_drop(&ending->dump);
}

static bool has_waiting(const struct ending *ending, const struct tasks *tasks)
{
	size_t i;

	for (i = 0; i < tasks->nr; i++)
		if (is_waiting(ending, &tasks->states[i]))
			return true;
	return false;
}

static int process_look(void *arg, pid_t pid, const struct proc_usage *usage)
{
	struct ending *ending = arg;
	struct tasks tasks;
	int err;

	(void)usage;
	if (session_pids_are_the_nodes(&ending->sampler->session) &&
	    ending->sampler->session.options.filter &&
	    !session_is_target(&ending->sampler->session, pid))
		return 0;
	err = tasks_read(&tasks, &ending->sampler->session, (uint32_t)pid);
	if (err && err != -E2BIG)
		return 0;
	if (is_asked_for(ending->sampler, &tasks.states[0]) && has_waiting(ending, &tasks))
		process_end(ending, pid, &tasks);
	tasks_fini(&tasks);
	return 0;
}

static void waiter_settle(void *arg, const struct bpfprof_waiter *waiter)
{
	sampler_waits_settle(arg, waiter);
}

void sampler_waits_end(struct sampler *sampler)
{
	struct ending ending = { .sampler = sampler };

	waits_end(sampler->waits);
	stream_run(sampler->stream);
	ending.deadline_ns = time_monotonic_ns() + READING_NS;
	/* Not earlier: a child would hold open what keeps the command of `-- CMD` waiting. */
	if (!remote_child_new(&sampler->remote, &sampler->session) && !dump_init(&ending.dump)) {
		pids_each(process_look, &ending);
		dump_fini(&ending.dump);
	}
	waits_stop(sampler->waits);
	stream_run(sampler->stream);
	/* Last: now each has some sample that can take what is left. */
	waits_each(sampler->waits, waiter_settle, sampler);
}

void sampler_waits_close(struct sampler *sampler)
{
	waits_free(sampler->waits);
	wakers_free(sampler->wakers);
	remote_child_free(sampler->remote);
}
