// SPDX-License-Identifier: Apache-2.0
#include "memory/table.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/strtab.h"
#include "base/text.h"
#include "formats/profile_text.h"
#include "memory/monitor.h"
#include "memory/resident.h"
#include "profile/profile.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define NAMES_BYTES (8U << 20)
#define MAX_PROCESSES 8 /* with a table; the largest ones */
#define COLUMNS 80
#define FUNCTION_INDENT 30
#define NO_STACK "[no stack]"

/* Libraries that hold memory for others, by the beginnings of their names. */
static const char *const allocators[] = { "libc.so",	 "libc-",      "libc.musl",   "ld-linux",
					  "ld-musl",	 "libstdc++",  "libjemalloc", "libtcmalloc",
					  "libmimalloc", "libpthread", "[vdso]" };
/* The same in programs that have them inside. */
static const char *const functions[] = { "malloc",	 "calloc",  "realloc",	"memset",
					 "memcpy",	 "memmove", "_int_",	"sysmalloc",
					 "operator new", "__libc_", "__memset", "__memcpy",
					 "__memmove",	 "mmap" };

struct row {
	uint32_t name;
	int64_t bytes;
	uint64_t pages; /* large ones are one; 0: not known */
};

struct table {
	const struct memory_monitor *monitor;
	const struct profile *profile;
	struct strtab *names;
	uint32_t *locations; /* the name of each location */
	struct row *rows; /* by name until they are sorted */
	size_t nr_rows;
};

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

const struct profile_location *table_holder(const struct profile *profile,
					    const struct profile_stack *stack)
{
	const struct profile_location *location, *native = NULL, *leaf = NULL;
	uint32_t i;

	for (i = 0; i < stack->nr; i++) {
		location = &profile->locations[profile->stack_locations[stack->first + i]];
		if (location->kind == LOCATION_PYTHON)
			return location;
		leaf = leaf ? leaf : location;
		if (!native && location->kind == LOCATION_NATIVE &&
		    !is_allocator(profile, location))
			native = location;
	}
	return native ? native : leaf;
}

static int names_make(struct table *table)
{
	const struct profile *profile = table->profile;
	__cleanup(buf_fini) struct buf text = { .max = NAMES_BYTES };
	size_t i;

	table->locations = calloc(profile->nr_locations + 1, sizeof(*table->locations));
	if (!table->locations || strtab_new(&table->names, NAMES_BYTES))
		return -ENOMEM;
	strtab_add(table->names, NO_STACK); /* these two rows may be missing in the profile */
	strtab_add(table->names, MEMORY_DRIFT);
	for (i = 0; i < profile->nr_locations; i++) {
		buf_reset(&text);
		frame_text(&text, profile, &profile->locations[i]);
		if (!buf_error(&text) && text.len)
			table->locations[i] = strtab_add_len(table->names, text.data, text.len);
	}
	table->nr_rows = strtab_count(table->names);
	table->rows = calloc(table->nr_rows, sizeof(*table->rows));
	return table->rows ? 0 : -ENOMEM;
}

/* Makes the rows of a process, sorted later. */
static void rows_fill(struct table *table, const struct resident *resident)
{
	const struct profile *profile = table->profile;
	int64_t drift = resident_drift(resident);
	const struct profile_location *holder;
	const struct profile_sample *sample;
	struct row *row;
	size_t i;

	for (i = 0; i < table->nr_rows; i++)
		table->rows[i] = (struct row){ .name = (uint32_t)i };
	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		if (profile->processes[sample->process].kernel_pid != resident->key.pid)
			continue;
		holder = table_holder(profile, &profile->stacks[sample->stack]);
		row = &table->rows[holder ? table->locations[holder - profile->locations]
					  : strtab_add(table->names, NO_STACK)];
		row->bytes += (int64_t)sample->value_ns;
		row->pages += sample->count;
	}
	if (drift < 0) /* a profile has no room for it */
		table->rows[strtab_add(table->names, MEMORY_DRIFT)].bytes = drift;
}

static int rows_compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

void table_amount(struct buf *dst, int64_t bytes)
{
	double size = (double)bytes;

	if (bytes > -1024 && bytes < 1024)
		buf_printf(dst, "%7" PRId64 " B  ", bytes);
	else if (bytes > -(1 << 20) && bytes < 1 << 20)
		buf_printf(dst, "%7.1f KiB", size / 1024);
	else if (bytes > -(1LL << 30) && bytes < 1LL << 30)
		buf_printf(dst, "%7.1f MiB", size / (1 << 20));
	else
		buf_printf(dst, "%7.2f GiB", size / (1 << 30));
}

