// SPDX-License-Identifier: Apache-2.0
#include "formats/py_spy.h"

#include "base/buf.h"
#include "base/strtab.h"
#include "base/text.h"
#include "formats/output.h"
#include "formats/profile_text.h"
#include "formats/stack_order.h"
#include "profile/profile.h"

#include <errno.h>
#include <stdlib.h>

#define NS_PER_S 1000000000ULL

static bool is_shown(const struct profile_location *location, bool native)
{
	if (location->kind == LOCATION_PYTHON)
		return location->line || location->file || location->name;
	return native && location->kind == LOCATION_NATIVE && location->has_symbol;
}

/* The stack without leaves that are not shown. */
static uint32_t shown(const struct profile *profile, uint32_t stack, bool native)
{
	while (stack && !is_shown(profile_frame(profile, stack), native))
		stack = profile->stack_callers[stack];
	return stack;
}

static void location_shape(struct profile_location *location, const struct py_spy_form *form)
{
	if (location->kind != LOCATION_PYTHON)
		return;
	if (form->function)
		location->line = location->start_line;
	if (form->no_lines)
		location->line = 0;
	if (form->full_filenames)
		location->short_file = location->file;
}

/* Leaves out frames that are not shown: their callees go to the next caller that is. */
static void stacks_shape(struct profile *profile, bool native)
{
	size_t i;

	for (i = 0; i < profile->nr_samples; i++)
		profile->samples[i].stack = shown(
			profile, profile_wait_part(profile, profile->samples[i].stack), native);
	/* A caller has a smaller number, so it is done. */
	for (i = 1; i < profile->nr_stacks; i++)
		profile->stack_callers[i] = shown(profile, profile->stack_callers[i], native);
}

static void sample_shape(struct profile_sample *sample, uint32_t hz)
{
	sample->count = (sample->value_ns / 1000 * hz + NS_PER_S / 2000) / (NS_PER_S / 1000);
	sample->value_ns = sample->count * (NS_PER_S / hz);
}

/* Leaves out locations that no stack has. 0 or -ENOMEM. */
static int locations_sweep(struct profile *profile)
{
	uint32_t *numbers = calloc(profile->nr_locations + 1, sizeof(*numbers)), at, nr = 0;
	size_t i;

	if (!numbers)
		return -ENOMEM;
	for (i = 0; i < profile->nr_samples; i++)
		stack_each(at, profile->stack_callers, profile->samples[i].stack)
			numbers[profile->stack_locations[at]] = 1;
	for (i = 0; i < profile->nr_locations; i++) {
		if (!numbers[i])
			continue;
		profile->locations[nr] = profile->locations[i];
		numbers[i] = nr++;
	}
	profile->nr_locations = nr;
	for (i = 0; i < profile->nr_stacks; i++)
		profile->stack_locations[i] = numbers[profile->stack_locations[i]];
	free(numbers);
	return 0;
}

int py_spy_shape(struct profile *profile, const struct py_spy_form *form)
{
	bool waits = profile->time != PROFILE_TIME_CPU && profile->hz;
	size_t i, nr = 0;

	for (i = 0; i < profile->nr_locations; i++)
		location_shape(&profile->locations[i], form);
	stacks_shape(profile, form->native);
	for (i = 0; i < profile->nr_samples; i++) {
		if (waits)
			sample_shape(&profile->samples[i], profile->hz);
		if (profile->samples[i].count && profile->samples[i].stack)
			profile->samples[nr++] = profile->samples[i];
	}
	profile->nr_samples = nr;
	if (waits)
		profile->time = PROFILE_TIME_CPU;
	return locations_sweep(profile);
}

static void add_frame(struct buf *dst, const struct profile *profile,
		      const struct profile_location *location)
{
	const char *path = "?";

	frame_text(dst, profile, location);
	if (location->kind != LOCATION_NATIVE)
		return;
	if (location->mapping)
		path = strtab_get(profile->strings, profile->mappings[location->mapping - 1].path);
	buf_add_str(dst, " (");
	text_add_part(dst, text_base_name(path));
	buf_add_char(dst, ')');
}

static void add_thread(struct buf *dst, const char *name, unsigned int tid)
{
	buf_printf(dst, "thread (%u): ", tid);
	text_add_part(dst, name);
}

void py_spy_process(struct buf *dst, const struct profile *profile,
		    const struct profile_process *process)
{
	const char *cmdline = strtab_get(profile->strings, process->cmdline);

	buf_printf(dst, "process %u:\"", process->pid);
	text_add_part(dst, *cmdline ? cmdline : strtab_get(profile->strings, process->comm));
	buf_add_char(dst, '"');
}

struct stack_rules py_spy_rules(const struct output_options *options)
{
	return (struct stack_rules){
		.location = add_frame,
		.process = options->several ? py_spy_process : NULL,
		.nested = options->several,
		.threads = options->threads,
		.thread = add_thread,
		.need_frames = true,
	};
}
