// SPDX-License-Identifier: Apache-2.0
#include "profile/grouping.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "profile/profile.h"

#define NAMELESS "process"
#define MAX_NAME 160 /* a title, `-` and a number; job and rank */
#define MAX_POD 512 /* two names of at most 255 bytes */

struct entry {
	uint32_t index, pid;
	uint64_t samples;
};

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->samples != y->samples)
		return x->samples > y->samples ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static uint32_t name_of(struct profile *profile, const struct profile_process *process)
{
	const char *name =
		strtab_get(profile->strings, process->task ? process->task : process->comm);
	size_t len = strlen(name), paren = strcspn(name, "("), i;
	char text[MAX_NAME];

	for (i = paren; process->task && i > 0; i--)
		if (name[i - 1] == '.')
			break;
	if (process->task && i)
		len = i - 1;
	if (!*name)
		len = strlen(NAMELESS);
	snprintf(text, sizeof(text), "%.*s-%u", (int)len, *name ? name : NAMELESS, process->pid);
	return strtab_add(profile->strings, text);
}

static int by_process(struct profile *profile)
{
	struct entry *entries = calloc(profile->nr_processes + 1, sizeof(*entries));
	uint32_t title = 0;
	size_t i;

	if (!entries)
		return -ENOMEM;
	for (i = 0; i < profile->nr_processes; i++) {
		entries[i].index = (uint32_t)i;
		entries[i].pid = profile->processes[i].kernel_pid;
	}
	for (i = 0; i < profile->nr_samples; i++)
		entries[profile->samples[i].process].samples += profile->samples[i].count;
	qsort(entries, profile->nr_processes, sizeof(*entries), compare_entries);
	for (i = 0; i < profile->nr_processes; i++) {
		if (!i || entries[i].pid != entries[i - 1].pid)
			title = name_of(profile, &profile->processes[entries[i].index]);
		profile->processes[entries[i].index].title = title;
	}
	free(entries);
	return 0;
}

/* Are there ranks of several jobs? Rank 0 of one job differs from rank 0 of another. */
static bool jobs_differ(const struct profile *profile)
{
	const struct profile_ranks *ranks, *first = NULL;
	size_t i;

	for (i = 0; i < profile->nr_processes; i++) {
		ranks = &profile->processes[i].ranks;
		if (!profile_ranks_number(ranks))
			continue;
		if (first && first->slurm_job != ranks->slurm_job)
			return true;
		first = ranks;
	}
	return false;
}

/* A task of Slurm that is not given a rank may still have one, or be the launcher of several: it stays a task. */
static uint32_t rank_title(struct profile *profile, const struct profile_ranks *ranks, bool job)
{
	uint32_t number = ranks->rank ?: ranks->slurm_task;
	char text[MAX_NAME], of_job[MAX_NAME / 2] = "";

	if (job && ranks->slurm_job)
		snprintf(of_job, sizeof(of_job), "job %s ",
			 strtab_get(profile->strings, ranks->slurm_job));
	snprintf(text, sizeof(text), "%s%s %s", of_job, ranks->rank ? "rank" : "task",
		 strtab_get(profile->strings, number));
	return strtab_add(profile->strings, text);
}

static int by_rank(struct profile *profile)
{
	bool jobs = jobs_differ(profile);
	int err = by_process(profile);
	size_t i;

	for (i = 0; i < profile->nr_processes && !err; i++)
		if (profile_ranks_number(&profile->processes[i].ranks))
			profile->processes[i].title =
				rank_title(profile, &profile->processes[i].ranks, jobs);
	return err;
}

static void by_pod(struct profile *profile)
{
	const struct profile_container *container;
	char text[MAX_POD];
	size_t i;

	for (i = 0; i < profile->nr_processes; i++) {
		if (!profile->processes[i].container)
			continue;
		container = &profile->containers[profile->processes[i].container - 1];
		if (!container->pod)
			continue;
		snprintf(text, sizeof(text), "%s/%s",
			 strtab_get(profile->strings, container->namespace),
			 strtab_get(profile->strings, container->pod));
		profile->processes[i].title = strtab_add(profile->strings, text);
	}
}

int profile_group(struct profile *profile, enum profile_by by)
{
	switch (by) {
	case PROFILE_BY_PROCESS:
		return by_process(profile);
	case PROFILE_BY_RANK:
		return by_rank(profile);
	case PROFILE_BY_POD:
		by_pod(profile);
		return 0;
	case PROFILE_BY_TASK:
		break;
	}
	return 0;
}
