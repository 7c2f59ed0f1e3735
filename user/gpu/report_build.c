// SPDX-License-Identifier: Apache-2.0
/* Makes the report of gpu/report.h out of a snapshot and of what is known of its processes. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/host_name.h"
#include "base/time.h"
#include "cuda/functions.h"
#include "cuda/nccl_info.h"
#include "formats/output.h"
#include "formats/profile_text.h"
#include "gpu/absent_ranks.h"
#include "gpu/gap_sampler.h"
#include "gpu/inflight.h"
#include "gpu/job.h"
#include "gpu/launch_library.h"
#include "gpu/recent.h"
#include "gpu/report.h"
#include "gpu/report_arrays.h"
#include "gpu/trace.h"
#include "gpu/waits.h"
#include "kernel/probes/gpu_probes.h"
#include "options/gpu_options.h"
#include "profile/aggregate.h"
#include "profile/profile.h"
#include "profile/stats.h"
#include "profile/symbolize.h"

#define MAX_TEXT_BYTES (4U << 20)
#define MAX_FRAME_BYTES 4096
#define MAX_STACK_FRAMES 4096 /* of all open calls together */
#define MAX_GROUPED 4096 /* kinds of collectives in all open groups, the same */

/*
 * A report in progress. Rows of a process are next to each other: those of the process that is filled
 * now begin at calls, launches and so on.
 */
struct build {
	struct gpu_job *job;
	const struct gpu_snapshot *snapshot;
	const struct gpu_recent *recent; /* or NULL */
	struct gpu_report report;
	struct gpu_report_call *calls;
	struct gpu_report_launch *launches;
	struct gpu_report_graph *graphs;
	struct gpu_report_node *nodes; /* the next unused one */
	struct gpu_report_copy *copies;
	struct gpu_report_collective *collectives;
	struct gpu_report_completion *completions;
	struct gpu_report_comm *comms;
	struct gpu_report_open *open;
	const char **frames; /* of open calls */
	size_t nr_frames;
	struct gpu_report_grouped *grouped; /* in groups that these end */
	size_t nr_grouped;
	struct gpu_report_where *where; /* of absent ranks */
	struct gpu_arrays arrays; /* all these, and strings */
	struct stats_reasons lost;
};

static const char *keep(struct build *b, const char *text)
{
	return gpu_arrays_text(&b->arrays, text);
}

/* Sorts frames and drops those that are equal; the number of the others. */
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
 * The names of the frames of a stack of the aggregate, leaf first. The first frame is the label of the
 * function, which is shown as `function`. Past MAX_STACK_FRAMES a stack has no names.
 */
static int stack_names(struct build *b, uint32_t stack, const char *function,
		       const char *const **ret, size_t *ret_nr)
{
	struct symbolize_options options = { .kallsyms = "/proc/kallsyms",
					     .codes = b->job->sampler.codes,
					     .runner = b->job->sampler.runner,
					     .now_ns = time_monotonic_ns() };
	__cleanup(buf_fini) struct buf name = { .max = MAX_FRAME_BYTES };
	__cleanup(free_mem) uint64_t *sorted = NULL;
	struct profile profile = { 0 };
	struct stats_reasons files = { 0 };
	struct aggregate_view view;
	const uint64_t *frames, *at;
	size_t i, all, nr;
	int err, hidden;

	aggregate_view_get(b->job->watch.aggregate, &view);
	if (stack >= view.nr_stacks)
		return 0;
	all = view.stacks[stack].nr;
	frames = view.frames + view.stacks[stack].first;
	if (!all || b->nr_frames + all > MAX_STACK_FRAMES)
		return 0;
	sorted = malloc(all * sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, frames + 1, (all - 1) * sizeof(*sorted));
	nr = frames_unique(sorted, all - 1);
	err = symbolize_frames(&profile, sorted, nr, view.processes, view.nr_processes,
			       b->job->sampler.images, &options, &files, &hidden);
	if (err)
		return err;
	*ret = b->frames + b->nr_frames;
	*ret_nr = all;
	b->frames[b->nr_frames++] = function;
	for (i = 1; i < all; i++) {
		at = bsearch(&frames[i], sorted, nr, sizeof(*sorted), sorted_by_u64);
		buf_reset(&name);
		frame_text(&name, &profile, &profile.locations[at - sorted]);
		b->frames[b->nr_frames++] =
			keep(b, buf_error(&name) || !name.data ? "" : name.data);
	}
	profile_fini(&profile);
	return 0;
}

