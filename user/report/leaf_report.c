// SPDX-License-Identifier: Apache-2.0
#include "report/leaf_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/capped.h"
#include "base/map.h"
#include "base/strtab.h"
#include "base/text.h"
#include "formats/output.h"
#include "profile/profile.h"

#define MAX_TEXT_BYTES (64U << 20)
#define MAX_ONE_TEXT (4 * TEXT_MAX)
#define MAX_ROWS (1U << 24)
#define NOT_FOUND "Not Found"
#define NR_COLUMNS 7

/* Texts of a frame; name 0: the frame is left out. */
struct leaf_frame {
	uint32_t name, path, line;
	bool in_library;
};

struct leaf_row {
	uint32_t leaf, library; /* locations + 1; library 0: none */
	uint32_t order; /* of appearance */
	uint64_t count;
};

struct leaves {
	const struct profile *profile;
	const struct leaf_report_options *options;
	struct strtab *texts;
	struct leaf_frame *frames; /* by location */
	uint32_t *same; /* by location: the first location with these texts */
	struct leaf_row *rows;
	size_t nr_rows;
	uint64_t total;
};

/* Splits raw_frame()'s text `NAME (PATH:LINE)` into its parts. */
static void frame_take(struct leaves *l, struct leaf_frame *to, char *text)
{
	char *open = strstr(text, " ("), *path, *colon;

	if (!open || strstr(text, "<module>"))
		return;
	*open = 0;
	path = open + 2;
	colon = strrchr(path, ':');
	if (!colon)
		return;
	*colon = 0;
	colon[strcspn(colon + 1, ")") + 1] = 0;
	to->name = strtab_add(l->texts, text);
	to->in_library = strstr(path, l->options->library);
	if (strstr(path, "frozen importlib")) {
		to->path = strtab_add(l->texts, "built-in");
		to->line = strtab_add(l->texts, "-1");
		to->in_library = strstr("built-in", l->options->library);
		return;
	}
	to->path = strtab_add(l->texts, path);
	to->line = strtab_add(l->texts, colon + 1);
}

static int frames_make(struct leaves *l)
{
	const struct profile *profile = l->profile;
	struct buf text;
	char key[64];
	struct strtab *keys;
	uint32_t *first, id;
	size_t i;
	int err = strtab_new(&keys, MAX_TEXT_BYTES);

	if (err)
		return err;
	first = calloc(profile->nr_locations + 3, sizeof(*first));
	buf_init(&text, MAX_ONE_TEXT);
	for (i = 0; i < profile->nr_locations && first; i++) {
		buf_reset(&text);
		raw_frame(&text, profile, &profile->locations[i], l->options->native);
		if (text.len && !buf_error(&text))
			frame_take(l, &l->frames[i], text.data);
		snprintf(key, sizeof(key), "%u %u %u", l->frames[i].name, l->frames[i].path,
			 l->frames[i].line);
		id = strtab_add(keys, key);
		if (!first[id])
			first[id] = (uint32_t)i + 1;
		l->same[i] = first[id] - 1;
	}
	buf_fini(&text);
	strtab_free(keys);
	err = first ? 0 : -ENOMEM;
	free(first);
	return err;
}

static void row_of(const struct leaves *l, const struct profile_sample *sample,
		   struct leaf_row *ret)
{
	uint32_t at, location;

	*ret = (struct leaf_row){ .count = sample->count };
	stack_each(at, l->profile->stack_callers, sample->stack) {
		location = l->profile->stack_locations[at];
		if (!l->frames[location].name)
			continue;
		if (!ret->leaf)
			ret->leaf = l->same[location] + 1;
		if (!l->frames[location].in_library)
			continue;
		ret->library = l->same[location] + 1;
		return;
	}
}

static int rows_make(struct leaves *l)
{
	struct leaf_row row;
	struct map index;
	uint64_t key;
	uint32_t at;
	size_t i;
	int err = 0;

	map_init(&index, MAX_ROWS);
	for (i = 0; i < l->profile->nr_samples && !err; i++) {
		row_of(l, &l->profile->samples[i], &row);
		if (!row.leaf)
			continue;
		l->total = capped_add(l->total, row.count);
		key = (uint64_t)row.leaf << 32 | row.library;
		if (l->options->aggregate && map_find(&index, key, &at)) {
			l->rows[at].count = capped_add(l->rows[at].count, row.count);
			continue;
		}
		row.order = (uint32_t)l->nr_rows;
		if (l->options->aggregate)
			err = map_set(&index, key, row.order);
		l->rows[l->nr_rows++] = row;
	}
	map_fini(&index);
	return err == -ENOSPC ? 0 : err;
}

