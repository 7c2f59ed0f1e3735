/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TASKS_TASK_GROUP_H
#define BPFPROF_TASKS_TASK_GROUP_H

/*
 * Groups names of tasks that differ only in numbers: `part-0` ... `part-9` are one task that ran ten
 * times; their group is `part-#`. Names of functions must not become a group by chance. A number before
 * a letter is part of a word (`conv2d`, `conv3d`). A number that the name of a function may end in
 * (`step2`, `stage_2`) counts only if many names have such numbers, close to each other: `resnet18` and
 * `resnet152` are no group.
 */

#include <stddef.h>
#include <stdint.h>

/* The numbers of a name that become `#`. */
enum task_numbers {
	TASK_NUMBERS_NONE = 0,
	TASK_NUMBERS_APART, /* numbers that no name of a function has: `part-3`, `rank[7]` */
	TASK_NUMBERS_ALL, /* also `part_3` and `part3` */
};

struct task_member {
	const char *name;
	size_t index; /* of the caller */
	enum task_numbers numbers; /* set by task_groups_find() */
	uint32_t nr; /* set there: for the first member the size of the group, else 0 */
};

/* Sorts the members by group. Equal names are one group. */
void task_groups_find(struct task_member *members, size_t nr);
/* The name of a group, cut to cap. */
void task_group_text(char *dst, size_t cap, const char *name, enum task_numbers numbers);

#endif
