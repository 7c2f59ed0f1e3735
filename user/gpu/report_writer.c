// SPDX-License-Identifier: Apache-2.0
#include "gpu/report_writer.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"

#define HUNG_SECONDS 1.0
#define MIN_NAME 16

void gpu_line_end(struct gpu_writer *w)
{
	buf_add_char(w->dst, '\n');
	w->line = w->dst->len;
}

/* Columns left in this line. */
static size_t room(const struct gpu_writer *w)
{
	bool empty = buf_error(w->dst) || w->dst->len == w->line;
	size_t used = empty ? 0 : text_columns(w->dst->data + w->line);

	return used + MIN_NAME < w->columns ? w->columns - used : MIN_NAME;
}

void gpu_add_name(struct gpu_writer *w, const char *name, size_t columns)
{
	buf_reset(&w->text);
	text_add_shown(&w->text, name);
	text_add_cut(w->dst, buf_error(&w->text) || !w->text.len ? "?" : w->text.data, columns);
}

void gpu_add_rest(struct gpu_writer *w, const char *name)
{
	gpu_add_name(w, name, room(w));
	gpu_line_end(w);
}

void gpu_add_rest_printf(struct gpu_writer *w, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	gpu_add_rest(w, line);
}

void gpu_add_operation(struct gpu_writer *w, const char *operation, const char *datatype,
		       const char *extra_name, const char *extra)
{
	bool named = *extra && strcmp(extra_name, "op");

	gpu_add_rest_printf(w, "%s %s%s%s%s%s", operation, datatype, *extra ? " " : "",
			    named ? extra_name : "", named ? " " : "", extra);
}

void gpu_add_words(struct gpu_writer *w, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	buf_add_str(w->dst, line);
	gpu_line_end(w);
}

static void add_cell(struct gpu_writer *w, size_t width, const char *text)
{
	buf_printf(w->dst, "%*s  ", (int)width, text);
}

void gpu_add_name_cell(struct gpu_writer *w, size_t width, const char *name)
{
	size_t begin = w->dst->len, used;

	gpu_add_name(w, name, width);
	used = buf_error(w->dst) ? width : text_columns(w->dst->data + begin);
	buf_printf(w->dst, "%*s", (int)(width - used + 2), "");
}

void gpu_add_count(struct gpu_writer *w, size_t width, uint64_t count)
{
	char text[UNITS_TEXT];

	add_cell(w, width, units_count(text, count));
}

/* 0 is a dash, since a column of zeros hides the other numbers. */
void gpu_add_bytes(struct gpu_writer *w, uint64_t bytes)
{
	char text[UNITS_TEXT];

	add_cell(w, GPU_BYTES_WIDTH, bytes ? units_bytes(text, bytes) : "-");
}

void gpu_add_time(struct gpu_writer *w, uint64_t ns)
{
	char text[UNITS_TEXT];

	add_cell(w, GPU_TIME_WIDTH, ns ? units_ns(text, ns) : "-");
}

static int compare_ranked(const void *a, const void *b)
{
	const struct gpu_row *x = a, *y = b;

	return GPU_ORDER(y->key, x->key) ?: GPU_ORDER(y->calls, x->calls) ?:
	       strcmp(x->name, y->name) ?: GPU_ORDER(x->index, y->index);
}

void *gpu_rows_new(struct gpu_writer *w, size_t nr, size_t size)
{
	void *rows = calloc(nr + 1, size);

	if (!rows && !w->dst->error)
		w->dst->error = -ENOMEM;
	return rows;
}

size_t gpu_rows_sort(const struct gpu_writer *w, struct gpu_row *rows, size_t nr)
{
	qsort(rows, nr, sizeof(*rows), compare_ranked);
	return w->rows && w->rows < nr ? w->rows : nr;
}

void gpu_add_more(struct gpu_writer *w, size_t nr, size_t shown)
{
	if (nr > shown)
		gpu_add_words(w, "    ... and %zu more", nr - shown);
}

uint64_t gpu_row_key(const struct gpu_writer *w, enum gpu_sort natural, uint64_t calls,
		     uint64_t bytes, uint64_t ns)
{
	switch (w->sort == GPU_SORT_NATURAL ? natural : w->sort) {
	case GPU_SORT_BYTES:
		return bytes;
	case GPU_SORT_BLOCKED:
		return ns;
	default:
		return calls;
	}
}

double gpu_seconds(double seconds)
{
	return isfinite(seconds) && seconds > 0 ? seconds : 0;
}

uint64_t gpu_ns(double seconds)
{
	double ns = gpu_seconds(seconds) * 1e9;

	return ns < 9e18 ? (uint64_t)ns : UINT64_C(9000000000000000000);
}

double gpu_rate(const struct gpu_writer *w, uint64_t count)
{
	double seconds = gpu_seconds(w->report->seconds);

	return seconds > 0 ? (double)count / seconds : 0;
}

bool gpu_is_hung(const struct gpu_report_open *open)
{
	return open->since_before || gpu_seconds(open->seconds) > HUNG_SECONDS;
}
