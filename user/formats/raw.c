// SPDX-License-Identifier: Apache-2.0
#include "formats/output.h"

#include "base/buf.h"
#include "base/strtab.h"
#include "base/text.h"
#include "formats/py_spy.h"
#include "formats/stack_order.h"
#include "profile/profile.h"

/*
 * Writes a frame that readers of py-spy's files accept. One frame that is not `NAME (PATH:LINE)`
 * makes some of them refuse the whole file. So NAME has no blank, PATH no parenthesis or colon, and
 * a frame without name and place is left out.
 */
static void add_raw(struct buf *dst, const char *name, const char *path, unsigned int line)
{
	size_t i = dst->len;

	text_add_part(dst, *name ? name : "?");
	for (; i < dst->len; i++)
		if (dst->data[i] == ' ')
			dst->data[i] = '_';
	buf_add_str(dst, " (");
	i = dst->len;
	text_add_part(dst, *path ? path : "?");
	for (; i < dst->len; i++)
		if (dst->data[i] == '(' || dst->data[i] == ')' || dst->data[i] == ':')
			dst->data[i] = '_';
	buf_printf(dst, ":%u)", line);
}

static void raw_python(struct buf *dst, const struct profile *profile,
		       const struct profile_location *location)
{
	const char *path;

	if (location->kind != LOCATION_PYTHON)
		return;
	path = strtab_get(profile->strings, location->short_file);
	if (!*path)
		path = text_base_name(strtab_get(profile->strings, location->file));
	if (!*path && !location->line) /* nothing is known about the frame */
		return;
	add_raw(dst, strtab_get(profile->strings, location->name), path, location->line);
}

static void raw_native(struct buf *dst, const struct profile *profile,
		       const struct profile_location *location)
{
	const char *path;

	raw_python(dst, profile, location);
	if (location->kind != LOCATION_NATIVE || !location->has_symbol)
		return;
	path = strtab_get(profile->strings, location->file);
	if (!*path && location->mapping)
		path = strtab_get(profile->strings, profile->mappings[location->mapping - 1].path);
	add_raw(dst, strtab_get(profile->strings, location->name), text_base_name(path),
		location->line);
}

void raw_frame(struct buf *dst, const struct profile *profile,
	       const struct profile_location *location, bool native)
{
	if (native)
		raw_native(dst, profile, location);
	else
		raw_python(dst, profile, location);
}

int raw_write(FILE *out, const struct profile *profile, const struct output_options *options)
{
	const struct stack_rules rules = {
		.location = options->native ? raw_native : raw_python,
		.process = options->several ? py_spy_process : NULL,
		.need_frames = true,
		.no_wakers = true,
	};

	const struct stack_rules same = py_spy_rules(options);

	return stack_order_write(out, profile, options->py_spy ? &same : &rules);
}
