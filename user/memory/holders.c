// SPDX-License-Identifier: Apache-2.0
#include "memory/holders.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/strtab.h"
#include "formats/profile_text.h"
#include "memory/monitor.h"
#include "profile/profile.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define NAMES_BYTES (8U << 20)
#define NO_STACK "[no stack]"

/* Libraries that hold memory for others, by the beginnings of their names. */
static const char *const allocators[] = { "libc.so",	 "libc-",      "libc.musl",   "ld-linux",
					  "ld-musl",	 "libstdc++",  "libjemalloc", "libtcmalloc",
					  "libmimalloc", "libpthread", "[vdso]",      "libcuda.so",
					  "libcudart",	 "libc10" };
/* The same in programs that have them inside. */
static const char *const functions[] = { "malloc",	 "calloc",  "realloc",	"memset",
					 "memcpy",	 "memmove", "_int_",	"sysmalloc",
					 "operator new", "__libc_", "__memset", "__memcpy",
					 "__memmove",	 "mmap" };

static bool begins_with_one(const char *text, const char *const *list, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (!strncmp(text, list[i], strlen(list[i])))
			return true;
	return false;
}

static bool is_allocator(const struct profile *profile, const struct profile_location *location)
{
	const char *path, *base;

	if (begins_with_one(strtab_get(profile->strings, location->name), functions,
			    ARRAY_SIZE(functions)))
		return true;
	if (!location->mapping)
		return false;
	path = strtab_get(profile->strings, profile->mappings[location->mapping - 1].path);
	base = strrchr(path, '/');
	return begins_with_one(base ? base + 1 : path, allocators, ARRAY_SIZE(allocators));
}

/* The location of the function that holds the memory; NULL: the stack has no frame. */
const struct profile_location *holders_find(const struct profile *profile, uint32_t stack)
{
	const struct profile_location *location, *native = NULL, *leaf = NULL;
	uint32_t at;

	stack_each(at, profile->stack_callers, stack) {
		location = profile_frame(profile, at);
		if (location->kind == LOCATION_PYTHON)
			return location;
		leaf = leaf ? leaf : location;
		if (!native && location->kind == LOCATION_NATIVE &&
		    !is_allocator(profile, location))
			native = location;
	}
	return native ? native : leaf;
}

int holders_new(struct holders *holders, const struct profile *profile)
{
	__cleanup(buf_fini) struct buf text = { .max = NAMES_BYTES };
	size_t i;

	*holders = (struct holders){ .profile = profile };
	holders->locations = calloc(profile->nr_locations + 1, sizeof(*holders->locations));
	if (!holders->locations || strtab_new(&holders->names, NAMES_BYTES))
		return -ENOMEM;
	strtab_add(holders->names, NO_STACK); /* these two may be missing in the profile */
	strtab_add(holders->names, MEMORY_DRIFT);
	for (i = 0; i < profile->nr_locations; i++) {
		buf_reset(&text);
		frame_text(&text, profile, &profile->locations[i]);
		if (!buf_error(&text) && text.len)
			holders->locations[i] = strtab_add_len(holders->names, text.data, text.len);
	}
	holders->nr = strtab_count(holders->names);
	holders->list = calloc(holders->nr, sizeof(*holders->list));
	return holders->list ? 0 : -ENOMEM;
}

void holders_fini(struct holders *holders)
{
	strtab_free(holders->names);
	free(holders->locations);
	free(holders->list);
	*holders = (struct holders){ 0 };
}

static int holder_compare(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

uint32_t holders_name(const struct holders *holders, uint32_t stack)
{
	const struct profile *profile = holders->profile;
	const struct profile_location *location = holders_find(profile, stack);

	return location ? holders->locations[location - profile->locations]
			: strtab_add(holders->names, NO_STACK);
}

void holders_of(struct holders *holders, uint32_t kernel_pid, int64_t drift_bytes)
{
	const struct profile *profile = holders->profile;
	const struct profile_sample *sample;
	struct holder *holder;
	size_t i;

	for (i = 0; i < holders->nr; i++)
		holders->list[i] =
			(struct holder){ .name = strtab_get(holders->names, (uint32_t)i) };
	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		if (profile->processes[sample->process].kernel_pid != kernel_pid)
			continue;
		holder = &holders->list[holders_name(holders, sample->stack)];
		holder->bytes += (int64_t)sample->value_ns;
		holder->pages += sample->count;
	}
	if (drift_bytes < 0) /* a profile has no room for it */
		holders->list[strtab_add(holders->names, MEMORY_DRIFT)].bytes = drift_bytes;
	qsort(holders->list, holders->nr, sizeof(*holders->list), holder_compare);
}
