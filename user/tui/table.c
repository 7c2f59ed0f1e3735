// SPDX-License-Identifier: Apache-2.0
#include "tui/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "profile/live.h"
#include "tui/width.h"

/* A narrower terminal shows no times, and no %Total. */
#define COLUMNS_FOR_TIMES 60
#define COLUMNS_FOR_TOTAL 40
#define COLUMNS_FOR_PID 30
#define COLUMNS_FOR_CALLS 70
#define COLUMNS_FOR_WIDE_COMM 100
#define COLUMNS_FOR_POD 120
#define COMM_MAX 15
#define POD_COLUMNS 30

struct sorting {
	const struct live *live;
	uint32_t view;
	enum table_sort sort;
};

static uint64_t sort_key(const struct live_row *row, uint32_t view, enum table_sort sort)
{
	switch (sort) {
	case TABLE_OWN:
		return row->now.own_ns[view];
	case TABLE_TOTAL:
		return row->now.total_ns[view];
	case TABLE_OWN_TIME:
		return row->ever.own_ns[view];
	default:
		return row->ever.total_ns[view];
	}
}

/*
 * Sorts the largest first; equal rows by the other columns, then by name, so that rows keep their
 * place.
 */
static int row_compare(const void *a, const void *b, void *arg)
{
	static const enum table_sort then[] = { TABLE_OWN, TABLE_OWN_TIME, TABLE_TOTAL,
						TABLE_TOTAL_TIME };
	const struct live_row *x = *(const struct live_row *const *)a;
	const struct live_row *y = *(const struct live_row *const *)b;
	const struct sorting *s = arg;
	uint64_t key_x = sort_key(x, s->view, s->sort), key_y = sort_key(y, s->view, s->sort);
	size_t i;
	int order;

	for (i = 0; key_x == key_y && i < sizeof(then) / sizeof(then[0]); i++) {
		key_x = sort_key(x, s->view, then[i]);
		key_y = sort_key(y, s->view, then[i]);
	}
	if (key_x != key_y)
		return key_x > key_y ? -1 : 1;
	order = strcmp(live_text(s->live, x->text), live_text(s->live, y->text));
	if (order)
		return order;
	return x->process < y->process ? -1 : x->process > y->process;
}

static void process_name(char *dst, size_t cap, const struct live *live, uint32_t index)
{
	const struct live_process *processes;
	size_t nr;

	processes = live_processes(live, &nr);
	if (index < nr)
		snprintf(dst, cap, "%u %s %s", processes[index].pid, processes[index].comm,
			 processes[index].pod);
	else
		dst[0] = 0;
}

static bool is_shown(const struct live *live, const struct live_row *row,
		     const struct table_options *options)
{
	char process[32 + LIVE_NAME_LEN + LIVE_POD_LEN];

	if (!(row->kinds & (options->lines ? LIVE_LINE : LIVE_FUNCTION)) ||
	    !row->ever.total_ns[options->view])
		return false;
	if (options->process != LIVE_ALL && row->process != options->process)
		return false;
	if (!options->filter || !options->filter[0])
		return true;
	if (strcasestr(live_text(live, row->text), options->filter))
		return true;
	if (!options->process_column)
		return false;
	process_name(process, sizeof(process), live, row->process);
	return strcasestr(process, options->filter);
}

const struct live_row **table_rows(const struct live *live, const struct table_options *options,
				   size_t *ret_nr)
{
	struct sorting sorting = { .live = live, .view = options->view, .sort = options->sort };
	const struct live_row *all, **rows;
	size_t nr_all, nr = 0, i;

	all = live_rows(live, &nr_all);
	rows = malloc((nr_all + 1) * sizeof(struct live_row *));
	if (!rows)
		return NULL;
	for (i = 0; i < nr_all; i++)
		if (is_shown(live, &all[i], options))
			rows[nr++] = &all[i];
	qsort_r(rows, nr, sizeof(struct live_row *), row_compare, &sorting);
	*ret_nr = nr;
	return rows;
}

static bool has_columns(const struct table_options *options, size_t columns)
{
	return !options->columns || options->columns >= columns;
}

/* Columns of the pod, with the blank before it. */
static size_t pod_columns(const struct table_options *options)
{
	return options->process_column && options->pod_column &&
			       has_columns(options, COLUMNS_FOR_POD)
		       ? 1 + POD_COLUMNS
		       : 0;
}

/* Columns of the process, without the blanks after it. */
static size_t process_columns(const struct table_options *options)
{
	if (!options->process_column || !has_columns(options, COLUMNS_FOR_PID))
		return 0;
	if (!has_columns(options, COLUMNS_FOR_TIMES))
		return 7;
	return 8 + (has_columns(options, COLUMNS_FOR_WIDE_COMM) ? COMM_MAX : 9);
}

/* Columns of the calls, with the blanks before them. */
static size_t calls_columns(const struct table_options *options)
{
	return options->gpu && has_columns(options, COLUMNS_FOR_CALLS) ? 10 + 10 : 0;
}

