// SPDX-License-Identifier: Apache-2.0
/*
 * Counts the waits of threads for --wall and --off-cpu, beside the clock of the sampler. Most of
 * the work is due at the end of an interval, for threads that wait then: an open wait has sent no
 * event yet, and a thread that has slept since before the start has sent none at all.
 */
#include "capture/sampler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/strtab.h"
#include "base/time.h"
#include "kernel/stream.h"
#include "kernel/tasks.h"
#include "kernel/waits.h"
#include "proc/pids.h"
#include "proc/processes.h"
#include "profile/aggregate.h"
#include "profile/thread_times.h"
#include "profile/wakers.h"
#include "python/codes.h"
#include "python/merge.h"
#include "threads/thread_dump.h"

/* The default limit for reading the stacks of a whole node. */
#define READING_NS (10 * NS_PER_SECOND)
#define TASK_UNINTERRUPTIBLE 2
#define TRIES 5 /* reads of a thread's state between two of its samples */
/* A sample arrives after it is counted: its stack is walked in between. */
#define FLIGHT_NS 1000000ULL
#define PAUSE_NS 250000L
#define PAUSES 400 /* for all threads together */
#define TASKS_AT_ONCE                                                                              \
	128 /* threads of a process; each takes 1.3 KB, and the memory that is read for its stack */
#define UNMERGED ((uint64_t)BPFPROF_FRAME_MARKER << BPFPROF_FRAME_SHIFT | PYTHON_FRAME_UNMERGED)

enum settles {
	SETTLE_FIRST, /* all threads but those whose wait needs a stack */
	SETTLE_REST,
	SETTLE_ALL, /* all threads, settled before or not */
};

struct rotation {
	struct sampler *sampler;
	const struct sampler_rotate *rotate;
	enum settles settles;
	unsigned int nr_pauses;
	uint64_t deadline_ns;
	uint64_t tasks_ns; /* when the states of the threads were read */
	struct dump dump;
	/* The other fields are about the process that is being read. */
	struct tasks tasks; /* at most TASKS_AT_ONCE */
	uint32_t *tids; /* threads that wait, at most TASKS_MAX */
	size_t nr_tids;
	size_t nr_scanned;
	uint32_t kernel_pid; /* 0: the process is not recorded */
};

int sampler_waits_start(struct sampler *sampler)
{
	uint64_t start_ns = sampler->options->start_at_ns, now_ns = time_wall_ns();

	return waits_start(&sampler->waits, &sampler->reader.session,
			   sampler->reader.session.options.hz,
			   start_ns > now_ns ? time_monotonic_ns() + start_ns - now_ns : 0);
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
	struct process *process = processes_find(sampler->reader.processes, sample->task.pid);

	*view = (struct sample_view){ .sample = sample, .stop = BPFPROF_STOP_NO_USER };
	if (!process || process->start_ns != sample->task.start_ns)
		return;
	view->process = process;
	view->ns_context = process->ns_context;
	view->title = process->title;
}

/*
 * at_ns: the end of the interval; 0: the thread has ended, and its tid may belong to another
 * thread.
 */
static void rest_fill(const struct sampler *sampler, const struct bpfprof_waiter *waiter,
		      uint64_t at_ns, struct thread_rest *ret)
{
	uint64_t since_ns = waits_open_since_ns(sampler->waits, waiter);
	bool wall = sampler->reader.session.options.waits == SESSION_WALL;

	*ret = (struct thread_rest){ .wait_ns = waiter->owed_ns, .since_ns = since_ns };
	if (wall)
		ret->run_ns = waiter->run_ns;
	if (!at_ns || !waiter->state)
		return;
	if (waiter->since_ns > at_ns)
		ret->after_ns = wall ? waiter->since_ns - at_ns : 0;
	else if (since_ns)
		ret->open_ns = at_ns - since_ns;
	else if (wall)
		ret->run_ns += at_ns - waiter->since_ns;
}

static bool is_wanted(const struct sampler_rotate *rotate, const struct aggregate_input *input)
{
	return !rotate->wants || rotate->wants(rotate->arg, input);
}

void sampler_waits_thread_end(struct sampler *sampler, const struct bpfprof_waiter *waiter)
{
	struct bpfprof_sample sample;
	struct aggregate_input input;
	struct sample_view view;
	struct thread_rest rest;

	rest_fill(sampler, waiter, 0, &rest);
	if (!rest.run_ns && !rest.wait_ns)
		return;
	sample_begin(&sample, &waiter->task, waiter->comm, waiter->leader_comm);
	view_begin(sampler, &view, &sample);
	if (sampler_input(sampler, &view, &input))
		sampler_emit(sampler, &(struct event){ .kind = EVENT_THREAD_END,
						       .input = &input,
						       .rest = &rest });
}

