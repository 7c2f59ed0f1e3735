// SPDX-License-Identifier: Apache-2.0
/*
 * Slow, not hung: the same operation with as many bytes, on as many ranks, in several files or
 * ranks. What is compared is the time until it was seen to be complete, and the host's in the call.
 */
#include "output/nccl_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "output/units.h"
#include "profile/gpu_read.h"

#define SAME_BYTES 1.1 /* bytes per call that differ by less are compared: those are means */
#define MAX_NAME 32 /* columns */

/* An operation on one communicator, in one process. */
struct row {
	const char *operation, *datatype;
	uint32_t process;
	size_t index; /* in what was read */
	uint64_t comm_va;
	const struct gpu_read_comm *comm; /* NULL: not known */
	uint32_t size; /* of it, 0: not known */
	double bytes; /* per call */
	double calls, returned, ns, max_ns;
	double mean_ns; /* 0: not known */
	double within_ns; /* of all: by how much it may have been less */
};

/* Rows that can be compared. */
struct set {
	struct row *rows;
	size_t nr;
	double least_bytes, most_bytes;
	double ratio; /* of the slowest to the fastest; 0: there are no two */
	double ns;
};

static int compare_kind(const struct row *a, const struct row *b)
{
	int order = strcmp(a->operation, b->operation);

	if (!order)
		order = strcmp(a->datatype, b->datatype);
	if (!order && a->size != b->size)
		order = a->size < b->size ? -1 : 1;
	return order;
}