static void rows_write(const struct table *table, struct buf *dst, size_t rows, uint64_t all)
{
	const struct row *row;
	size_t shown = 0, left = 0;
	int64_t left_bytes = 0;

	buf_add_str(dst, "     Held  Share     Pages  Function\n");
	for (row = table->rows; row < table->rows + table->nr_rows; row++) {
		const char *name = strtab_get(table->names, row->name);

		if (!row->bytes)
			continue;
		if (rows && shown >= rows && strcmp(name, MEMORY_DRIFT) != 0) {
			left++;
			left_bytes += row->bytes;
			continue;
		}
		shown++;
		table_amount(dst, row->bytes);
		buf_printf(dst, " %5.1f%%", all ? 100 * (double)row->bytes / (double)all : 0.0);
		if (row->pages > 1)
			buf_printf(dst, "  %8" PRIu64 "  ", row->pages);
		else
			buf_printf(dst, "  %8s  ", "");
		text_add_cut(dst, name, COLUMNS - FUNCTION_INDENT);
		buf_add_char(dst, '\n');
	}
	if (!left)
		return;
	table_amount(dst, left_bytes);
	buf_printf(dst, "%*s%zu more\n", FUNCTION_INDENT - 11, "", left);
}

static void process_write(struct table *table, struct buf *dst, const struct resident *resident,
			  size_t rows)
{
	buf_printf(dst, "Process %u: ", resident->own_pid);
	text_add_cut(dst, *resident->name ? resident->name : "?", COLUMNS);
	buf_add_str(dst, "\n");
	table_amount(dst, (int64_t)resident->rss.anon_bytes);
	buf_add_str(dst, " anonymous,");
	table_amount(dst, (int64_t)resident->rss.file_bytes);
	buf_add_str(dst, " of files,");
	table_amount(dst, (int64_t)resident->rss.shared_bytes);
	buf_add_str(dst, " shared\n\n");
	rows_fill(table, resident);
	qsort(table->rows, table->nr_rows, sizeof(*table->rows), rows_compare);
	rows_write(table, dst, rows, resident->rss.anon_bytes);
	buf_add_char(dst, '\n');
}

static int residents_compare(const void *a, const void *b)
{
	const struct resident *const *x = a, *const *y = b;

	if ((*x)->rss.anon_bytes != (*y)->rss.anon_bytes)
		return (*x)->rss.anon_bytes > (*y)->rss.anon_bytes ? -1 : 1;
	return (*x)->key.pid < (*y)->key.pid ? -1 : (*x)->key.pid > (*y)->key.pid;
}

static int processes_write(struct table *table, struct buf *dst, size_t rows)
{
	const struct hash_table *residents = &table->monitor->residents;
	__cleanup(free_mem) const struct resident **order =
		calloc(residents->nr + 1, sizeof(*order));
	struct resident *resident;
	size_t nr = 0, i;

	if (!order)
		return -ENOMEM;
	hash_table_each(residents, resident)
		if (resident->rss.anon_bytes)
			order[nr++] = resident;
	qsort(order, nr, sizeof(*order), residents_compare);
	for (i = 0; i < nr && i < MAX_PROCESSES; i++)
		process_write(table, dst, order[i], rows);
	if (nr > i)
		buf_printf(dst, "%zu more process%s\n", nr - i, nr - i == 1 ? "" : "es");
	if (!nr)
		buf_add_str(dst, "No process with memory was watched.\n");
	return 0;
}

int memory_table(struct buf *dst, const struct memory_monitor *monitor,
		 const struct profile *profile, size_t rows)
{
	struct table table = { .monitor = monitor, .profile = profile };
	int err = names_make(&table);

	if (!err)
		err = processes_write(&table, dst, rows);
	if (!err) {
		buf_printf(dst, "Sampling error of the sum:");
		table_amount(dst, (int64_t)(2 * sqrt(monitor->variance)));
		buf_printf(dst, " (2 standard deviations)\n");
	}
	strtab_free(table.names);
	free(table.locations);
	free(table.rows);
	return err;
}
