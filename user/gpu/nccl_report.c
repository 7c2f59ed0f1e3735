// SPDX-License-Identifier: Apache-2.0
#include "gpu/nccl_report.h"

#include <inttypes.h>

#include "base/units.h"
#include "gpu/nccl_writer.h"
#include "gpu/report_read.h"

#define MAX_TEXT_BYTES (64U << 10)
#define MAX_PATH 60 /* columns */
#define MAX_HOST 40
#define MAX_SCANS (1U << 26)
#define NEARLY_FULL 95 /* percent: from this use on, devices were seen to become slow */

static void add_files(struct nccl_writer *w)
{
	const struct gpu_read_file *file;
	size_t nr, i;

	for (i = 0; i < w->read->nr_files; i++) {
		file = &w->read->files[i];
		if (w->read->nr_files > 1)
			buf_printf(w->dst, "[%zu] ", i + 1);
		nccl_add_name(w, file->path, MAX_PATH);
		buf_add_str(w->dst, ": ");
		nccl_add_name(w, file->report.host, MAX_HOST);
		nr = file->report.nr_processes + file->report.nr_silent;
		buf_printf(w->dst, ", %.1f s, %zu %s\n", file->report.seconds, nr,
			   nr == 1 ? "process" : "processes");
	}
}

static void add_memory(struct nccl_writer *w)
{
	const struct gpu_report_memory *memory;
	char used[UNITS_TEXT], total[UNITS_TEXT], live[UNITS_TEXT];
	size_t i, nr = 0;
	double percent;

	for (i = 0; i < w->read->nr_processes; i++) {
		memory = &w->read->processes[i].report->memory;
		if (!memory->device_known)
			continue;
		percent = 100 - 100 * (double)memory->device_free / (double)memory->device_total;
		if (percent <= NEARLY_FULL || nr++ >= w->rows)
			continue;
		if (nr == 1)
			buf_add_str(w->dst, "\nDevice memory over 95%, which makes kernels and "
					    "collectives many times slower:\n");
		buf_printf(w->dst, "  %s of %s (%.1f%%), %s in live allocations that were seen: ",
			   units_bytes(used, memory->device_total - memory->device_free),
			   units_bytes(total, memory->device_total), percent,
			   units_bytes(live, memory->live_bytes));
		nccl_add_process(w, &w->read->processes[i]);
		buf_add_char(w->dst, '\n');
	}
	if (nr > w->rows)
		buf_printf(w->dst, "  ... and %zu more\n", nr - w->rows);
}

static void add_end(struct nccl_writer *w)
{
	uint64_t wrong = w->read->nr_not_understood, left = w->read->nr_left_out;

	if (wrong)
		buf_printf(w->dst, "\n%" PRIu64 " %s not understood\n", wrong,
			   wrong == 1 ? "entry was" : "entries were");
	if (left)
		buf_printf(w->dst, "\n%" PRIu64 " %s left out: too many\n", left,
			   left == 1 ? "entry was" : "entries were");
}

int nccl_report(struct buf *dst, const struct gpu_read *read,
		const struct nccl_report_options *options)
{
	struct nccl_writer w = { .dst = dst,
				 .read = read,
				 .rows = options->rows ? options->rows : SIZE_MAX,
				 .scans_left = MAX_SCANS };
	int err;

	buf_init(&w.text, MAX_TEXT_BYTES);
	add_files(&w);
	err = nccl_add_comms(&w);
	if (!err)
		err = nccl_add_places(&w);
	if (!err)
		err = nccl_add_pending(&w);
	if (!err)
		err = nccl_add_times(&w);
	if (!err) {
		add_memory(&w);
		add_end(&w);
	}
	buf_fini(&w.text);
	return err;
}
