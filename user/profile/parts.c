// SPDX-License-Identifier: Apache-2.0
#include "profile/parts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "base/strtab.h"
#include "profile/history.h"

/* Maps old indexes to new ones, for one kind of thing in the part that is being made. */
struct remap {
	uint32_t *to; /* new index + 1, 0 = not in this part */
	uint32_t *used; /* old indexes */
	size_t nr;
};

enum kind { PROCESSES, STACKS, LOCATIONS, MAPPINGS, CONTAINERS, CALLS, NR_KINDS };

struct group {
	uint32_t namespace, pod, pid;
	size_t first, nr; /* samples of the group, in order */
};

struct profile_parts {
	const struct profile *profile;
	enum profile_cut by;
	struct group *groups;
	size_t nr_groups;
	uint32_t *group_of; /* by process */
	uint32_t *order; /* samples, group by group */
	struct remap maps[NR_KINDS];
};

/* The key of a group of processes: their pod, or their pid. */
static uint64_t key_of(const struct profile_parts *parts, uint32_t index)
{
	const struct profile_process *process = &parts->profile->processes[index];
	const struct profile_container *container;

	if (parts->by == PROFILE_CUT_PROCESSES)
		return process->kernel_pid;
	if (!process->container)
		return 0;
	container = &parts->profile->containers[process->container - 1];
	return container->pod ? (uint64_t)container->pod << 32 | container->namespace : 0;
}

static int compare_keys(const void *a, const void *b, void *arg)
{
	uint64_t x = key_of(arg, *(const uint32_t *)a), y = key_of(arg, *(const uint32_t *)b);

	return sorted_order(x, y);
}

/* With pods, group 0 is always the group without a pod. */
static int groups_make(struct profile_parts *parts)
{
	const struct profile *profile = parts->profile;
	size_t nr = profile->nr_processes, i;
	uint32_t *sorted = calloc(nr + 1, sizeof(*sorted));
	uint64_t key, last = 0;
	struct group *group;

	parts->groups = calloc(nr + 1, sizeof(*parts->groups));
	parts->group_of = calloc(nr + 1, sizeof(*parts->group_of));
	if (!sorted || !parts->groups || !parts->group_of) {
		free(sorted);
		return -ENOMEM;
	}
	for (i = 0; i < nr; i++)
		sorted[i] = (uint32_t)i;
	qsort_r(sorted, nr, sizeof(*sorted), compare_keys, parts);
	parts->nr_groups = parts->by == PROFILE_CUT_PODS;
	for (i = 0; i < nr; i++) {
		key = key_of(parts, sorted[i]);
		if (!parts->nr_groups || key != last) {
			group = &parts->groups[parts->nr_groups++];
			group->pod = (uint32_t)(key >> 32);
			group->namespace = (uint32_t)key;
			group->pid = profile->processes[sorted[i]].pid;
			if (!group->pid)
				group->pid = profile->processes[sorted[i]].kernel_pid;
			last = key;
		}
		parts->group_of[sorted[i]] = (uint32_t)parts->nr_groups - 1;
	}
	free(sorted);
	return 0;
}

static struct group *group_of(const struct profile_parts *parts, size_t sample)
{
	return &parts->groups[parts->group_of[parts->profile->samples[sample].process]];
}

/* Pods and processes without a sample get no part. */
static void groups_drop_empty(struct profile_parts *parts)
{
	size_t i, nr = parts->by == PROFILE_CUT_PODS;

	for (i = nr; i < parts->nr_groups; i++)
		if (parts->groups[i].nr)
			parts->groups[nr++] = parts->groups[i];
	parts->nr_groups = nr;
}

static int order_make(struct profile_parts *parts)
{
	size_t nr = parts->profile->nr_samples, at = 0, i;
	struct group *group;

	parts->order = calloc(nr + 1, sizeof(*parts->order));
	if (!parts->order)
		return -ENOMEM;
	for (i = 0; i < nr; i++)
		group_of(parts, i)->nr++;
	for (i = 0; i < parts->nr_groups; i++) {
		parts->groups[i].first = at;
		at += parts->groups[i].nr;
		parts->groups[i].nr = 0;
	}
	for (i = 0; i < nr; i++) {
		group = group_of(parts, i);
		parts->order[group->first + group->nr++] = (uint32_t)i;
	}
	groups_drop_empty(parts);
	return 0;
}

