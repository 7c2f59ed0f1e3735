// SPDX-License-Identifier: Apache-2.0
/* The picture of hooked calls as what gpu/report.h writes. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/host_name.h"
#include "base/strtab.h"
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

/* Everything that the report points to. */
struct text {
	struct gpu_job *job;
	const struct gpu_snapshot *picture;
	const struct gpu_recent *recent; /* or NULL */
	struct strtab *strings;
	struct gpu_report report;
	struct gpu_report_library *libraries;
	struct gpu_report_process *processes, *silent;
	struct gpu_report_call *calls;
	struct gpu_report_launch *launches;
	struct gpu_report_graph *graphs;
	struct gpu_report_node *nodes; /* in these */
	struct gpu_report_copy *copies;
	struct gpu_report_collective *collectives;
	struct gpu_report_completion *completions;
	struct gpu_report_comm *comms;
	struct gpu_report_open *open;
	size_t nr_calls, nr_launches, nr_copies, nr_collectives, nr_comms, nr_open; /* filled */
	size_t nr_completions, nr_graphs, nr_nodes;
	const char **frames; /* of open calls */
	size_t nr_frames;
	struct gpu_report_grouped *grouped; /* in groups that these end */
	size_t nr_grouped;
	struct gpu_report_where *where; /* of absent ranks */
	size_t nr_where;
	struct gpu_arrays arrays; /* all these */
	struct stats_reasons lost;
};

static const char *keep(struct text *t, const char *text)
{
	return strtab_get(t->strings, strtab_add(t->strings, text));
}

/*
 * Names of the frames of one stack of the aggregate, leaf first, which is the function: its label
 * stands there. What there is no room for is left out.
 */
