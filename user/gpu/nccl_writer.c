// SPDX-License-Identifier: Apache-2.0
#include "gpu/nccl_writer.h"

#include <inttypes.h>

#include "base/text.h"
#include "base/units.h"
#include "gpu/report_read.h"

#define MAX_HOST 40
#define MAX_NAME 40
#define MAX_POD 60
#define MAX_RANGES 16 /* ranges of ranks in one line */

void nccl_add_name(struct nccl_writer *w, const char *name, size_t columns)
{
	buf_reset(&w->text);
	text_add_shown(&w->text, name);
	text_add_cut(w->dst, w->text.len ? w->text.data : "", columns);
}

void nccl_add_cell(struct nccl_writer *w, const char *name, size_t columns)
{
	size_t used;

	nccl_add_name(w, name, columns);
	for (used = text_columns(w->text.len ? w->text.data : ""); used < columns; used++)
		buf_add_char(w->dst, ' ');
}

void nccl_add_process(struct nccl_writer *w, const struct gpu_read_process *from)
{
	const struct gpu_report_process *process = from->report;

	if (w->read->nr_files > 1)
		buf_printf(w->dst, "[%u] ", from->file + 1);
	nccl_add_name(w, w->read->files[from->file].report.host, MAX_HOST);
	buf_printf(w->dst, " pid %" PRIu32 " ", process->pid);
	nccl_add_name(w, *process->ray_task ? process->ray_task : process->name, MAX_NAME);
	if (!*process->pod)
		return;
	buf_add_str(w->dst, ", pod ");
	if (*process->namespace) {
		nccl_add_name(w, process->namespace, MAX_POD);
		buf_add_char(w->dst, '/');
	}
	nccl_add_name(w, process->pod, MAX_POD);
}

uint64_t nccl_ns(double seconds)
{
	return seconds < 1e9 ? (uint64_t)(seconds * 1e9) : UINT64_C(1000000000000000000);
}

void nccl_range_add(struct nccl_ranges *ranges, uint32_t first, uint32_t last)
{
	ranges->nr++;
	if (ranges->nr > MAX_RANGES) {
		if (ranges->nr == MAX_RANGES + 1)
			buf_add_str(ranges->dst, ", ...");
		return;
	}
	buf_printf(ranges->dst, "%s%" PRIu32, ranges->nr > 1 ? ", " : "", first);
	if (last > first)
		buf_printf(ranges->dst, "-%" PRIu32, last);
}
