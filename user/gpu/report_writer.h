/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_REPORT_WRITER_H
#define BPFPROF_GPU_REPORT_WRITER_H

/*
 * Lines and columns of gpu_table(): numbers on the left, the name, which is cut to what room there
 * is, last. Errors stick to the buf that is written to.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "gpu/report.h"

#define GPU_CALLS_WIDTH 9
#define GPU_BYTES_WIDTH 9
#define GPU_TIME_WIDTH 11
#define GPU_STREAM_WIDTH 14

enum gpu_sort { GPU_SORT_NATURAL, GPU_SORT_CALLS, GPU_SORT_BYTES, GPU_SORT_BLOCKED };

/* gpu_table() in progress. */
struct gpu_writer {
	struct buf *dst;
	const struct gpu_report *report;
	const struct gpu_report_process *process; /* that is being written */
	const size_t *order; /* of processes, the worst first */
	enum gpu_sort sort;
	size_t rows, columns;
	size_t line; /* where this one begins in dst */
	struct buf text; /* scratch */
};

/* A row of some table. */
struct gpu_row {
	uint64_t key, calls;
	const char *name;
	size_t index; /* of what it is of */
};

void gpu_line_end(struct gpu_writer *w);
#define GPU_CAPTURED "[captured] " /* before what was written into a graph */

/* What a target chose, made safe and cut to so many columns. */
void gpu_add_name(struct gpu_writer *w, const char *name, size_t columns);
/* The same, with blanks behind and two more. */
void gpu_add_name_cell(struct gpu_writer *w, size_t width, const char *name);
/* The same, cut to what is left of the line, which it ends. */
void gpu_add_rest(struct gpu_writer *w, const char *name);
void gpu_add_rest_printf(struct gpu_writer *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Words of our own, which end the line and are not cut. */
void gpu_add_words(struct gpu_writer *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* On the right of their columns; bytes and times that are 0 are a dash. */
void gpu_add_count(struct gpu_writer *w, size_t width, uint64_t count);
void gpu_add_bytes(struct gpu_writer *w, uint64_t bytes);
void gpu_add_time(struct gpu_writer *w, uint64_t ns);

/* Room for nr rows, to be freed; NULL, and the error is noted, without memory. */
void *gpu_rows_new(struct gpu_writer *w, size_t nr, size_t size);
/* What a row is sorted by: what was asked for, or else what is natural. */
uint64_t gpu_row_key(const struct gpu_writer *w, enum gpu_sort natural, uint64_t calls,
		     uint64_t bytes, uint64_t ns);
/* By key, calls, name. How many are shown. */
size_t gpu_rows_sort(const struct gpu_writer *w, struct gpu_row *rows, size_t nr);
void gpu_add_more(struct gpu_writer *w, size_t nr, size_t shown); /* "... and 5 more" */

double gpu_seconds(double seconds); /* 0 if it is no time */
uint64_t gpu_ns(double seconds); /* the same */
double gpu_rate(const struct gpu_writer *w, uint64_t count); /* per second */

bool gpu_is_hung(const struct gpu_report_open *open); /* for so long that it is told */

/* What stands on the first page of a screen with so many rows. */
void gpu_add_overview(struct gpu_writer *w, size_t screen_rows);
/* How long collectives of a communicator took until they were complete, if that is known. */
void gpu_add_completions(struct gpu_writer *w, uint64_t comm);
/* How long the device may have had something to do; and how long it had nothing. */
void gpu_add_spans(struct gpu_writer *w);
void gpu_add_device_idle(struct gpu_writer *w);
void gpu_add_gc(struct gpu_writer *w); /* collections of Python, if there were any */
/* The table of kernels, if there are launches. */
void gpu_add_launches(struct gpu_writer *w);
/* The same of those that CUDA graphs have in them, as often as these were launched. */
void gpu_add_graphs(struct gpu_writer *w);

#endif
