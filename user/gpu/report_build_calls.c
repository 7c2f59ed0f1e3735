// SPDX-License-Identifier: Apache-2.0
/*
 * Counts of calls as rows of a report: calls, launches, graphs, copies, collectives, collections.
 */
#include "gpu/report_build.h"

#include <stdio.h>

#include "cuda/functions.h"
#include "gpu/job.h"
#include "gpu/launch_library.h"
#include "gpu/recent.h"

static bool is_captured(const struct call_table_count *from)
{
	return from->key.flags & BPFPROF_KEY_CAPTURED;
}

/* Keys with the same function are one row. */
static void call_add(struct gpu_build *b, struct gpu_report_process *process,
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
static const char *kernel_text(struct gpu_build *b, const struct bpfprof_gpu_key *key)
{
	char room[CALL_TABLE_KERNEL_TEXT];
	const char *name = call_table_kernel_text(b->job->watch.table, key, room);

	return name == room ? gpu_arrays_text(&b->arrays, room) : name;
}

/* The name of a node's kernel; it lives as long as the report. */
static const char *node_text(struct gpu_build *b, const struct bpfprof_gpu_key *graph,
			     const struct gpu_graph_node *node)
{
	const struct bpfprof_gpu_key key = { .start_ns = graph->start_ns,
					     .pid = graph->pid,
					     .flags = (uint16_t)(node->generation
								 << CALL_TABLE_GENERATION_SHIFT),
					     .handle = node->handle };

	return kernel_text(b, &key);
}

static void launch_add(struct gpu_build *b, struct gpu_report_process *process,
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

static void nodes_add(struct gpu_build *b, struct gpu_report_graph *graph,
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
static void graph_add(struct gpu_build *b, struct gpu_report_process *process,
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

static void copy_add(struct gpu_build *b, struct gpu_report_process *process,
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

static void collective_add(struct gpu_build *b, struct gpu_report_process *process,
			   const struct gpu_function *function, const struct call_table_count *from)
{
	b->collectives[process->nr_collectives++] = (struct gpu_report_collective){
		.operation = function->shown,
		.datatype = gpu_build_type(b, from->key.dims[0]),
		.extra_name = gpu_nccl_extra(function),
		.extra = gpu_build_extra(b, function, from->key.dims[1]),
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

static void kind_add(struct gpu_build *b, struct gpu_report_process *process,
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

/* Adds the calls since the last snapshot. */
static void recent_add(struct gpu_build *b, struct gpu_report_process *process,
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

void gpu_build_count(struct gpu_build *b, struct gpu_report_process *process,
		     const struct call_table_count *from)
{
	const struct gpu_function *function = gpu_function(from->key.function);

	call_add(b, process, function, from);
	kind_add(b, process, function, from);
	if (b->recent)
		recent_add(b, process, function, &from->key);
}
