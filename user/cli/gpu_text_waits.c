// SPDX-License-Identifier: Apache-2.0
/* When collectives were complete, as what output/gpu_report.h writes. */
#include <stdio.h>
#include <string.h>

#include "base/strtab.h"
#include "cli/gpu_job.h"
#include "gpu/functions.h"
#include "output/gpu_report.h"
#include "profile/gpu_waits.h"

const char *gpu_extra_text(const struct gpu_function *function, uint32_t value, char room[16])
{
	const char *name = gpu_nccl_extra(function);

	if (!strcmp(name, "op"))
		return gpu_nccl_operation(value);
	if (!*name)
		return "";
	snprintf(room, 16, "%u", value);
	return room;
}

size_t gpu_completions_fill(struct gpu_report_completion *to, const struct gpu_waits *waits,
			    const struct gpu_tally_process *process, struct strtab *strings)
{
	const struct gpu_waits_row *rows;
	const struct gpu_function *functions;
	size_t nr, nr_functions, i, filled = 0;
	char type[24], extra[16];

	rows = gpu_waits_rows(waits, &nr);
	functions = gpu_functions(&nr_functions);
	for (i = 0; i < nr; i++) {
		const struct gpu_waits_row *row = &rows[i];
		const struct gpu_waits_key *key = &row->key;
		const struct gpu_function *function =
			&functions[key->function < nr_functions ? key->function : 0];
		const char *text;

		if (key->pid != process->kernel_pid || key->start_ns != process->start_ns ||
		    !function->shown)
			continue;
		text = gpu_nccl_type(key->dims[0], type);
		to[filled] = (struct gpu_report_completion){
			.operation = function->shown,
			.datatype = strtab_get(strings, strtab_add(strings, text)),
			.extra_name = gpu_nccl_extra(function),
			.comm = key->comm,
			.bytes = key->bytes,
			.count = row->count,
			.ns = row->ns,
			.max_ns = row->max_ns,
			.within_ns = row->within_ns,
			.within_max_ns = row->within_max_ns,
			.pending = row->pending,
			.unknown = row->unknown,
		};
		text = gpu_extra_text(function, key->dims[1], extra);
		to[filled++].extra = strtab_get(strings, strtab_add(strings, text));
	}
	return filled;
}

void gpu_starved_fill(struct gpu_report_starved *to, const struct gpu_waits *waits,
		      const struct gpu_tally_process *process, uint64_t now_ns)
{
	struct gpu_waits_starved starved;

	if (!gpu_waits_starved(waits, process->kernel_pid, process->start_ns, &starved))
		return;
	*to = (struct gpu_report_starved){ .known = true,
					   .ns = starved.ns,
					   .max_ns = starved.max_ns,
					   .gaps = starved.gaps,
					   .copy_ns = starved.copy_ns };
	if (starved.since_ns && starved.since_ns < now_ns)
		to->since_seconds = (double)(now_ns - starved.since_ns) / 1e9;
}
