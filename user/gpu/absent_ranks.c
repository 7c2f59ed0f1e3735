// SPDX-License-Identifier: Apache-2.0
#include "gpu/absent_ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/strtab.h"
#include "base/time.h"
#include "capture/dump_burst.h"
#include "gpu/inflight.h"
#include "gpu/job.h"
#include "kernel/tasks.h"
#include "profile/stats.h"
#include "threads/stack_names.h"
#include "threads/thread_reader.h"
#include "threads/dump_view.h"
#include "threads/thread_dump.h"

#define MAX_PROCESSES 64
#define MAX_FRAMES 256 /* frames of one thread */
#define MAX_READ_FRAMES 4096
#define MAX_READ_PAGES 4096 /* 16 MiB */
#define MAX_TEXT_BYTES (1U << 20)
#define ALL_NS (2 * NS_PER_SECOND)
#define PROCESS_NS (NS_PER_SECOND / 2) /* for the reading of one process */
/*
 * The time of sampling, after the reading: on a busy machine a running thread may wait some 100 ms
 * for a CPU.
 */
#define BURST_NS (NS_PER_SECOND / 2)
#define NAMES_NS (2 * NS_PER_SECOND)

struct absent_ranks {
	struct strtab *strings;
	struct absent_rank processes[MAX_PROCESSES];
	uint32_t own_pids[MAX_PROCESSES]; /* their pids in bpfprof's pid namespace */
	size_t nr;
	uint64_t unread, cut; /* processes; stacks that lack a part */
};

/* Does the process have a known communicator, or at least map the NCCL library? */
static bool has_nccl(const struct gpu_job *job, const struct gpu_snapshot *snapshot,
		     const struct call_table_process *process)
{
	const struct bpfprof_gpu_comm_key *key;
	size_t i;

	for (i = 0; i < snapshot->nr_comms; i++) {
		key = &snapshot->comms[i].key;
		if (key->pid == process->kernel_pid && key->start_ns == process->start_ns)
			return true;
	}
	return gpu_inflight_was_silent(job->inflight, process->kernel_pid, process->start_ns);
}

static bool is_in_call(const struct gpu_job *job, const struct gpu_snapshot *snapshot,
		       const struct call_table_process *process)
{
	const struct gpu_inflight_call *before;
	const struct bpfprof_gpu_key *key;
	size_t nr, i;

	for (i = 0; i < snapshot->nr_open; i++) {
		key = &snapshot->open[i].open.key;
		if (key->pid == process->kernel_pid && key->start_ns == process->start_ns)
			return true;
	}
	before = gpu_inflight_calls(job->inflight, &nr);
	for (i = 0; i < nr; i++)
		if (before[i].pid == process->kernel_pid && before[i].start_ns == process->start_ns)
			return true;
	return false;
}

/* Copies the user frames of a thread. 0 or -ENOMEM. */
static int frames_take(struct absent_ranks *ranks, struct absent_rank_thread *to,
		       const struct dump *dump, const struct thread_dump *from)
{
	uint64_t nr_lost = strtab_nr_lost(ranks->strings);
	char room[DUMP_FRAME_BYTES];
	size_t i;

	to->frames = calloc(MAX_FRAMES, sizeof(*to->frames));
	if (!to->frames)
		return -ENOMEM;
	for (i = 0; i < from->nr_frames && to->nr_frames < MAX_FRAMES; i++) {
		if (from->frames[i].kind == THREAD_FRAME_KERNEL)
			continue;
		dump_frame_text(dump, &from->frames[i], room);
		to->frames[to->nr_frames++] =
			strtab_get(ranks->strings, strtab_add(ranks->strings, room));
	}
	ranks->cut += i < from->nr_frames || strtab_nr_lost(ranks->strings) > nr_lost;
	return 0;
}

/* The threads of a process that are read; the main one is the first. */
struct wanted {
	const struct call_table_process *process;
	uint32_t tids[ABSENT_RANKS_THREADS]; /* in the root pid namespace */
	uint32_t own_tids[ABSENT_RANKS_THREADS]; /* in bpfprof's pid namespace */
	char names[ABSENT_RANKS_THREADS][BPFPROF_COMM_LEN];
	size_t nr, nr_others;
};

/*
 * Returns 0; 1 when all threads are found; -ESRCH if the pid belongs to another process now;
 * -E2BIG.
 */
static int wanted_find(void *arg, const struct bpfprof_task_state *state)
{
	struct wanted *wanted = arg;
	bool is_main = state->task.tid == wanted->process->kernel_pid;

	if (state->task.start_ns != wanted->process->start_ns && is_main)
		return -ESRCH;
	if (!is_main && state->task.tid != wanted->process->nccl_tid)
		return ++wanted->nr_others < TASKS_MAX ? 0 : -E2BIG;
	memcpy(wanted->names[wanted->nr], state->comm, BPFPROF_COMM_LEN);
	wanted->tids[wanted->nr] = state->task.tid;
	wanted->own_tids[wanted->nr++] = state->reader_tid ? state->reader_tid : state->task.tid;
	return wanted->nr == ABSENT_RANKS_THREADS || !wanted->process->nccl_tid ||
	       wanted->process->nccl_tid == wanted->process->kernel_pid;
}

