// SPDX-License-Identifier: Apache-2.0
#include "gpu/report.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "profile/stats.h"

static void key_text_or_null(struct buf *dst, const char *name, const char *text)
{
	if (*text) {
		json_key_text(dst, name, text);
		return;
	}
	json_key(dst, name);
	buf_add_str(dst, "null");
}

/* A number where it is written as one. */
static void key_digits(struct buf *dst, const char *name, const char *text)
{
	if (!*text || text[strspn(text, "0123456789")] || (*text == '0' && text[1])) {
		json_key_text(dst, name, text);
		return;
	}
	json_key(dst, name);
	buf_add_str(dst, text);
}

static void key_number_or_null(struct buf *dst, const char *name, bool known, uint64_t value)
{
	if (known) {
		json_key_number(dst, name, value);
		return;
	}
	json_key(dst, name);
	buf_add_str(dst, "null");
}

static void key_hex_or_null(struct buf *dst, const char *name, bool known, uint64_t value)
{
	if (known)
		json_key_hex(dst, name, value);
	else
		key_number_or_null(dst, name, false, 0);
}

static void item_open(struct buf *dst)
{
	json_item(dst);
	buf_add_char(dst, '{');
}

static void add_calls(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_call *call;
	size_t i;

	json_key_open(dst, "calls", '[');
	for (i = 0; i < process->nr_calls; i++) {
		call = &process->calls[i];
		item_open(dst);
		json_key_text(dst, "function", call->function);
		json_key_text(dst, "exported", call->exported);
		json_key_number(dst, "calls", call->calls);
		json_key_number(dst, "bytes", call->bytes);
		json_key_number(dst, "ns", call->ns);
		json_key_number(dst, "max_ns", call->max_ns);
		json_key_number(dst, "errors", call->errors);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

static void add_launches(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_launch *launch;
	size_t i;

	json_key_open(dst, "launches", '[');
	for (i = 0; i < process->nr_launches; i++) {
		launch = &process->launches[i];
		item_open(dst);
		json_key_text(dst, "kernel", launch->kernel);
		json_key_hex(dst, "handle", launch->handle);
		json_key_text(dst, "function", launch->function);
		json_key_text(dst, "exported", launch->exported);
		key_text_or_null(dst, "library", launch->library ?: "");
		key_text_or_null(dst, "entry", launch->entry ?: "");
		json_key_three(dst, "grid", launch->grid);
		json_key_three(dst, "block", launch->block);
		json_key_hex(dst, "stream", launch->stream);
		json_key_number(dst, "calls", launch->calls);
		json_key_bool(dst, "captured", launch->captured);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

static void add_nodes(struct buf *dst, const struct gpu_report_graph *graph)
{
	const struct gpu_report_node *node;
	size_t i;

	json_key_open(dst, "nodes", '[');
	for (i = 0; i < graph->nr_nodes; i++) {
		node = &graph->nodes[i];
		item_open(dst);
		json_key_text(dst, "function", node->function);
		key_text_or_null(dst, "kernel", node->kernel ?: "");
		json_key_number(dst, "count", node->count);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

static void add_graphs(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_graph *graph;
	size_t i;

	json_key_open(dst, "graphs", '[');
	for (i = 0; i < process->nr_graphs; i++) {
		graph = &process->graphs[i];
		item_open(dst);
		key_hex_or_null(dst, "content", graph->content, graph->content);
		json_key_number(dst, "launches", graph->launches);
		json_key_bool(dst, "complete", graph->complete);
		add_nodes(dst, graph);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

static void add_copies(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_copy *copy;
	size_t i;

	json_key_open(dst, "copies", '[');
	for (i = 0; i < process->nr_copies; i++) {
		copy = &process->copies[i];
		item_open(dst);
		json_key_text(dst, "direction", copy->direction);
		json_key_text(dst, "function", copy->function);
		json_key_hex(dst, "stream", copy->stream);
		json_key_number(dst, "calls", copy->calls);
		json_key_number(dst, "bytes", copy->bytes);
		json_key_number(dst, "ns", copy->ns);
		json_key_bool(dst, "captured", copy->captured);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

static void add_allocations(struct buf *dst, const struct gpu_report_memory *memory)
{
	json_key_number(dst, "live_bytes", memory->live_bytes);
	json_key_number(dst, "peak_bytes", memory->peak_bytes);
	json_key_number(dst, "allocations", memory->allocations);
	json_key_number(dst, "frees", memory->frees);
	json_key_number(dst, "unknown_frees", memory->unknown_frees);
}

static void add_memory(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_memory *memory = &process->memory;

	json_key_open(dst, "memory", '{');
	add_allocations(dst, memory);
	key_number_or_null(dst, "device_free", memory->device_known, memory->device_free);
	key_number_or_null(dst, "device_total", memory->device_known, memory->device_total);
	buf_add_char(dst, '}');
	json_key_open(dst, "host_memory", '{');
	add_allocations(dst, &process->host_memory);
	buf_add_char(dst, '}');
	if (!process->tensors_known) {
		json_key(dst, "tensor_memory");
		buf_add_str(dst, "null");
		return;
	}
	json_key_open(dst, "tensor_memory", '{');
	add_allocations(dst, &process->tensor_memory);
	buf_add_char(dst, '}');
}

static void add_device_idle(struct buf *dst, const struct gpu_report_device_idle *device_idle)
{
	json_key(dst, "starved");
	if (!device_idle->known) {
		buf_add_str(dst, "null");
		return;
	}
	buf_add_char(dst, '{');
	json_key_number(dst, "ns", device_idle->ns);
	json_key_number(dst, "max_ns", device_idle->max_ns);
	json_key_number(dst, "gaps", device_idle->gaps);
	json_key_number(dst, "copy_ns", device_idle->copy_ns);
	json_key_seconds(dst, "since_seconds", device_idle->since_seconds);
	buf_add_char(dst, '}');
}

static void add_spans(struct buf *dst, const struct gpu_report_spans *spans)
{
	json_key(dst, "spans");
	if (!spans->known) {
		buf_add_str(dst, "null");
		return;
	}
	buf_add_char(dst, '{');
	json_key_number(dst, "count", spans->count);
	json_key_number(dst, "ns", spans->ns);
	json_key_number(dst, "max_ns", spans->max_ns);
	json_key_seconds(dst, "since_seconds", spans->since_seconds);
	buf_add_char(dst, '}');
}

static void add_collectives(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_collective *collective;
	size_t i;

	json_key_open(dst, "collectives", '[');
	for (i = 0; i < process->nr_collectives; i++) {
		collective = &process->collectives[i];
		item_open(dst);
		json_key_text(dst, "operation", collective->operation);
		json_key_text(dst, "datatype", collective->datatype);
		if (*collective->extra_name)
			key_digits(dst, collective->extra_name, collective->extra);
		json_key_hex(dst, "comm", collective->comm);
		json_key_hex(dst, "stream", collective->stream);
		json_key_number(dst, "calls", collective->calls);
		json_key_number(dst, "bytes", collective->bytes);
		json_key_number(dst, "ns", collective->ns);
		json_key_number(dst, "max_ns", collective->max_ns);
		json_key_bool(dst, "captured", collective->captured);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

/* Of the oldest one. */
static void add_pending(struct buf *dst, const struct gpu_report_completion *completion)
{
	if (completion->pending)
		json_key_seconds(dst, "pending_seconds", completion->pending_seconds);
	else
		key_number_or_null(dst, "pending_seconds", false, 0);
	key_hex_or_null(dst, "pending_stream", completion->pending, completion->pending_stream);
}

static void add_completions(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_completion *completion;
	size_t i;

	json_key_open(dst, "completions", '[');
	for (i = 0; i < process->nr_completions; i++) {
		completion = &process->completions[i];
		item_open(dst);
		json_key_text(dst, "operation", completion->operation);
		json_key_text(dst, "datatype", completion->datatype);
		if (*completion->extra_name)
			key_digits(dst, completion->extra_name, completion->extra);
		json_key_hex(dst, "comm", completion->comm);
		json_key_number(dst, "bytes", completion->bytes);
		json_key_number(dst, "count", completion->count);
		json_key_number(dst, "ns", completion->ns);
		json_key_number(dst, "max_ns", completion->max_ns);
		json_key_number(dst, "within_ns", completion->within_ns);
		json_key_number(dst, "within_max_ns", completion->within_max_ns);
		json_key_number(dst, "pending", completion->pending);
		json_key_number(dst, "unknown", completion->unknown);
		add_pending(dst, completion);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

static void add_comms(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_comm *comm;
	size_t i;

	json_key_open(dst, "communicators", '[');
	for (i = 0; i < process->nr_comms; i++) {
		comm = &process->comms[i];
		item_open(dst);
		json_key_hex(dst, "comm", comm->comm);
		key_hex_or_null(dst, "hash", comm->known, comm->hash);
		key_number_or_null(dst, "rank", comm->known, comm->rank);
		key_number_or_null(dst, "size", comm->known, comm->size);
		json_key_number(dst, "calls", comm->calls);
		json_key_text(dst, "last", comm->last);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

static void add_group(struct buf *dst, const struct gpu_report_group *group)
{
	const struct gpu_report_grouped *row;
	size_t i;

	if (!group->known) {
		json_key(dst, "group");
		buf_add_str(dst, "null");
	} else {
		json_key_open(dst, "group", '[');
		for (i = 0; i < group->nr; i++) {
			row = &group->rows[i];
			item_open(dst);
			json_key_text(dst, "operation", row->operation);
			json_key_text(dst, "datatype", row->datatype);
			if (*row->extra_name)
				key_digits(dst, row->extra_name, row->extra);
			key_hex_or_null(dst, "comm", row->comm != UINT64_MAX, row->comm);
			json_key_hex(dst, "stream", row->stream);
			json_key_number(dst, "bytes", row->bytes);
			json_key_number(dst, "count", row->count);
			buf_add_char(dst, '}');
		}
		buf_add_char(dst, ']');
	}
	key_number_or_null(dst, "group_calls", group->known, group->calls);
	json_key_bool(dst, "group_complete", group->complete);
}

/* Who it is in it, too, which otherwise its row tells. */
static void add_open_comm(struct buf *dst, const struct gpu_report_process *process,
			  const struct gpu_report_open *open)
{
	const struct gpu_report_comm *comm = NULL;
	bool known;
	size_t i;

	for (i = 0; i < process->nr_comms && !comm; i++)
		if (process->comms[i].comm == open->comm)
			comm = &process->comms[i];
	known = open->comm && comm && comm->known;
	key_hex_or_null(dst, "comm", !open->arguments_unknown, open->comm);
	key_hex_or_null(dst, "hash", known, known ? comm->hash : 0);
	key_number_or_null(dst, "rank", known, known ? comm->rank : 0);
	key_number_or_null(dst, "size", known, known ? comm->size : 0);
}

static void add_stack(struct buf *dst, const char *const *stack, size_t nr)
{
	size_t i;

	json_key_open(dst, "stack", '[');
	for (i = 0; i < nr; i++) {
		json_item(dst);
		text_add_json(dst, stack[i]);
	}
	buf_add_char(dst, ']');
}

static void add_open(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_open *open;
	size_t k;

	json_key_open(dst, "open", '[');
	for (k = 0; k < process->nr_open; k++) {
		open = &process->open[k];
		item_open(dst);
		json_key_number(dst, "tid", open->tid);
		json_key_text(dst, "thread", open->thread);
		json_key_text(dst, "function", open->function);
		json_key_seconds(dst, "seconds", open->seconds);
		json_key_bool(dst, "since_before", open->since_before);
		key_hex_or_null(dst, "stream", !open->arguments_unknown, open->stream);
		add_open_comm(dst, process, open);
		key_number_or_null(dst, "bytes", !open->arguments_unknown, open->bytes);
		key_text_or_null(dst, "datatype", open->datatype ?: "");
		if (open->op)
			json_key_text(dst, "op", open->op);
		if (open->extra)
			key_digits(dst, open->extra_name, open->extra);
		if (open->ends_group)
			add_group(dst, &open->group);
		add_stack(dst, open->stack, open->nr_stack);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

static void add_who(struct buf *dst, const struct gpu_report_process *process)
{
	json_key_number(dst, "pid", process->pid);
	json_key_text(dst, "name", process->name);
	key_text_or_null(dst, "container", process->container);
	key_text_or_null(dst, "pod", process->pod);
	key_text_or_null(dst, "namespace", process->namespace);
	key_text_or_null(dst, "ray_task", process->ray_task);
	key_text_or_null(dst, "rank", process->rank);
}

/* Of one that is in a call, or that was not read, there are none. */
static void add_where(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_where *where;
	size_t i;

	json_key_open(dst, "where", '[');
	for (i = 0; i < process->nr_where; i++) {
		where = &process->where[i];
		item_open(dst);
		json_key_number(dst, "tid", where->tid);
		json_key_text(dst, "thread", where->thread);
		json_key_bool(dst, "last_in_nccl", where->was_in_nccl);
		json_key_bool(dst, "running", where->running);
		add_stack(dst, where->stack, where->nr_stack);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

static void add_process(struct buf *dst, const struct gpu_report_process *process)
{
	item_open(dst);
	add_who(dst, process);
	add_calls(dst, process);
	add_launches(dst, process);
	add_graphs(dst, process);
	add_copies(dst, process);
	add_memory(dst, process);
	add_device_idle(dst, &process->device_idle);
	add_spans(dst, &process->spans);
	add_collectives(dst, process);
	add_completions(dst, process);
	add_comms(dst, process);
	add_open(dst, process);
	add_where(dst, process);
	buf_add_char(dst, '}');
}

static void add_library(struct buf *dst, const struct gpu_report_library *library)
{
	item_open(dst);
	json_key_text(dst, "path", library->path);
	json_key_open(dst, "layers", '[');
	if (library->cuda)
		buf_add_str(dst, "\"cuda\"");
	if (library->nccl) {
		json_item(dst);
		buf_add_str(dst, "\"nccl\"");
	}
	if (library->torch) {
		json_item(dst);
		buf_add_str(dst, "\"torch\"");
	}
	if (library->python) {
		json_item(dst);
		buf_add_str(dst, "\"python\"");
	}
	buf_add_char(dst, ']');
	json_key_number(dst, "functions", library->functions);
	if (library->problem)
		json_key_text(dst, "problem", library->problem);
	else
		key_number_or_null(dst, "problem", false, 0);
	buf_add_char(dst, '}');
}

void gpu_json(struct buf *dst, const struct gpu_report *report)
{
	size_t i;

	buf_add_char(dst, '{');
	json_key_text(dst, "host", report->host);
	json_key_seconds(dst, "seconds", report->seconds);
	json_key_open(dst, "libraries", '[');
	for (i = 0; i < report->nr_libraries; i++)
		add_library(dst, &report->libraries[i]);
	buf_add_char(dst, ']');
	json_key_open(dst, "processes", '[');
	for (i = 0; i < report->nr_processes; i++)
		add_process(dst, &report->processes[i]);
	buf_add_char(dst, ']');
	json_key_open(dst, "without_calls", '[');
	for (i = 0; i < report->nr_silent; i++) {
		item_open(dst);
		add_who(dst, &report->silent[i]);
		add_where(dst, &report->silent[i]);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
	json_key_open(dst, "stacks", '{');
	json_key_number(dst, "taken", report->stacks_taken);
	json_key_number(dst, "skipped", report->stacks_skipped);
	json_key_number(dst, "per_thread_and_second", report->stacks_hz);
	buf_add_char(dst, '}');
	json_key_open(dst, "lost", '{');
	for (i = 0; i < report->nr_lost; i++)
		json_key_number(dst, report->lost[i].name, report->lost[i].count);
	buf_add_str(dst, "}}\n");
}