/* Did the thread begin to run, or was it sampled, a moment ago? Then a sample is in flight. */
static bool is_in_flight(struct rotation *rotation, const struct bpfprof_waiter *waiter)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };

	if (waiter->state != THREAD_RUNS || rotation->nr_pauses >= PAUSES ||
	    time_monotonic_ns() > waiter->since_ns + FLIGHT_NS)
		return false;
	rotation->nr_pauses++;
	nanosleep(&pause, NULL);
	return true;
}

/* Does the same as waits_find(), after all earlier samples have arrived. */
static int thread_scan(struct rotation *rotation, const struct bpfprof_task_id *task,
		       struct bpfprof_waiter *ret)
{
	struct sampler *sampler = rotation->sampler;
	int tries = TRIES, found;

	do {
		thread_times_heard(rotation->rotate->times, task);
		found = waits_find(sampler->waits, task, ret);
		stream_take(sampler->stream);
	} while ((thread_times_heard(rotation->rotate->times, task) ||
		  (found > 0 && is_in_flight(rotation, ret))) &&
		 --tries);
	return found;
}

/* Settles a thread that was on a CPU since the start. */
static void waiter_settle(void *arg, const struct bpfprof_waiter *waiter)
{
	struct rotation *rotation = arg;
	struct thread_times *times = rotation->rotate->times;
	struct bpfprof_sample sample;
	struct bpfprof_waiter now;
	struct aggregate_input input;
	struct sample_view view;
	struct thread_rest rest;

	if (rotation->settles == SETTLE_REST && thread_times_settled(times, &waiter->task))
		return;
	if (thread_scan(rotation, &waiter->task, &now) <= 0)
		return;
	rest_fill(rotation->sampler, &now, rotation->rotate->at_ns, &rest);
	if (rotation->settles == SETTLE_FIRST && thread_times_wants_stack(times, &now.task, &rest))
		return;
	sample_begin(&sample, &now.task, now.comm, now.leader_comm);
	view_begin(rotation->sampler, &view, &sample);
	if (sampler_input(rotation->sampler, &view, &input) && is_wanted(rotation->rotate, &input))
		thread_times_settle(times, &input, &rest);
}

static void waiters_settle(struct rotation *rotation, enum settles which)
{
	rotation->settles = which;
	waits_each(rotation->sampler->waits, waiter_settle, rotation);
}

/* Copies the kernel addresses of the stack, and the user frames of the thread if they were read. */
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
			view->unmerged = PYTHON_UNMERGED_READ;
			user[view->nr_user++] = UNMERGED;
			break;
		default:
			break;
		}
	}
}

bool sampler_sleeper_input(struct sampler *sampler, const struct bpfprof_task_state *state,
			   const struct dump *dump, const struct process_dump *process,
			   struct sampler_sleeper *to, struct aggregate_input *ret)
{
	const struct thread_dump *thread =
		process ? process_dump_find(process, state->task.tid) : NULL;
	struct sample_view view;

	if (thread && !thread->nr_frames)
		thread = NULL;
	sample_begin(&to->sample, &state->task, state->comm, state->leader_comm);
	if (state->state & TASK_UNINTERRUPTIBLE)
		to->sample.flags |= BPFPROF_SAMPLE_UNINTERRUPTIBLE;
	view_begin(sampler, &view, &to->sample);
	frames_take(sampler, &view, state, dump, thread, to->user);
	to->sample.nr_python = thread && process->python_version;
	to->is_read = thread;
	return sampler_input(sampler, &view, ret);
}