static int compare_bytes(const void *first, const void *second)
{
	const struct row *a = first, *b = second;
	int order = compare_kind(a, b);

	if (order)
		return order;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

static int compare_source(const void *first, const void *second)
{
	const struct row *a = first, *b = second;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if (a->comm_va != b->comm_va)
		return a->comm_va < b->comm_va ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

static int compare_mean(const void *first, const void *second)
{
	const struct row *a = first, *b = second;

	if (a->mean_ns != b->mean_ns)
		return a->mean_ns > b->mean_ns ? -1 : 1;
	return compare_source(first, second);
}

static int compare_sets(const void *first, const void *second)
{
	const struct set *a = first, *b = second;

	if (a->ratio != b->ratio)
		return a->ratio > b->ratio ? -1 : 1;
	if (a->ns != b->ns)
		return a->ns > b->ns ? -1 : 1;
	return a->rows < b->rows ? -1 : a->rows > b->rows;
}

/* Finds the communicator of a row. */
static void comm_find(const struct gpu_read *read, struct row *row)
{
	row->comm = gpu_read_comm_of(read, row->process, row->comm_va);
	row->size = row->comm && row->comm->known ? row->comm->size : 0;
}

/* Calls are counted when they begin, their time when they end. */
static double nr_open(const struct gpu_read *read, const struct gpu_read_operation *operation)
{
	const struct gpu_read_range *range = &read->processes[operation->process].open;
	const struct gpu_read_open *open;
	double nr = 0;
	size_t i;

	for (i = 0; i < range->nr; i++) {
		open = &read->open[range->first + i];
		nr += open->comm == operation->comm && open->stream == operation->stream &&
		      !strcmp(open->function, operation->operation);
	}
	return nr;
}

static size_t rows_fill(const struct gpu_read *read, struct row *rows)
{
	const struct gpu_read_operation *operation;
	struct row *row;
	size_t nr = 0, i;

	for (i = 0; i < read->nr_operations; i++) {
		operation = &read->operations[i];
		if (operation->captured)
			continue;
		row = &rows[nr++];
		*row = (struct row){ .operation = operation->operation,
				     .datatype = operation->datatype,
				     .process = operation->process,
				     .index = i,
				     .comm_va = operation->comm,
				     .calls = (double)operation->calls,
				     .bytes = (double)operation->bytes / (double)operation->calls,
				     .ns = (double)operation->ns,
				     .max_ns = (double)operation->max_ns };
		comm_find(read, row);
		row->returned = row->calls - nr_open(read, operation);
	}
	return nr;
}

static size_t completions_fill(const struct gpu_read *read, struct row *rows)
{
	const struct gpu_read_completion *completion;
	size_t nr = 0, i;

	for (i = 0; i < read->nr_completions; i++) {
		completion = &read->completions[i];
		if (!completion->count)
			continue;
		rows[nr] = (struct row){ .operation = completion->operation,
					 .datatype = completion->datatype,
					 .process = completion->process,
					 .index = i,
					 .comm_va = completion->comm,
					 .calls = (double)completion->count,
					 .returned = (double)completion->count,
					 .bytes = (double)completion->bytes,
					 .ns = (double)completion->ns,
					 .max_ns = (double)completion->max_ns,
					 .within_ns = (double)completion->within_ns };
		comm_find(read, &rows[nr++]);
	}
	return nr;
}

/* One row for each process and communicator: several streams, roots or peers are one. */
static void set_merge(struct set *set)
{
	struct row *row, *to = NULL;
	size_t nr = 0, i;

	qsort(set->rows, set->nr, sizeof(*set->rows), compare_source);
	for (i = 0; i < set->nr; i++) {
		row = &set->rows[i];
		if (to && to->process == row->process && to->comm_va == row->comm_va) {
			to->calls += row->calls;
			to->returned += row->returned;
			to->ns += row->ns;
			to->within_ns += row->within_ns;
			if (row->max_ns > to->max_ns)
				to->max_ns = row->max_ns;
		} else {
			to = &set->rows[nr++];
			*to = *row;
		}
	}
	set->nr = nr;
}

static void set_finish(struct set *set)
{
	double fastest = 0, slowest = 0;
	size_t i, nr = 0;
	struct row *row;

	set->least_bytes = set->rows[0].bytes;
	set->most_bytes = set->rows[set->nr - 1].bytes;
	set_merge(set);
	for (i = 0; i < set->nr; i++) {
		row = &set->rows[i];
		set->ns += row->ns;
		if (row->returned < 1 || row->ns <= 0)
			continue;
		row->mean_ns = row->ns / row->returned;
		if (!nr || row->mean_ns < fastest)
			fastest = row->mean_ns;
		if (!nr || row->mean_ns > slowest)
			slowest = row->mean_ns;
		nr++;
	}
	qsort(set->rows, set->nr, sizeof(*set->rows), compare_mean);
	set->ratio = nr > 1 ? slowest / fastest : 0;
}

static size_t sets_fill(struct set *sets, struct row *rows, size_t nr)
{
	size_t nr_sets = 0, first, next;

	qsort(rows, nr, sizeof(*rows), compare_bytes);
	for (first = 0; first < nr; first = next) {
		for (next = first + 1; next < nr; next++)
			if (compare_kind(&rows[first], &rows[next]) ||
			    rows[next].bytes > SAME_BYTES * rows[first].bytes)
				break;
		sets[nr_sets] = (struct set){ .rows = &rows[first], .nr = next - first };
		set_finish(&sets[nr_sets++]);
	}
	qsort(sets, nr_sets, sizeof(*sets), compare_sets);
	return nr_sets;
}

static uint64_t whole(double value)
{
	return value < 0x1p63 ? (uint64_t)value : UINT64_C(1) << 63;
}

static void add_time(struct nccl_writer *w, const char *mark, double ns)
{
	char text[UNITS_TEXT], cell[UNITS_TEXT + 4];

	snprintf(cell, sizeof(cell), "%s%s", mark, units_ns(text, whole(ns)));
	buf_printf(w->dst, "%11s  ", ns > 0 ? cell : "-");
}

static void add_row(struct nccl_writer *w, const struct row *row, bool completions)
{
	const char *mark = completions ? "<= " : "";
	char text[UNITS_TEXT];

	buf_add_str(w->dst, "  ");
	add_time(w, mark, row->mean_ns);
	add_time(w, mark, row->max_ns);
	if (completions)
		add_time(w, "", row->within_ns / row->calls);
	buf_printf(w->dst, "%9s  ", units_count(text, whole(row->calls)));
	if (row->comm && row->comm->known)
		buf_printf(w->dst, "%6" PRIu32 "  ", row->comm->rank);
	else
		buf_printf(w->dst, "%6s  ", "?");
	nccl_add_process(w, &w->read->processes[row->process]);
	buf_add_char(w->dst, '\n');
}

static void add_set(struct nccl_writer *w, const struct set *set, bool completions)
{
	const struct row *first = &set->rows[0];
	/* Its fastest row is the last one, and always shown. */
	size_t shown = set->nr <= w->rows ? set->nr : w->rows - 1, i;
	char text[UNITS_TEXT];

	buf_add_str(w->dst, "\n  ");
	nccl_add_name(w, first->operation, MAX_NAME);
	buf_add_char(w->dst, ' ');
	nccl_add_name(w, first->datatype, MAX_NAME);
	buf_printf(w->dst, ", %s%s each, ", set->least_bytes < set->most_bytes ? "about " : "",
		   units_bytes(text, whole(set->most_bytes)));
	if (first->size)
		buf_printf(w->dst, "%" PRIu32 " %s", first->size,
			   first->size == 1 ? "rank" : "ranks");
	else
		buf_add_str(w->dst, "ranks not known");
	if (set->ratio > 0)
		buf_printf(w->dst, set->ratio < 10 ? ": %.1f times" : ": %.0f times", set->ratio);
	buf_printf(w->dst, "\n  %11s  %11s  ", "Mean", "Longest");
	if (completions)
		buf_printf(w->dst, "%11s  ", "Within");
	buf_printf(w->dst, "%9s  %6s  Process\n", "Calls", "Rank");
	for (i = 0; i < shown; i++)
		add_row(w, &set->rows[i], completions);
	if (shown == set->nr)
		return;
	if (set->nr - shown > 1)
		buf_printf(w->dst, "  ... %zu more\n", set->nr - shown - 1);
	add_row(w, &set->rows[set->nr - 1], completions);
}

static int add_sets(struct nccl_writer *w, size_t nr, bool completions)
{
	__cleanup(free_mem) struct row *rows = calloc(nr + 1, sizeof(*rows));
	__cleanup(free_mem) struct set *sets = calloc(nr + 1, sizeof(*sets));
	size_t nr_sets, shown, i;

	if (!rows || !sets)
		return -ENOMEM;
	if (completions)
		nr = completions_fill(w->read, rows);
	else
		nr = rows_fill(w->read, rows);
	nr_sets = sets_fill(sets, rows, nr);
	shown = nr_sets < w->rows ? nr_sets : w->rows;
	for (i = 0; i < shown; i++)
		add_set(w, &sets[i], completions);
	if (shown < nr_sets)
		buf_printf(w->dst, "\n  ... and %zu more operations\n", nr_sets - shown);
	return 0;
}

int nccl_add_times(struct nccl_writer *w)
{
	int err = 0;

	if (w->read->nr_completions) {
		buf_add_str(
			w->dst,
			"\nTime until collectives were seen to be complete, the slowest against "
			"the fastest;\nWithin: so much earlier they may have been\n");
		err = add_sets(w, w->read->nr_completions, true);
	}
	if (err || !w->read->nr_operations)
		return err;
	buf_add_str(w->dst,
		    "\nTime in calls on the host, the slowest against the fastest; what the GPU "
		    "does after\na call has returned is not in it\n");
	return add_sets(w, w->read->nr_operations, false);
}
