// SPDX-License-Identifier: Apache-2.0
/*
 * Collectives that have returned, and whose completion was not seen. One of them may hang on the
 * device, while no call is open. A collective looks the same if no call has asked for its
 * completion yet; the time since its call helps to decide.
 */
#include "gpu/nccl_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "gpu/report_read.h"

#define SHOWN_SECONDS 1.0 /* a shorter time is usual: no call has asked yet */
#define MAX_NAME 32 /* columns */

/* The pending collectives of one communicator in one process. */
struct row {
	const struct gpu_read_process *process;
	const struct gpu_report_completion *oldest;
	uint64_t nr;
};

static int compare_comm(const void *first, const void *second)
{
	const struct row *m = first, *n = second;
	const struct gpu_report_completion *a = m->oldest, *b = n->oldest;

	return GPU_ORDER(m->process, n->process) ?: GPU_ORDER(a->comm, b->comm) ?:
	       GPU_ORDER(b->pending_seconds, a->pending_seconds) ?: GPU_ORDER(a, b);
}

static int compare_age(const void *first, const void *second)
{
	const struct row *a = first, *b = second;

	return GPU_ORDER(b->oldest->pending_seconds, a->oldest->pending_seconds)
		       ?: compare_comm(first, second);
}

/* One row of each process and communicator. */
static size_t rows_fill(const struct gpu_read *read, struct row *rows)
{
	const struct gpu_report_process *process;
	size_t all = 0, nr = 0, i, k;
	struct row row;

	for (i = 0; i < read->nr_processes; i++) {
		process = read->processes[i].report;
		for (k = 0; k < process->nr_completions; k++)
			if (process->completions[k].pending)
				rows[all++] = (struct row){ .process = &read->processes[i],
							    .oldest = &process->completions[k],
							    .nr = process->completions[k].pending };
	}
	qsort(rows, all, sizeof(*rows), compare_comm);
	for (i = 0; i < all; i++) {
		row = rows[i];
		if (nr && rows[nr - 1].process == row.process &&
		    rows[nr - 1].oldest->comm == row.oldest->comm)
			rows[nr - 1].nr += row.nr;
		else
			rows[nr++] = row;
	}
	for (i = 0, all = 0; i < nr; i++)
		if (rows[i].oldest->pending_seconds >= SHOWN_SECONDS)
			rows[all++] = rows[i];
	return all;
}

static void add_row(struct nccl_writer *w, const struct row *row)
{
	const struct gpu_report_completion *oldest = row->oldest;
	const struct gpu_report_comm *comm = gpu_report_comm_of(row->process->report, oldest->comm);
	char text[UNITS_TEXT];

	buf_printf(w->dst, "  %11s  ", units_ns(text, nccl_ns(oldest->pending_seconds)));
	buf_printf(w->dst, "%9s  ", units_count(text, row->nr));
	nccl_add_name(w, oldest->operation, MAX_NAME);
	buf_add_char(w->dst, ' ');
	nccl_add_name(w, oldest->datatype, MAX_NAME);
	buf_printf(w->dst, " %s on stream 0x%" PRIx64 ",\n%26s", units_bytes(text, oldest->bytes),
		   oldest->pending_stream, "");
	if (comm && comm->known)
		buf_printf(w->dst, "communicator 0x%" PRIx64 ", rank %" PRIu32 " of %" PRIu32,
			   comm->hash, comm->rank, comm->size);
	else
		buf_printf(w->dst, "a communicator at 0x%" PRIx64, oldest->comm);
	buf_add_str(w->dst, ": ");
	nccl_add_process(w, row->process);
	buf_add_char(w->dst, '\n');
}

int nccl_add_pending(struct nccl_writer *w)
{
	__cleanup(free_mem) struct row *rows = calloc(w->read->nr_completions + 1, sizeof(*rows));
	size_t nr, i;

	if (!rows)
		return -ENOMEM;
	nr = rows_fill(w->read, rows);
	if (!nr)
		return 0;
	qsort(rows, nr, sizeof(*rows), compare_age);
	buf_add_str(w->dst,
		    "\nCollectives that have returned and were not seen to be complete: they "
		    "hang on the\ndevice, or no call has asked for them yet; the oldest of each "
		    "rank\n");
	buf_printf(w->dst, "  %11s  %9s  Oldest\n", "Called ago", "Pending");
	for (i = 0; i < nr && i < w->rows; i++)
		add_row(w, &rows[i]);
	if (nr > w->rows)
		buf_printf(w->dst, "  ... and %zu more\n", nr - w->rows);
	return 0;
}