static bool is_captured(const struct call_table_count *from)
{
	return from->key.flags & BPFPROF_KEY_CAPTURED;
}

/* Keys with the same function are one row. */
static void call_add(struct build *b, struct gpu_report_process *process,
		     const struct gpu_function *function, const struct call_table_count *from)
{
	const struct bpfprof_gpu_count *count = &from->count;
	struct gpu_report_call *call = b->calls, *end = b->calls + process->nr_calls;

	for (; call < end && call->exported != function->name; call++)
		;
	if (call == end) {
		*call = (struct gpu_report_call){ .function = function->shown,
						  .exported = function->name,
						  .blocks = function->wire.flags &
							    BPFPROF_GPU_BLOCKS };
		process->nr_calls++;
	}
	call->calls += count->calls;
	if (!is_captured(from))
		call->bytes += count->bytes;
	call->ns += count->ns;
	if (count->max_ns > call->max_ns)
		call->max_ns = count->max_ns;
	call->errors += count->errors;
}

/* The name of a kernel; it lives as long as the report. */
static const char *kernel_text(struct build *b, const struct bpfprof_gpu_key *key)
{
	char room[CALL_TABLE_KERNEL_TEXT];
	const char *name = call_table_kernel_text(b->job->watch.table, key, room);

	return name == room ? keep(b, room) : name;
}

/* The same of a node of a graph. */
static const char *node_text(struct build *b, const struct bpfprof_gpu_key *graph,
			     const struct gpu_graph_node *node)
{
	const struct bpfprof_gpu_key key = { .start_ns = graph->start_ns,
					     .pid = graph->pid,
					     .flags = (uint16_t)(node->generation
								 << CALL_TABLE_GENERATION_SHIFT),
					     .handle = node->handle };

	return kernel_text(b, &key);
}

static void launch_add(struct build *b, struct gpu_report_process *process,
		       const struct gpu_function *function, const struct call_table_count *from)
{
	const struct bpfprof_gpu_key *key = &from->key;
	struct gpu_report_launch *launch = &b->launches[process->nr_launches++];
	int i;

	*launch = (struct gpu_report_launch){ .kernel = kernel_text(b, key),
					      .handle = key->handle,
					      .function = function->shown,
					      .exported = function->name,
					      .stream = key->stream,
					      .calls = from->count.calls,
					      .captured = is_captured(from) };
	launch_library_find(b->job->launch_library, b->job, key, &launch->library, &launch->entry);
	for (i = 0; i < 3; i++) {
		launch->grid[i] = key->dims[i];
		launch->block[i] = key->dims[3 + i];
	}
}

static void nodes_add(struct build *b, struct gpu_report_graph *graph,
		      const struct bpfprof_gpu_key *key)
{
	const struct gpu_function *function;
	struct gpu_report_node *node;
	struct gpu_graph known;
	size_t i;

	graph->nodes = b->nodes;
	if (!call_table_graph_of(b->job->watch.table, key, &known))
		return;
	graph->complete = known.complete;
	graph->nr_nodes = known.nr;
	for (i = 0; i < known.nr; i++) {
		function = gpu_function(known.nodes[i].function);
		node = b->nodes++;
		*node = (struct gpu_report_node){ .function = function->shown,
						  .count = known.nodes[i].count };
		if (BPFPROF_GPU_IS_LAUNCH(function->wire.kind))
			node->kernel = node_text(b, key, &known.nodes[i]);
	}
}