/* Reads these threads into an empty dump. False: the time was too short. */
static bool threads_read(struct thread_reader *reader, struct dump *dump,
			 const struct wanted *wanted, uint64_t deadline_ns)
{
	const struct tasks_choice choice = { .kernel_pid = wanted->process->kernel_pid,
					     .tids = wanted->own_tids,
					     .nr = wanted->nr };
	const struct thread_request request = { .owner = THREAD_OWNER_ABSENT,
						.pid = wanted->own_tids[0],
						.native = true,
						.threads = &choice,
						.deadline_ns = deadline_ns,
						.max_frames = MAX_READ_FRAMES,
						.max_pages = MAX_READ_PAGES };
	const struct stack_names_options names = { .deadline_ns = deadline_ns };
	struct thread_read_counts counts;

	return !thread_read(reader, &request, dump, &counts) && dump->processes[0].nr_threads &&
	       !stack_names_find(dump, reader, &names);
}

/* Copies the threads of a dump. 0 or -ENOMEM. */
static int process_take(struct absent_ranks *ranks, const struct dump *dump,
			const struct wanted *wanted)
{
	const struct process_dump *from = &dump->processes[0];
	struct absent_rank *to = &ranks->processes[ranks->nr];
	const struct thread_dump *read;
	struct absent_rank_thread *thread;
	int err = 0;
	size_t i;

	*to = (struct absent_rank){ .pid = wanted->process->kernel_pid,
				    .start_ns = wanted->process->start_ns };
	ranks->own_pids[ranks->nr++] = wanted->own_tids[0];
	for (i = 0; i < wanted->nr && !err; i++) {
		read = process_dump_find(from, wanted->tids[i]);
		if (!read)
			continue;
		thread = &to->threads[to->nr_threads++];
		thread->tid = read->tid;
		thread->kernel_tid = read->kernel_tid;
		thread->was_in_nccl = read->kernel_tid == wanted->process->nccl_tid;
		memcpy(thread->name, wanted->names[i], BPFPROF_COMM_LEN);
		thread->running = read->running || !read->consistent;
		if (!thread->running)
			err = frames_take(ranks, thread, dump, read);
	}
	return err;
}

/* 0, -EAGAIN if the process could not be read, -ENOMEM. */
static int process_read(struct absent_ranks *ranks, struct gpu_job *job,
			const struct call_table_process *process, uint64_t deadline_ns)
{
	uint32_t own_pid =
		session_own_pid(&job->sampler.reader.session, process->kernel_pid, process->pid);
	struct wanted wanted = { .process = process };
	struct dump dump = { 0 };
	int err = -EAGAIN;

	/* A thread may end meanwhile and stop the list early: the main thread comes first. */
	if (!own_pid ||
	    (tasks_each(&job->sampler.reader.session, own_pid, wanted_find, &wanted) &&
	     !wanted.nr) ||
	    !wanted.nr || wanted.own_tids[0] != own_pid || dump_init(&dump))
		return -EAGAIN;
	if (threads_read(&job->sampler.reader, &dump, &wanted, deadline_ns))
		err = process_take(ranks, &dump, &wanted);
	dump_fini(&dump);
	return err;
}

/* Adds the threads of the process that were on a CPU. 0 or -ENOMEM. */
static int running_add(struct dump *dump, const struct absent_rank *from, uint32_t own_pid)
{
	struct process_dump *to = NULL;
	struct thread_dump *thread;
	size_t i;

	for (i = 0; i < from->nr_threads; i++) {
		if (!from->threads[i].running)
			continue;
		if (!to) {
			to = dump_add(dump);
			thread = to ? calloc(ABSENT_RANKS_THREADS, sizeof(*thread)) : NULL;
			if (!thread)
				return -ENOMEM;
			to->threads = thread;
			to->pid = own_pid;
			to->kernel_pid = from->pid;
		}
		thread = &to->threads[to->nr_threads++];
		thread->tid = from->threads[i].tid;
		thread->kernel_tid = from->threads[i].kernel_tid;
		thread->running = true;
	}
	return 0;
}

static struct absent_rank_thread *thread_find(struct absent_ranks *ranks, uint32_t pid,
					      uint32_t tid)
{
	size_t i, k;

	for (i = 0; i < ranks->nr; i++)
		for (k = 0; k < ranks->processes[i].nr_threads; k++)
			if (ranks->processes[i].pid == pid &&
			    ranks->processes[i].threads[k].kernel_tid == tid)
				return &ranks->processes[i].threads[k];
	return NULL;
}

