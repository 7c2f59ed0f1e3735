// SPDX-License-Identifier: Apache-2.0
#include "profile/profile.h"

#include "base/strtab.h"
#include "profile/history.h"
#include "profile/stats.h"
#include "profile/wakers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct profile_call_type profile_call_types[PROFILE_NR_CALL_VALUES] = {
	[PROFILE_CALLS] = { "calls", "count" },
	[PROFILE_BLOCKED_NS] = { "blocked", "nanoseconds" },
	[PROFILE_MOVED_BYTES] = { "moved", "bytes" },
	[PROFILE_ALLOCATED_BYTES] = { "allocated", "bytes" },
	[PROFILE_INUSE_BYTES] = { "inuse", "bytes" },
	[PROFILE_DEVICE_IDLE_NS] = { "starved", "nanoseconds" },
	[PROFILE_HOST_ALLOCATED_BYTES] = { "host_allocated", "bytes" },
	[PROFILE_HOST_INUSE_BYTES] = { "host_inuse", "bytes" },
	[PROFILE_TENSOR_ALLOCATED_BYTES] = { "tensor_allocated", "bytes" },
	[PROFILE_TENSOR_INUSE_BYTES] = { "tensor_inuse", "bytes" },
	[PROFILE_GC_NS] = { "gc", "nanoseconds" },
	[PROFILE_COMPLETED] = { "completed", "count" },
	[PROFILE_COMPLETE_NS] = { "complete", "nanoseconds" },
};

void profile_fini(struct profile *profile)
{
	strtab_free(profile->strings);
	free(profile->mappings);
	free(profile->locations);
	free(profile->stack_locations);
	free(profile->stack_callers);
	free(profile->processes);
	free(profile->containers);
	free(profile->samples);
	free(profile->calls);
	free(profile->call_values);
	profile_history_free(profile->history);
	free(profile->beside);
	*profile = (struct profile){ 0 };
}

static bool is_one_of(uint32_t pid, const int *pids, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (pid && pid == (uint32_t)pids[i])
			return true;
	return false;
}

/* Counts the samples of each program, of the processes pids or of all processes. */
static uint32_t program_of_most(const struct profile *profile, uint64_t *samples, const int *pids,
				size_t nr_pids)
{
	const struct profile_process *process;
	uint32_t most = 0;
	size_t i;

	for (i = 0; i < profile->nr_samples; i++) {
		process = &profile->processes[profile->samples[i].process];
		if (!process->program || (pids && !is_one_of(process->pid, pids, nr_pids)))
			continue;
		samples[process->program] += profile->samples[i].count;
		if (!most || samples[process->program] > samples[most])
			most = process->program;
	}
	return most;
}

static uint32_t moved(uint32_t mapping, uint32_t to_front)
{
	if (!mapping || mapping > to_front)
		return mapping;
	return mapping == to_front ? 1 : mapping + 1;
}

void profile_lead(struct profile *profile, const int *pids, size_t nr_pids)
{
	uint64_t *samples = calloc(profile->nr_mappings + 1, sizeof(*samples));
	struct profile_mapping first;
	uint32_t lead = 0;
	size_t i;

	if (samples && nr_pids)
		lead = program_of_most(profile, samples, pids, nr_pids);
	if (!lead)
		lead = profile->target_program;
	if (samples && !lead)
		lead = program_of_most(profile, samples, NULL, 0);
	free(samples);
	if (lead <= 1)
		return;
	first = profile->mappings[lead - 1];
	memmove(&profile->mappings[1], &profile->mappings[0], (lead - 1) * sizeof(first));
	profile->mappings[0] = first;
	for (i = 0; i < profile->nr_locations; i++)
		profile->locations[i].mapping = moved(profile->locations[i].mapping, lead);
	for (i = 0; i < profile->nr_processes; i++)
		profile->processes[i].program = moved(profile->processes[i].program, lead);
	profile->target_program = moved(profile->target_program, lead);
}

