// SPDX-License-Identifier: Apache-2.0
/* Launches by kernel: all shapes and streams of a kernel are one row. */
#include "gpu/report_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDE_COLUMNS 110 /* a table of this width has all columns */
#define SHAPE 15
#define ENTRY 16
#define THROUGH 24

/* All launches of one kernel by one function, through one library function. */
struct kernel {
	const char *name, *entry, *through;
	uint64_t calls, stream;
	const uint32_t *grid, *block;
	size_t nr_shapes;
	bool streams; /* the launches use more than one stream */
	bool captured;
};

static const char *entry_of(const struct gpu_report_launch *launch)
{
	return *launch->exported ? launch->exported : launch->function;
}

/* The function of the library, or the library if its function is not known, or "". */
static const char *through_of(const struct gpu_report_launch *launch)
{
	if (launch->entry && *launch->entry)
		return launch->entry;
	return launch->library ? launch->library : "";
}

static int compare_launches(const void *a, const void *b)
{
	const struct gpu_report_launch *x = *(const struct gpu_report_launch *const *)a;
	const struct gpu_report_launch *y = *(const struct gpu_report_launch *const *)b;
	int order = strcmp(x->kernel, y->kernel) ?: x->captured - y->captured;

	if (!order)
		order = strcmp(entry_of(x), entry_of(y));
	if (!order)
		order = strcmp(through_of(x), through_of(y));
	if (!order)
		order = memcmp(x->grid, y->grid, sizeof(x->grid));
	return order ? order : memcmp(x->block, y->block, sizeof(x->block));
}

static bool same_shape(const struct kernel *kernel, const struct gpu_report_launch *launch)
{
	return !memcmp(kernel->grid, launch->grid, sizeof(launch->grid)) &&
	       !memcmp(kernel->block, launch->block, sizeof(launch->block));
}

/* Merges launches, sorted by compare_launches(). Returns the number of kernels. */
static size_t kernels_merge(struct kernel *kernels, const struct gpu_report_launch **sorted,
			    size_t nr)
{
	const struct gpu_report_launch *launch;
	struct kernel *kernel = NULL;
	size_t nr_kernels = 0, i;

	for (i = 0; i < nr; i++) {
		launch = sorted[i];
		if (!kernel || strcmp(kernel->name, launch->kernel) ||
		    kernel->captured != launch->captured ||
		    strcmp(kernel->entry, entry_of(launch)) ||
		    strcmp(kernel->through, through_of(launch))) {
			kernel = &kernels[nr_kernels++];
			*kernel = (struct kernel){ .name = launch->kernel,
						   .entry = entry_of(launch),
						   .through = through_of(launch),
						   .captured = launch->captured,
						   .stream = launch->stream };
		}
		if (!kernel->nr_shapes || !same_shape(kernel, launch))
			kernel->nr_shapes++;
		kernel->grid = launch->grid;
		kernel->block = launch->block;
		kernel->streams |= kernel->stream != launch->stream;
		kernel->calls += launch->calls;
	}
	return nr_kernels;
}

/* "64x8", without the 1s at the end. */
static int add_dims(char *dst, size_t cap, const uint32_t dims[3])
{
	if (dims[2] != 1)
		return snprintf(dst, cap, "%ux%ux%u", dims[0], dims[1], dims[2]);
	if (dims[1] != 1)
		return snprintf(dst, cap, "%ux%u", dims[0], dims[1]);
	return snprintf(dst, cap, "%u", dims[0]);
}

static void add_shape(struct gpu_writer *w, const struct kernel *kernel)
{
	char text[96]; /* holds six numbers of up to 10 digits */
	int len;

	if (kernel->nr_shapes > 1) {
		snprintf(text, sizeof(text), "%zu shapes", kernel->nr_shapes);
	} else if (!kernel->grid[0] && !kernel->block[0]) { /* graphs have no shape */
		snprintf(text, sizeof(text), "-");
	} else {
		len = add_dims(text, sizeof(text) / 2, kernel->grid);
		memcpy(text + len, " / ", 3);
		add_dims(text + len + 3, sizeof(text) / 2, kernel->block);
	}
	gpu_add_name_cell(w, SHAPE, text);
}