/* Graphs with the same content are one row. */
static void graph_add(struct build *b, struct gpu_report_process *process,
		      const struct call_table_count *from)
{
	struct gpu_report_graph *graph = b->graphs, *end = b->graphs + process->nr_graphs;
	uint64_t content = from->key.handle != BPFPROF_GPU_OTHER ? from->key.handle : 0;

	if (is_captured(from))
		return;
	for (; graph < end && graph->content != content; graph++)
		;
	if (graph == end) {
		*graph = (struct gpu_report_graph){ .content = content };
		nodes_add(b, graph, &from->key);
		process->nr_graphs++;
	}
	graph->launches += from->count.calls;
}

static void copy_add(struct build *b, struct gpu_report_process *process,
		     const struct gpu_function *function, const struct call_table_count *from)
{
	static const char *const directions[] = { "set", "HtoD", "DtoH", "DtoD", "any" };

	b->copies[process->nr_copies++] =
		(struct gpu_report_copy){ .direction = directions[function->copy],
					  .function = function->shown,
					  .stream = from->key.stream,
					  .calls = from->count.calls,
					  .bytes = from->count.bytes,
					  .ns = from->count.ns,
					  .captured = is_captured(from) };
}

static void collective_add(struct build *b, struct gpu_report_process *process,
			   const struct gpu_function *function, const struct call_table_count *from)
{
	char type[24], extra[16];

	b->collectives[process->nr_collectives++] = (struct gpu_report_collective){
		.operation = function->shown,
		.datatype = keep(b, gpu_nccl_type(from->key.dims[0], type)),
		.extra_name = gpu_nccl_extra(function),
		.extra = keep(b, gpu_extra_text(function, from->key.dims[1], extra)),
		.comm = from->key.handle,
		.stream = from->key.stream,
		.calls = from->count.calls,
		.bytes = from->count.bytes,
		.ns = from->count.ns,
		.max_ns = from->count.max_ns,
		.captured = is_captured(from),
	};
}

static void gc_add(struct gpu_report_process *process, const struct bpfprof_gpu_count *count)
{
	process->gc_calls += count->calls;
	process->gc_ns += count->ns;
	if (count->max_ns > process->gc_max_ns)
		process->gc_max_ns = count->max_ns;
}

static void kind_add(struct build *b, struct gpu_report_process *process,
		     const struct gpu_function *function, const struct call_table_count *from)
{
	switch (function->wire.kind) {
	case GPU_KIND_LAUNCH:
	case GPU_KIND_LAUNCH_CONFIG:
		launch_add(b, process, function, from);
		break;
	case GPU_KIND_GRAPH:
		graph_add(b, process, from);
		break;
	case GPU_KIND_COPY:
	case GPU_KIND_SET:
		copy_add(b, process, function, from);
		break;
	case GPU_KIND_COLLECTIVE:
		collective_add(b, process, function, from);
		break;
	case GPU_KIND_GC:
		gc_add(process, &from->count);
		break;
	}
}

/* What is new of a key since the last snapshot. */
static void recent_add(struct build *b, struct gpu_report_process *process,
		       const struct gpu_function *function, const struct bpfprof_gpu_key *key)
{
	bool launch = BPFPROF_GPU_IS_LAUNCH(function->wire.kind);
	uint64_t calls, ns;

	gpu_recent_find(b->recent, key, &calls, &ns);
	if (function->wire.flags & BPFPROF_GPU_BLOCKS)
		process->recent_blocked_ns += ns;
	if (key->flags & BPFPROF_KEY_CAPTURED)
		return;
	if (launch || function->wire.kind == GPU_KIND_GRAPH)
		process->recent_launches += calls;
	if (launch)
		b->launches[process->nr_launches - 1].recent = calls;
}

static void count_add(struct build *b, struct gpu_report_process *process,
		      const struct call_table_count *from)
{
	const struct gpu_function *function = gpu_function(from->key.function);

	call_add(b, process, function, from);
	kind_add(b, process, function, from);
	if (b->recent)
		recent_add(b, process, function, &from->key);
}

