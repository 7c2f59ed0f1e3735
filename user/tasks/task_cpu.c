// SPDX-License-Identifier: Apache-2.0
#include "tasks/task_cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strtab.h"
#include "profile/profile.h"

static int compare(const void *a, const void *b)
{
	const struct task_cpu *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return strcmp(x->title, y->title);
}

struct task_cpu *task_cpu_list(const struct profile *profile, size_t *ret_nr)
{
	uint32_t nr_names = strtab_count(profile->strings), title;
	struct task_cpu *list;
	size_t i, nr = 0;

	*ret_nr = 0;
	if (profile->time != PROFILE_TIME_CPU || !profile_is_time(profile))
		return NULL;
	list = calloc(nr_names + 1, sizeof(*list));
	if (!list)
		return NULL;
	for (i = 0; i < profile->nr_samples; i++) {
		title = profile->processes[profile->samples[i].process].task;
		list[title].ns += profile->samples[i].value_ns;
	}
	/* Title 0 is the time without a title. */
	for (title = 1; title < nr_names; title++)
		if (list[title].ns)
			list[nr++] =
				(struct task_cpu){ .title = strtab_get(profile->strings, title),
						   .ns = list[title].ns };
	qsort(list, nr, sizeof(*list), compare);
	*ret_nr = nr;
	return list;
}

int task_cpu_group(struct task_cpu *list, size_t *nr)
{
	__cleanup(free_mem) struct task_member *members = calloc(*nr + 1, sizeof(*members));
	__cleanup(free_mem) struct task_cpu *all = calloc(*nr + 1, sizeof(*all));
	size_t i, k, nr_groups = 0;

	if (!members || !all)
		return -ENOMEM;
	for (i = 0; i < *nr; i++)
		members[i] = (struct task_member){ .name = list[i].title, .index = i };
	task_groups_find(members, *nr);
	for (i = 0; i < *nr; i += members[i].nr) {
		all[nr_groups] = (struct task_cpu){ .title = members[i].name,
						    .numbers = members[i].numbers,
						    .nr_names = members[i].nr };
		for (k = 0; k < members[i].nr; k++)
			all[nr_groups].ns += list[members[i + k].index].ns;
		nr_groups++;
	}
	memcpy(list, all, nr_groups * sizeof(*list));
	qsort(list, nr_groups, sizeof(*list), compare);
	*nr = nr_groups;
	return 0;
}
