// SPDX-License-Identifier: Apache-2.0
/* When collectives were complete, and what is in groups, as what gpu/report.h writes. */
#include <stdio.h>
#include <string.h>

#include "cuda/functions.h"
#include "gpu/job.h"
#include "gpu/report.h"
#include "gpu/report_arrays.h"
#include "gpu/waits.h"

#define MAX_KINDS 512 /* of collectives in one group: an all-to-all has two for each rank */
#define PER_THREAD 2 /* CU_STREAM_PER_THREAD */

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

/* The default one of a thread is kept apart from those of others: see stream_key(). */
static uint64_t stream_of(uint64_t kept)
{
	return (uint32_t)kept == PER_THREAD ? PER_THREAD : kept;
}

static double seconds_since(uint64_t since_ns, uint64_t now_ns)
{
	return since_ns && since_ns < now_ns ? (double)(now_ns - since_ns) / 1e9 : 0;
}

size_t gpu_completions_fill(struct gpu_report_completion *to, const struct gpu_waits *waits,
			    const struct call_table_process *process, uint64_t now_ns,
			    struct gpu_arrays *arrays)
{
	const struct gpu_waits_row *rows;
	size_t nr, i, filled = 0;
	char type[24], extra[16];

	rows = gpu_waits_rows(waits, &nr);
	for (i = 0; i < nr; i++) {
		const struct gpu_waits_row *row = &rows[i];
		const struct gpu_waits_key *key = &row->key;
		const struct gpu_function *function = gpu_function(key->function);
		const char *text;

		if (key->pid != process->kernel_pid || key->start_ns != process->start_ns ||
		    !function->shown)
			continue;
		text = gpu_nccl_type(key->dims[0], type);
		to[filled] = (struct gpu_report_completion){
			.operation = function->shown,
			.datatype = gpu_arrays_text(arrays, text),
			.extra_name = gpu_nccl_extra(function),
			.comm = key->comm,
			.bytes = key->bytes,
			.count = row->count,
			.ns = row->ns,
			.max_ns = row->max_ns,
			.within_ns = row->within_ns,
			.within_max_ns = row->within_max_ns,
			.pending = row->pending,
			.pending_seconds =
				row->pending ? seconds_since(row->pending_ns, now_ns) : 0,
			.pending_stream = stream_of(row->pending_stream),
			.unknown = row->unknown,
		};
		text = gpu_extra_text(function, key->dims[1], extra);
		to[filled++].extra = gpu_arrays_text(arrays, text);
	}
	return filled;
}

/* False: of a function that there is none of. */
static bool grouped_fill(struct gpu_report_grouped *to, const struct gpu_waits_grouped *from,
			 struct gpu_arrays *arrays)
{
	const struct gpu_waits_key *key = &from->key;
	const struct gpu_function *function = gpu_function(key->function);
	char type[24], extra[16];
	const char *text;

	if (!function->shown)
		return false;
	text = gpu_nccl_type(key->dims[0], type);
	*to = (struct gpu_report_grouped){
		.operation = function->shown,
		.datatype = gpu_arrays_text(arrays, text),
		.extra_name = gpu_nccl_extra(function),
		.comm = key->comm,
		.stream = stream_of(from->stream),
		.bytes = key->bytes,
		.count = from->count,
	};
	text = gpu_extra_text(function, key->dims[1], extra);
	to->extra = gpu_arrays_text(arrays, text);
	return true;
}

/*
 * The kernel counts what a thread calls between ncclGroupStart and ncclGroupEnd, whether it could tell
 * of it or not, so that what is missing is known to be. But once a record was lost, one of these may
 * be of an earlier group, whose end is what was lost.
 */
void gpu_group_fill(struct gpu_report_group *to, struct gpu_report_grouped *rows, size_t max,
		    const struct gpu_monitor *watch, const struct gpu_snapshot *snapshot,
		    const struct gpu_open_call *open, struct gpu_arrays *arrays)
{
	const struct bpfprof_task_id task = { .pid = open->open.key.pid,
					      .tid = open->tid,
					      .start_ns = open->open.key.start_ns };
	struct gpu_waits_grouped found[MAX_KINDS];
	uint64_t total, told = 0;
	size_t nr, i;

	*to = (struct gpu_report_group){ .known = open->groups, .rows = rows };
	if (!open->groups)
		return;
	total = gpu_waits_group(watch->waits, &task, open->open.begin_ns, found,
				max < MAX_KINDS ? max : MAX_KINDS, &nr);
	to->calls = open->grouped;
	/* What is inside of another group is not put on its stream by this end, and waits for nobody. */
	to->complete = open->groups == 1 && total && total == to->calls &&
		       !snapshot->counters[GPU_COUNT_WAITS_LOST];
	for (i = 0; i < nr; i++) {
		if (!grouped_fill(&rows[to->nr], &found[i], arrays))
			continue;
		told += rows[to->nr].count;
		to->complete &= rows[to->nr++].comm != BPFPROF_GPU_OTHER;
	}
	to->complete &= told == total;
}

void gpu_times_fill(struct gpu_report_process *to, const struct gpu_waits *waits,
		    const struct call_table_process *process, uint64_t now_ns)
{
	const struct gpu_waits_times *times =
		gpu_waits_times(waits, process->kernel_pid, process->start_ns);

	if (!times)
		return;
	to->spans = (struct gpu_report_spans){
		.known = true,
		.count = times->spans.count,
		.ns = times->spans.ns,
		.max_ns = times->spans.max_ns,
		.since_seconds = seconds_since(times->spans.since_ns, now_ns),
	};
	to->device_idle = (struct gpu_report_device_idle){
		.known = true,
		.ns = times->device_idle.ns,
		.max_ns = times->device_idle.max_ns,
		.gaps = times->device_idle.gaps,
		.copy_ns = times->device_idle.copy_ns,
		.since_seconds = seconds_since(times->device_idle.since_ns, now_ns),
	};
}
