// SPDX-License-Identifier: Apache-2.0
#include "profile/profile.h"

#include "base/strtab.h"
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
	[PROFILE_STARVED_NS] = { "starved", "nanoseconds" },
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
	free(profile->stacks);
	free(profile->processes);
	free(profile->containers);
	free(profile->samples);
	free(profile->calls);
	free(profile->call_values);
	*profile = (struct profile){ 0 };
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
	const struct profile_stack *stack;
	uint64_t nr = 0;
	size_t i, k;

	for (i = 0; i < profile->nr_samples; i++) {
		stack = &profile->stacks[profile->samples[i].stack];
		for (k = 0; k < stack->nr; k++)
			if (is_nameless(profile,
					&profile->locations[profile->stack_locations[stack->first +
										     k]]))
				nr += profile->samples[i].count;
	}
	return nr;
}

uint32_t profile_wait_first(const struct profile *profile, const struct profile_stack *stack)
{
	const struct profile_location *location;
	uint32_t i;

	for (i = 0; i < stack->nr; i++) {
		location = &profile->locations[profile->stack_locations[stack->first + i]];
		if (location->kind != LOCATION_PYTHON &&
		    !strcmp(strtab_get(profile->strings, location->name), WAKERS_SEPARATOR))
			return i + 1;
	}
	return 0;
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
