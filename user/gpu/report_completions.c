// SPDX-License-Identifier: Apache-2.0
/*
 * Writes the device's times into the table: collectives by size, until the process saw their
 * completion, and times without work on the device.
 */
#include "gpu/report_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define COMPLETE_WIDTH 9
#define SHOWN_SECONDS 0.1 /* a shorter gap that is not over is not shown */

static void add_at_most(struct gpu_writer *w, uint64_t ns)
{
	char text[UNITS_TEXT], cell[UNITS_TEXT + 3];

	snprintf(cell, sizeof(cell), "<= %s", units_ns(text, ns));
	buf_printf(w->dst, "%*s  ", GPU_TIME_WIDTH, ns ? cell : "-");
}

static void add_row(struct gpu_writer *w, const struct gpu_report_completion *row)
{
	buf_add_str(w->dst, "  ");
	gpu_add_count(w, COMPLETE_WIDTH, row->count);
	add_at_most(w, row->count ? row->ns / row->count : 0);
	add_at_most(w, row->max_ns);
	gpu_add_bytes(w, row->bytes);
	gpu_add_operation(w, row->operation, row->datatype, row->extra_name, row->extra);
}

/*
 * Shows the oldest pending collective: if a collective hangs after its call has returned, it is
 * this one.
 */
static void add_pending(struct gpu_writer *w, const struct gpu_report_completion *oldest,
			uint64_t nr)
{
	uint64_t ns = gpu_ns(oldest->pending_seconds);
	char text[UNITS_TEXT];

	gpu_add_words(w, "    %" PRIu64 " not known to be complete yet%s called %s ago:", nr,
		      nr == 1 ? "," : "; the oldest", units_ns(text, ns));
	gpu_add_rest_printf(w, "      %s %s %s on stream 0x%" PRIx64, oldest->operation,
			    oldest->datatype, units_bytes(text, oldest->bytes),
			    oldest->pending_stream);
}

/* Writes how exact the times are, and which completions are missing. */
static void add_sum(struct gpu_writer *w, const struct gpu_report_completion *sum,
		    const struct gpu_report_completion *oldest)
{
	char mean[UNITS_TEXT], most[UNITS_TEXT];

	if (sum->count)
		gpu_add_words(w, "    <=: noticed within %s on average, %s at most",
			      units_ns(mean, sum->within_ns / sum->count),
			      units_ns(most, sum->within_max_ns));
	if (oldest)
		add_pending(w, oldest, sum->pending);
	if (sum->unknown)
		gpu_add_words(w, "    %" PRIu64 " whose completion will never be known",
			      sum->unknown);
}

void gpu_add_completions(struct gpu_writer *w, uint64_t comm)
{
	const struct gpu_report_process *process = w->process;
	struct gpu_row *rows = gpu_rows_new(w, process->nr_completions, sizeof(*rows));
	struct gpu_report_completion sum = { 0 };
	const struct gpu_report_completion *c, *oldest = NULL;
	size_t nr = 0, shown, i;

	for (i = 0; rows && i < process->nr_completions; i++) {
		c = &process->completions[i];
		if (c->comm != comm)
			continue;
		rows[nr++] = (struct gpu_row){ .key = gpu_row_key(w, GPU_SORT_BLOCKED, c->count,
								  c->bytes * c->count, c->ns),
					       .calls = c->count,
					       .name = c->operation,
					       .index = i };
		sum.count += c->count;
		sum.within_ns += c->within_ns;
		if (c->within_max_ns > sum.within_max_ns)
			sum.within_max_ns = c->within_max_ns;
		sum.pending += c->pending;
		if (c->pending && (!oldest || c->pending_seconds > oldest->pending_seconds))
			oldest = c;
		sum.unknown += c->unknown;
	}
	shown = nr ? gpu_rows_sort(w, rows, nr) : 0;
	if (nr) {
		buf_printf(w->dst, "  %*s  %*s  %*s  %*s  ", COMPLETE_WIDTH, "Complete",
			   GPU_TIME_WIDTH, "Mean", GPU_TIME_WIDTH, "Longest", GPU_BYTES_WIDTH,
			   "Each");
		gpu_add_rest(w, "Operation");
	}
	for (i = 0; i < shown; i++)
		add_row(w, &process->completions[rows[i].index]);
	gpu_add_more(w, nr, shown);
	add_sum(w, &sum, oldest);
	free(rows);
}

void gpu_add_gc(struct gpu_writer *w)
{
	const struct gpu_report_process *process = w->process;
	char text[UNITS_TEXT], most[UNITS_TEXT];

	if (!process->gc_calls)
		return;
	gpu_line_end(w);
	gpu_add_words(w, "  Garbage collections: %s in %" PRIu64 ", the longest %s",
		      units_ns(text, process->gc_ns), process->gc_calls,
		      units_ns(most, process->gc_max_ns));
}

/* Includes the span that is not over, which may be the only one. */
void gpu_add_spans(struct gpu_writer *w)
{
	struct gpu_report_spans spans = w->process->spans;
	uint64_t since_ns = gpu_ns(spans.since_seconds);
	char text[UNITS_TEXT], most[UNITS_TEXT];

	spans.ns += since_ns;
	spans.count += since_ns > 0;
	if (since_ns > spans.max_ns)
		spans.max_ns = since_ns;
	if (!spans.count)
		return;
	gpu_line_end(w);
	gpu_add_words(w,
		      "  Launch to sync: %s (%.0f%% of the time) in %" PRIu64
		      " span%s, the longest %s",
		      units_ns(text, spans.ns), gpu_rate(w, spans.ns) / 1e7, spans.count,
		      spans.count == 1 ? "" : "s", units_ns(most, spans.max_ns));
	if (gpu_seconds(spans.since_seconds) >= SHOWN_SECONDS)
		gpu_add_words(w, "    of these, %.1f s in the span that still runs",
			      gpu_seconds(spans.since_seconds));
}

void gpu_add_device_idle(struct gpu_writer *w)
{
	const struct gpu_report_device_idle *device_idle = &w->process->device_idle;
	double since = gpu_seconds(device_idle->since_seconds);
	char text[UNITS_TEXT], most[UNITS_TEXT];

	if (!device_idle->gaps && since < SHOWN_SECONDS)
		return;
	gpu_line_end(w);
	buf_printf(w->dst, "  Starved: %s (%.0f%% of the time)", units_ns(text, device_idle->ns),
		   gpu_rate(w, device_idle->ns) / 1e7);
	gpu_add_words(w, " in %" PRIu64 " gaps, the longest %s", device_idle->gaps,
		      units_ns(most, device_idle->max_ns));
	if (device_idle->copy_ns)
		gpu_add_words(w, "    and %s in synchronous copies to the device in these gaps",
			      units_ns(text, device_idle->copy_ns));
	if (since >= SHOWN_SECONDS)
		gpu_add_words(w, "    and %.1f s in the gap that still runs", since);
}
