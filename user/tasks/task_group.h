/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TASKS_TASK_GROUP_H
#define BPFPROF_TASKS_TASK_GROUP_H

/*
 * Names of tasks that differ only in numbers: `part-0` ... `part-9` are one thing that is done ten times,
 * and each by itself says nothing. Their group is `part-#`. Names come from functions, too, and two of
 * these are no group: a number with a letter behind it is part of a word (`conv2d`, `conv3d`), and one
 * that a function's name may end in (`step2`, `stage_2`) counts only where many names differ in it, close
 * to each other: not `resnet18` and `resnet152`.
 */

#include <stddef.h>
#include <stdint.h>

/* Which numbers of a name are `#`. */
enum task_numbers {
	TASK_NUMBERS_NONE = 0,
	TASK_NUMBERS_APART, /* those that no name of a function has: `part-3`, `rank[7]` */
	TASK_NUMBERS_ALL, /* also `part_3` and `part3` */
};

struct task_member {
	const char *name;
	size_t index; /* the caller's */
	enum task_numbers numbers; /* set by task_groups_find() */
	uint32_t nr; /* the same: of the first one of a group how many it has; else 0 */
};

/* Puts members of one group next to each other. Names that are equal are one group. */
void task_groups_find(struct task_member *members, size_t nr);
/* The name of a group, cut to cap. */
void task_group_text(char *dst, size_t cap, const char *name, enum task_numbers numbers);

#endif