/* Until the snapshot was taken; 0 for what began after it. */
static double seconds_since(const struct build *b, uint64_t begin_ns)
{
	return b->snapshot->ts_ns > begin_ns ? (double)(b->snapshot->ts_ns - begin_ns) / 1e9 : 0;
}

static void open_collective(struct build *b, struct gpu_report_open *to,
			    const struct gpu_function *function, const struct bpfprof_gpu_key *key)
{
	const char *extra_name = gpu_nccl_extra(function), *extra;
	char type[24], room[16];

	to->datatype = keep(b, gpu_nccl_type(key->dims[0], type));
	extra = keep(b, gpu_extra_text(function, key->dims[1], room));
	if (!strcmp(extra_name, "op")) {
		to->op = extra;
	} else if (*extra_name) {
		to->extra_name = extra_name;
		to->extra = extra;
	}
}

static int open_add(struct build *b, struct gpu_report_process *process,
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
		.seconds = seconds_since(b, open->begin_ns),
		.stream = open->key.stream,
		.comm = kind == GPU_KIND_COLLECTIVE || kind == GPU_KIND_COMM_END ? open->key.handle
										 : 0,
		.bytes = open->bytes,
		.ends_group = kind == GPU_KIND_GROUP_END,
	};
	if (kind == GPU_KIND_COLLECTIVE)
		open_collective(b, to, function, &open->key);
	if (to->ends_group) {
		gpu_group_fill(&to->group, b->grouped + b->nr_grouped, MAX_GROUPED - b->nr_grouped,
			       &b->job->watch, b->snapshot, from, &b->arrays);
		b->nr_grouped += to->group.nr;
	}
	if (call_table_open_stack(b->job->watch.table, from->tid, open->begin_ns, &stack))
		return stack_names(b, stack, to->function, &to->stack, &to->nr_stack);
	return 0;
}

static void inflight_collective(struct build *b, struct gpu_report_open *to,
				const struct gpu_inflight_call *from)
{
	const struct nccl_info_has has = nccl_info_has(from->function);
	const struct nccl_info *info = &from->arguments.info;
	char room[24];

	to->stream = info->stream;
	to->comm = info->comm;
	to->bytes = info->bytes;
	if (info->type != NCCL_INFO_TYPE_UNKNOWN)
		to->datatype = keep(b, gpu_nccl_type(info->type, room));
	if (has.op)
		to->op = gpu_nccl_operation(info->op);
	if (!has.root && !has.peer)
		return;
	snprintf(room, sizeof(room), "%" PRIu32, info->root);
	to->extra_name = has.peer ? "peer" : "root";
	to->extra = keep(b, room);
}

/* A call that began before the hooks were attached. The report borrows its strings. */
static void inflight_add(struct build *b, struct gpu_report_process *process,
			 const struct gpu_inflight_call *from)
{
	struct gpu_report_open *to = &b->open[process->nr_open++];

	*to = (struct gpu_report_open){
		.tid = from->tid,
		.thread = from->thread,
		.function = from->function,
		.seconds = seconds_since(b, from->since_ns),
		.since_before = true,
		.arguments_unknown = !from->arguments_known,
		.stack = from->stack,
		.nr_stack = from->nr_stack,
		.ends_group = !strcmp(from->function, "ncclGroupEnd"),
	};
	if (from->arguments_known)
		inflight_collective(b, to, from);
}

/* The communicator of such a call, unless a call that was seen has reported it already. */
static void inflight_comm_add(struct build *b, struct gpu_report_process *process,
			      const struct gpu_inflight_call *from)
{
	struct gpu_report_comm *comm = b->comms, *end = b->comms + process->nr_comms;

	if (!from->arguments.comm_known)
		return;
	for (; comm < end && comm->comm != from->arguments.info.comm; comm++)
		;
	if (comm == end) {
		*comm = (struct gpu_report_comm){ .comm = from->arguments.info.comm,
						  .last = from->function };
		process->nr_comms++;
	} else if (comm->known) {
		return;
	}
	comm->known = true;
	comm->hash = from->arguments.hash;
	comm->rank = from->arguments.rank;
	comm->size = from->arguments.size;
}

