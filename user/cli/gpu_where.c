// SPDX-License-Identifier: Apache-2.0
#include "cli/gpu_where.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "base/time.h"
#include "cli/gpu_before.h"
#include "cli/gpu_job.h"
#include "kernel/remote.h"
#include "kernel/tasks.h"
#include "profile/dump_names.h"
#include "profile/dump_read.h"
#include "profile/stats.h"
#include "profile/thread_dump.h"

#define MAX_PROCESSES 64
#define MAX_FRAMES 256 /* of one */
#define MAX_READ_FRAMES 4096
#define MAX_READ_PAGES 4096 /* 16 MiB */
#define MAX_TEXT_BYTES (1U << 20)
#define ALL_NS (2 * NS_PER_SECOND)
#define PROCESS_NS (NS_PER_SECOND / 2) /* of that for one */

struct gpu_where {
	struct strtab *strings;
	struct remote_child *child; /* while they are read */
	struct gpu_where_stack stacks[MAX_PROCESSES];
	size_t nr;
	uint64_t unread, cut; /* processes; stacks of which a part is missing */
};

void gpu_where_frame(const struct dump *dump, const struct thread_frame *frame,
		     char room[GPU_WHERE_FRAME_BYTES])
{
	const char *name = strtab_get(dump->strings, frame->name);

	if (frame->kind == THREAD_FRAME_PYTHON)
		snprintf(room, GPU_WHERE_FRAME_BYTES, "%s (%s:%u)", name,
			 strtab_get(dump->strings, frame->short_file), frame->line);
	else
		snprintf(room, GPU_WHERE_FRAME_BYTES, "%s", name);
}

/* Does it know a communicator, or at least the library? */
static bool has_nccl(const struct gpu_job *job, const struct gpu_picture *picture,
		     const struct gpu_tally_process *process)
{
	const struct bpfprof_gpu_comm_key *key;
	size_t i;

	for (i = 0; i < picture->nr_comms; i++) {
		key = &picture->comms[i].key;
		if (key->pid == process->kernel_pid && key->start_ns == process->start_ns)
			return true;
	}
	return gpu_before_was_silent(job->before, process->kernel_pid, process->start_ns);
}

static bool is_in_call(const struct gpu_job *job, const struct gpu_picture *picture,
		       const struct gpu_tally_process *process)
{
	const struct gpu_before_call *before;
	const struct bpfprof_gpu_key *key;
	size_t nr, i;

	for (i = 0; i < picture->nr_open; i++) {
		key = &picture->open[i].open.key;
		if (key->pid == process->kernel_pid && key->start_ns == process->start_ns)
			return true;
	}
	before = gpu_before_calls(job->before, &nr);
	for (i = 0; i < nr; i++)
		if (before[i].pid == process->kernel_pid && before[i].start_ns == process->start_ns)
			return true;
	return false;
}

/* 0 or -ENOMEM. */
static int stack_take(struct gpu_where *where, struct gpu_where_stack *to, const struct dump *dump,
		      const struct thread_dump *thread)
{
	uint64_t nr_lost = strtab_nr_lost(where->strings);
	char room[GPU_WHERE_FRAME_BYTES];
	size_t i;

	to->frames = calloc(MAX_FRAMES, sizeof(*to->frames));
	if (!to->frames)
		return -ENOMEM;
	for (i = 0; i < thread->nr_frames && to->nr_frames < MAX_FRAMES; i++) {
		if (thread->frames[i].kind == THREAD_FRAME_KERNEL)
			continue;
		gpu_where_frame(dump, &thread->frames[i], room);
		to->frames[to->nr_frames++] =
			strtab_get(where->strings, strtab_add(where->strings, room));
	}
	where->cut += i < thread->nr_frames || strtab_nr_lost(where->strings) > nr_lost;
	return 0;
}

