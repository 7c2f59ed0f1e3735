// SPDX-License-Identifier: Apache-2.0
/* Rows of a report about the device's time: completed collectives, open groups, idle time. */
#include "gpu/report_build.h"

#include <stdio.h>
#include <string.h>

#include "cuda/functions.h"
#include "gpu/job.h"
#include "gpu/waits.h"

#define MAX_KINDS 512 /* kinds of collectives in one group: an all-to-all has two for each rank */
#define PER_THREAD 2 /* CU_STREAM_PER_THREAD */

double gpu_build_seconds(const struct gpu_build *b, uint64_t since_ns)
{
	uint64_t now_ns = b->snapshot->ts_ns;

	return since_ns && since_ns < now_ns ? (double)(now_ns - since_ns) / 1e9 : 0;
}

const char *gpu_build_type(struct gpu_build *b, uint32_t type)
{
	char room[24];

	return gpu_arrays_text(&b->arrays, gpu_nccl_type(type, room));
}

const char *gpu_build_extra(struct gpu_build *b, const struct gpu_function *function,
			    uint32_t value)
{
	const char *name = gpu_nccl_extra(function);
	char room[16];

	if (!strcmp(name, "op"))
		return gpu_nccl_operation(value);
	if (!*name)
		return "";
	snprintf(room, sizeof(room), "%u", value);
	return gpu_arrays_text(&b->arrays, room);
}

/*
 * stream_key() of bpf/gpu adds the tid to CU_STREAM_PER_THREAD; the report shows the stream without
 * it.
 */
static uint64_t stream_of(uint64_t kept)
{
	return (uint32_t)kept == PER_THREAD ? PER_THREAD : kept;
}

void gpu_build_completions(struct gpu_build *b, struct gpu_report_process *process,
			   const struct call_table_process *from)
{
	const struct gpu_waits_row *rows, *row;
	const struct gpu_function *function;
	const struct gpu_waits_key *key;
	size_t nr, i;

	rows = gpu_waits_rows(b->job->watch.waits, &nr);
	for (i = 0; i < nr; i++) {
		row = &rows[i];
		key = &row->key;
		function = gpu_function(key->function);
		if (key->pid != from->kernel_pid || key->start_ns != from->start_ns ||
		    !function->shown)
			continue;
		b->completions[process->nr_completions++] = (struct gpu_report_completion){
			.operation = function->shown,
			.datatype = gpu_build_type(b, key->dims[0]),
			.extra_name = gpu_nccl_extra(function),
			.extra = gpu_build_extra(b, function, key->dims[1]),
			.comm = key->comm,
			.bytes = key->bytes,
			.count = row->count,
			.ns = row->ns,
			.max_ns = row->max_ns,
			.within_ns = row->within_ns,
			.within_max_ns = row->within_max_ns,
			.pending = row->pending,
			.pending_seconds = row->pending ? gpu_build_seconds(b, row->pending_ns) : 0,
			.pending_stream = stream_of(row->pending_stream),
			.unknown = row->unknown,
		};
	}
}

static void grouped_fill(struct gpu_build *b, struct gpu_report_grouped *to,
			 const struct gpu_waits_grouped *from, const struct gpu_function *function)
{
	*to = (struct gpu_report_grouped){
		.operation = function->shown,
		.datatype = gpu_build_type(b, from->key.dims[0]),
		.extra_name = gpu_nccl_extra(function),
		.extra = gpu_build_extra(b, function, from->key.dims[1]),
		.comm = from->key.comm,
		.stream = stream_of(from->stream),
		.bytes = from->key.bytes,
		.count = from->count,
	};
}

/*
 * The kernel counts the calls of a thread between ncclGroupStart and ncclGroupEnd, even if it could
 * not report a call, so that a missing call is noticed. After the loss of a record one of these
 * calls may belong to an earlier group, whose end is the lost record.
 */
void gpu_build_group(struct gpu_build *b, struct gpu_report_group *to,
		     const struct gpu_open_call *open)
{
	const struct bpfprof_task_id task = { .pid = open->open.key.pid,
					      .tid = open->tid,
					      .start_ns = open->open.key.start_ns };
	struct gpu_report_grouped *rows = b->grouped + b->nr_grouped;
	size_t max = GPU_BUILD_MAX_GROUPED - b->nr_grouped, nr, i;
	struct gpu_waits_grouped found[MAX_KINDS];
	const struct gpu_function *function;
	uint64_t total, known = 0;

	*to = (struct gpu_report_group){ .known = open->groups, .rows = rows };
	if (!open->groups)
		return;
	total = gpu_waits_group(b->job->watch.waits, &task, open->open.begin_ns, found,
				max < MAX_KINDS ? max : MAX_KINDS, &nr);
	to->calls = open->grouped;
	/* The end of an inner group puts nothing on a stream, and waits for no rank. */
	to->complete = open->groups == 1 && total && total == to->calls &&
		       !b->snapshot->counters[GPU_COUNT_WAITS_LOST];
	for (i = 0; i < nr; i++) {
		function = gpu_function(found[i].key.function);
		if (!function->shown)
			continue;
		grouped_fill(b, &rows[to->nr++], &found[i], function);
		known += found[i].count;
		to->complete &= found[i].key.comm != BPFPROF_GPU_OTHER;
	}
	to->complete &= known == total;
	b->nr_grouped += to->nr;
}

void gpu_build_times(const struct gpu_build *b, struct gpu_report_process *to,
		     const struct call_table_process *process)
{
	const struct gpu_waits_times *times =
		gpu_waits_times(b->job->watch.waits, process->kernel_pid, process->start_ns);

	if (!times)
		return;
	to->spans = (struct gpu_report_spans){
		.known = true,
		.count = times->spans.count,
		.ns = times->spans.ns,
		.max_ns = times->spans.max_ns,
		.since_seconds = gpu_build_seconds(b, times->spans.since_ns),
	};
	to->device_idle = (struct gpu_report_device_idle){
		.known = true,
		.ns = times->device_idle.ns,
		.max_ns = times->device_idle.max_ns,
		.gaps = times->device_idle.gaps,
		.copy_ns = times->device_idle.copy_ns,
		.since_seconds = gpu_build_seconds(b, times->device_idle.since_ns),
	};
}
