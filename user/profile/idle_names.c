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
	uint32_t *stack;
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
	one->stack[i] = (uint32_t)i;
}

bool idle_frames_are_known(const struct idle_frame *frames, size_t nr)
{
	const struct profile_stack stack = { .nr = (uint32_t)nr };
	struct one_stack one = { 0 };
	struct profile profile = { 0 };
	bool idle = false;
	size_t i;

	one.locations = calloc(nr + 1, sizeof(*one.locations));
	one.mappings = calloc(nr + 1, sizeof(*one.mappings));
	one.stack = calloc(nr + 1, sizeof(*one.stack));
	if (one.locations && one.mappings && one.stack &&
	    !strtab_new(&one.strings, STRINGS_BYTES)) {
		for (i = 0; i < nr; i++)
			frame_fill(&one, i, &frames[i]);
		profile.strings = one.strings;
		profile.locations = one.locations;
		profile.mappings = one.mappings;
		profile.stack_locations = one.stack;
		idle = profile_stack_is_idle(&profile, &stack);
	}
	strtab_free(one.strings);
	free(one.locations);
	free(one.mappings);
	free(one.stack);
	return idle;
}
