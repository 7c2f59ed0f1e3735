/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TASKS_TASK_CPU_H
#define BPFPROF_TASKS_TASK_CPU_H

/* CPU time by the titles of Ray workers, of a profile. */

#include <stddef.h>
#include <stdint.h>

#include "tasks/task_group.h"

struct profile;

struct task_cpu {
	const char *title; /* borrowed from the profile; of a group one of them */
	uint64_t ns;
	enum task_numbers numbers; /* of a group, as of struct task_row */
	uint32_t nr_names; /* the same; 0: it is no group */
};

/*
 * An array for the caller to free, the most time first. NULL: the profile is of another time than that on
 * a CPU, or no memory.
 */
struct task_cpu *task_cpu_list(const struct profile *profile, size_t *ret_nr);
/* Joins titles that differ only in numbers (tasks/task_group.h). 0 or -ENOMEM: nothing has changed. */
int task_cpu_group(struct task_cpu *list, size_t *nr);

#endif
