// SPDX-License-Identifier: Apache-2.0
#include "findings/wait_place.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strtab.h"
#include "profile/idle.h"
#include "profile/profile.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define NONE UINT32_MAX

/* Prefixes of kernel functions. */
static const char *const child_waits[] = { "do_wait", "__do_wait", "kernel_wait" };
static const char *const event_waits[] = { "ep_poll",	"do_epoll",	   "do_sys_poll",
					   "do_poll",	"poll_schedule",   "do_select",
					   "do_accept", "inet_csk_accept", "unix_accept" };
/* Folders with code that does not belong to the program. */
static const char *const library_folders[] = { "/site-packages/", "/dist-packages/",
					       "/lib/python3" };

struct place {
	uint32_t function, line; /* locations, or NONE */
	bool python, child, event, kernel_named;
};

static bool begins_with_one(const char *name, const char *const *list, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (!strncmp(name, list[i], strlen(list[i])))
			return true;
	return false;
}

static bool is_own(const struct profile *profile, const struct profile_location *location)
{
	const char *file = strtab_get(profile->strings, location->file);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(library_folders); i++)
		if (strstr(file, library_folders[i]))
			return false;
	return *file && strncmp(file, "<frozen ", 8) != 0;
}

static void place_see(struct place *place, const struct profile *profile, uint32_t at)
{
	const struct profile_location *location = &profile->locations[at];
	const char *name = strtab_get(profile->strings, location->name);

	switch (location->kind) {
	case LOCATION_KERNEL:
		place->kernel_named |= location->has_symbol;
		place->child |= begins_with_one(name, child_waits, ARRAY_SIZE(child_waits));
		place->event |= begins_with_one(name, event_waits, ARRAY_SIZE(event_waits));
		break;
	case LOCATION_NATIVE:
		if (place->function == NONE)
			place->function = at;
		break;
	case LOCATION_PYTHON:
		if (!place->python)
			place->function = at;
		place->python = true;
		if (place->line == NONE && is_own(profile, location))
			place->line = at;
		break;
	default:
		break;
	}
}

/* False: the stack does not show why the program waits. */
static bool place_of(const struct profile *profile, uint32_t stack, struct place *ret)
{
	struct place place = { .function = NONE, .line = NONE };
	uint32_t at;

	stack_each(at, profile->stack_callers, profile_wait_part(profile, stack))
		place_see(&place, profile, profile->stack_locations[at]);
	if (place.line == NONE)
		place.line = place.function;
	*ret = place;
	if (place.line == NONE || place.child || profile_stack_is_idle(profile, stack))
		return false;
	return place.python || (place.kernel_named && !place.event);
}

int wait_place_find(const struct profile *profile, uint32_t kernel_pid, struct wait_place *ret)
{
	__cleanup(free_mem) uint64_t *ns = calloc(profile->nr_locations + 1, sizeof(*ns));
	const struct profile_sample *s;
	struct wait_place best = { 0 };
	struct place place;
	size_t i;

	if (!ns)
		return -ENOMEM;
	for (i = 0; i < profile->nr_samples; i++) {
		s = &profile->samples[i];
		if (s->sleeper != PROFILE_FIRST_SLEEPS ||
		    profile->processes[s->process].kernel_pid != kernel_pid ||
		    !place_of(profile, s->stack, &place))
			continue;
		ns[place.line] += s->value_ns;
		if (ns[place.line] > best.ns)
			best = (struct wait_place){ .ns = ns[place.line],
						    .function = place.function,
						    .line = place.line };
	}
	*ret = best;
	return 0;
}