static int stack_names(struct text *t, uint32_t stack, const char *function,
		       const char *const **ret, size_t *ret_nr)
{
	struct symbolize_options options = { .kallsyms = "/proc/kallsyms",
					     .codes = t->job->sampler.codes,
					     .runner = t->job->sampler.runner,
					     .now_ns = time_monotonic_ns() };
	__cleanup(buf_fini) struct buf name = { .max = MAX_FRAME_BYTES };
	__cleanup(free_mem) uint64_t *sorted = NULL;
	struct profile profile = { 0 };
	struct stats_reasons files = { 0 };
	struct aggregate_view view;
	const struct profile_stack *found;
	const uint64_t *frames;
	size_t i, k, nr = 0;
	int err, hidden;

	aggregate_view_get(t->job->watch.aggregate, &view);
	if (stack >= view.nr_stacks)
		return 0;
	found = &view.stacks[stack];
	frames = view.frames + found->first;
	if (t->nr_frames + found->nr > MAX_STACK_FRAMES)
		return 0;
	sorted = malloc((found->nr + 1) * sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	for (i = 1; i < found->nr; i++) { /* insertion: there are few */
		for (k = nr; k && sorted[k - 1] > frames[i]; k--)
			;
		if (k && sorted[k - 1] == frames[i])
			continue;
		memmove(sorted + k + 1, sorted + k, (nr - k) * sizeof(*sorted));
		sorted[k] = frames[i];
		nr++;
	}
	err = symbolize_frames(&profile, sorted, nr, view.processes, view.nr_processes,
			       t->job->sampler.images, &options, &files, &hidden);
	if (err)
		return err;
	*ret = t->frames + t->nr_frames;
	*ret_nr = found->nr;
	t->frames[t->nr_frames++] = function;
	for (i = 1; i < found->nr; i++) {
		for (k = 0; k < nr && sorted[k] != frames[i]; k++)
			;
		buf_reset(&name);
		frame_text(&name, &profile, &profile.locations[k]);
		t->frames[t->nr_frames++] =
			keep(t, buf_error(&name) || !name.data ? "" : name.data);
	}
	profile_fini(&profile);
	return 0;
}

static bool is_captured(const struct call_table_count *from)
{
	return from->key.flags & BPFPROF_KEY_CAPTURED;
}

/* One row for each function, however many keys it is counted by. */
static void call_add(struct text *t, struct gpu_report_process *process,
		     const struct gpu_function *function, const struct call_table_count *from)
{
	const struct bpfprof_gpu_count *count = &from->count;
	struct gpu_report_call *call = t->calls + t->nr_calls - process->nr_calls, *end;

	for (end = t->calls + t->nr_calls; call < end && call->exported != function->name; call++)
		;
	if (call == end) {
		*call = (struct gpu_report_call){ .function = function->shown,
						  .exported = function->name,
						  .blocks = function->wire.flags &
							    BPFPROF_GPU_BLOCKS };
		t->nr_calls++;
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

/* Of a kernel, for as long as the report. */
static const char *kernel_text(struct text *t, const struct bpfprof_gpu_key *key)
{
	char room[CALL_TABLE_KERNEL_TEXT];
	const char *name = call_table_kernel_text(t->job->watch.tally, key, room);

	return name == room ? keep(t, room) : name;
}

/* Of a node of a graph. */
static const char *node_text(struct text *t, const struct bpfprof_gpu_key *graph,
			     const struct gpu_graph_node *node)
{
	const struct bpfprof_gpu_key key = { .start_ns = graph->start_ns,
					     .pid = graph->pid,
					     .flags = (uint16_t)(node->generation
								 << CALL_TABLE_GENERATION_SHIFT),
					     .handle = node->handle };

	return kernel_text(t, &key);
}

static void launch_add(struct text *t, struct gpu_report_process *process,
		       const struct gpu_function *function, const struct call_table_count *from)
{
	const struct bpfprof_gpu_key *key = &from->key;
	struct gpu_report_launch *launch = &t->launches[t->nr_launches++];
	int i;

	process->nr_launches++;
	*launch = (struct gpu_report_launch){ .kernel = kernel_text(t, key),
					      .handle = key->handle,
					      .function = function->shown,
					      .exported = function->name,
					      .stream = key->stream,
					      .calls = from->count.calls,
					      .captured = is_captured(from) };
	launch_library_find(t->job->between, t->job, key, &launch->library, &launch->entry);
	for (i = 0; i < 3; i++) {
		launch->grid[i] = key->dims[i];
		launch->block[i] = key->dims[3 + i];
	}
}

static void nodes_add(struct text *t, struct gpu_report_graph *graph,
		      const struct bpfprof_gpu_key *key)
{
	const struct gpu_function *function;
	struct gpu_report_node *node;
	struct gpu_graph known;
	size_t i;

	graph->nodes = t->nodes + t->nr_nodes;
	if (!call_table_graph_of(t->job->watch.tally, key, &known))
		return;
	graph->complete = known.complete;
	graph->nr_nodes = known.nr;
	for (i = 0; i < known.nr; i++) {
		function = gpu_function(known.nodes[i].function);
		node = &t->nodes[t->nr_nodes++];
		*node = (struct gpu_report_node){ .function = function->shown,
						  .count = known.nodes[i].count };
		if (BPFPROF_GPU_IS_LAUNCH(function->wire.kind))
			node->kernel = node_text(t, key, &known.nodes[i]);
	}
}

/* One row for graphs with the same in them, wherever they were launched. */
static void graph_add(struct text *t, struct gpu_report_process *process,
		      const struct call_table_count *from)
{
	struct gpu_report_graph *graph = t->graphs + t->nr_graphs - process->nr_graphs;
	struct gpu_report_graph *end = t->graphs + t->nr_graphs;
	uint64_t content = from->key.handle != BPFPROF_GPU_OTHER ? from->key.handle : 0;

	if (is_captured(from))
		return;
	for (; graph < end; graph++)
		if (graph->content == content)
			break;
	if (graph == end) {
		*graph = (struct gpu_report_graph){ .content = content };
		nodes_add(t, graph, &from->key);
		t->nr_graphs++;
		process->nr_graphs++;
	}
	graph->launches += from->count.calls;
}

static void copy_add(struct text *t, struct gpu_report_process *process,
		     const struct gpu_function *function, const struct call_table_count *from)
{
	static const char *const directions[] = { "set", "HtoD", "DtoH", "DtoD", "any" };

	process->nr_copies++;
	t->copies[t->nr_copies++] =
		(struct gpu_report_copy){ .direction = directions[function->copy],
					  .function = function->shown,
					  .stream = from->key.stream,
					  .calls = from->count.calls,
					  .bytes = from->count.bytes,
					  .ns = from->count.ns,
					  .captured = is_captured(from) };
}

static void collective_add(struct text *t, struct gpu_report_process *process,
			   const struct gpu_function *function, const struct call_table_count *from)
{
	char type[24], extra[16];

	process->nr_collectives++;
	t->collectives[t->nr_collectives++] = (struct gpu_report_collective){
		.operation = function->shown,
		.datatype = keep(t, gpu_nccl_type(from->key.dims[0], type)),
		.extra_name = gpu_nccl_extra(function),
		.extra = keep(t, gpu_extra_text(function, from->key.dims[1], extra)),
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

static void kind_add(struct text *t, struct gpu_report_process *process,
		     const struct gpu_function *function, const struct call_table_count *from)
{
	switch (function->wire.kind) {
	case GPU_KIND_LAUNCH:
	case GPU_KIND_LAUNCH_CONFIG:
		launch_add(t, process, function, from);
		break;
	case GPU_KIND_GRAPH:
		graph_add(t, process, from);
		break;
	case GPU_KIND_COPY:
	case GPU_KIND_SET:
		copy_add(t, process, function, from);
		break;
	case GPU_KIND_COLLECTIVE:
		collective_add(t, process, function, from);
		break;
	case GPU_KIND_GC:
		gc_add(process, &from->count);
		break;
	}
}

/* What of it is new since the last picture. */
static void recent_add(struct text *t, struct gpu_report_process *process,
		       const struct gpu_function *function, const struct bpfprof_gpu_key *key)
{
	bool launch = BPFPROF_GPU_IS_LAUNCH(function->wire.kind);
	uint64_t calls, ns;

	gpu_recent_find(t->recent, key, &calls, &ns);
	if (function->wire.flags & BPFPROF_GPU_BLOCKS)
		process->recent_blocked_ns += ns;
	if (key->flags & BPFPROF_KEY_CAPTURED)
		return;
	if (launch || function->wire.kind == GPU_KIND_GRAPH)
		process->recent_launches += calls;
	if (launch)
		t->launches[t->nr_launches - 1].recent = calls;
}

static void count_add(struct text *t, struct gpu_report_process *process,
		      const struct call_table_count *from)
{
	const struct gpu_function *function = gpu_function(from->key.function);

	call_add(t, process, function, from);
	kind_add(t, process, function, from);
	if (t->recent)
		recent_add(t, process, function, &from->key);
}

/* Until the picture was taken. What was found out while it was shown may be newer. */
static double seconds_since(const struct text *t, uint64_t begin_ns)
{
	return t->picture->ts_ns > begin_ns ? (double)(t->picture->ts_ns - begin_ns) / 1e9 : 0;
}

static void open_collective(struct text *t, struct gpu_report_open *to,
			    const struct gpu_function *function, const struct bpfprof_gpu_key *key)
{
	const char *extra_name = gpu_nccl_extra(function), *extra;
	char type[24], room[16];

	to->datatype = keep(t, gpu_nccl_type(key->dims[0], type));
	extra = keep(t, gpu_extra_text(function, key->dims[1], room));
	if (!strcmp(extra_name, "op")) {
		to->op = extra;
	} else if (*extra_name) {
		to->extra_name = extra_name;
		to->extra = extra;
	}
}

static int open_add(struct text *t, struct gpu_report_process *process,
		    const struct gpu_open_call *from)
{
	const struct bpfprof_gpu_open *open = &from->open;
	const struct gpu_function *function = gpu_function(open->key.function);
	struct gpu_report_open *to = &t->open[t->nr_open++];
	uint32_t kind = function->wire.kind, stack;

	process->nr_open++;
	*to = (struct gpu_report_open){
		.tid = from->tid,
		.thread = from->thread,
		.function = function->shown,
		.seconds = seconds_since(t, open->begin_ns),
		.stream = open->key.stream,
		.comm = kind == GPU_KIND_COLLECTIVE || kind == GPU_KIND_COMM_END ? open->key.handle
										 : 0,
		.bytes = open->bytes,
		.ends_group = kind == GPU_KIND_GROUP_END,
	};
	if (kind == GPU_KIND_COLLECTIVE)
		open_collective(t, to, function, &open->key);
	if (to->ends_group) {
		gpu_group_fill(&to->group, t->grouped + t->nr_grouped, MAX_GROUPED - t->nr_grouped,
			       &t->job->watch, t->picture, from, t->strings);
		t->nr_grouped += to->group.nr;
	}
	if (call_table_open_stack(t->job->watch.tally, from->tid, open->begin_ns, &stack))
		return stack_names(t, stack, to->function, &to->stack, &to->nr_stack);
	return 0;
}

static void before_collective(struct text *t, struct gpu_report_open *to,
			      const struct gpu_inflight_call *from)
{
	const struct nccl_info_has has = nccl_info_has(from->function);
	const struct nccl_info *info = &from->arguments.info;
	char room[24];

	to->stream = info->stream;
	to->comm = info->comm;
	to->bytes = info->bytes;
	if (info->type != NCCL_INFO_TYPE_UNKNOWN)
		to->datatype = keep(t, gpu_nccl_type(info->type, room));
	if (has.op)
		to->op = gpu_nccl_operation(info->op);
	if (!has.root && !has.peer)
		return;
	snprintf(room, sizeof(room), "%" PRIu32, info->root);
	to->extra_name = has.peer ? "peer" : "root";
	to->extra = keep(t, room);
}

/* One that began before we came. Its strings are borrowed. */
static void before_add(struct text *t, struct gpu_report_process *process,
		       const struct gpu_inflight_call *from)
{
	struct gpu_report_open *to = &t->open[t->nr_open++];

	process->nr_open++;
	*to = (struct gpu_report_open){
		.tid = from->tid,
		.thread = from->thread,
		.function = from->function,
		.seconds = seconds_since(t, from->since_ns),
		.since_before = true,
		.arguments_unknown = !from->arguments_known,
		.stack = from->stack,
		.nr_stack = from->nr_stack,
		.ends_group = !strcmp(from->function, "ncclGroupEnd"),
	};
	if (from->arguments_known)
		before_collective(t, to, from);
}

/* Of such a one, unless a call in it that we saw has told of it: then what is known of it is added. */
static void before_comm_add(struct text *t, struct gpu_report_process *process,
			    const struct gpu_inflight_call *from)
{
	struct gpu_report_comm *comm = t->comms + t->nr_comms - process->nr_comms;
	struct gpu_report_comm *end = t->comms + t->nr_comms;

	if (!from->arguments.comm_known)
		return;
	for (; comm < end && comm->comm != from->arguments.info.comm; comm++)
		;
	if (comm == end) {
		*comm = (struct gpu_report_comm){ .comm = from->arguments.info.comm,
						  .last = from->function };
		t->nr_comms++;
		process->nr_comms++;
	} else if (comm->known) {
		return;
	}
	comm->known = true;
	comm->hash = from->arguments.hash;
	comm->rank = from->arguments.rank;
	comm->size = from->arguments.size;
}

static void comm_add(struct text *t, struct gpu_report_process *process,
		     const struct gpu_comm_entry *from)
{
	const struct bpfprof_gpu_comm *comm = &from->comm;
	/* A rank past the size: it was read at the wrong place, or freed since. */
	bool known = comm->size && comm->rank < comm->size;

	process->nr_comms++;
	t->comms[t->nr_comms++] =
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

/* Its strings are borrowed. */
static void where_fill(struct text *t, struct gpu_report_process *to,
		       const struct absent_rank *from)
{
	const struct absent_rank_thread *thread;
	size_t i;

	to->where = t->where + t->nr_where;
	to->nr_where = from ? from->nr_threads : 0;
	for (i = 0; i < to->nr_where; i++) {
		thread = &from->threads[i];
		t->where[t->nr_where++] =
			(struct gpu_report_where){ .tid = thread->tid,
						   .thread = thread->name,
						   .was_in_nccl = thread->was_in_nccl,
						   .running = thread->running,
						   .stack = thread->frames,
						   .nr_stack = thread->nr_frames };
	}
}

static int process_fill(struct text *t, struct gpu_report_process *to,
			const struct call_table_process *from)
{
	const struct gpu_snapshot *picture = t->picture;
	const struct gpu_inflight_call *before;
	size_t nr_before, i;
	int err = 0;

	*to = (struct gpu_report_process){
		.pid = from->pid ? from->pid : from->kernel_pid,
		.name = known(from->name),
		.container = known(from->container),
		.pod = known(from->pod),
		.namespace = known(from->namespace),
		.ray_task = known(from->ray_task),
		.rank = known(from->rank),
		.calls = t->calls + t->nr_calls,
		.launches = t->launches + t->nr_launches,
		.graphs = t->graphs + t->nr_graphs,
		.copies = t->copies + t->nr_copies,
		.collectives = t->collectives + t->nr_collectives,
		.completions = t->completions + t->nr_completions,
		.comms = t->comms + t->nr_comms,
		.open = t->open + t->nr_open,
		.memory = memory_of(from, GPU_SPACE_DEVICE),
		.host_memory = memory_of(from, GPU_SPACE_HOST),
		.tensors_known = t->job->options->record.capture.session.gpu_tensors,
		.tensor_memory = memory_of(from, GPU_SPACE_TENSOR),
	};
	for (i = 0; i < picture->nr_counts; i++)
		if (is_of(from, picture->counts[i].key.pid, picture->counts[i].key.start_ns))
			count_add(t, to, &picture->counts[i]);
	to->nr_completions =
		gpu_completions_fill(t->completions + t->nr_completions, t->job->watch.waits, from,
				     picture->ts_ns, t->strings);
	t->nr_completions += to->nr_completions;
	for (i = 0; i < picture->nr_comms; i++)
		if (is_of(from, picture->comms[i].key.pid, picture->comms[i].key.start_ns))
			comm_add(t, to, &picture->comms[i]);
	before = gpu_inflight_calls(t->job->before, &nr_before);
	for (i = 0; i < nr_before && !from->ended; i++)
		if (is_of(from, before[i].pid, before[i].start_ns))
			before_comm_add(t, to, &before[i]);
	for (i = 0; i < picture->nr_memory; i++) {
		if (!is_of(from, picture->memory[i].key.pid, picture->memory[i].key.start_ns))
			continue;
		to->memory.device_known = true;
		to->memory.device_free = picture->memory[i].memory.free_bytes;
		to->memory.device_total = picture->memory[i].memory.total_bytes;
	}
	gpu_times_fill(to, t->job->watch.waits, from, picture->ts_ns);
	for (i = 0; i < picture->nr_open && !from->ended && !err; i++)
		if (is_of(from, picture->open[i].open.key.pid, picture->open[i].open.key.start_ns))
			err = open_add(t, to, &picture->open[i]);
	for (i = 0; i < nr_before && !from->ended; i++)
		if (is_of(from, before[i].pid, before[i].start_ns))
			before_add(t, to, &before[i]);
	where_fill(t, to, absent_ranks_of(t->job->where, from->kernel_pid, from->start_ns));
	return err;
}

void gpu_lost(struct gpu_job *job, const struct gpu_snapshot *picture, struct stats_reasons *lost)
{
	struct run_stats stats = { 0 };
	size_t i;

	gpu_monitor_lost(
		&job->watch, picture->counters,
		call_table_nr_unknown(job->watch.tally, picture->counts, picture->nr_counts), lost);
	sampler_stats(&job->sampler, &stats);
	for (i = 0; i < stats.lost.nr; i++)
		stats_add(lost, stats.lost.reasons[i].name, stats.lost.reasons[i].count);
	gpu_inflight_lost(job->before, lost);
	gap_sampler_lost(job->sleepers, lost);
	absent_ranks_lost(job->where, lost);
	if (job->trace)
		gpu_trace_lost(job->trace, lost);
}

static void libraries_fill(struct text *t, const struct gpu_probes_library *libraries, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++)
		t->libraries[i] = (struct gpu_report_library){
			.path = libraries[i].path,
			.cuda = libraries[i].layers & 1U << GPU_LAYER_DRIVER,
			.nccl = libraries[i].layers & 1U << GPU_LAYER_NCCL,
			.torch = libraries[i].layers & 1U << GPU_LAYER_TORCH,
			.python = libraries[i].layers & 1U << GPU_LAYER_PYTHON,
			.functions = libraries[i].functions,
			.problem = libraries[i].problem,
		};
}

static bool has_something(const struct gpu_report_process *process)
{
	return process->nr_calls || process->nr_open || process->nr_comms;
}

static int fill(struct text *t)
{
	const struct call_table_process *processes;
	const struct gpu_probes_library *libraries;
	const struct gpu_snapshot *picture = t->picture;
	struct gpu_report_process *process;
	size_t nr, nr_libraries, nr_rows, nr_before, i;
	int err = 0;

	processes = call_table_processes(t->job->watch.tally, &nr);
	libraries = gpu_probes_libraries(t->job->watch.probes, &nr_libraries);
	t->libraries = gpu_arrays_add(&t->arrays, nr_libraries, sizeof(*t->libraries));
	t->processes = gpu_arrays_add(&t->arrays, nr, sizeof(*t->processes));
	t->silent = gpu_arrays_add(&t->arrays, nr, sizeof(*t->silent));
	t->calls = gpu_arrays_add(&t->arrays, picture->nr_counts, sizeof(*t->calls));
	t->launches = gpu_arrays_add(&t->arrays, picture->nr_counts, sizeof(*t->launches));
	t->graphs = gpu_arrays_add(&t->arrays, picture->nr_counts, sizeof(*t->graphs));
	t->nodes = gpu_arrays_add(&t->arrays, call_table_nr_nodes(t->job->watch.tally),
				  sizeof(*t->nodes));
	t->copies = gpu_arrays_add(&t->arrays, picture->nr_counts, sizeof(*t->copies));
	t->collectives = gpu_arrays_add(&t->arrays, picture->nr_counts, sizeof(*t->collectives));
	gpu_waits_poll(t->job->watch.waits);
	gpu_waits_rows(t->job->watch.waits, &nr_rows);
	t->completions = gpu_arrays_add(&t->arrays, nr_rows, sizeof(*t->completions));
	gpu_inflight_calls(t->job->before, &nr_before);
	t->comms = gpu_arrays_add(&t->arrays, picture->nr_comms + nr_before, sizeof(*t->comms));
	t->open = gpu_arrays_add(&t->arrays, picture->nr_open + nr_before, sizeof(*t->open));
	t->frames = gpu_arrays_add(&t->arrays, MAX_STACK_FRAMES, sizeof(*t->frames));
	t->grouped = gpu_arrays_add(&t->arrays, MAX_GROUPED, sizeof(*t->grouped));
	t->where = gpu_arrays_add(&t->arrays, nr * ABSENT_RANKS_THREADS, sizeof(*t->where));
	if (t->arrays.failed)
		return -ENOMEM;
	libraries_fill(t, libraries, nr_libraries);
	for (i = 0; i < nr && !err; i++) {
		process = &t->processes[t->report.nr_processes];
		err = process_fill(t, process, &processes[i]);
		if (has_something(process))
			t->report.nr_processes++;
		else if (!processes[i].ended &&
			 gpu_inflight_was_silent(t->job->before, processes[i].kernel_pid,
						 processes[i].start_ns))
			t->silent[t->report.nr_silent++] = *process;
	}
	gpu_lost(t->job, t->picture, &t->lost);
	t->report.libraries = t->libraries;
	t->report.nr_libraries = nr_libraries;
	t->report.processes = t->processes;
	t->report.silent = t->silent;
	t->report.stacks_taken = call_table_nr_stacks(t->job->watch.tally);
	t->report.stacks_skipped = picture->counters[GPU_COUNT_NO_TOKEN];
	t->report.stacks_hz = session_call_stacks_hz(&t->job->sampler.session);
	t->report.lost = t->lost.reasons;
	t->report.nr_lost = t->lost.nr;
	return err;
}

int gpu_report_build(struct buf *dst, struct gpu_job *job, const struct gpu_snapshot *picture,
		     const struct gpu_report_how *how)
{
	const struct gpu_options *options = job->options;
	const struct gpu_report_options table = { .rows = options->rows,
						  .sort = how->sort ? how->sort : options->sort,
						  .columns = how->columns,
						  .screen_rows = how->screen_rows };
	char host[HOST_NAME_BYTES];
	struct text t = { .job = job, .picture = picture, .recent = how->recent };
	int err;

	err = strtab_new(&t.strings, MAX_TEXT_BYTES);
	if (!err)
		err = fill(&t);
	host_name(host);
	t.report.host = host;
	t.report.seconds =
		(double)((job->end_ns ? job->end_ns : picture->ts_ns) - job->start_ns) / 1e9;
	if (how->recent)
		t.report.recent_seconds = gpu_recent_seconds(how->recent);
	if (!err && options->json)
		gpu_json(dst, &t.report);
	else if (!err)
		gpu_table(dst, &t.report, &table);
	strtab_free(t.strings);
	gpu_arrays_fini(&t.arrays);
	return err ?: buf_error(dst);
}
