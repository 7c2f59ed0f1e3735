/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FINDINGS_PROCESS_WATCH_H
#define BPFPROF_FINDINGS_PROCESS_WATCH_H

/*
 * The facts about processes of a recording that findings need beside stacks: CPU time by thread, the
 * holders of the GIL, memory and limits over time. Samples are counted as they come. /proc is polled for
 * at most a hundredth of the time, and threads only in suspect processes: more threads than CPUs, or
 * one thread that holds the GIL nearly always. Bounds: WATCH_MAX_PROCESSES processes (exited ones are
 * evicted), WATCH_MAX_THREADS threads, WATCH_MAX_GROUPS cgroups; others are not watched.
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
	bool rooted; /* the search for library was made */
	char library[64]; /* base name of the file that it begins in, not libc; "": not known */
	char comm[BPFPROF_COMM_LEN + 1];
	uint64_t samples;
	uint64_t python; /* samples with Python frames */
	uint64_t held; /* samples in which it held the GIL */
	bool timed; /* first and last were read */
	uint64_t first_ns, last_ns; /* the times of these two reads */
	struct thread_time first, last;
};

struct watched_process {
	struct hash_node node;
	struct process_key key;
	struct hash_table threads;
	uint32_t own_pid; /* 0: not in our pid namespace */
	char name[TITLE_MAX + 1]; /* title or name in its last sample */
	char class[TITLE_MAX + 1]; /* of a Ray actor, "": no actor */
	char rank[80]; /* `rank N`, "": no rank */
	char job[144]; /* of the rank */
	uint32_t cpus; /* it may run on, 0: not known */
	uint32_t cpu_group, memory_group; /* index + 1, 0: no known limits */
	bool born; /* it started during the recording */
	bool looked; /* /proc was read */
	bool exited;
	bool suspect; /* its threads are timed */
	uint64_t samples, cpu_ns;
	struct memory_series memory;
};

struct watched_group {
	char dir[CGROUP_DIR_MAX];
	bool is_memory;
	struct cgroup_cpu cpu_first, cpu_last;
	struct cgroup_memory memory_last;
};

/* Borrows sampler and host_root. 0 or -ENOMEM. */
int process_watch_new(struct process_watch **ret, struct sampler *sampler, const char *host_root);
void process_watch_free(struct process_watch *watch); /* NULL is fine */

void process_watch_sample(struct process_watch *watch, const struct aggregate_input *input);
/* The samples of the process until now do not count. */
void process_watch_forget(struct process_watch *watch, const struct bpfprof_task_id *task);
void process_watch_exit(struct process_watch *watch, const struct bpfprof_task_id *task);
/* Reads what is due; cheap if nothing is. */
void process_watch_tick(struct process_watch *watch, uint64_t now_ns);
/* Reads everything a last time. */
void process_watch_finish(struct process_watch *watch, uint64_t now_ns);

/* Samples of processes and threads for which there was no room. */
uint64_t process_watch_nr_left_out(const struct process_watch *watch);
/* Is the process watched? */
bool process_watch_has(const struct process_watch *watch, uint32_t pid, uint64_t start_ns);
/* The entries are struct watched_process; borrowed until the next call. */
const struct hash_table *process_watch_all(const struct process_watch *watch);
const struct watched_group *process_watch_groups(const struct process_watch *watch, size_t *ret_nr);
/* The CPUs that it can use at once, by affinity, the limit of its cgroup, and the machine. */
uint32_t process_watch_cpus(const struct process_watch *watch,
			    const struct watched_process *process);
void process_watch_machine(const struct process_watch *watch, uint32_t *ret_logical,
			   uint32_t *ret_cores);
/* Processes whose cgroups lie outside of our cgroup namespace: their limits are not known. */
uint64_t process_watch_nr_limits_hidden(const struct process_watch *watch);

#endif
