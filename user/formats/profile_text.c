// SPDX-License-Identifier: Apache-2.0
#include "formats/profile_text.h"

#include "base/buf.h"
#include "base/strtab.h"
#include "base/text.h"
#include "base/time.h"
#include "profile/profile.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SHORT_ID 12 /* first characters of a container's id, as tools show it */

static void add_python(struct buf *dst, const struct profile *profile,
		       const struct profile_location *location)
{
	const char *file = strtab_get(profile->strings, location->short_file);

	if (!*file)
		file = text_base_name(strtab_get(profile->strings, location->file));
	text_add_part(dst, strtab_get(profile->strings, location->name));
	if (!*file)
		return;
	buf_add_str(dst, " (");
	text_add_part(dst, file);
	if (location->line)
		buf_printf(dst, ":%u", location->line);
	buf_add_char(dst, ')');
}

void frame_text(struct buf *dst, const struct profile *profile,
		const struct profile_location *location)
{
	if (location->kind == LOCATION_PYTHON) {
		add_python(dst, profile, location);
		return;
	}
	text_add_part(dst, strtab_get(profile->strings, location->name));
	if (location->kind == LOCATION_KERNEL)
		buf_add_str(dst, "_[k]");
}

void function_text(struct buf *dst, const struct profile *profile,
		   const struct profile_location *location)
{
	struct profile_location without_line = *location;
	const char *file = "anon";

	if (location->kind == LOCATION_NATIVE && !location->has_symbol && !location->has_start) {
		if (location->mapping)
			file = strtab_get(profile->strings,
					  profile->mappings[location->mapping - 1].path);
		buf_add_char(dst, '[');
		text_add_part(dst, *file ? text_base_name(file) : "anon");
		buf_add_char(dst, ']');
		return;
	}
	without_line.line = 0;
	frame_text(dst, profile, &without_line);
}

/* Adds a part of a path that is read from the left: a slash in it would make two parts. */
static void add_path_part(struct buf *dst, const char *name)
{
	size_t at = dst->len;

	text_add_part(dst, name);
	for (; at < dst->len; at++)
		if (dst->data[at] == '/')
			dst->data[at] = '_';
}

void container_text(struct buf *dst, const struct profile *profile,
		    const struct profile_process *process)
{
	const struct profile_container *container;
	char id[SHORT_ID + 1];

	if (!process->container)
		return;
	container = &profile->containers[process->container - 1];
	if (container->pod) {
		add_path_part(dst, strtab_get(profile->strings, container->namespace));
		buf_add_char(dst, '/');
		add_path_part(dst, strtab_get(profile->strings, container->pod));
		buf_add_char(dst, '/');
	}
	snprintf(id, sizeof(id), "%s", strtab_get(profile->strings, container->id));
	add_path_part(dst, container->name ? strtab_get(profile->strings, container->name) : id);
}

bool containers_differ(const struct profile *profile)
{
	uint32_t first =
		profile->nr_samples ? profile->processes[profile->samples[0].process].container : 0;
	size_t i;

	for (i = 0; i < profile->nr_samples; i++)
		if (profile->processes[profile->samples[i].process].container != first)
			return true;
	return false;
}

void process_text(struct buf *dst, const struct profile *profile,
		  const struct profile_process *process)
{
	const char *name = strtab_get(profile->strings, process->title);

	if (!*name)
		name = strtab_get(profile->strings, process->comm);
	if (*name)
		text_add_part(dst, name);
	else
		buf_printf(dst, "process-%u", process->pid);
}

void thread_text(struct buf *dst, const char *name, unsigned int tid)
{
	text_add_part(dst, *name ? name : "thread");
	buf_printf(dst, "-%u", tid);
}

const char *flame_title(const struct profile *profile)
{
	static const char *const titles[] = { [PROFILE_TIME_CPU] = "CPU flame graph",
					      [PROFILE_TIME_OFF_CPU] = "Off-CPU flame graph",
					      [PROFILE_TIME_WALL] = "Wall-clock flame graph" };

	if (profile->call_values)
		return "GPU calls";
	if (profile->history)
		return "Memory flame graph";
	return profile->value.type || profile->value.only_counts ? "Flame graph"
								 : titles[profile->time];
}

const char *flame_unit(const struct profile *profile)
{
	const char *unit = strtab_get(profile->strings, profile->value.unit);

	if (profile->call_values)
		return "call";
	if (profile->value.only_counts)
		return profile_counts_calls(profile) ? "call" : "sample";
	if (!profile->value.type && profile->time == PROFILE_TIME_CPU)
		return NULL;
	if (profile_is_time(profile))
		return "microsecond";
	return !strcmp(unit, "bytes") ? "byte" : "unit";
}

static void add_dot(struct buf *dst, size_t from)
{
	if (dst->len > from)
		buf_add_str(dst, " \xc2\xb7 ");
}

void profile_caption(struct buf *dst, const struct profile *profile)
{
	size_t from = dst->len;
	char when[TIME_TEXT_BYTES];

	text_add(dst, strtab_get(profile->strings, profile->host));
	if (profile->time_ns &&
	    *time_text(when, profile->time_ns / NS_PER_SECOND, TIME_OF_PEOPLE)) {
		add_dot(dst, from);
		buf_add_str(dst, when);
	}
	if (!profile->duration_ns) { /* a stored profile without a duration */
		add_dot(dst, from);
		buf_add_str(dst, "how long is not known");
		return;
	}
	add_dot(dst, from);
	buf_printf(dst, "%.1f s", (double)profile->duration_ns / 1e9);
	if (profile->hz)
		buf_printf(dst, " at %u Hz", profile->hz);
}
