/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FINDINGS_PROCESS_WATCH_H
#define BPFPROF_FINDINGS_PROCESS_WATCH_H

/*
 * What findings want to know of the processes that a recording met, beside their stacks: CPU time by
 * thread, who held the GIL, memory and limits over time. Samples are counted as they come; /proc is
 * asked now and then, for at most a hundredth of the time, and of threads only in processes that
 * look as if they had a story to tell: more threads than CPUs, or one thread that holds the GIL
 * nearly always. Bounded: WATCH_MAX_PROCESSES processes (those that have exited make room),
 * WATCH_MAX_THREADS threads, WATCH_MAX_GROUPS cgroups; what finds no room is not watched.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/process_map.h"
#include "bpfprof.h"
#include "findings/findings.h"
#include "proc/cgroup_limits.h"
#include "proc/thread_time.h"
#include "proc/title.h"

struct aggregate_input;
struct process_watch;
struct sampler;

#define WATCH_MAX_PROCESSES 512
#define WATCH_MAX_THREADS 4096
#define WATCH_MAX_GROUPS 64

struct watched_thread {
	struct hash_node node;
	uint32_t tid;
	bool rooted; /* library was looked for */
	char library[64]; /* base name of the file that it begins in, libc aside; "": not known */
	char comm[BPFPROF_COMM_LEN + 1];
	uint64_t samples, python, held; /* all; with Python frames; in which it held the GIL */
	bool timed; /* first and last were read, */
	uint64_t first_ns, last_ns; /* then and then */
	struct thread_time first, last;
};

struct watched_process {
	struct hash_node node;
	struct process_key key;
	struct hash_table threads;
	uint32_t own_pid; /* 0: not in our pid namespace */
	char name[TITLE_MAX + 1]; /* what it was met as last: its title or name */
	char class[TITLE_MAX + 1]; /* of a Ray actor, "": it is none */
	char rank[80], job[144]; /* `rank N` of which distributed job, "": of none */
	uint32_t cpus; /* that it may run on, 0: not known */
	uint32_t cpu_group, memory_group; /* index + 1, 0: no limits that we know */
	bool born; /* it began while it was watched */
	bool looked, exited, suspect; /* suspect: its threads are timed */
	uint64_t samples, cpu_ns;
	struct memory_series memory;
};

struct watched_group {
	char dir[CGROUP_DIR_MAX];
	bool is_memory;
	struct cgroup_cpu cpu_first, cpu_last;
	struct cgroup_memory memory_last;
};

/* Borrows both. 0 or -ENOMEM. */
int process_watch_new(struct process_watch **ret, struct sampler *sampler, const char *host_root);
void process_watch_free(struct process_watch *watch); /* NULL is fine */

void process_watch_sample(struct process_watch *watch, const struct aggregate_input *input);
/* Its samples until now do not count. */
void process_watch_forget(struct process_watch *watch, const struct bpfprof_task_id *task);
void process_watch_exit(struct process_watch *watch, const struct bpfprof_task_id *task);
/* Reads what is due; cheap when nothing is. */
void process_watch_tick(struct process_watch *watch, uint64_t now_ns);
/* A last time, all of it. */
void process_watch_finish(struct process_watch *watch, uint64_t now_ns);

/* Samples of processes and threads that there was no room for. */
uint64_t process_watch_nr_left_out(const struct process_watch *watch);
/* Has it been met? */
bool process_watch_has(const struct process_watch *watch, uint32_t pid, uint64_t start_ns);
/* Their entries are struct watched_process; borrowed until anything else is called. */
const struct hash_table *process_watch_all(const struct process_watch *watch);
const struct watched_group *process_watch_groups(const struct process_watch *watch, size_t *ret_nr);
/* CPUs that it can use at once: by affinity, the limit of its cgroup, and what there are. */
uint32_t process_watch_cpus(const struct process_watch *watch,
			    const struct watched_process *process);
void process_watch_machine(const struct process_watch *watch, uint32_t *ret_logical,
			   uint32_t *ret_cores);
/* Processes whose cgroups lie outside of our cgroup namespace: their limits are not known. */
uint64_t process_watch_nr_limits_hidden(const struct process_watch *watch);

#endif
