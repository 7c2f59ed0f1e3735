/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TASKS_TASK_TIMES_H
#define BPFPROF_TASKS_TASK_TIMES_H

/*
 * The durations of the calls of Ray workers (tasks/task_calls.h) by name; names that differ only in
 * numbers are one (tasks/task_group.h). Only calls whose begin was seen count; a call that still runs
 * counts with the time so far. Bounds: TASK_TIMES_MAX_WORKERS workers at once, TASK_TIMES_MAX_NAMES
 * names; calls beyond them are counted as left out. The median is that of all calls, or of a random
 * sample of TASK_TIMES_KEPT.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proc/title.h"
#include "tasks/task_group.h"

struct task_change; /* tasks/task_calls.h */
struct task_times;

#define TASK_TIMES_MAX_WORKERS 1024
#define TASK_TIMES_MAX_NAMES 512
#define TASK_TIMES_KEPT 256

/* Calls of one name. */
struct task_time {
	const char *name; /* without `ray::`; for a group, the name of the longest call */
	enum task_numbers numbers; /* for task_group_text(), which makes the name of the group */
	uint64_t nr; /* calls, including those that still run */
	uint64_t total_ns, median_ns, longest_ns;
	uint32_t longest_pid; /* own_pid of struct task_change */
	bool longest_runs; /* the longest call has not ended */
};

int task_times_new(struct task_times **ret); /* 0 or -ENOMEM */
void task_times_free(struct task_times *times); /* NULL is fine */

/* False: no call that counts begins with this title. */
bool task_times_see(struct task_times *times, const struct task_change *change);
/* As task_calls_lose(). */
void task_times_lose(struct task_times *times, uint32_t pid, uint64_t start_ns, uint32_t lost);
/* The worker has exited, which ends its call. */
void task_times_exit(struct task_times *times, uint32_t pid, uint64_t start_ns, uint64_t ts_ns);
/* Ends all calls that run at now_ns. Call it once, before task_times_list(). */
void task_times_close(struct task_times *times, uint64_t now_ns);

/*
 * An array for the caller to free, the name with the most time first; borrows the names. NULL and
 * *ret_nr 0: there is no call, or no memory.
 */
struct task_time *task_times_list(const struct task_times *times, size_t *ret_nr);
uint64_t task_times_nr_left_out(const struct task_times *times); /* changes of titles */

#endif