/* The columns of a table. */
struct columns {
	bool streams, entries, through;
};

static void add_kernel(struct gpu_writer *w, const struct kernel *kernel,
		       const struct columns *columns)
{
	char stream[32];

	buf_add_str(w->dst, "  ");
	gpu_add_count(w, GPU_CALLS_WIDTH, kernel->calls);
	add_shape(w, kernel);
	if (columns->streams) {
		snprintf(stream, sizeof(stream), "0x%" PRIx64, kernel->stream);
		gpu_add_name_cell(w, GPU_STREAM_WIDTH, kernel->streams ? "several" : stream);
	}
	if (columns->entries)
		gpu_add_name_cell(w, ENTRY, kernel->entry);
	if (columns->through)
		gpu_add_name_cell(w, THROUGH, *kernel->through ? kernel->through : "-");
	gpu_add_rest_printf(w, "%s%s", kernel->captured ? GPU_CAPTURED : "", kernel->name);
}

/* Was a kernel launched by another function than a version of cuLaunchKernel? */
static bool entries_matter(const struct gpu_report_process *process)
{
	const struct gpu_report_launch *launch;
	size_t i;

	for (i = 0; i < process->nr_launches; i++) {
		launch = &process->launches[i];
		if (strncmp(launch->exported, launch->function,
			    strnlen(launch->exported, strlen(launch->function))))
			return true;
	}
	return false;
}

static bool through_matters(const struct gpu_report_process *process)
{
	size_t i;

	for (i = 0; i < process->nr_launches; i++)
		if (*through_of(&process->launches[i]))
			return true;
	return false;
}

static void add_kernels(struct gpu_writer *w, const struct kernel *kernels, size_t nr)
{
	bool wide = w->columns >= WIDE_COLUMNS;
	const struct columns columns = { .streams = wide,
					 .entries = wide || entries_matter(w->process),
					 .through = through_matters(w->process) };
	struct gpu_row *rows = gpu_rows_new(w, nr, sizeof(*rows));
	uint64_t calls = 0, captured = 0;
	size_t nr_run = 0, shown, i;

	if (!rows)
		return;
	for (i = 0; i < nr; i++) {
		rows[i] = (struct gpu_row){ .key = kernels[i].calls,
					    .name = kernels[i].name,
					    .index = i };
		*(kernels[i].captured ? &captured : &calls) += kernels[i].calls;
		nr_run += !kernels[i].captured;
	}
	shown = gpu_rows_sort(w, rows, nr);
	gpu_line_end(w);
	gpu_add_words(w, "  Kernel launches: %" PRIu64 " (%.0f/s) of %zu kernels", calls,
		      gpu_rate(w, calls), nr_run);
	if (captured)
		gpu_add_words(w, "  [captured]: %" PRIu64 " more, written into graphs, not run",
			      captured);
	buf_printf(w->dst, "  %*s  %-*s  ", GPU_CALLS_WIDTH, "Calls", SHAPE, "Grid / block");
	if (columns.streams)
		buf_printf(w->dst, "%-*s  ", GPU_STREAM_WIDTH, "Stream");
	if (columns.entries)
		buf_printf(w->dst, "%-*s  ", ENTRY, "Called");
	if (columns.through)
		buf_printf(w->dst, "%-*s  ", THROUGH, "Through");
	gpu_add_rest(w, "Kernel");
	for (i = 0; i < shown; i++)
		add_kernel(w, &kernels[rows[i].index], &columns);
	gpu_add_more(w, nr, shown);
	free(rows);
}

void gpu_add_launches(struct gpu_writer *w)
{
	const struct gpu_report_process *process = w->process;
	size_t nr = process->nr_launches, i;
	const struct gpu_report_launch **sorted;
	struct kernel *kernels;

	if (!nr)
		return;
	sorted = gpu_rows_new(w, nr, sizeof(*sorted));
	kernels = gpu_rows_new(w, nr, sizeof(*kernels));
	if (sorted && kernels) {
		for (i = 0; i < nr; i++)
			sorted[i] = &process->launches[i];
		qsort(sorted, nr, sizeof(*sorted), compare_launches);
		add_kernels(w, kernels, kernels_merge(kernels, sorted, nr));
	}
	free(sorted);
	free(kernels);
}