int profile_parts_new(struct profile_parts **ret, const struct profile *profile,
		      enum profile_cut by)
{
	const size_t nr[NR_KINDS] = {
		[PROCESSES] = profile->nr_processes,   [STACKS] = profile->nr_stacks,
		[LOCATIONS] = profile->nr_locations,   [MAPPINGS] = profile->nr_mappings,
		[CONTAINERS] = profile->nr_containers, [CALLS] = profile->nr_calls
	};
	struct profile_parts *parts = calloc(1, sizeof(*parts));
	enum kind kind;
	int err;

	if (!parts)
		return -ENOMEM;
	parts->profile = profile;
	parts->by = by;
	err = groups_make(parts);
	if (!err)
		err = order_make(parts);
	for (kind = 0; kind < NR_KINDS && !err; kind++) {
		parts->maps[kind].to = calloc(nr[kind] + 1, sizeof(uint32_t));
		parts->maps[kind].used = calloc(nr[kind] + 1, sizeof(uint32_t));
		if (!parts->maps[kind].to || !parts->maps[kind].used)
			err = -ENOMEM;
	}
	if (err) {
		profile_parts_free(parts);
		return err;
	}
	*ret = parts;
	return 0;
}

void profile_parts_free(struct profile_parts *parts)
{
	enum kind kind;

	if (!parts)
		return;
	for (kind = 0; kind < NR_KINDS; kind++) {
		free(parts->maps[kind].to);
		free(parts->maps[kind].used);
	}
	free(parts->groups);
	free(parts->group_of);
	free(parts->order);
	free(parts);
}

size_t profile_parts_count(const struct profile_parts *parts)
{
	return parts->nr_groups;
}

static void use(struct remap *map, uint32_t old)
{
	if (map->to[old])
		return;
	map->to[old] = 1;
	map->used[map->nr++] = old;
}

/* Gives new indexes in the order of the old ones. */
static void number(struct remap *map)
{
	size_t i;

	if (map->nr)
		qsort(map->used, map->nr, sizeof(*map->used), sorted_by_u32);
	for (i = 0; i < map->nr; i++)
		map->to[map->used[i]] = (uint32_t)i + 1;
}

static void forget(struct remap *map)
{
	while (map->nr)
		map->to[map->used[--map->nr]] = 0;
}

/* Marks the stack and its callers; the empty stack is in every part. */
static void stack_use(struct profile_parts *parts, uint32_t stack)
{
	struct remap *map = &parts->maps[STACKS];
	uint32_t at;

	/* The callers of a stack that is marked are marked. */
	for (at = stack; at && !map->to[at]; at = parts->profile->stack_callers[at])
		use(map, at);
}

/* Marks everything that the samples of the group need. */
static void collect(struct profile_parts *parts, const struct group *group)
{
	const struct profile *whole = parts->profile;
	const struct profile_process *process;
	const struct profile_sample *sample;
	struct remap *maps = parts->maps;
	size_t i;

	for (i = 0; i < group->nr; i++) {
		sample = &whole->samples[parts->order[group->first + i]];
		use(&maps[PROCESSES], sample->process);
		stack_use(parts, sample->stack);
		if (sample->call)
			use(&maps[CALLS], sample->call - 1);
	}
	for (i = 0; whole->history && i < whole->history->nr_series; i++)
		if (maps[PROCESSES].to[whole->history->series[i].process])
			stack_use(parts, whole->history->series[i].stack);
	for (i = 0; i < maps[STACKS].nr; i++)
		use(&maps[LOCATIONS], whole->stack_locations[maps[STACKS].used[i]]);
	for (i = 0; i < maps[LOCATIONS].nr; i++)
		if (whole->locations[maps[LOCATIONS].used[i]].mapping)
			use(&maps[MAPPINGS], whole->locations[maps[LOCATIONS].used[i]].mapping - 1);
	for (i = 0; i < maps[PROCESSES].nr; i++) {
		process = &whole->processes[maps[PROCESSES].used[i]];
		if (process->container)
			use(&maps[CONTAINERS], process->container - 1);
		if (process->program)
			use(&maps[MAPPINGS], process->program - 1);
	}
}