static int compare_rows(const void *a, const void *b)
{
	const struct leaf_row *x = a, *y = b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static void cells_of(const struct leaves *l, const struct leaf_row *row,
		     const char *cells[NR_COLUMNS], char proportion[64])
{
	const struct leaf_frame *leaf = &l->frames[row->leaf - 1], *library = NULL;

	if (row->library)
		library = &l->frames[row->library - 1];
	cells[0] = strtab_get(l->texts, leaf->name);
	cells[1] = strtab_get(l->texts, leaf->path);
	cells[2] = strtab_get(l->texts, leaf->line);
	cells[3] = library ? strtab_get(l->texts, library->name) : NOT_FOUND;
	cells[4] = library ? strtab_get(l->texts, library->path) : NOT_FOUND;
	cells[5] = library ? strtab_get(l->texts, library->line) : NOT_FOUND;
	snprintf(proportion, 64, "%.2f%% (%" PRIu64 ")",
		 100.0 * (double)row->count / (double)l->total, row->count);
	cells[6] = proportion;
}

static void add_cells(struct buf *dst, const char *const cells[NR_COLUMNS],
		      const size_t widths[NR_COLUMNS])
{
	size_t i, k;

	for (i = 0; i < NR_COLUMNS; i++) {
		buf_add_str(dst, i ? " | " : " ");
		buf_add_str(dst, cells[i]);
		for (k = text_columns(cells[i]); i + 1 < NR_COLUMNS && k < widths[i]; k++)
			buf_add_char(dst, ' ');
	}
	buf_add_char(dst, '\n');
}

static void add_table(struct buf *dst, const struct leaves *l)
{
	static const char *const names[NR_COLUMNS] = { "name",
						       "path",
						       "line",
						       "library_function_name",
						       "library_function_path",
						       "library_function_line",
						       "proportion (n)" };
	size_t nr = l->nr_rows, i, k, width, widths[NR_COLUMNS];
	const char *cells[NR_COLUMNS];
	char proportion[64];

	if (l->options->rows && nr > l->options->rows)
		nr = l->options->rows;
	for (k = 0; k < NR_COLUMNS; k++)
		widths[k] = strlen(names[k]);
	for (i = 0; i < nr; i++) {
		cells_of(l, &l->rows[i], cells, proportion);
		for (k = 0; k < NR_COLUMNS; k++) {
			width = text_columns(cells[k]);
			widths[k] = width > widths[k] ? width : widths[k];
		}
	}
	add_cells(dst, names, widths);
	for (k = 0; k < NR_COLUMNS; k++) {
		if (k)
			buf_add_char(dst, '+');
		for (i = 0; i < widths[k] + 2; i++)
			buf_add_char(dst, '-');
	}
	buf_add_char(dst, '\n');
	for (i = 0; i < nr; i++) {
		cells_of(l, &l->rows[i], cells, proportion);
		add_cells(dst, cells, widths);
	}
}

int leaf_report(struct buf *dst, const struct profile *profile,
		const struct leaf_report_options *options)
{
	struct leaves l = { .profile = profile, .options = options };
	int err = strtab_new(&l.texts, MAX_TEXT_BYTES);

	if (err)
		return err;
	l.frames = calloc(profile->nr_locations + 1, sizeof(*l.frames));
	l.same = calloc(profile->nr_locations + 1, sizeof(*l.same));
	l.rows = calloc(profile->nr_samples + 1, sizeof(*l.rows));
	err = l.frames && l.same && l.rows ? frames_make(&l) : -ENOMEM;
	if (!err)
		err = rows_make(&l);
	if (!err) {
		qsort(l.rows, l.nr_rows, sizeof(*l.rows), compare_rows);
		add_table(dst, &l);
	}
	strtab_free(l.texts);
	free(l.frames);
	free(l.same);
	free(l.rows);
	return err;
}