static void comm_add(struct build *b, struct gpu_report_process *process,
		     const struct gpu_comm_entry *from)
{
	const struct bpfprof_gpu_comm *comm = &from->comm;
	/* With a rank past the size the memory is something else, or was freed. */
	bool known = comm->size && comm->rank < comm->size;

	b->comms[process->nr_comms++] =
		(struct gpu_report_comm){ .comm = from->key.comm,
					  .known = known,
					  .hash = known ? comm->hash : 0,
					  .rank = known ? comm->rank : 0,
					  .size = known ? comm->size : 0,
					  .calls = comm->calls,
					  .last = gpu_function(comm->last_function)->shown };
}

static bool is_of(const struct call_table_process *process, uint32_t pid, uint64_t start_ns)
{
	return process->kernel_pid == pid && process->start_ns == start_ns;
}

static const char *known(const char *text)
{
	return text ? text : "";
}

static struct gpu_report_memory memory_of(const struct call_table_process *process,
					  enum gpu_space space)
{
	const struct call_table_memory *memory = &process->memory[space];

	return (struct gpu_report_memory){ .live_bytes = memory->live_bytes,
					   .peak_bytes = memory->peak_bytes,
					   .allocations = memory->allocations,
					   .frees = memory->frees,
					   .unknown_frees = memory->unknown_frees };
}

/* The report borrows the strings of `from`, which may be NULL. */
static void where_fill(struct build *b, struct gpu_report_process *to,
		       const struct absent_rank *from)
{
	const struct absent_rank_thread *thread;
	size_t i;

	to->where = b->where;
	to->nr_where = from ? from->nr_threads : 0;
	for (i = 0; i < to->nr_where; i++) {
		thread = &from->threads[i];
		*b->where++ = (struct gpu_report_where){ .tid = thread->tid,
							 .thread = thread->name,
							 .was_in_nccl = thread->was_in_nccl,
							 .running = thread->running,
							 .stack = thread->frames,
							 .nr_stack = thread->nr_frames };
	}
}

/* The rows of the next process begin where those of this one end. */
static void rows_end(struct build *b, const struct gpu_report_process *process)
{
	b->calls += process->nr_calls;
	b->launches += process->nr_launches;
	b->graphs += process->nr_graphs;
	b->copies += process->nr_copies;
	b->collectives += process->nr_collectives;
	b->completions += process->nr_completions;
	b->comms += process->nr_comms;
	b->open += process->nr_open;
}

