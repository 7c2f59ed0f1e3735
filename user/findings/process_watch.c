// SPDX-License-Identifier: Apache-2.0
#include "findings/process_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/budget.h"
#include "base/clean_text.h"
#include "base/text.h"
#include "base/time.h"
#include "capture/sampler.h"
#include "proc/cpus.h"
#include "proc/images.h"
#include "proc/ranks.h"
#include "proc/usage.h"
#include "profile/aggregate.h"
#include "ray/worker_match.h"

/*
 * A series of memory keeps MEMORY_POINTS points, so more frequent reads would be thrown away. The longest
 * interval bounds what is not seen of a process that ends.
 */
#define TICK_SHARE 16 /* of the time since the begin */
#define TICK_MIN_NS (NS_PER_SECOND / 2)
#define TICK_MAX_NS (2 * NS_PER_SECOND)
#define READ_SHARE 100 /* reads take at most a hundredth of the time */
#define READ_SAVED_NS (NS_PER_SECOND / 50)
#define GIL_SUSPECT_SAMPLES 20
#define GIL_SUSPECT_SHARE 8 / 10 /* share of the process's samples with Python frames */

struct process_watch {
	struct sampler *sampler;
	const char *host_root;
	bool pids_are_ours;
	uint32_t own_pid; /* bpfprof reports nothing about itself */
	uint32_t logical, cores;
	struct hash_table processes;
	uint32_t nr_threads;
	struct watched_group *groups;
	uint32_t nr_groups;
	uint32_t next; /* the process to read next */
	struct budget reading;
	uint64_t begin_ns; /* of the first tick */
	uint64_t tick_ns; /* the next tick */
	uint64_t nr_left_out;
	uint64_t nr_limits_hidden;
	/* Begin of the watch, in CLOCK_BOOTTIME like the starts of processes. */
	uint64_t begin_boot_ns;
};

int process_watch_new(struct process_watch **ret, struct sampler *sampler, const char *host_root)
{
	struct process_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return -ENOMEM;
	watch->groups = calloc(WATCH_MAX_GROUPS, sizeof(*watch->groups));
	if (!watch->groups) {
		free(watch);
		return -ENOMEM;
	}
	hash_table_init(&watch->processes, WATCH_MAX_PROCESSES, struct watched_process, key);
	watch->sampler = sampler;
	watch->host_root = host_root ? host_root : "";
	watch->pids_are_ours = session_pids_are_the_nodes(&sampler->reader.session);
	watch->own_pid = (uint32_t)getpid();
	watch->begin_boot_ns = time_of_clock_ns(CLOCK_BOOTTIME);
	cpus_count(&watch->logical, &watch->cores);
	*ret = watch;
	return 0;
}

static void process_remove(struct process_watch *watch, struct watched_process *process)
{
	watch->nr_threads -= (uint32_t)process->threads.nr;
	hash_table_clear(&process->threads);
	hash_table_remove(&watch->processes, process);
}

void process_watch_free(struct process_watch *watch)
{
	struct watched_process *process;

	if (!watch)
		return;
	hash_table_each(&watch->processes, process)
		process_remove(watch, process);
	free(watch->groups);
	free(watch);
}

/* Makes room: evicts the exited process that ran least. False: there is none. */
static bool make_room(struct process_watch *watch)
{
	struct watched_process *process, *least = NULL;

	if (watch->processes.nr < WATCH_MAX_PROCESSES)
		return true;
	hash_table_each(&watch->processes, process)
		if (process->exited && (!least || process->samples < least->samples))
			least = process;
	if (least)
		process_remove(watch, least);
	return least;
}

static struct watched_process *process_get(struct process_watch *watch,
					   const struct aggregate_input *input)
{
	const struct bpfprof_task_id *task = &input->sample->task;
	struct watched_process *process =
		process_map_find(&watch->processes, task->pid, task->start_ns);

	if (process || !make_room(watch))
		return process;
	process = process_map_add(&watch->processes, task->pid, task->start_ns);
	if (!process)
		return NULL;
	hash_table_init(&process->threads, WATCH_MAX_THREADS, struct watched_thread, tid);
	process->own_pid = input->own_pid;
	process->born = task->start_ns >= watch->begin_boot_ns;
	return process;
}

