/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TASKS_TASK_CPU_H
#define BPFPROF_TASKS_TASK_CPU_H

/* CPU time by the titles of Ray workers, from a profile. */

#include <stddef.h>
#include <stdint.h>

#include "tasks/task_group.h"

struct profile;

struct task_cpu {
	const char *title; /* borrowed from the profile; for a group, one of its titles */
	uint64_t ns;
	enum task_numbers numbers; /* of a group, as in struct task_row */
	uint32_t nr_names; /* titles of the group, 0: it is none */
};

/*
 * An array for the caller to free, the most time first. NULL: the profile counts another time than CPU
 * time, or no memory.
 */
struct task_cpu *task_cpu_list(const struct profile *profile, size_t *ret_nr);
/* Joins titles that differ only in numbers (task_group.h). 0; -ENOMEM: the list stays as it was. */
int task_cpu_group(struct task_cpu *list, size_t *nr);

#endif
