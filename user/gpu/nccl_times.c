// SPDX-License-Identifier: Apache-2.0
/*
 * Finds ranks and runs that are slow but do not hang: compares the times of one operation with
 * equal bytes. Within a run only ranks of one communicator are compared: another group with as many
 * ranks may have another use, and its ranks may be further apart. No communicator is in two runs,
 * so runs are compared by the number of ranks. Both the times until the completion was seen and the
 * host's times in the call are compared.
 */
#include "gpu/nccl_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "gpu/report_read.h"

#define SAME_BYTES 1.1 /* bytes per call are means: a smaller difference counts as equal */
#define MAX_NAME 32 /* columns */

/* An operation on one communicator, in one process. */
struct row {
	const char *operation, *datatype;
	const struct gpu_read_process *process;
	size_t index; /* position in the input */
	uint64_t comm_va;
	const struct gpu_report_comm *comm; /* NULL: not known */
	uint32_t size; /* ranks of the communicator, 0: not known */
	uint64_t hash; /* hash of the communicator, 0: not known */
	uint32_t run;
	double bytes; /* per call */
	double calls, returned, ns, max_ns;
	double mean_ns; /* 0: not known */
	double within_ns; /* the sum of all times may be this much too high */
};

/* Rows that can be compared. */
struct set {
	struct row *rows;
	size_t nr;
	/* All rows are of one communicator, and other sets are of other communicators. */
	bool of_comm;
	bool mixed; /* a run has several communicators in this set */
	double least_bytes, most_bytes;
	double ratio; /* slowest to fastest; 0: there are no two rows */
	double ns;
};

static int compare_kind(const struct row *a, const struct row *b)
{
	return strcmp(a->operation, b->operation) ?: strcmp(a->datatype, b->datatype) ?:
		       GPU_ORDER(a->size, b->size);
}

static int compare_bytes(const void *first, const void *second)
{
	const struct row *a = first, *b = second;

	return compare_kind(a, b) ?: GPU_ORDER(a->bytes, b->bytes) ?: GPU_ORDER(a->index, b->index);
}

/* Sorts by run and communicator, then by bytes. */
static int compare_comm(const void *first, const void *second)
{
	const struct row *a = first, *b = second;

	return GPU_ORDER(a->run, b->run) ?: GPU_ORDER(a->hash, b->hash) ?:
	       compare_bytes(first, second);
}

static int compare_source(const void *first, const void *second)
{
	const struct row *a = first, *b = second;

	return GPU_ORDER(a->process, b->process) ?: GPU_ORDER(a->comm_va, b->comm_va) ?:
	       GPU_ORDER(a->index, b->index);
}

static int compare_mean(const void *first, const void *second)
{
	const struct row *a = first, *b = second;

	return GPU_ORDER(b->mean_ns, a->mean_ns) ?: compare_source(first, second);
}

static int compare_sets(const void *first, const void *second)
{
	const struct set *a = first, *b = second;

	return GPU_ORDER(b->ratio, a->ratio) ?: GPU_ORDER(b->ns, a->ns) ?:
	       GPU_ORDER(b->of_comm, a->of_comm) ?: GPU_ORDER(a->rows, b->rows);
}

/* Finds the communicator of a row, and its run. */
static void comm_find(const uint32_t *runs, struct row *row)
{
	row->comm = gpu_report_comm_of(row->process->report, row->comm_va);
	row->size = row->comm && row->comm->known ? row->comm->size : 0;
	row->hash = row->comm && row->comm->known ? row->comm->hash : 0;
	row->run = runs[row->process->file];
}

/* The number of open calls. A call counts from its begin, but its time is added at its end. */
static double nr_open(const struct gpu_report_process *process,
		      const struct gpu_report_collective *collective)
{
	const struct gpu_report_open *open;
	double nr = 0;
	size_t i;

	for (i = 0; i < process->nr_open; i++) {
		open = &process->open[i];
		nr += open->comm == collective->comm && open->stream == collective->stream &&
		      !strcmp(open->function, collective->operation);
	}
	return nr;
}

static size_t rows_fill(const struct gpu_read_process *process, const uint32_t *runs,
			struct row *rows, size_t nr)
{
	const struct gpu_report_collective *collective;
	size_t i;

	for (i = 0; i < process->report->nr_collectives; i++) {
		collective = &process->report->collectives[i];
		if (collective->captured)
			continue;
		rows[nr] = (struct row){ .operation = collective->operation,
					 .datatype = collective->datatype,
					 .process = process,
					 .index = nr,
					 .comm_va = collective->comm,
					 .calls = (double)collective->calls,
					 .bytes = (double)collective->bytes /
						  (double)collective->calls,
					 .ns = (double)collective->ns,
					 .max_ns = (double)collective->max_ns };
		rows[nr].returned = rows[nr].calls - nr_open(process->report, collective);
		comm_find(runs, &rows[nr++]);
	}
	return nr;
}

static size_t completions_fill(const struct gpu_read_process *process, const uint32_t *runs,
			       struct row *rows, size_t nr)
{
	const struct gpu_report_completion *completion;
	size_t i;

	for (i = 0; i < process->report->nr_completions; i++) {
		completion = &process->report->completions[i];
		if (!completion->count)
			continue;
		rows[nr] = (struct row){ .operation = completion->operation,
					 .datatype = completion->datatype,
					 .process = process,
					 .index = nr,
					 .comm_va = completion->comm,
					 .calls = (double)completion->count,
					 .returned = (double)completion->count,
					 .bytes = (double)completion->bytes,
					 .ns = (double)completion->ns,
					 .max_ns = (double)completion->max_ns,
					 .within_ns = (double)completion->within_ns };
		comm_find(runs, &rows[nr++]);
	}
	return nr;
}

