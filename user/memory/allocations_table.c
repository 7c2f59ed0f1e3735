// SPDX-License-Identifier: Apache-2.0
#include "memory/allocations.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/strtab.h"
#include "base/text.h"
#include "formats/profile_text.h"
#include "memory/holders.h"
#include "memory/table.h"
#include "profile/profile.h"

#define NAMES_BYTES (8U << 20)
#define MAX_PROCESSES 8 /* with a table; the largest ones */
#define COLUMNS 92
#define FUNCTION_INDENT 54
#define CLASSES_INDENT 65
#define CLASSES_ROWS 8
#define CLASSES_LEAST 100 /* a function that allocated less than this part has no row */
#define NO_STACK "[no stack]"

struct row {
	uint32_t name;
	uint64_t bytes, blocks; /* held */
	uint64_t allocated, objects;
	struct block_classes classes;
};

struct table {
	const struct allocations *a;
	const struct profile *profile;
	struct strtab *names;
	uint32_t *of_samples; /* the name of each sample */
	struct row *rows;
	size_t nr_rows;
};

static int names_make(struct table *table)
{
	const struct profile *profile = table->profile;
	__cleanup(buf_fini) struct buf text = { .max = NAMES_BYTES };
	const struct profile_location *holder;
	size_t i;

	table->of_samples = calloc(profile->nr_samples + 1, sizeof(*table->of_samples));
	if (!table->of_samples || strtab_new(&table->names, NAMES_BYTES))
		return -ENOMEM;
	for (i = 0; i < profile->nr_samples; i++) {
		holder = holders_find(profile, profile->samples[i].stack);
		buf_reset(&text);
		if (holder)
			frame_text(&text, profile, holder);
		else
			buf_add_str(&text, NO_STACK);
		if (!buf_error(&text) && text.len)
			table->of_samples[i] = strtab_add_len(table->names, text.data, text.len);
	}
	table->nr_rows = strtab_count(table->names);
	table->rows = calloc(table->nr_rows, sizeof(*table->rows));
	return table->rows ? 0 : -ENOMEM;
}

/* Makes the rows of a process, sorted later. */
static void rows_fill(struct table *table, const struct allocation_account *account)
{
	const struct profile *profile = table->profile;
	const struct profile_sample *sample;
	struct row *row;
	size_t i;

	for (i = 0; i < table->nr_rows; i++)
		table->rows[i] = (struct row){ .name = (uint32_t)i };
	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		if (profile->processes[sample->process].kernel_pid != account->key.pid)
			continue;
		row = &table->rows[table->of_samples[i]];
		row->bytes += sample->value_ns;
		row->blocks += sample->count;
		row->allocated += profile->beside[i].value;
		row->objects += profile->beside[i].count;
		block_classes_add(&row->classes, allocations_classes(table->a, i));
	}
}

static int rows_compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	if (x->allocated != y->allocated)
		return x->allocated > y->allocated ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static int64_t mean_of(const struct row *row)
{
	return row->objects ? (int64_t)((row->allocated + row->objects / 2) / row->objects) : 0;
}

static void rows_write(const struct table *table, struct buf *dst, size_t rows,
		       const struct allocation_account *account)
{
	uint64_t all = account->held_bytes;
	const struct row *row;
	struct row left = { 0 };
	size_t shown = 0, nr_left = 0;

	buf_printf(dst, " %8s  Share    Blocks       Mean    Allocated  Function\n",
		   account->slowdown.windows ? "Outlived" : "Held");
	for (row = table->rows; row < table->rows + table->nr_rows; row++) {
		if (!row->allocated)
			continue;
		if (rows && shown++ >= rows) {
			nr_left++;
			left.bytes += row->bytes;
			left.allocated += row->allocated;
			continue;
		}
		table_amount(dst, (int64_t)row->bytes);
		buf_printf(dst, " %5.1f%%  %8" PRIu64,
			   all ? 100 * (double)row->bytes / (double)all : 0.0, row->blocks);
		table_amount(dst, mean_of(row));
		buf_add_str(dst, "  ");
		table_amount(dst, (int64_t)row->allocated);
		buf_add_str(dst, "  ");
		text_add_cut(dst, strtab_get(table->names, row->name), COLUMNS - FUNCTION_INDENT);
		buf_add_char(dst, '\n');
	}
	if (!nr_left)
		return;
	table_amount(dst, (int64_t)left.bytes);
	buf_printf(dst, "%30s", "");
	table_amount(dst, (int64_t)left.allocated);
	buf_printf(dst, "  %zu more\n", nr_left);
}

static int allocated_compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->allocated < y->allocated   ? 1
	       : x->allocated > y->allocated ? -1
					     : rows_compare(a, b);
}

/* The functions that allocated the most. rows: 0: all. */
static void classes_write(struct table *table, struct buf *dst, size_t rows,
			  const struct allocation_account *account)
{
	const struct row *row;
	uint64_t least = rows ? account->allocated_bytes / CLASSES_LEAST : 1;

	if (!account->allocated_bytes)
		return;
	qsort(table->rows, table->nr_rows, sizeof(*table->rows), allocated_compare);
	rows = !rows ? table->nr_rows : rows < CLASSES_ROWS ? rows : CLASSES_ROWS;
	buf_add_str(dst, "\nBytes that each function allocated, in percent:\n");
	block_classes_head(dst);
	buf_add_str(dst, "  Function\n");
	for (row = table->rows; row < table->rows + (rows < table->nr_rows ? rows : table->nr_rows);
	     row++) {
		if (!row->allocated || row->allocated < least)
			break;
		block_classes_write(dst, &row->classes);
		buf_add_str(dst, "  ");
		text_add_cut(dst, strtab_get(table->names, row->name), COLUMNS - CLASSES_INDENT);
		buf_add_char(dst, '\n');
	}
}

