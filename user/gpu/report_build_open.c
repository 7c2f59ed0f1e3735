// SPDX-License-Identifier: Apache-2.0
/* Calls that have not returned as rows of a report, with their stacks. */
#include "gpu/report_build.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/sorted.h"
#include "base/time.h"
#include "cuda/functions.h"
#include "cuda/nccl_info.h"
#include "formats/output.h"
#include "formats/profile_text.h"
#include "gpu/inflight.h"
#include "gpu/job.h"
#include "profile/aggregate.h"
#include "profile/profile.h"
#include "profile/symbolize.h"

#define MAX_FRAME_BYTES 4096

/* Sorts the frames and drops duplicates. Returns their number. */
static size_t frames_unique(uint64_t *frames, size_t nr)
{
	size_t unique = 0, i;

	qsort(frames, nr, sizeof(*frames), sorted_by_u64);
	for (i = 0; i < nr; i++)
		if (!unique || frames[unique - 1] != frames[i])
			frames[unique++] = frames[i];
	return unique;
}

/*
 * The names of the frames of a stack of the aggregate, leaf first. The first frame is the label of
 * the function, which is shown as `function`. Past GPU_BUILD_MAX_FRAMES a stack has no names.
 */
static int stack_names(struct gpu_build *b, uint32_t stack, const char *function,
		       const char *const **ret, size_t *ret_nr)
{
	struct symbolize_options options = { .kallsyms = "/proc/kallsyms",
					     .codes = b->job->sampler.codes,
					     .runner = b->job->sampler.reader.runner,
					     .now_ns = time_monotonic_ns() };
	__cleanup(buf_fini) struct buf name = { .max = MAX_FRAME_BYTES };
	__cleanup(free_mem) uint64_t *sorted = NULL;
	struct profile profile = { 0 };
	struct stats_reasons files = { 0 };
	struct aggregate_view view;
	const uint64_t *found;
	size_t all, nr = 0;
	uint32_t at, caller;
	int err, hidden;

	aggregate_view_get(b->job->watch.aggregate, &view);
	if (stack >= view.nr_stacks)
		return 0;
	all = stack_depth(view.callers, stack);
	if (!all || b->nr_frames + all > GPU_BUILD_MAX_FRAMES)
		return 0;
	sorted = malloc(all * sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	caller = view.callers[stack];
	stack_each(at, view.callers, caller)
		sorted[nr++] = view.frames[at];
	nr = frames_unique(sorted, nr);
	err = symbolize_frames(&profile, sorted, nr, view.processes, view.nr_processes,
			       b->job->sampler.reader.images, &options, &files, &hidden);
	if (err)
		return err;
	*ret = b->frames + b->nr_frames;
	*ret_nr = all;
	b->frames[b->nr_frames++] = function;
	stack_each(at, view.callers, caller) {
		found = bsearch(&view.frames[at], sorted, nr, sizeof(*sorted), sorted_by_u64);
		buf_reset(&name);
		frame_text(&name, &profile, &profile.locations[found - sorted]);
		b->frames[b->nr_frames++] = gpu_arrays_text(
			&b->arrays, buf_error(&name) || !name.data ? "" : name.data);
	}
	profile_fini(&profile);
	return 0;
}

static void open_collective(struct gpu_build *b, struct gpu_report_open *to,
			    const struct gpu_function *function, const struct bpfprof_gpu_key *key)
{
	const char *extra_name = gpu_nccl_extra(function);
	const char *extra = gpu_build_extra(b, function, key->dims[1]);

	to->datatype = gpu_build_type(b, key->dims[0]);
	if (!strcmp(extra_name, "op")) {
		to->op = extra;
	} else if (*extra_name) {
		to->extra_name = extra_name;
		to->extra = extra;
	}
}

int gpu_build_open(struct gpu_build *b, struct gpu_report_process *process,
		   const struct gpu_open_call *from)
{
	const struct bpfprof_gpu_open *open = &from->open;
	const struct gpu_function *function = gpu_function(open->key.function);
	struct gpu_report_open *to = &b->open[process->nr_open++];
	uint32_t kind = function->wire.kind, stack;

	*to = (struct gpu_report_open){
		.tid = from->tid,
		.thread = from->thread,
		.function = function->shown,
		.seconds = gpu_build_seconds(b, open->begin_ns),
		.stream = open->key.stream,
		.comm = kind == GPU_KIND_COLLECTIVE || kind == GPU_KIND_COMM_END ? open->key.handle
										 : 0,
		.bytes = open->bytes,
		.ends_group = kind == GPU_KIND_GROUP_END,
	};
	if (kind == GPU_KIND_COLLECTIVE)
		open_collective(b, to, function, &open->key);
	if (to->ends_group)
		gpu_build_group(b, &to->group, from);
	if (call_table_open_stack(b->job->watch.table, from->tid, open->begin_ns, &stack))
		return stack_names(b, stack, to->function, &to->stack, &to->nr_stack);
	return 0;
}

static void inflight_collective(struct gpu_build *b, struct gpu_report_open *to,
				const struct gpu_inflight_call *from)
{
	const struct nccl_info_has has = nccl_info_has(from->function);
	const struct nccl_info *info = &from->arguments.info;
	char room[16];

	to->stream = info->stream;
	to->comm = info->comm;
	to->bytes = info->bytes;
	if (info->type != NCCL_INFO_TYPE_UNKNOWN)
		to->datatype = gpu_build_type(b, info->type);
	if (has.op)
		to->op = gpu_nccl_operation(info->op);
	if (!has.root && !has.peer)
		return;
	snprintf(room, sizeof(room), "%" PRIu32, info->root);
	to->extra_name = has.peer ? "peer" : "root";
	to->extra = gpu_arrays_text(&b->arrays, room);
}

/* A call that began before the hooks were attached. The report borrows its strings. */
void gpu_build_inflight(struct gpu_build *b, struct gpu_report_process *process,
			const struct gpu_inflight_call *from)
{
	struct gpu_report_open *to = &b->open[process->nr_open++];

	*to = (struct gpu_report_open){
		.tid = from->tid,
		.thread = from->thread,
		.function = from->function,
		.seconds = gpu_build_seconds(b, from->since_ns),
		.since_before = true,
		.arguments_unknown = !from->arguments_known,
		.stack = from->stack,
		.nr_stack = from->nr_stack,
		.ends_group = !strcmp(from->function, "ncclGroupEnd"),
	};
	if (from->arguments_known)
		inflight_collective(b, to, from);
}