/* The columns left for the function, 0: no limit. */
static size_t function_columns(const struct table_options *options)
{
	size_t used = 7 + 2 + pod_columns(options) + calls_columns(options);
	size_t process = process_columns(options);

	if (!options->columns)
		return 0;
	if (has_columns(options, COLUMNS_FOR_TOTAL))
		used += 8;
	if (has_columns(options, COLUMNS_FOR_TIMES))
		used += 9 + 11;
	if (process)
		used += process + 2;
	return options->columns > used ? options->columns - used : 1;
}

void table_heading(struct buf *dst, const struct table_options *options)
{
	size_t process = process_columns(options);

	buf_printf(dst, "%7s", "%Own");
	if (has_columns(options, COLUMNS_FOR_TOTAL))
		buf_printf(dst, "%8s", "%Total");
	if (has_columns(options, COLUMNS_FOR_TIMES))
		buf_printf(dst, "%9s%11s", "OwnTime", "TotalTime");
	if (calls_columns(options))
		buf_printf(dst, "%10s%10s", "Launch/s", "%Blocked");
	buf_add_str(dst, "  ");
	if (process) {
		buf_printf(dst, "%7s", "PID");
		if (process > 7)
			buf_printf(dst, " %-*s", (int)process - 8, "Process");
		if (pod_columns(options))
			buf_printf(dst, " %-*s", POD_COLUMNS, "Pod");
		buf_add_str(dst, "  ");
	}
	width_add(dst, options->lines ? "Function (filename:line)" : "Function (filename)",
		  function_columns(options));
}

void table_seconds(char dst[24], uint64_t ns)
{
	uint64_t ms = (ns + 500000) / 1000000;

	if (ms < 1000)
		snprintf(dst, 24, "0.%03u", (unsigned int)ms);
	else if (ms < 100 * 1000)
		snprintf(dst, 24, "%" PRIu64 ".%02u", (ms + 5) / 1000,
			 (unsigned int)((ms + 5) / 10 % 100));
	else if (ms < 1000 * 1000)
		snprintf(dst, 24, "%" PRIu64 ".%u", (ms + 50) / 1000,
			 (unsigned int)((ms + 50) / 100 % 10));
	else
		snprintf(dst, 24, "%" PRIu64, (ms + 500) / 1000);
}

static double percent(uint64_t ns, uint64_t interval_ns)
{
	return interval_ns ? 100.0 * (double)ns / (double)interval_ns : 0;
}

static void add_process(struct buf *dst, const struct live *live, const struct live_row *row,
			const struct table_options *options)
{
	size_t columns = process_columns(options);
	const struct live_process *processes;
	size_t nr;

	processes = live_processes(live, &nr);
	buf_printf(dst, "%7u", row->process < nr ? processes[row->process].pid : 0);
	if (columns > 7) {
		buf_add_char(dst, ' ');
		width_pad(dst, row->process < nr ? processes[row->process].comm : "", columns - 8);
	}
	if (pod_columns(options)) {
		buf_add_char(dst, ' ');
		width_pad(dst, row->process < nr ? processes[row->process].pod : "", POD_COLUMNS);
	}
	buf_add_str(dst, "  ");
}

/*
 * Adds the calls of the row's process: the functions that launch are in the profile of GPU calls.
 */
static void add_calls(struct buf *dst, const struct live *live, const struct live_row *row,
		      const struct table_options *options)
{
	const struct live_process *processes, *of;
	size_t nr, i;

	processes = live_processes(live, &nr);
	of = row->process < nr ? &processes[row->process] : NULL;
	for (i = 0; of && i < options->nr_calls; i++) {
		if (options->calls[i].kernel_pid != of->kernel_pid ||
		    options->calls[i].start_ns != of->start_ns)
			continue;
		buf_printf(dst, "%10.0f%9.2f%%", options->calls[i].launches,
			   options->calls[i].blocked);
		return;
	}
	buf_printf(dst, "%10s%10s", "-", "-");
}

void table_row(struct buf *dst, const struct live *live, const struct live_row *row,
	       const struct table_options *options)
{
	char own[24], total[24];

	buf_printf(dst, "%6.2f%%", percent(row->now.own_ns[options->view], options->interval_ns));
	if (has_columns(options, COLUMNS_FOR_TOTAL))
		buf_printf(dst, "%7.2f%%",
			   percent(row->now.total_ns[options->view], options->interval_ns));
	if (has_columns(options, COLUMNS_FOR_TIMES)) {
		table_seconds(own, row->ever.own_ns[options->view]);
		table_seconds(total, row->ever.total_ns[options->view]);
		buf_printf(dst, "%8ss%10ss", own, total);
	}
	if (calls_columns(options))
		add_calls(dst, live, row, options);
	buf_add_str(dst, "  ");
	if (process_columns(options))
		add_process(dst, live, row, options);
	width_add_ends(dst, live_text(live, row->text), function_columns(options));
}