int profile_of_calls(struct profile *profile)
{
	if (!profile->call_values)
		profile->call_values =
			calloc(profile->nr_samples + 1, sizeof(*profile->call_values));
	return profile->call_values ? 0 : -ENOMEM;
}

static bool is_nameless(const struct profile *profile, const struct profile_location *location)
{
	if (location->kind == LOCATION_NATIVE)
		return !location->has_symbol;
	return location->kind == LOCATION_PYTHON && !location->line &&
	       !*strtab_get(profile->strings, location->file);
}

uint64_t profile_nameless(const struct profile *profile)
{
	uint64_t nr = 0;
	uint32_t at;
	size_t i;

	for (i = 0; i < profile->nr_samples; i++)
		stack_each(at, profile->stack_callers, profile->samples[i].stack)
			if (is_nameless(profile, profile_frame(profile, at)))
				nr += profile->samples[i].count;
	return nr;
}

const struct counter profile_counters[] = {
	{ COUNTER_WALK, "frames_without_name", 0, .help = "frames that are shown as `file+0x...`" },
	{ 0 },
};

void profile_count_nameless(const struct profile *profile, struct stats_reasons *walk)
{
	const uint64_t nr = profile_nameless(profile);

	stats_add_rows(walk, profile_counters, &nr, true);
}

uint32_t profile_wait_part(const struct profile *profile, uint32_t stack)
{
	const struct profile_location *location;
	uint32_t at;

	stack_each(at, profile->stack_callers, stack) {
		location = profile_frame(profile, at);
		if (location->kind != LOCATION_PYTHON &&
		    !strcmp(strtab_get(profile->strings, location->name), WAKERS_SEPARATOR))
			return profile->stack_callers[at];
	}
	return stack;
}

uint32_t profile_max_depth(const struct profile *profile)
{
	uint32_t max = 0, nr;
	size_t i;

	for (i = 0; i < profile->nr_samples; i++) {
		nr = stack_depth(profile->stack_callers, profile->samples[i].stack);
		max = nr > max ? nr : max;
	}
	return max;
}

int profile_stacks_fit(struct profile *profile, size_t nr)
{
	if (profile->nr_stacks + nr >= UINT32_MAX ||
	    !vec_fit(profile->stack_locations, profile->nr_stacks + nr + 1) ||
	    !vec_fit(profile->stack_callers, profile->nr_stacks + nr + 1))
		return -ENOMEM;
	if (!profile->nr_stacks)
		profile_stack_put(profile, 0, 0);
	return 0;
}

uint32_t profile_stack_put(struct profile *profile, uint32_t caller, uint32_t location)
{
	profile->stack_callers[profile->nr_stacks] = caller;
	profile->stack_locations[profile->nr_stacks] = location;
	return (uint32_t)profile->nr_stacks++;
}

bool profile_stack_is_of_tasks(const struct profile *profile, uint32_t stack)
{
	const struct profile_location *root = NULL;
	uint32_t at;

	stack_each(at, profile->stack_callers, stack)
		root = profile_frame(profile, at);
	return root && root->kind == LOCATION_CALL &&
	       !strcmp(strtab_get(profile->strings, root->name), PROFILE_TASKS_FRAME);
}

bool profile_counts_calls(const struct profile *profile)
{
	return profile->call_values ||
	       !strcmp(strtab_get(profile->strings, profile->value.count_type),
		       profile_call_types[PROFILE_CALLS].type);
}

const char *profile_counted(const struct profile *profile)
{
	return profile_counts_calls(profile) ? "calls" : "samples";
}

bool profile_is_time(const struct profile *profile)
{
	if (profile->value.only_counts)
		return false;
	return !profile->value.unit ||
	       !strcmp(strtab_get(profile->strings, profile->value.unit), "nanoseconds");
}

uint64_t profile_weight(const struct profile *profile, size_t sample)
{
	const struct profile_sample *s = &profile->samples[sample];

	if (profile->value.only_counts || profile->call_values ||
	    (!profile->value.type && profile->time == PROFILE_TIME_CPU))
		return s->count;
	return profile_is_time(profile) ? (s->value_ns + 500) / 1000 : s->value_ns;
}