static int arrays_new(struct profile *part, const struct profile_parts *parts, size_t nr_samples)
{
	const struct remap *maps = parts->maps;

	part->nr_samples = nr_samples;
	part->nr_stacks = 0;
	part->stack_locations = part->stack_callers = NULL;
	part->nr_locations = maps[LOCATIONS].nr;
	part->nr_mappings = maps[MAPPINGS].nr;
	part->nr_processes = maps[PROCESSES].nr;
	part->nr_containers = maps[CONTAINERS].nr;
	part->samples = calloc(nr_samples + 1, sizeof(*part->samples));
	part->locations = calloc(part->nr_locations + 1, sizeof(*part->locations));
	part->mappings = calloc(part->nr_mappings + 1, sizeof(*part->mappings));
	part->processes = calloc(part->nr_processes + 1, sizeof(*part->processes));
	part->containers = calloc(part->nr_containers + 1, sizeof(*part->containers));
	part->calls = NULL;
	part->call_values = NULL;
	part->beside = NULL;
	part->history = NULL;
	part->nr_calls = maps[CALLS].nr;
	if (profile_stacks_fit(part, maps[STACKS].nr) || !part->samples || !part->locations ||
	    !part->mappings || !part->processes || !part->containers)
		return -ENOMEM;
	if (!parts->profile->call_values)
		return 0;
	part->calls = calloc(part->nr_calls + 1, sizeof(*part->calls));
	part->call_values = calloc(nr_samples + 1, sizeof(*part->call_values));
	return part->calls && part->call_values ? 0 : -ENOMEM;
}

static void fill_stacks(struct profile *part, const struct profile_parts *parts)
{
	const struct profile *whole = parts->profile;
	const struct remap *maps = parts->maps;
	uint32_t stack;
	size_t i;

	/* The marks are sorted, so that a caller still has a smaller number. */
	for (i = 0; i < maps[STACKS].nr; i++) {
		stack = maps[STACKS].used[i];
		profile_stack_put(part, maps[STACKS].to[whole->stack_callers[stack]],
				  maps[LOCATIONS].to[whole->stack_locations[stack]] - 1);
	}
}

static void fill_calls(struct profile *part, const struct profile_parts *parts,
		       const struct group *group)
{
	const struct profile *whole = parts->profile;
	const struct remap *map = &parts->maps[CALLS];
	size_t i;

	for (i = 0; i < part->nr_samples; i++) {
		memcpy(part->call_values[i], whole->call_values[parts->order[group->first + i]],
		       sizeof(part->call_values[i]));
		if (part->samples[i].call)
			part->samples[i].call = map->to[part->samples[i].call - 1];
	}
	for (i = 0; i < part->nr_calls; i++)
		part->calls[i] = whole->calls[map->used[i]];
}

static void fill(struct profile *part, const struct profile_parts *parts, const struct group *group)
{
	const struct profile *whole = parts->profile;
	const struct remap *maps = parts->maps;
	struct profile_sample *sample;
	size_t i;

	for (i = 0; i < part->nr_samples; i++) {
		sample = &part->samples[i];
		*sample = whole->samples[parts->order[group->first + i]];
		sample->process = maps[PROCESSES].to[sample->process] - 1;
		sample->stack = maps[STACKS].to[sample->stack];
	}
	fill_stacks(part, parts);
	if (whole->call_values)
		fill_calls(part, parts, group);
	for (i = 0; i < part->nr_locations; i++) {
		part->locations[i] = whole->locations[maps[LOCATIONS].used[i]];
		if (part->locations[i].mapping)
			part->locations[i].mapping =
				maps[MAPPINGS].to[part->locations[i].mapping - 1];
	}
	for (i = 0; i < part->nr_processes; i++) {
		part->processes[i] = whole->processes[maps[PROCESSES].used[i]];
		if (part->processes[i].container)
			part->processes[i].container =
				maps[CONTAINERS].to[part->processes[i].container - 1];
		if (part->processes[i].program)
			part->processes[i].program =
				maps[MAPPINGS].to[part->processes[i].program - 1];
	}
	for (i = 0; i < part->nr_mappings; i++)
		part->mappings[i] = whole->mappings[maps[MAPPINGS].used[i]];
	for (i = 0; i < part->nr_containers; i++)
		part->containers[i] = whole->containers[maps[CONTAINERS].used[i]];
}

