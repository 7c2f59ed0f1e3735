// SPDX-License-Identifier: Apache-2.0
#include "profile/idle_names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "profile/idle.h"

#define STRINGS_BYTES (256U << 10)

/* A profile of one stack. */
struct one_stack {
	struct strtab *strings;
	struct profile_location *locations;
	struct profile_mapping *mappings;
};

/* The beginning of ` (file)` at the end of the text, or NULL. */
static const char *file_of(const char *text)
{
	const char *at = text + strlen(text);

	while (at > text + 1 && !(at[-1] == '(' && at[-2] == ' '))
		at--;
	return at > text + 1 ? at : NULL;
}

static void frame_fill(struct one_stack *one, size_t i, const struct idle_frame *frame)
{
	struct profile_location *location = &one->locations[i];
	const char *file = file_of(frame->text);
	size_t name_len = file ? (size_t)(file - 2 - frame->text) : 0;
	size_t file_len = file ? strcspn(file, ")") : strcspn(frame->text, "+");
	char name[1024];

	if (name_len >= sizeof(name))
		name_len = sizeof(name) - 1;
	memcpy(name, frame->text, name_len);
	name[name_len] = 0;
	location->kind = frame->kind;
	location->name = strtab_add(one->strings, name);
	if (!file)
		file = frame->text;
	if (file_len >= sizeof(name))
		file_len = sizeof(name) - 1;
	memcpy(name, file, file_len);
	name[file_len] = 0;
	location->short_file = one->mappings[i].path = strtab_add(one->strings, name);
	location->mapping = frame->kind == LOCATION_NATIVE ? (uint32_t)i + 1 : 0;
}

bool idle_frames_are_known(const struct idle_frame *frames, size_t nr)
{
	struct one_stack one = { 0 };
	struct profile profile = { 0 };
	uint32_t stack = 0;
	bool idle = false;
	size_t i;

	one.locations = calloc(nr + 1, sizeof(*one.locations));
	one.mappings = calloc(nr + 1, sizeof(*one.mappings));
	if (one.locations && one.mappings && !profile_stacks_fit(&profile, nr) &&
	    !strtab_new(&one.strings, STRINGS_BYTES)) {
		for (i = nr; i-- > 0;) {
			frame_fill(&one, i, &frames[i]);
			stack = profile_stack_put(&profile, stack, (uint32_t)i);
		}
		profile.strings = one.strings;
		profile.locations = one.locations;
		profile.mappings = one.mappings;
		idle = profile_stack_is_idle(&profile, stack);
	}
	strtab_free(one.strings);
	free(one.locations);
	free(one.mappings);
	free(profile.stack_locations);
	free(profile.stack_callers);
	return idle;
}
