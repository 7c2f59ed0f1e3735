// SPDX-License-Identifier: Apache-2.0
#include "report/tally.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/capped.h"
#include "base/map.h"
#include "base/strtab.h"
#include "base/text.h"
#include "formats/output.h"
#include "formats/profile_text.h"
#include "profile/profile.h"

#define MAX_TEXT_BYTES (64U << 20)
#define MAX_ONE_TEXT (4 * TEXT_MAX)
#define MAX_PAIRS (1U << 22)

bool tally_is_of_groups(enum tally_by by)
{
	return by >= TALLY_PROCESS && by <= TALLY_THREAD;
}

/* Adds the first part of a path. */
static void add_first_part(struct buf *dst, const char *path)
{
	char part[256];
	size_t len = strcspn(path, "/");

	snprintf(part, sizeof(part), "%.*s", (int)(len < sizeof(part) ? len : sizeof(part) - 1),
		 path);
	text_add_part(dst, part);
}

/*
 * Adds the package of a Python file: the folder after site-packages/; or the standard library; or
 * the outermost folder of its short form; or the file.
 */
static void add_package(struct buf *dst, const char *file, const char *short_file)
{
	static const char *const packages[] = { "/site-packages/", "/dist-packages/" };
	const char *found, *after, *python;
	size_t i;

	for (i = 0; i < 2; i++) {
		found = strstr(file, packages[i]);
		if (found) {
			add_first_part(dst, found + strlen(packages[i]));
			return;
		}
	}
	python = strstr(file, "/lib/python");
	after = python ? strchr(python + strlen("/lib/"), '/') : NULL;
	if (after || !strncmp(file, "<frozen ", 8))
		buf_add_str(dst, "Python's standard library");
	else
		add_first_part(dst, *short_file ? short_file : text_base_name(file));
}

static void library_text(struct buf *dst, const struct profile *profile,
			 const struct profile_location *location)
{
	const struct strtab *strings = profile->strings;
	const char *path;

	if (location->kind == LOCATION_PYTHON) {
		add_package(dst, strtab_get(strings, location->file),
			    strtab_get(strings, location->short_file));
		return;
	}
	if (location->kind == LOCATION_KERNEL) {
		buf_add_str(dst, "[kernel]");
		return;
	}
	path = location->mapping
		       ? strtab_get(strings, profile->mappings[location->mapping - 1].path)
		       : strtab_get(strings, location->file);
	if (*path)
		text_add_part(dst, text_base_name(path));
	else
		buf_add_str(dst, "[library not known]");
}

/* An address of code without lines is no line. */
static void line_text(struct buf *dst, const struct profile *profile,
		      const struct profile_location *location)
{
	if (location->kind == LOCATION_PYTHON)
		frame_text(dst, profile, location);
	else
		function_text(dst, profile, location);
}

/* Fills ids with the name of each location; 0: it has none. */
static int name_locations(struct tally *tally, const struct profile *profile, enum tally_by by,
			  uint32_t *ids)
{
	struct buf text;
	size_t i;

	buf_init(&text, MAX_ONE_TEXT);
	for (i = 0; i < profile->nr_locations; i++) {
		if (profile->locations[i].kind == LOCATION_MARKER)
			continue;
		buf_reset(&text);
		if (by == TALLY_LIBRARY)
			library_text(&text, profile, &profile->locations[i]);
		else if (by == TALLY_LINE)
			line_text(&text, profile, &profile->locations[i]);
		else
			function_text(&text, profile, &profile->locations[i]);
		if (!buf_error(&text) && text.len)
			ids[i] = strtab_add_len(tally->names, text.data, text.len);
	}
	buf_fini(&text);
	return 0;
}

static void add_host(struct buf *dst, const struct profile *profile,
		     const struct profile_process *process)
{
	if (!process->host)
		return;
	buf_add_str(dst, " on ");
	text_add_part(dst, strtab_get(profile->strings, process->host));
}

static uint32_t group_name(struct tally *tally, const struct profile *profile, enum tally_by by,
			   const struct profile_sample *sample, struct buf *text)
{
	const struct profile_process *process = &profile->processes[sample->process];
	struct profile_process named = *process;

	buf_reset(text);
	if (by == TALLY_THREAD) {
		thread_text(text, strtab_get(profile->strings, sample->thread), sample->tid);
		buf_add_str(text, " of ");
	}
	if (!process->pid && (by == TALLY_PROCESS || by == TALLY_THREAD))
		named.title = process->task ? process->task : process->comm;
	process_text(text, profile, &named);
	if (by == TALLY_PROCESS || by == TALLY_THREAD)
		add_host(text, profile, process);
	return buf_error(text) ? 0 : strtab_add_len(tally->names, text->data, text->len);
}

void tally_add(struct tally_numbers *to, const struct profile_sample *sample)
{
	to->count = capped_add(to->count, sample->count);
	to->value = capped_add(to->value, sample->value_ns);
}

static bool has_python(const struct profile *profile, uint32_t stack)
{
	uint32_t at;

	stack_each(at, profile->stack_callers, stack)
		if (profile_frame(profile, at)->kind == LOCATION_PYTHON)
			return true;
	return false;
}

