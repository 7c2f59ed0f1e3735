// SPDX-License-Identifier: Apache-2.0
#include "capture/sampler.h"

#include <assert.h>

void sampler_observe(struct sampler *sampler, event_fn see, void *arg)
{
	assert(sampler->nr_observers < SAMPLER_MAX_OBSERVERS);
	sampler->observers[sampler->nr_observers++] =
		(struct sampler_observer){ .see = see, .arg = arg };
}

void sampler_emit(const struct sampler *sampler, const struct event *event)
{
	size_t i;

	for (i = 0; i < sampler->nr_observers; i++)
		sampler->observers[i].see(sampler->observers[i].arg, event);
}
