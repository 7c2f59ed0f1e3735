/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TASKS_TASK_TIMES_H
#define BPFPROF_TASKS_TASK_TIMES_H

/*
 * How long the calls of Ray workers (tasks/task_calls.h) took, by their name; names that differ only
 * in numbers are one (tasks/task_group.h).
 * Only calls whose begin was seen count; one that is still running counts with what it has
 * taken so far. Bounded: TASK_TIMES_MAX_WORKERS workers at once, TASK_TIMES_MAX_NAMES names; what
 * comes after them is counted as left out. The median is that of all calls, of many that of a
 * random sample of TASK_TIMES_KEPT of them.
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
	const char *name; /* without `ray::`; of a group that of the longest call, */
	enum task_numbers numbers; /* and what task_group_text() makes the group's name of */
	uint64_t nr; /* calls, those that still run included */
	uint64_t total_ns, median_ns, longest_ns;
	uint32_t longest_pid; /* as task_change has own_pid */
	bool longest_runs; /* it had not ended */
};

int task_times_new(struct task_times **ret); /* 0 or -ENOMEM */
void task_times_free(struct task_times *times); /* NULL is fine */

/* False: such a title begins nothing that is counted. */
bool task_times_see(struct task_times *times, const struct task_change *change);
/* As task_calls_lose(). */
void task_times_lose(struct task_times *times, uint32_t pid, uint64_t start_ns, uint32_t lost);
/* The worker has ended, and with it the call that it was in. */
void task_times_exit(struct task_times *times, uint32_t pid, uint64_t start_ns, uint64_t ts_ns);
/* All that runs has run until now_ns. To be called once, before the next. */
void task_times_close(struct task_times *times, uint64_t now_ns);

/*
 * An array for the caller to free, the name with the most time first; borrows the names. NULL with
 * *ret_nr 0 if there is nothing, or no memory.
 */
struct task_time *task_times_list(const struct task_times *times, size_t *ret_nr);
uint64_t task_times_nr_left_out(const struct task_times *times); /* changes of titles */

#endif