static int process_fill(struct build *b, struct gpu_report_process *to,
			const struct call_table_process *from)
{
	const struct gpu_snapshot *snapshot = b->snapshot;
	const struct gpu_inflight_call *inflight;
	size_t nr_inflight, i;
	int err = 0;

	*to = (struct gpu_report_process){
		.pid = from->pid ? from->pid : from->kernel_pid,
		.name = known(from->name),
		.container = known(from->container),
		.pod = known(from->pod),
		.namespace = known(from->namespace),
		.ray_task = known(from->ray_task),
		.rank = known(from->rank),
		.calls = b->calls,
		.launches = b->launches,
		.graphs = b->graphs,
		.copies = b->copies,
		.collectives = b->collectives,
		.completions = b->completions,
		.comms = b->comms,
		.open = b->open,
		.memory = memory_of(from, GPU_SPACE_DEVICE),
		.host_memory = memory_of(from, GPU_SPACE_HOST),
		.tensors_known = b->job->options->record.tensors,
		.tensor_memory = memory_of(from, GPU_SPACE_TENSOR),
	};
	for (i = 0; i < snapshot->nr_counts; i++)
		if (is_of(from, snapshot->counts[i].key.pid, snapshot->counts[i].key.start_ns))
			count_add(b, to, &snapshot->counts[i]);
	to->nr_completions = gpu_completions_fill(b->completions, b->job->watch.waits, from,
						  snapshot->ts_ns, &b->arrays);
	for (i = 0; i < snapshot->nr_comms; i++)
		if (is_of(from, snapshot->comms[i].key.pid, snapshot->comms[i].key.start_ns))
			comm_add(b, to, &snapshot->comms[i]);
	inflight = gpu_inflight_calls(b->job->inflight, &nr_inflight);
	for (i = 0; i < nr_inflight && !from->ended; i++)
		if (is_of(from, inflight[i].pid, inflight[i].start_ns))
			inflight_comm_add(b, to, &inflight[i]);
	for (i = 0; i < snapshot->nr_memory; i++) {
		if (!is_of(from, snapshot->memory[i].key.pid, snapshot->memory[i].key.start_ns))
			continue;
		to->memory.device_known = true;
		to->memory.device_free = snapshot->memory[i].memory.free_bytes;
		to->memory.device_total = snapshot->memory[i].memory.total_bytes;
	}
	gpu_times_fill(to, b->job->watch.waits, from, snapshot->ts_ns);
	for (i = 0; i < snapshot->nr_open && !from->ended && !err; i++)
		if (is_of(from, snapshot->open[i].open.key.pid,
			  snapshot->open[i].open.key.start_ns))
			err = open_add(b, to, &snapshot->open[i]);
	for (i = 0; i < nr_inflight && !from->ended; i++)
		if (is_of(from, inflight[i].pid, inflight[i].start_ns))
			inflight_add(b, to, &inflight[i]);
	where_fill(b, to, absent_ranks_of(b->job->absent_ranks, from->kernel_pid, from->start_ns));
	rows_end(b, to);
	return err;
}

void gpu_lost(struct gpu_job *job, const struct gpu_snapshot *snapshot, struct stats_reasons *lost)
{
	struct run_stats stats = { 0 };
	size_t i;

	gpu_monitor_lost(
		&job->watch, snapshot->counters,
		call_table_nr_unknown(job->watch.table, snapshot->counts, snapshot->nr_counts),
		lost);
	sampler_stats(&job->sampler, &stats);
	for (i = 0; i < stats.lost.nr; i++)
		stats_add(lost, stats.lost.reasons[i].name, stats.lost.reasons[i].count);
	gpu_inflight_lost(job->inflight, lost);
	gap_sampler_lost(job->gap_sampler, lost);
	absent_ranks_lost(job->absent_ranks, lost);
	if (job->trace)
		gpu_trace_lost(job->trace, lost);
}

static int libraries_fill(struct build *b)
{
	const struct gpu_probes_library *from;
	struct gpu_report_library *to;
	size_t nr, i;

	from = gpu_probes_libraries(b->job->watch.probes, &nr);
	to = gpu_arrays_add(&b->arrays, nr, sizeof(*to));
	if (!to)
		return -ENOMEM;
	b->report.libraries = to;
	b->report.nr_libraries = nr;
	for (i = 0; i < nr; i++)
		to[i] = (struct gpu_report_library){
			.path = from[i].path,
			.cuda = from[i].layers & 1U << GPU_LAYER_DRIVER,
			.nccl = from[i].layers & 1U << GPU_LAYER_NCCL,
			.torch = from[i].layers & 1U << GPU_LAYER_TORCH,
			.python = from[i].layers & 1U << GPU_LAYER_PYTHON,
			.functions = from[i].functions,
			.problem = from[i].problem,
		};
	return 0;
}

static bool has_something(const struct gpu_report_process *process)
{
	return process->nr_calls || process->nr_open || process->nr_comms;
}

