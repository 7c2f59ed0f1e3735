// SPDX-License-Identifier: Apache-2.0
#include "proc/blocked_devs.h"

#include "base/deadline.h"

#define BLOCKED_NS 10000000000ULL

bool blocked_devs_have(const struct blocked_devs *blocked, const struct deadline_runner *runner,
		       uint32_t dev, uint64_t now_ns)
{
	uint32_t i;

	for (i = 0; i < BLOCKED_DEVS_MAX; i++)
		if (blocked->list[i].dev == dev &&
		    (blocked->list[i].until_ns > now_ns ||
		     deadline_is_stuck(runner, blocked->list[i].call)))
			return true;
	return false;
}

void blocked_devs_add(struct blocked_devs *blocked, const struct deadline_runner *runner,
		      uint32_t dev, uint64_t now_ns)
{
	struct blocked_dev *place;

	do
		place = &blocked->list[blocked->next++ % BLOCKED_DEVS_MAX];
	while (deadline_is_stuck(runner, place->call));
	*place = (struct blocked_dev){ .dev = dev,
				       .until_ns = now_ns + BLOCKED_NS,
				       .call = deadline_last_stuck(runner) };
}