static const char *held_words(const struct allocations *a, const struct allocation_account *account)
{
	if (allocations_are_unknown(a, account))
		return " known to be held of";
	if (account->slowdown.windows)
		return " outlived its window, of";
	if (a->question == MEMORY_PEAK)
		return " held at the peak, of";
	if (a->question == MEMORY_LEAKS)
		return " held for half of the time, by stacks that gave little back, of";
	return " held of";
}

static void process_write(struct table *table, struct buf *dst,
			  const struct allocation_account *account, size_t rows)
{
	const struct slowdown *slowdown = &account->slowdown;

	buf_printf(dst, "Process %u: ", account->own_pid);
	text_add_cut(dst, *account->name ? account->name : "?", COLUMNS);
	buf_add_char(dst, '\n');
	table_amount(dst, (int64_t)account->held_bytes);
	buf_add_str(dst, held_words(table->a, account));
	table_amount(dst, (int64_t)account->allocated_bytes);
	buf_add_str(dst, " allocated since the start\n");
	if (allocations_are_unknown(table->a, account))
		buf_add_str(dst, "Its calls were watched in windows, so what it held is not known; "
				 "--max-slowdown 0\nwatches all of them.\n");
	else if (slowdown->windows)
		buf_printf(dst,
			   "Seen in windows of %" PRIu64
			   " ms, at most %.1f%% of its CPU time: sums "
			   "are scaled up by\nthat. Blocks that outlived a window may be freed "
			   "since.\n",
			   slowdown->window_ns / slowdown->windows / 1000000,
			   100 * slowdown_seen(slowdown));
	buf_add_char(dst, '\n');
	rows_fill(table, account);
	qsort(table->rows, table->nr_rows, sizeof(*table->rows), rows_compare);
	rows_write(table, dst, rows, account);
	classes_write(table, dst, rows, account);
	buf_add_char(dst, '\n');
}

static int accounts_compare(const void *a, const void *b)
{
	const struct allocation_account *const *x = a, *const *y = b;

	if ((*x)->held_bytes != (*y)->held_bytes)
		return (*x)->held_bytes > (*y)->held_bytes ? -1 : 1;
	if ((*x)->allocated_bytes != (*y)->allocated_bytes)
		return (*x)->allocated_bytes > (*y)->allocated_bytes ? -1 : 1;
	return (*x)->key.pid < (*y)->key.pid ? -1 : (*x)->key.pid > (*y)->key.pid;
}

static int processes_write(struct table *table, struct buf *dst, size_t rows)
{
	const struct hash_table *accounts = &table->a->accounts;
	__cleanup(free_mem) const struct allocation_account **order =
		calloc(accounts->nr + 1, sizeof(*order));
	struct allocation_account *account;
	size_t nr = 0, i;

	if (!order)
		return -ENOMEM;
	hash_table_each(accounts, account)
		if (account->allocated_bytes)
			order[nr++] = account;
	qsort(order, nr, sizeof(*order), accounts_compare);
	for (i = 0; i < nr && i < MAX_PROCESSES; i++)
		process_write(table, dst, order[i], rows);
	if (nr > i)
		buf_printf(dst, "%zu more process%s\n", nr - i, nr - i == 1 ? "" : "es");
	if (!nr)
		buf_add_str(dst, "No allocation of a watched process was seen.\n");
	return 0;
}

static void missing_write(struct buf *dst, const struct allocations *a)
{
	uint64_t blocks = allocations_missing_blocks(a);
	uint64_t processes = allocations_missing_processes(a);

	if (blocks)
		buf_printf(dst, "Missing: %" PRIu64 " sampled block%s; --stats has the reasons\n",
			   blocks, blocks == 1 ? "" : "s");
	if (processes)
		buf_printf(dst, "Not watched: %" PRIu64 " process%s; --stats has the reasons\n",
			   processes, processes == 1 ? "" : "es");
}

int allocations_table(struct buf *dst, const struct allocations *a, const struct profile *profile,
		      size_t rows)
{
	struct table table = { .a = a, .profile = profile };
	int err = names_make(&table);

	if (!err && a->question == MEMORY_PEAK && a->answer.ns)
		buf_printf(dst, "The most memory was held %.1f s after the start.\n\n",
			   (double)(a->answer.ns - a->start_ns) / 1e9);
	if (!err)
		err = processes_write(&table, dst, rows);
	if (!err && a->question != MEMORY_LEAKS) {
		buf_add_str(dst, "Sampling error of what is held:");
		table_amount(dst, (int64_t)(2 * sqrt(a->answer.variance + a->variance)));
		buf_add_str(dst, " (2 standard deviations)\n");
	}
	missing_write(dst, a);
	strtab_free(table.names);
	free(table.of_samples);
	free(table.rows);
	return err;
}