static void name_set(struct watched_process *process, const struct aggregate_input *input)
{
	const struct ranks *ranks = input->ranks;
	const char *task;
	size_t len;

	if (!input->title) {
		clean_text(process->name, sizeof(process->name), input->sample->leader_comm,
			   BPFPROF_COMM_LEN);
	} else if (strcmp(process->name, input->title)) {
		snprintf(process->name, sizeof(process->name), "%s", input->title);
		task = process->name + strlen(TITLE_PREFIX);
		len = worker_class_length(task);
		if (task[len] == '.') {
			memcpy(process->class, task, len);
			process->class[len] = 0;
		}
	}
	if (ranks && ranks->rank[0] && ranks->world_size[0] && !process->rank[0]) {
		snprintf(process->rank, sizeof(process->rank), "rank %s", ranks->rank);
		snprintf(process->job, sizeof(process->job), "%s %s", ranks->world_size,
			 ranks->slurm_job);
	}
}

static bool is_libc(const char *file)
{
	return !strncmp(file, "libc.", 5) || !strncmp(file, "libc-", 5) ||
	       !strncmp(file, "libpthread", 10) || !strncmp(file, "ld-", 3);
}

/* Finds the outermost file of the stack that is not the file in which every thread begins. */
static void thread_root(struct process_watch *watch, struct watched_thread *thread,
			const struct aggregate_input *input)
{
	const struct image *image;
	const char *file;
	size_t i;

	if (thread->rooted || input->stop != BPFPROF_STOP_COMPLETE)
		return;
	for (i = input->nr_user; i-- > 0;) {
		if (input->user[i] >> BPFPROF_FRAME_SHIFT != BPFPROF_FRAME_NATIVE)
			break;
		image = images_get(
			watch->sampler->reader.images,
			(uint32_t)((input->user[i] & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS));
		if (!image || !image->path || !*image->path)
			break;
		file = text_base_name(image->path);
		if (is_libc(file))
			continue;
		clean_text(thread->library, sizeof(thread->library), file, strlen(file));
		break;
	}
	/* The sample may be too early: the file is not on the stack yet. */
	thread->rooted = thread->library[0] != 0;
}

static struct watched_thread *thread_get(struct process_watch *watch,
					 struct watched_process *process, uint32_t tid)
{
	struct watched_thread *thread = hash_table_find(&process->threads, &tid);

	if (thread || watch->nr_threads >= WATCH_MAX_THREADS)
		return thread;
	thread = hash_table_add(&process->threads, &tid);
	watch->nr_threads += thread != NULL;
	return thread;
}

void process_watch_sample(struct process_watch *watch, const struct aggregate_input *input)
{
	const struct bpfprof_sample *sample = input->sample;
	struct watched_process *process;
	struct watched_thread *thread;

	if (sample->flags & BPFPROF_SAMPLE_KTHREAD || input->own_pid == watch->own_pid)
		return;
	process = process_get(watch, input);
	if (!process) {
		watch->nr_left_out++;
		return;
	}
	process->samples++;
	process->cpu_ns += sample->period_ns;
	name_set(process, input);
	thread = thread_get(watch, process, sample->task.tid);
	if (!thread) {
		watch->nr_left_out++;
		return;
	}
	clean_text(thread->comm, sizeof(thread->comm), sample->comm, BPFPROF_COMM_LEN);
	thread->samples++;
	thread->python += sample->nr_python > 0;
	thread->held += (sample->python_flags & BPFPROF_PYTHON_GIL_HELD) != 0;
	thread_root(watch, thread, input);
}

void process_watch_forget(struct process_watch *watch, const struct bpfprof_task_id *task)
{
	struct watched_process *process =
		process_map_find(&watch->processes, task->pid, task->start_ns);
	struct watched_thread *thread;

	if (!process)
		return;
	process->samples = 0;
	process->cpu_ns = 0;
	hash_table_each(&process->threads, thread) {
		thread->samples = 0;
		thread->python = 0;
		thread->held = 0;
	}
}

void process_watch_exit(struct process_watch *watch, const struct bpfprof_task_id *task)
{
	struct watched_process *process =
		process_map_find(&watch->processes, task->pid, task->start_ns);

	if (process)
		process->exited = true;
}

static void group_read(struct watched_group *group)
{
	if (group->is_memory)
		cgroup_memory_read(&group->memory_last, group->dir);
	else
		cgroup_cpu_read(&group->cpu_last, group->dir);
}

/* Finds or adds the group of that folder. Returns index + 1. */
static uint32_t group_get(struct process_watch *watch, const char *dir, bool is_memory)
{
	struct watched_group *group;
	uint32_t i;

	if (!*dir)
		return 0;
	for (i = 0; i < watch->nr_groups; i++)
		if (watch->groups[i].is_memory == is_memory && !strcmp(watch->groups[i].dir, dir))
			return i + 1;
	if (watch->nr_groups == WATCH_MAX_GROUPS)
		return 0;
	group = &watch->groups[watch->nr_groups++];
	snprintf(group->dir, sizeof(group->dir), "%s", dir);
	group->is_memory = is_memory;
	group_read(group);
	group->cpu_first = group->cpu_last;
	return watch->nr_groups;
}

/* Reads the facts that need one read. */
static void process_scan(struct process_watch *watch, struct watched_process *process)
{
	struct cgroup_limits limits;

	process->looked = true;
	process->cpus = cpus_allowed((pid_t)process->own_pid);
	if (cgroup_limits_find(&limits, watch->host_root, (pid_t)process->own_pid))
		return;
	watch->nr_limits_hidden += limits.hidden;
	process->cpu_group = group_get(watch, limits.cpu, false);
	process->memory_group = group_get(watch, limits.memory, true);
}

uint32_t process_watch_cpus(const struct process_watch *watch,
			    const struct watched_process *process)
{
	uint32_t cpus = watch->logical, limit;

	if (process->cpus && process->cpus < cpus)
		cpus = process->cpus;
	if (process->cpu_group) {
		limit = (uint32_t)(watch->groups[process->cpu_group - 1].cpu_last.cpus + 0.99);
		if (limit && limit < cpus)
			cpus = limit;
	}
	return cpus;
}

/* Does the process have more threads than CPUs, or a thread that nearly always has the GIL? */
static bool is_suspect(const struct process_watch *watch, const struct watched_process *process,
		       uint32_t *nr_pool)
{
	uint64_t python = 0, most_held = 0;
	const struct watched_thread *thread;
	uint32_t nr = 0;

	hash_table_each(&process->threads, thread) {
		if (thread->tid != process->key.pid) {
			nr++;
			*nr_pool += pool_name(thread->library) != NULL;
		}
		python += thread->python;
		if (thread->held > most_held)
			most_held = thread->held;
	}
	return nr + 1 > process_watch_cpus(watch, process) ||
	       (process->threads.nr > 1 && most_held >= GIL_SUSPECT_SAMPLES &&
		most_held >= python * GIL_SUSPECT_SHARE);
}

/* Finds processes that have few threads each, and too many together. */
static void suspects_find(struct process_watch *watch)
{
	uint32_t nr_pool = 0, nr_processes = 0, before, round;
	struct watched_process *process;

	for (round = 0; round < 2; round++) {
		hash_table_each(&watch->processes, process) {
			before = nr_pool;
			if (!process->exited && process->looked)
				is_suspect(watch, process, &nr_pool);
			nr_processes += nr_pool > before;
			process->suspect |= round && nr_pool > before;
		}
		if (nr_pool + nr_processes <= watch->logical)
			return;
	}
}

static void threads_read(struct watched_process *process, uint64_t now_ns)
{
	struct watched_thread *thread;
	struct thread_time time;

	hash_table_each(&process->threads, thread) {
		if (thread_time_read(&time, (pid_t)process->own_pid, (pid_t)thread->tid))
			continue;
		thread->last = time;
		thread->last_ns = now_ns;
		if (thread->timed)
			continue;
		thread->timed = true;
		thread->first = time;
		thread->first_ns = now_ns;
	}
}

static void process_read(struct process_watch *watch, struct watched_process *process,
			 uint64_t now_ns)
{
	struct proc_usage usage;
	uint32_t nr_pool = 0;

	if (process->exited || !process->own_pid)
		return;
	if (!process->looked)
		process_scan(watch, process);
	if (proc_usage_read(&usage, (pid_t)process->own_pid) || !proc_usage_has_memory(&usage) ||
	    !usage.rss_bytes) /* a process that exits has no memory */
		return;
	memory_series_add(&process->memory, now_ns, usage.rss_bytes);
	if (!process->suspect)
		process->suspect = is_suspect(watch, process, &nr_pool);
	/* Samples of other pid namespaces have other thread ids than /proc. */
	if (process->suspect && watch->pids_are_ours)
		threads_read(process, now_ns);
}

/* Reads processes in turn, as long as the budget of time allows. */
static void processes_read(struct process_watch *watch, uint64_t now_ns, bool all)
{
	uint32_t nr = (uint32_t)watch->processes.nr, i;
	struct watched_process *process = (void *)watch->processes.oldest;
	uint64_t begin_ns, end_ns;

	if (!nr)
		return;
	watch->next %= nr;
	for (i = 0; i < watch->next; i++)
		process = hash_table_next(process);
	begin_ns = time_thread_cpu_ns();
	for (i = 0; i < nr; i++) {
		if (!all &&
		    !budget_allows(&watch->reading, READ_SHARE, READ_SAVED_NS, time_monotonic_ns()))
			break;
		process_read(watch, process, now_ns);
		end_ns = time_thread_cpu_ns();
		budget_spend(&watch->reading, end_ns - begin_ns);
		begin_ns = end_ns;
		process = hash_table_next(process) ?: (void *)watch->processes.oldest;
	}
	watch->next += i;
}

static void groups_read(struct process_watch *watch)
{
	uint32_t i;

	for (i = 0; i < watch->nr_groups; i++)
		group_read(&watch->groups[i]);
}

static uint64_t tick_interval(struct process_watch *watch, uint64_t now_ns)
{
	uint64_t interval_ns;

	if (!watch->begin_ns)
		watch->begin_ns = now_ns;
	interval_ns = (now_ns - watch->begin_ns) / TICK_SHARE;
	if (interval_ns < TICK_MIN_NS)
		return TICK_MIN_NS;
	return interval_ns < TICK_MAX_NS ? interval_ns : TICK_MAX_NS;
}

void process_watch_tick(struct process_watch *watch, uint64_t now_ns)
{
	uint64_t begin_ns;

	if (now_ns < watch->tick_ns)
		return;
	watch->tick_ns = now_ns + tick_interval(watch, now_ns);
	if (budget_allows(&watch->reading, READ_SHARE, READ_SAVED_NS, now_ns)) {
		begin_ns = time_thread_cpu_ns();
		suspects_find(watch);
		groups_read(watch);
		budget_spend(&watch->reading, time_thread_cpu_ns() - begin_ns);
	}
	processes_read(watch, now_ns, false);
}

void process_watch_finish(struct process_watch *watch, uint64_t now_ns)
{
	suspects_find(watch);
	groups_read(watch);
	processes_read(watch, now_ns, true);
}

uint64_t process_watch_nr_limits_hidden(const struct process_watch *watch)
{
	return watch->nr_limits_hidden;
}

uint64_t process_watch_nr_left_out(const struct process_watch *watch)
{
	return watch->nr_left_out;
}

bool process_watch_has(const struct process_watch *watch, uint32_t pid, uint64_t start_ns)
{
	return process_map_find(&watch->processes, pid, start_ns) != NULL;
}

const struct hash_table *process_watch_all(const struct process_watch *watch)
{
	return &watch->processes;
}

const struct watched_group *process_watch_groups(const struct process_watch *watch, size_t *ret_nr)
{
	*ret_nr = watch->nr_groups;
	return watch->groups;
}

void process_watch_machine(const struct process_watch *watch, uint32_t *ret_logical,
			   uint32_t *ret_cores)
{
	*ret_logical = watch->logical;
	*ret_cores = watch->cores;
}