/* Adds the stacks of threads with samples. 0 or -ENOMEM. */
static int sampled_take(struct absent_ranks *ranks, const struct dump *dump)
{
	const struct process_dump *process;
	size_t i, k;
	int err = 0;

	for (i = 0; i < dump->nr_processes; i++) {
		process = &dump->processes[i];
		for (k = 0; k < process->nr_threads && !err; k++)
			if (process->threads[k].sampled)
				err = frames_take(ranks,
						  thread_find(ranks, process->kernel_pid,
							      process->threads[k].kernel_tid),
						  dump, &process->threads[k]);
	}
	return err;
}

/* Samples the running threads: a sample has their stack. 0 or -ENOMEM. */
static int running_sample(struct absent_ranks *ranks, const struct gpu_job *job)
{
	const struct dump_burst_options options = {
		.host_root = job->capture.host_root,
		.small = true,
		.ns = BURST_NS,
		.names_ns = NAMES_NS,
	};
	struct dump dump;
	int err = dump_init(&dump);
	size_t i;

	for (i = 0; i < ranks->nr && !err; i++)
		err = running_add(&dump, &ranks->processes[i], ranks->own_pids[i]);
	if (!err && dump.nr_processes && dump_burst(&dump, &options))
		log_warn("running threads cannot be sampled: their stacks are not known");
	else if (!err)
		err = sampled_take(ranks, &dump);
	dump_fini(&dump);
	return err;
}

int absent_ranks_new(struct absent_ranks **ret, struct gpu_job *job,
		     const struct gpu_snapshot *snapshot)
{
	uint64_t end_ns = time_monotonic_ns() + ALL_NS, deadline_ns;
	struct absent_ranks *ranks = calloc(1, sizeof(*ranks));
	const struct call_table_process *processes;
	size_t nr, i;
	int err;

	if (!ranks)
		return -ENOMEM;
	err = strtab_new(&ranks->strings, MAX_TEXT_BYTES);
	processes = call_table_processes(job->watch.table, &nr);
	for (i = 0; i < nr && err != -ENOMEM; i++) {
		if (processes[i].ended || !has_nccl(job, snapshot, &processes[i]) ||
		    is_in_call(job, snapshot, &processes[i]))
			continue;
		deadline_ns = time_monotonic_ns() + PROCESS_NS;
		if (deadline_ns > end_ns)
			deadline_ns = end_ns;
		err = -EAGAIN;
		if (ranks->nr < MAX_PROCESSES && time_monotonic_ns() < deadline_ns)
			err = process_read(ranks, job, &processes[i], deadline_ns);
		ranks->unread += err != 0;
	}
	thread_read_end(&job->sampler.reader, THREAD_OWNER_ABSENT);
	if (err != -ENOMEM)
		err = running_sample(ranks, job);
	if (err == -ENOMEM) {
		absent_ranks_free(ranks);
		return err;
	}
	*ret = ranks;
	return 0;
}

void absent_ranks_free(struct absent_ranks *ranks)
{
	size_t i, k;

	if (!ranks)
		return;
	for (i = 0; i < ranks->nr; i++)
		for (k = 0; k < ranks->processes[i].nr_threads; k++)
			free(ranks->processes[i].threads[k].frames);
	strtab_free(ranks->strings);
	free(ranks);
}

const struct absent_rank *absent_ranks_of(const struct absent_ranks *ranks, uint32_t pid,
					  uint64_t start_ns)
{
	size_t i;

	for (i = 0; ranks && i < ranks->nr; i++)
		if (ranks->processes[i].pid == pid && ranks->processes[i].start_ns == start_ns)
			return &ranks->processes[i];
	return NULL;
}

/* The values that the rows read. */
struct absent_ranks_counts {
	uint64_t unread, unsampled, cut;
};

#define AT(field) offsetof(struct absent_ranks_counts, field)

const struct counter absent_ranks_counters[] = {
	{ COUNTER_GPU, "processes_without_calls_not_read", AT(unread),
	  .help = "processes without calls that could not be read" },
	{ COUNTER_GPU, "threads_without_calls_not_sampled", AT(unsampled),
	  .help = "running threads of processes without calls, of which no stack was sampled" },
	{ COUNTER_GPU, "stacks_without_calls_cut", AT(cut),
	  .help = "stacks of processes without calls that are not complete" },
	{ 0 },
};

void absent_ranks_lost(const struct absent_ranks *ranks, struct stats_reasons *dst)
{
	struct absent_ranks_counts counts = { 0 };
	size_t i, k;

	if (ranks)
		counts = (struct absent_ranks_counts){ .unread = ranks->unread, .cut = ranks->cut };
	for (i = 0; ranks && i < ranks->nr; i++)
		for (k = 0; k < ranks->processes[i].nr_threads; k++)
			counts.unsampled += ranks->processes[i].threads[k].running &&
					    !ranks->processes[i].threads[k].nr_frames;
	stats_add_rows(dst, absent_ranks_counters, &counts, true);
}
