/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TASKS_TASK_READ_H
#define BPFPROF_TASKS_TASK_READ_H

/*
 * Reads timelines that `bpfprof record -o x.json` wrote, for `report --tasks`. A file may be large and
 * of any origin: it is read line by line, with bounds on the length of a line, on names and on calls. A
 * value that has the wrong type or is too long is skipped and counted. Names are as in the file, up to a
 * NUL and to TITLE_MAX bytes, not yet safe for a terminal; they live until task_read_free().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tasks/task_group.h"

#define TASK_READ_MAX_NAMES 65536
#define TASK_READ_MAX_CALLS (16U << 20)
#define TASK_READ_MAX_REASONS 24

struct task_read;

/* Calls of one name, or of names that differ only in numbers (tasks/task_group.h). */
struct task_row {
	const char *name; /* without `ray::`; for a group, the name of the longest call */
	enum task_numbers numbers; /* for task_group_text(), which makes the name of the group */
	size_t nr_names; /* different names, 1: it is no group */
	bool actor;
	uint64_t nr; /* calls, 0: there is CPU time only */
	uint64_t nr_part; /* of these: only a part was recorded, which counts */
	uint64_t total_ns, median_ns, longest_ns;
	uint64_t cpu_ns; /* sampled */
};

/* A reason for losses that the files name. */
struct task_lost {
	char name[40];
	uint64_t count; /* not 0 */
};

struct task_read_totals {
	size_t nr_files;
	double seconds; /* recorded, in all files */
	uint64_t nr_unclear; /* slices: tasks or actors at rest */
	uint64_t nr_dropped; /* calls that did not fit in the files */
	uint64_t nr_cpus_dropped; /* names whose CPU time did not fit */
	struct task_lost lost[TASK_READ_MAX_REASONS]; /* further reasons count in the last one */
	size_t nr_lost;
	uint64_t nr_not_understood, nr_left_out;
	bool cpu_known; /* for all files */
};

int task_read_new(struct task_read **ret); /* 0 or -ENOMEM */
void task_read_free(struct task_read *read); /* NULL is fine */

/* The next piece of a file. 0; -EBADMSG: not such a file; or -ENOMEM. */
int task_read_push(struct task_read *read, const char *data, size_t len);
/* The end of a file. As above; -ENODATA: the file is cut. */
int task_read_end(struct task_read *read);

/* Ends the reading. An array for the caller to free, the most time first; NULL: no memory. */
struct task_row *task_read_rows(struct task_read *read, size_t *ret_nr);
const struct task_read_totals *task_read_totals(const struct task_read *read);

#endif