/* Room for all rows of nr processes. */
static int rows_new(struct build *b, size_t nr)
{
	const struct gpu_snapshot *snapshot = b->snapshot;
	struct gpu_arrays *arrays = &b->arrays;
	size_t nr_counts = snapshot->nr_counts, nr_rows, nr_inflight;

	gpu_waits_poll(b->job->watch.waits);
	gpu_waits_rows(b->job->watch.waits, &nr_rows);
	gpu_inflight_calls(b->job->inflight, &nr_inflight);
	b->calls = gpu_arrays_add(arrays, nr_counts, sizeof(*b->calls));
	b->launches = gpu_arrays_add(arrays, nr_counts, sizeof(*b->launches));
	b->graphs = gpu_arrays_add(arrays, nr_counts, sizeof(*b->graphs));
	b->nodes =
		gpu_arrays_add(arrays, call_table_nr_nodes(b->job->watch.table), sizeof(*b->nodes));
	b->copies = gpu_arrays_add(arrays, nr_counts, sizeof(*b->copies));
	b->collectives = gpu_arrays_add(arrays, nr_counts, sizeof(*b->collectives));
	b->completions = gpu_arrays_add(arrays, nr_rows, sizeof(*b->completions));
	b->comms = gpu_arrays_add(arrays, snapshot->nr_comms + nr_inflight, sizeof(*b->comms));
	b->open = gpu_arrays_add(arrays, snapshot->nr_open + nr_inflight, sizeof(*b->open));
	b->frames = gpu_arrays_add(arrays, MAX_STACK_FRAMES, sizeof(*b->frames));
	b->grouped = gpu_arrays_add(arrays, MAX_GROUPED, sizeof(*b->grouped));
	b->where = gpu_arrays_add(arrays, nr * ABSENT_RANKS_THREADS, sizeof(*b->where));
	return arrays->failed ? -ENOMEM : 0;
}

static int processes_fill(struct build *b)
{
	const struct call_table_process *from;
	struct gpu_report_process *processes, *silent, *process;
	size_t nr, i;
	int err;

	from = call_table_processes(b->job->watch.table, &nr);
	b->report.processes = processes = gpu_arrays_add(&b->arrays, nr, sizeof(*processes));
	b->report.silent = silent = gpu_arrays_add(&b->arrays, nr, sizeof(*silent));
	err = rows_new(b, nr);
	for (i = 0; i < nr && !err; i++) {
		process = &processes[b->report.nr_processes];
		err = process_fill(b, process, &from[i]);
		if (has_something(process))
			b->report.nr_processes++;
		else if (!from[i].ended &&
			 gpu_inflight_was_silent(b->job->inflight, from[i].kernel_pid,
						 from[i].start_ns))
			silent[b->report.nr_silent++] = *process;
	}
	return err;
}

static int report_fill(struct build *b)
{
	int err = gpu_arrays_init(&b->arrays, MAX_TEXT_BYTES);

	if (!err)
		err = libraries_fill(b);
	if (!err)
		err = processes_fill(b);
	gpu_lost(b->job, b->snapshot, &b->lost);
	b->report.stacks_taken = call_table_nr_stacks(b->job->watch.table);
	b->report.stacks_skipped = b->snapshot->counters[GPU_COUNT_NO_TOKEN];
	b->report.stacks_hz = session_call_stacks_hz(&b->job->sampler.session);
	b->report.lost = b->lost.reasons;
	b->report.nr_lost = b->lost.nr;
	return err;
}

int gpu_report_build(struct buf *dst, struct gpu_job *job, const struct gpu_snapshot *snapshot,
		     const struct gpu_report_how *how)
{
	const struct gpu_options *options = job->options;
	const struct gpu_report_options table = { .rows = options->rows,
						  .sort = how->sort ? how->sort : options->sort,
						  .columns = how->columns,
						  .screen_rows = how->screen_rows };
	struct build b = { .job = job, .snapshot = snapshot, .recent = how->recent };
	uint64_t end_ns = job->end_ns ? job->end_ns : snapshot->ts_ns;
	char host[HOST_NAME_BYTES];
	int err = report_fill(&b);

	host_name(host);
	b.report.host = host;
	b.report.seconds = (double)(end_ns - job->start_ns) / 1e9;
	if (how->recent)
		b.report.recent_seconds = gpu_recent_seconds(how->recent);
	if (!err && options->json)
		gpu_json(dst, &b.report);
	else if (!err)
		gpu_table(dst, &b.report, &table);
	gpu_arrays_fini(&b.arrays);
	return err ?: buf_error(dst);
}