/*
 * Sets in progress. There is room in copies for one copy of each row, and in sets for a set of each
 * copy.
 */
struct sets {
	struct set *sets;
	size_t nr;
	struct row *copies; /* the unused copies */
};

/* Merges rows of one process and communicator that differ in stream, root or peer. */
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

static void set_add(struct sets *to, const struct set *set)
{
	to->sets[to->nr] = *set;
	set_finish(&to->sets[to->nr++]);
}

/*
 * Adds sets for rows of one communicator, which are next to each other, if there are `least`
 * rows.
 */
static void sets_of_comms(struct sets *to, struct row *rows, size_t nr, size_t least)
{
	size_t first, next;

	for (first = 0; first < nr; first = next) {
		for (next = first + 1; next < nr; next++)
			if (rows[next].hash != rows[first].hash ||
			    rows[next].run != rows[first].run)
				break;
		if (next - first >= least)
			set_add(to, &(struct set){ .rows = &rows[first],
						   .nr = next - first,
						   .of_comm = rows[first].hash });
	}
}

/*
 * Splits rows of one operation and size, on communicators of as many ranks, by communicator if a
 * run has several. Runs are compared nevertheless, and the set is marked as mixed.
 */
static void sets_split(struct sets *to, struct row *rows, size_t nr)
{
	bool several_runs = false, mixed = false;
	struct row *copies = to->copies;
	size_t i;

	memcpy(copies, rows, nr * sizeof(*rows));
	qsort(copies, nr, sizeof(*copies), compare_comm);
	for (i = 1; i < nr; i++) {
		several_runs |= copies[i].run != copies[0].run;
		mixed |= copies[i].run == copies[i - 1].run && copies[i].hash != copies[i - 1].hash;
	}
	if (mixed) {
		to->copies += nr;
		sets_of_comms(to, copies, nr, several_runs ? 2 : 1);
	}
	if (!mixed || several_runs)
		set_add(to, &(struct set){ .rows = rows, .nr = nr, .mixed = mixed });
}

static void sets_fill(struct sets *to, struct row *rows, size_t nr)
{
	size_t first, next;

	qsort(rows, nr, sizeof(*rows), compare_bytes);
	for (first = 0; first < nr; first = next) {
		for (next = first + 1; next < nr; next++)
			if (compare_kind(&rows[first], &rows[next]) ||
			    rows[next].bytes > SAME_BYTES * rows[first].bytes)
				break;
		sets_split(to, &rows[first], next - first);
	}
	qsort(to->sets, to->nr, sizeof(*to->sets), compare_sets);
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
	nccl_add_process(w, row->process);
	buf_add_char(w->dst, '\n');
}

static void add_set(struct nccl_writer *w, const struct set *set, bool completions)
{
	const struct row *first = &set->rows[0];
	/* The fastest row is the last one, and always shown. */
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
	if (set->of_comm)
		buf_printf(w->dst, ", communicator 0x%" PRIx64, first->hash);
	if (set->ratio > 0)
		buf_printf(w->dst, set->ratio < 10 ? ": %.1f times" : ": %.0f times", set->ratio);
	if (set->mixed)
		buf_add_str(w->dst,
			    "\n  (one run has several communicators of that size: which of them "
			    "match those\n  of another run is not known)");
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

static int add_sets(struct nccl_writer *w, size_t max, bool completions)
{
	__cleanup(free_mem) struct row *rows = calloc(max + 1, sizeof(*rows));
	__cleanup(free_mem) struct row *copies = calloc(max + 1, sizeof(*copies));
	__cleanup(free_mem) struct set *of = calloc(2 * max + 1, sizeof(*of));
	__cleanup(free_mem) uint32_t *runs = NULL;
	struct sets sets = { .sets = of, .copies = copies };
	const struct gpu_read_process *process;
	size_t nr = 0, shown, i;

	if (nccl_runs(w->read, &runs) || !rows || !copies || !of)
		return -ENOMEM;
	for (i = 0; i < w->read->nr_processes; i++) {
		process = &w->read->processes[i];
		nr = completions ? completions_fill(process, runs, rows, nr)
				 : rows_fill(process, runs, rows, nr);
	}
	sets_fill(&sets, rows, nr);
	shown = sets.nr < w->rows ? sets.nr : w->rows;
	for (i = 0; i < shown; i++)
		add_set(w, &of[i], completions);
	if (shown < sets.nr)
		buf_printf(w->dst, "\n  ... and %zu more operations\n", sets.nr - shown);
	return 0;
}

int nccl_add_times(struct nccl_writer *w)
{
	int err = 0;

	if (w->read->nr_completions) {
		buf_add_str(
			w->dst,
			"\nTime until collectives were seen to be complete, the slowest against "
			"the fastest;\nWithin: the real end may be this much earlier\n");
		err = add_sets(w, w->read->nr_completions, true);
	}
	if (err || !w->read->nr_collectives)
		return err;
	buf_add_str(w->dst,
		    "\nTime in calls on the host, the slowest against the fastest; the work of the "
		    "GPU after\na call has returned is not included\n");
	return add_sets(w, w->read->nr_collectives, false);
}