static void wait_add(struct rotation *rotation, const struct bpfprof_task_state *state,
		     const struct process_dump *process, struct thread_rest *rest)
{
	struct sampler *sampler = rotation->sampler;
	struct sampler_sleeper sleeper;
	struct aggregate_input input;

	if (!sampler_sleeper_input(sampler, state, &rotation->dump, process, &sleeper, &input) ||
	    !is_wanted(rotation->rotate, &input))
		return;
	sampler->waits_open++;
	sampler->waits_unread += !sleeper.is_read;
	if (!sleeper.is_read) /* the wait counts as a new one next time, and may be read then */
		rest->since_ns = 0;
	thread_times_open(rotation->rotate->times, &input, rest);
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

static bool is_asked_for(const struct rotation *rotation, const struct bpfprof_task_state *state)
{
	struct sampler *sampler = rotation->sampler;
	struct bpfprof_sample sample;
	struct aggregate_input input;

	if (sampler->reader.session.options.filter)
		return session_is_target(&sampler->reader.session, (pid_t)state->task.pid);
	return sampler_thread_input(sampler, state, &sample, &input) &&
	       is_wanted(rotation->rotate, &input);
}

static bool is_asleep(const struct bpfprof_task_state *state)
{
	return !state->exit_state && state->state;
}

/* Has the thread slept since before the start? The kernel knows. */
static bool slept_before_start(const struct rotation *rotation,
			       const struct bpfprof_task_state *state)
{
	return state->asleep_ns &&
	       rotation->tasks_ns - state->asleep_ns <= waits_start_ns(rotation->sampler->waits);
}

/* Is the time for reading stacks used up? */
static bool is_late(const struct rotation *rotation)
{
	return time_monotonic_ns() >= rotation->deadline_ns;
}

/* Is the thread in a wait that needs a stack? found: the result of waits_find(). */
static bool is_waiting(struct rotation *rotation, const struct bpfprof_task_state *state,
		       struct thread_rest *rest, int *found)
{
	struct bpfprof_waiter waiter;

	*found = -ENOENT;
	if (!is_asleep(state))
		return false;
	*found = thread_scan(rotation, &state->task, &waiter);
	/* A thread that has slept since before the start never needed a place. */
	if (*found == -ENOENT && slept_before_start(rotation, state))
		*found = 0;
	if (*found < 0)
		return false;
	rest_fill(rotation->sampler, &waiter, rotation->rotate->at_ns, rest);
	return thread_times_wants_stack(rotation->rotate->times, &state->task, rest);
}

/*
 * Lists waiting threads for process_rotate(), and settles the others that have slept since the start.
 */
static void tasks_settle(struct rotation *rotation)
{
	struct bpfprof_sample sample;
	struct aggregate_input input;
	struct thread_rest rest;
	int found;
	size_t i;

	for (i = 0; i < rotation->tasks.nr; i++) {
		const struct bpfprof_task_state *state = &rotation->tasks.states[i];

		if (is_waiting(rotation, state, &rest, &found)) {
			if (rotation->nr_tids < TASKS_MAX && !is_late(rotation))
				rotation->tids[rotation->nr_tids++] = state->reader_tid;
			else
				wait_add(rotation, state, NULL, &rest);
		} else if (!found &&
			   sampler_thread_input(rotation->sampler, state, &sample, &input)) {
			thread_times_settle(rotation->rotate->times, &input, &rest);
		} else if (found == -ENOENT && is_asleep(state)) {
			rotation->sampler->waits_unknown++;
		}
	}
}

/* Settles the threads read so far. 0; 1: the process is not recorded. */
static int tasks_scan(struct rotation *rotation)
{
	rotation->tasks_ns = time_monotonic_ns();
	waits_run(rotation->sampler->waits, rotation->tasks_ns);
	if (!rotation->kernel_pid) {
		if (!is_asked_for(rotation, &rotation->tasks.states[0]))
			return 1;
		rotation->kernel_pid = rotation->tasks.states[0].task.pid;
	}
	tasks_settle(rotation);
	rotation->tasks.nr = 0;
	return 0;
}

static int task_take(void *arg, const struct bpfprof_task_state *state)
{
	struct rotation *rotation = arg;

	if (rotation->tasks.nr == TASKS_AT_ONCE && tasks_scan(rotation))
		return 1;
	rotation->tasks.states[rotation->tasks.nr++] = *state;
	rotation->nr_scanned++;
	return 0;
}

/* Reads the waiting threads of the process: the chosen ones, or all. */
static void threads_rotate(struct rotation *rotation, pid_t pid, const struct tasks_choice *choice)
{
	struct sampler *sampler = rotation->sampler;
	const struct thread_request request = {
		.owner = THREAD_OWNER_WAITS,
		.pid = (uint32_t)pid,
		.native = true,
		.threads = choice,
		.max_pages = rotation->rotate->max_pages,
		.max_frames = rotation->rotate->max_frames,
		.deadline_ns = rotation->rotate->reading_ns ? rotation->deadline_ns : 0,
	};
	struct process_dump *process = NULL;
	struct thread_read_counts counts;
	struct thread_rest rest;
	struct tasks tasks;
	size_t i;
	int found, err;

	err = tasks_read(&tasks, &sampler->reader.session, (uint32_t)pid, choice);
	if (err) {
		sampler->waits_unknown += err == -ESRCH ? 0
					  : choice	? choice->nr
							: rotation->nr_tids;
		return;
	}
	rotation->tasks_ns = time_monotonic_ns();
	if (!is_late(rotation) &&
	    !thread_read(&sampler->reader, &request, &rotation->dump, &counts))
		process = &rotation->dump.processes[rotation->dump.nr_processes - 1];
	for (i = 0; i < tasks.nr; i++) {
		if (is_waiting(rotation, &tasks.states[i], &rest, &found))
			wait_add(rotation, &tasks.states[i], process, &rest);
	}
	if (process)
		dump_drop(&rotation->dump);
	tasks_fini(&tasks);
}

/*
 * Reads all waiting threads of the process, in groups: each thread takes memory while it is read.
 */
static void process_rotate(struct rotation *rotation, pid_t pid)
{
	struct tasks_choice choice = { .kernel_pid = rotation->kernel_pid };
	size_t first;

	if (rotation->nr_tids && rotation->nr_scanned <= TASKS_AT_ONCE) {
		threads_rotate(rotation, pid, NULL);
		return;
	}
	for (first = 0; first < rotation->nr_tids; first += choice.nr) {
		waits_run(rotation->sampler->waits, time_monotonic_ns());
		choice.tids = rotation->tids + first;
		choice.nr = rotation->nr_tids - first;
		if (choice.nr > TASKS_AT_ONCE)
			choice.nr = TASKS_AT_ONCE;
		threads_rotate(rotation, pid, &choice);
	}
}

static int process_scan(void *arg, pid_t pid, const struct proc_usage *usage)
{
	struct rotation *rotation = arg;
	struct sampler *sampler = rotation->sampler;
	int err;

	(void)usage;
	waits_run(sampler->waits, time_monotonic_ns());
	if (session_pids_are_the_nodes(&sampler->reader.session) &&
	    sampler->reader.session.options.filter &&
	    !session_is_target(&sampler->reader.session, pid))
		return 0;
	rotation->tasks.nr = rotation->nr_tids = 0;
	rotation->nr_scanned = rotation->kernel_pid = 0;
	err = tasks_each(&sampler->reader.session, (uint32_t)pid, task_take, rotation);
	if (!err && !tasks_scan(rotation))
		process_rotate(rotation, pid);
	return 0;
}

static void processes_scan(struct rotation *rotation)
{
	rotation->tasks.states = calloc(TASKS_AT_ONCE, sizeof(*rotation->tasks.states));
	rotation->tids = calloc(TASKS_MAX, sizeof(*rotation->tids));
	if (rotation->tasks.states && rotation->tids)
		pids_each(process_scan, rotation);
	tasks_fini(&rotation->tasks);
	free(rotation->tids);
}

static void stacks_read(struct rotation *rotation)
{
	struct sampler *sampler = rotation->sampler;
	uint64_t reading_ns = rotation->rotate->reading_ns;

	rotation->deadline_ns = time_monotonic_ns() + (reading_ns ? reading_ns : READING_NS);
	if (!dump_init(&rotation->dump)) {
		processes_scan(rotation);
		dump_fini(&rotation->dump);
	}
	/*
	 * A child process would keep the files open, and the command of `-- CMD` may wait until
	 * they are closed.
	 */
	thread_read_end(&sampler->reader, THREAD_OWNER_WAITS);
}

void sampler_waits_rotate(struct sampler *sampler, const struct sampler_rotate *rotate)
{
	struct rotation rotation = { .sampler = sampler, .rotate = rotate };

	stream_take(sampler->stream);
	waiters_settle(&rotation, SETTLE_FIRST);
	stacks_read(&rotation);
	/* The waits of these threads have ended meanwhile, or could not be read. */
	waiters_settle(&rotation, SETTLE_REST);
}

void sampler_waits_end(struct sampler *sampler, struct sampler_rotate *rotate)
{
	struct rotation last = { .sampler = sampler, .rotate = rotate };

	waits_end(sampler->waits);
	rotate->at_ns = waits_end_ns(sampler->waits);
	stream_run(sampler->stream);
	waiters_settle(&last, SETTLE_FIRST);
	stacks_read(&last);
	waits_stop(sampler->waits);
	stream_run(sampler->stream);
	/* Now each thread has a sample that takes the rest of its time. */
	waiters_settle(&last, SETTLE_ALL);
}