static void add_stack(struct tally *tally, const struct profile *profile, const uint32_t *ids,
		      uint32_t index, bool python)
{
	const struct profile_sample *sample = &profile->samples[index];
	struct tally_row *row;
	uint32_t at, location, id;
	bool own = true;

	python = python && has_python(profile, sample->stack);
	for (at = sample->stack; at; at = profile->stack_callers[at], own = own && python) {
		location = profile->stack_locations[at];
		id = ids[location];
		if (!id || (python && profile->locations[location].kind != LOCATION_PYTHON))
			continue;
		row = &tally->rows[id];
		if (own)
			tally_add(&row->own, sample);
		own = false;
		if (row->last != index + 1)
			tally_add(&row->total, sample);
		row->last = index + 1;
	}
}

static int rows_new(struct tally *tally)
{
	size_t i;

	tally->nr_rows = strtab_count(tally->names);
	tally->rows = calloc(tally->nr_rows, sizeof(*tally->rows));
	for (i = 0; tally->rows && i < tally->nr_rows; i++)
		tally->rows[i].name = (uint32_t)i;
	return tally->rows ? 0 : -ENOMEM;
}

static int by_location(struct tally *tally, const struct profile *profile, enum tally_by by)
{
	uint32_t *ids = calloc(profile->nr_locations + 1, sizeof(*ids)), i;
	int err = ids ? name_locations(tally, profile, by, ids) : -ENOMEM;

	if (!err)
		err = rows_new(tally);
	for (i = 0; i < profile->nr_samples && !err; i++)
		add_stack(tally, profile, ids, i, by == TALLY_PYTHON);
	free(ids);
	return err;
}

/* Own numbers of one function in one group. */
struct pair {
	uint32_t group, function;
	struct tally_numbers own;
};

static bool is_more(const struct tally_numbers *a, const struct tally_numbers *b)
{
	return a->value != b->value ? a->value > b->value : a->count > b->count;
}

static int pairs_add(struct tally *tally, const struct profile *profile, const uint32_t *ids,
		     const uint32_t *groups)
{
	struct pair *pairs = calloc(profile->nr_samples + 1, sizeof(*pairs)), *pair;
	struct tally_row *row;
	uint32_t i, at, function;
	struct map index;
	int err = pairs ? 0 : -ENOMEM;

	map_init(&index, MAX_PAIRS);
	for (i = 0; i < profile->nr_samples && !err; i++) {
		at = profile->samples[i].stack;
		function = at ? ids[profile->stack_locations[at]] : 0;
		if (!function)
			continue;
		if (!map_find(&index, (uint64_t)groups[i] << 32 | function, &at)) {
			at = index.nr;
			if (map_set(&index, (uint64_t)groups[i] << 32 | function, at))
				break; /* the table is full: the hottest function is in it already */
			pairs[at] = (struct pair){ .group = groups[i], .function = function };
		}
		pair = &pairs[at];
		tally_add(&pair->own, &profile->samples[i]);
	}
	for (i = 0; i < index.nr && !err; i++) {
		row = &tally->rows[pairs[i].group];
		if (row->hottest && !is_more(&pairs[i].own, &row->hottest_own))
			continue;
		row->hottest = pairs[i].function;
		row->hottest_own = pairs[i].own;
	}
	map_fini(&index);
	free(pairs);
	return err;
}

static int by_group(struct tally *tally, const struct profile *profile, enum tally_by by)
{
	uint32_t *ids = calloc(profile->nr_locations + 1, sizeof(*ids)), i;
	uint32_t *groups = calloc(profile->nr_samples + 1, sizeof(*groups));
	struct buf text;
	int err = ids && groups ? 0 : -ENOMEM;

	buf_init(&text, MAX_ONE_TEXT);
	for (i = 0; i < profile->nr_samples && !err; i++)
		groups[i] = group_name(tally, profile, by, &profile->samples[i], &text);
	buf_fini(&text);
	if (!err)
		err = name_locations(tally, profile, TALLY_FUNCTION, ids);
	if (!err)
		err = rows_new(tally);
	for (i = 0; i < profile->nr_samples && !err; i++) {
		tally_add(&tally->rows[groups[i]].own, &profile->samples[i]);
		tally_add(&tally->rows[groups[i]].total, &profile->samples[i]);
	}
	if (!err)
		err = pairs_add(tally, profile, ids, groups);
	free(ids);
	free(groups);
	return err;
}

int tally_init(struct tally *tally, const struct profile *profile, enum tally_by by)
{
	size_t i;
	int err;

	*tally = (struct tally){ 0 };
	err = strtab_new(&tally->names, MAX_TEXT_BYTES);
	if (!err)
		err = tally_is_of_groups(by) ? by_group(tally, profile, by)
					     : by_location(tally, profile, by);
	for (i = 0; i < profile->nr_samples && !err; i++)
		tally_add(&tally->all, &profile->samples[i]);
	if (err)
		tally_fini(tally);
	return err;
}

void tally_fini(struct tally *tally)
{
	strtab_free(tally->names);
	free(tally->rows);
	*tally = (struct tally){ 0 };
}
