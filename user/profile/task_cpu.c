// SPDX-License-Identifier: Apache-2.0
#include "profile/task_cpu.h"

#include <stdlib.h>
#include <string.h>

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
	/* Without a title is what id 0 has. */
	for (title = 1; title < nr_names; title++)
		if (list[title].ns)
			list[nr++] = (struct task_cpu){ strtab_get(profile->strings, title),
							list[title].ns };
	qsort(list, nr, sizeof(*list), compare);
	*ret_nr = nr;
	return list;
}
