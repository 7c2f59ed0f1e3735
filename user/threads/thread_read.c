// SPDX-License-Identifier: Apache-2.0
#include "threads/thread_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strtab.h"
#include "base/text.h"
#include "base/time.h"
#include "kernel/remote.h"
#include "kernel/session.h"
#include "kernel/walk.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "proc/usage.h"
#include "python/others.h"
#include "python/pythons.h"
#include "threads/reading.h"
#include "unwind_native.h"

#define MAX_ROUNDS 4
#define STACK_AHEAD_BYTES 8192 /* bytes of the stack that are read together with the leaf */
#define MAX_PREFETCH_STEPS 64
#define TASKS_AGAIN_NS (NS_PER_SECOND / 2) /* tasks that took longer are not read again */

/* The letter of ps(1). The bits are TASK_* of the kernel's include/linux/sched.h. */
static char state_letter(const struct bpfprof_task_state *task)
{
	static const struct {
		uint32_t bits;
		char letter;
	} states[] = {
		{ 0x402, 'I' }, { 2, 'D' }, { 1, 'S' }, { 4, 'T' }, { 8, 't' }, { 0x40, 'P' }
	};
	size_t i;

	if (task->exit_state)
		return task->exit_state & 0x10 ? 'X' : 'Z';
	for (i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		if ((task->state & states[i].bits) == states[i].bits)
			return states[i].letter;
	return task->state ? '?' : 'R';
}

static uint32_t add_comm(struct strtab *strings, const char *comm)
{
	return strtab_add_len(strings, comm, strnlen(comm, BPFPROF_COMM_LEN));
}

static bool is_kernel_thread(const struct bpfprof_task_state *task)
{
	return task->flags & BPFPROF_TASK_KTHREAD;
}

/* The tid in bpfprof's pid namespace, as users and links need it. */
static uint32_t shown_tid(const struct bpfprof_task_state *task)
{
	return task->reader_tid ? task->reader_tid : task->task.tid;
}

static void thread_begin(struct reading *reading, struct thread_dump *thread,
			 const struct bpfprof_task_state *task)
{
	static const unsigned int args[] = BPFPROF_SYSCALL_ARGS;
	size_t i;

	*thread = (struct thread_dump){
		.tid = shown_tid(task),
		.kernel_tid = task->task.tid,
		.name = add_comm(reading->strings, task->comm),
		.has_name = true,
		.consistent = true,
		.state = state_letter(task),
		.asleep_ns = task->asleep_ns,
		.syscall = task->syscall >= 0 && task->syscall < 4096 ? (int32_t)task->syscall : -1,
		.active = !task->state && !task->exit_state,
	};
	for (i = 0; i < BPFPROF_NR_SYSCALL_ARGS; i++)
		thread->syscall_args[i] = task->regs[args[i]];
}

/* Begins all threads that have not ended. 0, or -ENODATA if there is none. */
static int threads_begin(struct reading *reading)
{
	struct process_dump *dump = reading->dump;
	const struct tasks *tasks = &reading->tasks;
	size_t i;

	dump->threads = calloc(tasks->nr, sizeof(*dump->threads));
	reading->progress = calloc(tasks->nr, sizeof(*reading->progress));
	if (!dump->threads || !reading->progress)
		return -ENOMEM;
	for (i = 0; i < tasks->nr; i++)
		if (!tasks->states[i].exit_state)
			thread_begin(reading, &dump->threads[dump->nr_threads++],
				     &tasks->states[i]);
	return dump->nr_threads ? 0 : -ENODATA;
}

/*
 * Describes the process. If the read of its mappings hung, its command line is not read: that would
 * hang, too.
 */
static void process_describe(struct reading *reading, const struct bpfprof_task_state *task)
{
	struct process_dump *dump = reading->dump;
	char cmdline[PROC_CMDLINE_MAX];

	dump->kernel_parent = task->parent;
	dump->start_ns = task->task.start_ns;
	dump->exec_id = task->task.exec_id;
	dump->comm = add_comm(reading->strings, task->leader_comm);
	dump->kernel_thread = is_kernel_thread(task);
	if (!reading->counts->mappings_error &&
	    !proc_cmdline_read(reading->reader->runner, cmdline, sizeof(cmdline), (pid_t)dump->pid))
		dump->cmdline = strtab_add(reading->strings, cmdline);
	if (!dump->cmdline)
		dump->cmdline = dump->comm;
}

uint32_t reading_memory_tid(const struct tasks *tasks)
{
	size_t i;

	for (i = 0; i < tasks->nr; i++)
		if (!tasks->states[i].exit_state &&
		    !(tasks->states[i].flags & BPFPROF_TASK_NO_MEMORY))
			return shown_tid(&tasks->states[i]);
	return 0;
}

static bool has_path(const struct image *image)
{
	return image && image->path && image->path[0];
}

static void mappings_learn(struct reading *reading, uint32_t tid)
{
	struct walker *walker = &reading->reader->walker;
	struct process_dump *dump = reading->dump;
	uint64_t nr_beyond = pythons_counts(walker->pythons)->nr_beyond;
	int err = walker_learn(walker, tid, time_monotonic_ns(), NULL);
	const struct image *image = NULL;
	size_t i;

	reading->counts->mappings_error = err;
	reading->counts->nr_beyond = pythons_counts(walker->pythons)->nr_beyond - nr_beyond;
	if (err == -ETIMEDOUT)
		reading->counts->mappings_wait = deadline_last_wait(reading->reader->runner);
	if (err)
		return;
	reading->process = processes_find(walker->processes, reading->tasks.states[0].task.pid);
	if (!reading->process)
		return;
	if (reading->process->program)
		image = images_get(walker->images, reading->process->program);
	/* The program unpacked itself: any file serves, so the lowest is taken. */
	for (i = 0; i < reading->process->nr_mappings && !has_path(image); i++)
		image = images_get(walker->images, (uint32_t)reading->process->mappings[i].image);
	if (has_path(image))
		dump->executable = strtab_add(reading->strings, image->path);
}

/* Reads one thread; if it is on a CPU, only its state. */
static int thread_take(struct reading *reading, size_t index, const struct bpfprof_task_state *task)
{
	struct thread_dump *thread = &reading->dump->threads[index];
	bool runs_loop = thread->runs_loop;
	int err;

	reading->all->nr_frames -= thread->nr_frames;
	reading->all->nr_variables -= thread->nr_variables;
	thread_dump_fini(thread);
	thread_begin(reading, thread, task);
	thread->runs_loop = runs_loop; /* known from the tasks, which may not be read again */
	reading->progress[index].tasks_older = true;
	if (reading->nr_pythons)
		reading_identify(reading, thread, task);
	if (task->flags & BPFPROF_TASK_ON_CPU) {
		reading->progress[index].progress = THREAD_RUNNING;
		return 0;
	}
	reading->progress[index].nr_switches = task->nr_switches;
	reading->progress[index].progress = THREAD_READ;
	err = reading_stack(reading, thread, task);
	reading->all->nr_frames += thread->nr_frames;
	reading->all->nr_variables += thread->nr_variables;
	return err;
}

/*
 * Walks one thread over the memory that was read, and requests the rest. True: there was no rest.
 */
static bool thread_try(struct reading *reading, const struct bpfprof_task_state *task)
{
	remote_defer(reading->remote, true);
	reading_walk(reading, task);
	return !remote_defer(reading->remote, true);
}

static bool is_late(const struct reading *reading)
{
	return reading->request->deadline_ns &&
	       time_monotonic_ns() >= reading->request->deadline_ns;
}

/*
 * Reads memory in few passes: each pass walks all threads as far as the memory reaches, then reads
 * everything that they lack.
 */
static void threads_prefetch(struct reading *reading)
{
	const struct bpfprof_task_state *task;
	size_t i, missing = 1;
	int step;

	for (i = 0; i < reading->dump->nr_threads; i++)
		reading->progress[i].prefetched = reading->progress[i].progress != THREAD_TO_READ;
	for (step = 0; step < MAX_PREFETCH_STEPS && missing && !is_late(reading); step++) {
		missing = 0;
		for (i = 0; i < reading->dump->nr_threads && !is_late(reading); i++) {
			task = tasks_find(&reading->tasks, reading->dump->threads[i].kernel_tid, i);
			if (reading->progress[i].prefetched || !task ||
			    task->flags & BPFPROF_TASK_ON_CPU)
				continue;
			if (!step && reading_wants_native(reading))
				remote_want(reading->remote, task->regs[UNWIND_SP],
					    STACK_AHEAD_BYTES);
			reading->progress[i].prefetched = thread_try(reading, task);
			missing += !reading->progress[i].prefetched;
		}
		remote_fetch(reading->remote);
	}
	remote_defer(reading->remote, false);
}

static void thread_leave(struct reading *reading, size_t index)
{
	reading->progress[index].progress = THREAD_LATE;
	reading->dump->threads[index].consistent = false;
	reading->counts->nr_late += !reading->dump->threads[index].nr_frames;
}

/* Reads every thread that is still to be read. 0 or -ENOMEM. */
static int round_read(struct reading *reading)
{
	const struct bpfprof_task_state *task;
	size_t i;
	int err = 0;

	if (reading->remote) {
		remote_forget(reading->remote);
		reading_pythons_begin(reading);
		threads_prefetch(reading);
	}
	for (i = 0; i < reading->dump->nr_threads && !err; i++) {
		if (reading->progress[i].progress != THREAD_TO_READ)
			continue;
		task = tasks_find(&reading->tasks, reading->dump->threads[i].kernel_tid, i);
		if (!task || task->exit_state)
			reading->progress[i].progress = THREAD_GONE;
		else if (is_late(reading))
			thread_leave(reading, i);
		else
			err = thread_take(reading, i, task);
	}
	if (reading->tasks_due && reading->nr_pythons && !err)
		err = reading_async_tasks(reading);
	reading->tasks_due = false;
	reading_pythons_end(reading);
	reading->counts->nr_rounds++;
	return err;
}

static void thread_again(struct reading *reading, size_t index)
{
	reading->progress[index].progress = THREAD_TO_READ;
	reading->tasks_due |=
		reading->dump->threads[index].runs_loop && reading->tasks_ns < TASKS_AGAIN_NS;
}

/* Finds threads that ran during their read. Returns the number of threads to read again. */
static size_t round_judge(struct reading *reading)
{
	const struct bpfprof_task_state *task;
	struct thread_dump *thread;
	size_t i, nr = 0;

	for (i = 0; i < reading->dump->nr_threads; i++) {
		thread = &reading->dump->threads[i];
		task = tasks_find(&reading->tasks, thread->kernel_tid, i);
		if (reading->progress[i].progress == THREAD_RUNNING && task && !task->exit_state &&
		    !(task->flags & BPFPROF_TASK_ON_CPU)) {
			thread_again(reading, i);
			nr++;
		}
		if (reading->progress[i].progress != THREAD_READ)
			continue;
		thread->consistent = task && !task->exit_state &&
				     task->nr_switches == reading->progress[i].nr_switches &&
				     !(task->flags & BPFPROF_TASK_ON_CPU);
		if (thread->consistent || !task || task->exit_state)
			continue;
		thread_again(reading, i);
		nr++;
	}
	return nr;
}

static bool all_ended(const struct tasks *tasks)
{
	size_t i;

	for (i = 0; i < tasks->nr; i++)
		if (!tasks->states[i].exit_state)
			return false;
	return true;
}

static int reading_tasks(struct reading *reading, uint32_t pid)
{
	return tasks_read(&reading->tasks, &reading->reader->session, pid,
			  reading->request->threads);
}

/* Reads in rounds until every sleeping thread was read while it slept. */
static int rounds(struct reading *reading)
{
	uint64_t start_ns = time_monotonic_ns();
	struct tasks before;
	size_t nr = 1, i;
	int err = 0, round;

	for (round = 0; round < MAX_ROUNDS && nr && !reading->counts->ended; round++) {
		err = round_read(reading);
		if (err)
			break;
		before = reading->tasks;
		reading->tasks = (struct tasks){ 0 };
		err = reading_tasks(reading, reading->dump->pid);
		tasks_fini(&before);
		reading->counts->ended = err == -ESRCH || (!err && all_ended(&reading->tasks));
		nr = round_judge(reading);
	}
	if (reading->counts->ended) /* they ended at an unknown time */
		for (i = 0; i < reading->dump->nr_threads; i++)
			reading->dump->threads[i].consistent = false;
	reading->counts->read_ns += time_monotonic_ns() - start_ns;
	for (i = 0; i < reading->dump->nr_threads; i++) {
		/* A thread that stopped running at the end of the read has no frames either. */
		reading->dump->threads[i].running =
			reading->progress[i].progress == THREAD_RUNNING ||
			(reading->progress[i].progress == THREAD_TO_READ &&
			 !reading->dump->threads[i].nr_frames);
		reading->counts->nr_inconsistent += !reading->dump->threads[i].consistent;
	}
	return err == -ENOMEM ? err : 0;
}

/* py-spy sees an event loop between two events as idle, by its innermost frame alone. */
static bool seems_idle(const struct reading *reading, const struct thread_frame *frame)
{
	const char *name = strtab_get(reading->strings, frame->name);
	const char *file = strtab_get(reading->strings, frame->file);

	if (!strcmp(name, "wait"))
		return text_ends(file, "threading.py");
	if (!strcmp(name, "select"))
		return text_ends(file, "selectors.py");
	return !strcmp(name, "poll") && (text_ends(file, "asyncore.py") || strstr(file, "zmq") ||
					 strstr(file, "gevent") || strstr(file, "tornado"));
}

static void thread_judge_idle(const struct reading *reading, struct thread_dump *thread)
{
	size_t i;

	for (i = 0; i < thread->nr_frames; i++)
		if (thread->frames[i].kind == THREAD_FRAME_PYTHON)
			break;
	if (thread->active && i < thread->nr_frames && seems_idle(reading, &thread->frames[i]))
		thread->active = false;
}

static int thread_order(const void *a, const void *b, void *arg)
{
	const struct thread_dump *x = a, *y = b;

	(void)arg;
	if (x->is_python != y->is_python)
		return x->is_python ? -1 : 1;
	if (x->order != y->order) /* Python lists the newest thread first */
		return x->order > y->order ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static void process_finish(struct reading *reading)
{
	struct process_dump *dump = reading->dump;
	size_t i;

	reading_async_finish(reading);
	if (dump->nr_threads)
		qsort_r(dump->threads, dump->nr_threads, sizeof(*dump->threads), thread_order,
			NULL);
	for (i = 0; i < dump->nr_threads; i++)
		thread_judge_idle(reading, &dump->threads[i]);
	for (i = 0; i < dump->nr_threads && !dump->has_gil_holder; i++) {
		/*
		 * A thread that ran took the GIL after its state was read, and did not sleep while
		 * it had it.
		 */
		dump->has_gil_holder = dump->threads[i].owns_gil && !dump->threads[i].active &&
				       dump->threads[i].consistent;
		dump->gil_holder = i;
	}
	if (reading->process && !dump->python_version)
		reading->counts->other_python =
			python_other_of(reading->reader->images, reading->process,
					strtab_get(reading->strings, dump->cmdline));
	if (reading->remote) {
		reading->counts->nr_hung = remote_counts(reading->remote)->nr_hung;
		reading->counts->hung = remote_counts(reading->remote)->hung;
		reading->counts->nr_refused = remote_counts(reading->remote)->nr_refused;
		reading->counts->nr_passes = remote_counts(reading->remote)->nr_passes;
		reading->counts->nr_pages = remote_counts(reading->remote)->nr_pages;
	}
}

static int reading_run(struct reading *reading)
{
	uint32_t tid;
	int err = threads_begin(reading);

	if (err)
		return err;
	tid = reading_memory_tid(&reading->tasks);
	if (tid && !is_kernel_thread(&reading->tasks.states[0]))
		mappings_learn(reading, tid);
	/* Without mappings there is nothing to walk. */
	if (reading->process)
		err = remote_new(&reading->remote, reading->reader->child, tid);
	process_describe(reading, &reading->tasks.states[0]);
	if (!err && reading->remote)
		remote_limit(reading->remote, reading->request->deadline_ns,
			     reading->request->max_pages ? reading->request->max_pages
							 : REMOTE_MAX_PAGES);
	reading->tasks_due = reading->request->tasks;
	if (!err)
		err = rounds(reading);
	if (!err)
		process_finish(reading);
	return err;
}

int reading_child_need(struct thread_reader *reader, enum thread_owner owner)
{
	int err = reader->child ? 0 : remote_child_new(&reader->child, &reader->session);

	if (!err && !reader->owners)
		remote_child_patience(reader->child, reader->ready_ms);
	if (!err)
		reader->owners |= 1U << owner;
	return err;
}

int thread_read(struct thread_reader *reader, const struct thread_request *request,
		struct dump *dump, struct thread_read_counts *ret_counts)
{
	__cleanup(free_mem) struct reading *reading = calloc(1, sizeof(*reading));
	int err;

	*ret_counts = (struct thread_read_counts){ 0 };
	if (!reading)
		return -ENOMEM;
	reading->reader = reader;
	reading->request = request;
	reading->strings = dump->strings;
	reading->all = dump;
	reading->counts = ret_counts;
	if (is_late(reading))
		return -ETIME;
	err = reading_child_need(reader, request->owner);
	if (!err)
		err = reading_tasks(reading, request->pid);
	if (err)
		return err;
	ret_counts->too_many_threads = reading->tasks.cut;
	reading->dump = dump_add(dump);
	if (reading->dump) {
		reading->dump->pid = request->pid;
		reading->dump->kernel_pid = reading->tasks.states[0].task.pid;
		err = reading_run(reading);
	} else {
		err = -ENOMEM;
	}
	remote_free(reading->remote);
	reading_pythons_fini(reading);
	tasks_fini(&reading->tasks);
	free(reading->progress);
	if (err && reading->dump)
		dump_drop(dump);
	return err;
}
