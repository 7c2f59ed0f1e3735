// SPDX-License-Identifier: Apache-2.0
#include "profile/profile.h"

#include "base/strtab.h"

#include <stdlib.h>

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

uint64_t profile_weight(const struct profile *profile, size_t sample)
{
	const struct profile_sample *s = &profile->samples[sample];

	return profile->time == PROFILE_TIME_CPU ? s->count : (s->value_ns + 500) / 1000;
}