void profile_samples_count(struct run_stats *stats, const struct profile *part)
{
	const struct profile_location *location;
	const char *name;
	bool kernel_only, python, truncated, unmerged;
	uint64_t n;
	uint32_t at;
	size_t i;

	stats->samples = stats->user = stats->kernel_only = stats->python = 0;
	stats->complete = stats->truncated = stats->unmerged = 0;
	for (i = 0; i < part->nr_samples; i++) {
		n = part->samples[i].count;
		kernel_only = part->samples[i].stack != 0;
		python = truncated = unmerged = false;
		stack_each(at, part->stack_callers, part->samples[i].stack) {
			location = profile_frame(part, at);
			kernel_only &= location->kind == LOCATION_KERNEL;
			python |= location->kind == LOCATION_PYTHON;
			if (location->kind != LOCATION_MARKER)
				continue;
			name = strtab_get(part->strings, location->name);
			unmerged |= !strcmp(name, "[unmerged]");
			truncated |= strcmp(name, "[unmerged]") && strcmp(name, "[no stack]");
		}
		stats->samples += n;
		stats->kernel_only += kernel_only ? n : 0;
		stats->user += kernel_only ? 0 : n;
		stats->python += python ? n : 0;
		stats->truncated += truncated ? n : 0;
		stats->unmerged += unmerged && !truncated ? n : 0;
		stats->complete += truncated || unmerged ? 0 : n;
	}
}

size_t profile_parts_find(const struct profile_parts *parts, const char *namespace, const char *pod)
{
	const struct strtab *strings = parts->profile->strings;
	size_t i;

	for (i = 1; i < parts->nr_groups; i++)
		if (!strcmp(strtab_get(strings, parts->groups[i].pod), pod) &&
		    !strcmp(strtab_get(strings, parts->groups[i].namespace), namespace))
			return i;
	return 0;
}

bool profile_parts_find_process(const struct profile_parts *parts, uint32_t kernel_pid, size_t *ret)
{
	const struct profile *profile = parts->profile;
	size_t i;

	for (i = 0; i < parts->nr_groups; i++) {
		*ret = i;
		if (profile->processes[profile->samples[parts->order[parts->groups[i].first]]
					       .process]
			    .kernel_pid == kernel_pid)
			return true;
	}
	return false;
}

int profile_part_make(struct profile_parts *parts, size_t index, struct profile_part *ret)
{
	const struct profile *whole = parts->profile;
	const struct group *group = &parts->groups[index];
	struct profile_part part = { .profile = *whole };
	enum kind kind;
	int err;

	collect(parts, group);
	for (kind = 0; kind < NR_KINDS; kind++)
		number(&parts->maps[kind]);
	err = arrays_new(&part.profile, parts, group->nr);
	if (!err)
		fill(&part.profile, parts, group);
	if (!err && whole->history) {
		part.profile.history = profile_history_part(
			whole->history, parts->maps[PROCESSES].to, parts->maps[STACKS].to);
		err = part.profile.history ? 0 : -ENOMEM;
	}
	for (kind = 0; kind < NR_KINDS; kind++)
		forget(&parts->maps[kind]);
	if (err) {
		profile_part_fini(&part);
		return err;
	}
	part.pid = group->pid;
	if (parts->by == PROFILE_CUT_PODS && index) {
		part.namespace = strtab_get(whole->strings, group->namespace);
		part.pod = strtab_get(whole->strings, group->pod);
	}
	if (whole->stats)
		part.stats = *whole->stats;
	if (parts->by == PROFILE_CUT_PODS && index)
		part.stats.nr_refused = 0; /* it names other pods */
	profile_samples_count(&part.stats, &part.profile);
	/* The program of the whole profile may be in another part. */
	part.profile.target_program = 0;
	profile_lead(&part.profile, NULL, 0);
	part.stats.rest_of = "node";
	*ret = part;
	ret->profile.stats = whole->stats ? &ret->stats : NULL;
	return 0;
}

void profile_part_fini(struct profile_part *part)
{
	part->profile.strings = NULL; /* the whole profile owns the strings */
	profile_fini(&part->profile);
}