/* The main thread, named, in an empty dump. NULL: it could not be read in time. */
static const struct thread_dump *thread_read(struct gpu_where *where, struct gpu_job *job,
					     struct dump *dump,
					     const struct bpfprof_task_state *task,
					     uint32_t own_pid, uint64_t deadline_ns)
{
	struct sampler *sampler = &job->sampler;
	const struct tasks_choice choice = { .kernel_pid = task->task.pid,
					     .tids = &own_pid,
					     .nr = 1 };
	const struct dump_names_options names = { .runner = sampler->runner,
						  .now_ns = time_monotonic_ns(),
						  .deadline_ns = deadline_ns };
	const struct dump_reader reader = { .session = &sampler->session,
					    .walker = &sampler->walker,
					    .child = where->child,
					    .runner = sampler->runner,
					    .native = true,
					    .threads = &choice,
					    .deadline_ns = deadline_ns,
					    .max_frames = MAX_READ_FRAMES,
					    .max_pages = MAX_READ_PAGES };
	struct dump_read_counts counts = { 0 };
	struct stats_reasons files = { 0 };
	int hidden;

	if (dump_read(&reader, dump, own_pid, &counts) || !dump->processes[0].nr_threads ||
	    dump_names(dump, sampler->images, &names, &files, &hidden) ||
	    time_monotonic_ns() >= deadline_ns)
		return NULL;
	return &dump->processes[0].threads[0];
}

/* 0, -EAGAIN if it could not be read, -ENOMEM. */
static int process_read(struct gpu_where *where, struct gpu_job *job,
			const struct gpu_tally_process *process, uint64_t deadline_ns)
{
	uint32_t own_pid =
		session_own_pid(&job->sampler.session, process->kernel_pid, process->pid);
	const struct tasks_choice choice = { .kernel_pid = process->kernel_pid,
					     .tids = &own_pid,
					     .nr = 1 };
	struct gpu_where_stack *to = &where->stacks[where->nr];
	const struct thread_dump *thread;
	struct dump dump = { 0 };
	struct tasks tasks;
	int err = -EAGAIN;

	if (!own_pid || tasks_read(&tasks, &job->sampler.session, own_pid, &choice))
		return -EAGAIN;
	if (tasks.nr != 1 || tasks.states[0].task.start_ns != process->start_ns || dump_init(&dump))
		goto out;
	thread = thread_read(where, job, &dump, &tasks.states[0], own_pid, deadline_ns);
	if (!thread)
		goto out;
	*to = (struct gpu_where_stack){ .pid = process->kernel_pid,
					.start_ns = process->start_ns,
					.tid = thread->tid,
					.running = thread->running || !thread->consistent };
	memcpy(to->thread, tasks.states[0].comm, BPFPROF_COMM_LEN);
	err = to->running ? 0 : stack_take(where, to, &dump, thread);
	where->nr += !err;
out:
	dump_fini(&dump);
	tasks_fini(&tasks);
	return err;
}

int gpu_where_new(struct gpu_where **ret, struct gpu_job *job, const struct gpu_picture *picture)
{
	uint64_t end_ns = time_monotonic_ns() + ALL_NS, deadline_ns;
	struct gpu_where *where = calloc(1, sizeof(*where));
	const struct gpu_tally_process *processes;
	size_t nr, i;
	int err;

	if (!where)
		return -ENOMEM;
	err = strtab_new(&where->strings, MAX_TEXT_BYTES);
	processes = gpu_tally_processes(job->watch.tally, &nr);
	for (i = 0; i < nr && err != -ENOMEM; i++) {
		if (processes[i].ended || !has_nccl(job, picture, &processes[i]) ||
		    is_in_call(job, picture, &processes[i]))
			continue;
		deadline_ns = time_monotonic_ns() + PROCESS_NS;
		if (deadline_ns > end_ns)
			deadline_ns = end_ns;
		err = -EAGAIN;
		if (where->nr < MAX_PROCESSES && time_monotonic_ns() < deadline_ns &&
		    (where->child || !remote_child_new(&where->child, &job->sampler.session)))
			err = process_read(where, job, &processes[i], deadline_ns);
		where->unread += err != 0;
	}
	remote_child_free(where->child);
	where->child = NULL;
	if (err == -ENOMEM) {
		gpu_where_free(where);
		return err;
	}
	*ret = where;
	return 0;
}

void gpu_where_free(struct gpu_where *where)
{
	size_t i;

	if (!where)
		return;
	for (i = 0; i < where->nr; i++)
		free(where->stacks[i].frames);
	strtab_free(where->strings);
	free(where);
}

const struct gpu_where_stack *gpu_where_of(const struct gpu_where *where, uint32_t pid,
					   uint64_t start_ns)
{
	size_t i;

	for (i = 0; where && i < where->nr; i++)
		if (where->stacks[i].pid == pid && where->stacks[i].start_ns == start_ns)
			return &where->stacks[i];
	return NULL;
}

void gpu_where_lost(const struct gpu_where *where, struct stats_reasons *dst)
{
	stats_add(dst, "processes_without_calls_not_read", where ? where->unread : 0);
	stats_add(dst, "stacks_without_calls_cut", where ? where->cut : 0);
}
