/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_REPORT_WRITER_H
#define BPFPROF_GPU_REPORT_WRITER_H

/*
 * Lines and columns of gpu_table(): numbers on the left, and last the name, which is cut to the
 * room that is left. The destination keeps the first error.
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
	const struct gpu_report_process *process; /* the one that is written now */
	const size_t *order; /* indexes of processes, the worst first */
	enum gpu_sort sort;
	size_t rows, columns;
	size_t line; /* the begin of the present line in dst */
	struct buf text; /* scratch */
};

/* A row of some table. */
struct gpu_row {
	uint64_t key, calls;
	const char *name;
	size_t index; /* in the array of the report */
};

void gpu_line_end(struct gpu_writer *w);
#define GPU_CAPTURED "[captured] " /* before calls that were written into a graph */

/* Adds a name that a target chose, made safe and cut. */
void gpu_add_name(struct gpu_writer *w, const char *name, size_t columns);
/* The same, filled with blanks, and two blanks more. */
void gpu_add_name_cell(struct gpu_writer *w, size_t width, const char *name);
/* The same, cut to the rest of the line, and ends the line. */
void gpu_add_rest(struct gpu_writer *w, const char *name);
void gpu_add_rest_printf(struct gpu_writer *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Adds "ncclReduce float32 root 3", cut to the rest of the line, and ends the line. */
void gpu_add_operation(struct gpu_writer *w, const char *operation, const char *datatype,
		       const char *extra_name, const char *extra);
/* Adds words of the program's own, which are not cut, and ends the line. */
void gpu_add_words(struct gpu_writer *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Add a number at the right of its column; 0 bytes and 0 ns are a dash. */
void gpu_add_count(struct gpu_writer *w, size_t width, uint64_t count);
void gpu_add_bytes(struct gpu_writer *w, uint64_t bytes);
void gpu_add_time(struct gpu_writer *w, uint64_t ns);

/* Room for nr rows, which the caller frees; without memory NULL, and dst has the error. */
void *gpu_rows_new(struct gpu_writer *w, size_t nr, size_t size);
/* The key that a row is sorted by: as the user chose, or the natural one of the table. */
uint64_t gpu_row_key(const struct gpu_writer *w, enum gpu_sort natural, uint64_t calls,
		     uint64_t bytes, uint64_t ns);
/* Sorts by key, calls and name. Returns how many rows are shown. */
size_t gpu_rows_sort(const struct gpu_writer *w, struct gpu_row *rows, size_t nr);
void gpu_add_more(struct gpu_writer *w, size_t nr, size_t shown); /* "... and 5 more" */

double gpu_seconds(double seconds); /* 0 if it is negative, infinite or no number */
uint64_t gpu_ns(double seconds); /* the same, capped */
double gpu_rate(const struct gpu_writer *w, uint64_t count); /* per second */

bool gpu_is_hung(const struct gpu_report_open *open); /* open so long that it is reported */

/* Adds the first page, for a screen with so many rows. */
void gpu_add_overview(struct gpu_writer *w, size_t screen_rows);
/* Adds how long collectives of a communicator took until they were complete, if that is known. */
void gpu_add_completions(struct gpu_writer *w, uint64_t comm);
/* Add how long the device may have had work, and how long it had none. */
void gpu_add_spans(struct gpu_writer *w);
void gpu_add_device_idle(struct gpu_writer *w);
/* Adds Python's garbage collections, if there were any. */
void gpu_add_gc(struct gpu_writer *w);
/* Adds the table of kernels, if there are launches. */
void gpu_add_launches(struct gpu_writer *w);
/* The same of kernels in CUDA graphs, counted by the launches of the graphs. */
void gpu_add_graphs(struct gpu_writer *w);

#endif
