// SPDX-License-Identifier: Apache-2.0
#include "output/gpu_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "output/text.h"
#include "profile/stats.h"

/* A comma, unless this is the first in its object or array. */
static void item(struct buf *dst)
{
	if (dst->len && !strchr("{[:", dst->data[dst->len - 1]))
		buf_add_char(dst, ',');
}

static void key(struct buf *dst, const char *name)
{
	item(dst);
	buf_printf(dst, "\"%s\":", name);
}

static void key_text(struct buf *dst, const char *name, const char *text)
{
	key(dst, name);
	text_add_json(dst, text);
}

static void key_number(struct buf *dst, const char *name, uint64_t value)
{
	key(dst, name);
	buf_printf(dst, "%" PRIu64, value);
}

static void key_text_or_null(struct buf *dst, const char *name, const char *text)
{
	if (*text) {
		key_text(dst, name, text);
		return;
	}
	key(dst, name);
	buf_add_str(dst, "null");
}

/* A number where it is written as one. */
static void key_digits(struct buf *dst, const char *name, const char *text)
{
	if (!*text || text[strspn(text, "0123456789")] || (*text == '0' && text[1])) {
		key_text(dst, name, text);
		return;
	}
	key(dst, name);
	buf_add_str(dst, text);
}

static void key_number_or_null(struct buf *dst, const char *name, bool known, uint64_t value)
{
	if (known) {
		key_number(dst, name, value);
		return;
	}
	key(dst, name);
	buf_add_str(dst, "null");
}

/* JavaScript's numbers have 53 bits, addresses more. */
static void key_hex(struct buf *dst, const char *name, uint64_t value)
{
	key(dst, name);
	buf_printf(dst, "\"0x%" PRIx64 "\"", value);
}

static void key_seconds(struct buf *dst, const char *name, double value)
{
	key(dst, name);
	buf_printf(dst, "%.3f", isfinite(value) ? value : 0);
}

static void key_open(struct buf *dst, const char *name, char bracket)
{
	key(dst, name);
	buf_add_char(dst, bracket);
}

static void item_open(struct buf *dst)
{
	item(dst);
	buf_add_char(dst, '{');
}

static void add_dims(struct buf *dst, const char *name, const uint32_t dims[3])
{
	key(dst, name);
	buf_printf(dst, "[%" PRIu32 ",%" PRIu32 ",%" PRIu32 "]", dims[0], dims[1], dims[2]);
}

static void add_calls(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_call *call;
	size_t i;

	key_open(dst, "calls", '[');
	for (i = 0; i < process->nr_calls; i++) {
		call = &process->calls[i];
		item_open(dst);
		key_text(dst, "function", call->function);
		key_text(dst, "exported", call->exported);
		key_number(dst, "calls", call->calls);
		key_number(dst, "bytes", call->bytes);
		key_number(dst, "ns", call->ns);
		key_number(dst, "max_ns", call->max_ns);
		key_number(dst, "errors", call->errors);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

static void add_launches(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_launch *launch;
	size_t i;

	key_open(dst, "launches", '[');
	for (i = 0; i < process->nr_launches; i++) {
		launch = &process->launches[i];
		item_open(dst);
		key_text(dst, "kernel", launch->kernel);
		key_hex(dst, "handle", launch->handle);
		key_text(dst, "function", launch->function);
		key_text(dst, "exported", launch->exported);
		add_dims(dst, "grid", launch->grid);
		add_dims(dst, "block", launch->block);
		key_hex(dst, "stream", launch->stream);
		key_number(dst, "calls", launch->calls);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

static void add_copies(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_copy *copy;
	size_t i;

	key_open(dst, "copies", '[');
	for (i = 0; i < process->nr_copies; i++) {
		copy = &process->copies[i];
		item_open(dst);
		key_text(dst, "direction", copy->direction);
		key_text(dst, "function", copy->function);
		key_hex(dst, "stream", copy->stream);
		key_number(dst, "calls", copy->calls);
		key_number(dst, "bytes", copy->bytes);
		key_number(dst, "ns", copy->ns);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

static void add_memory(struct buf *dst, const struct gpu_report_memory *memory)
{
	key_open(dst, "memory", '{');
	key_number(dst, "live_bytes", memory->live_bytes);
	key_number(dst, "peak_bytes", memory->peak_bytes);
	key_number(dst, "allocations", memory->allocations);
	key_number(dst, "frees", memory->frees);
	key_number(dst, "unknown_frees", memory->unknown_frees);
	key_number_or_null(dst, "device_free", memory->device_known, memory->device_free);
	key_number_or_null(dst, "device_total", memory->device_known, memory->device_total);
	buf_add_char(dst, '}');
}

static void add_starved(struct buf *dst, const struct gpu_report_starved *starved)
{
	key(dst, "starved");
	if (!starved->known) {
		buf_add_str(dst, "null");
		return;
	}
	buf_add_char(dst, '{');
	key_number(dst, "ns", starved->ns);
	key_number(dst, "max_ns", starved->max_ns);
	key_number(dst, "gaps", starved->gaps);
	key_number(dst, "copy_ns", starved->copy_ns);
	key_seconds(dst, "since_seconds", starved->since_seconds);
	buf_add_char(dst, '}');
}

static void add_collectives(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_collective *collective;
	size_t i;

	key_open(dst, "collectives", '[');
	for (i = 0; i < process->nr_collectives; i++) {
		collective = &process->collectives[i];
		item_open(dst);
		key_text(dst, "operation", collective->operation);
		key_text(dst, "datatype", collective->datatype);
		if (*collective->extra_name)
			key_digits(dst, collective->extra_name, collective->extra);
		key_hex(dst, "comm", collective->comm);
		key_hex(dst, "stream", collective->stream);
		key_number(dst, "calls", collective->calls);
		key_number(dst, "bytes", collective->bytes);
		key_number(dst, "ns", collective->ns);
		key_number(dst, "max_ns", collective->max_ns);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

static void add_completions(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_completion *completion;
	size_t i;

	key_open(dst, "completions", '[');
	for (i = 0; i < process->nr_completions; i++) {
		completion = &process->completions[i];
		item_open(dst);
		key_text(dst, "operation", completion->operation);
		key_text(dst, "datatype", completion->datatype);
		if (*completion->extra_name)
			key_digits(dst, completion->extra_name, completion->extra);
		key_hex(dst, "comm", completion->comm);
		key_number(dst, "bytes", completion->bytes);
		key_number(dst, "count", completion->count);
		key_number(dst, "ns", completion->ns);
		key_number(dst, "max_ns", completion->max_ns);
		key_number(dst, "within_ns", completion->within_ns);
		key_number(dst, "within_max_ns", completion->within_max_ns);
		key_number(dst, "pending", completion->pending);
		key_number(dst, "unknown", completion->unknown);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

static void add_comms(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_comm *comm;
	size_t i;

	key_open(dst, "communicators", '[');
	for (i = 0; i < process->nr_comms; i++) {
		comm = &process->comms[i];
		item_open(dst);
		key_hex(dst, "comm", comm->comm);
		if (comm->known)
			key_hex(dst, "hash", comm->hash);
		else
			key_number_or_null(dst, "hash", false, 0);
		key_number_or_null(dst, "rank", comm->known, comm->rank);
		key_number_or_null(dst, "size", comm->known, comm->size);
		key_number(dst, "calls", comm->calls);
		key_text(dst, "last", comm->last);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

static void add_open(struct buf *dst, const struct gpu_report_process *process)
{
	const struct gpu_report_open *open;
	size_t i, k;

	key_open(dst, "open", '[');
	for (k = 0; k < process->nr_open; k++) {
		open = &process->open[k];
		item_open(dst);
		key_number(dst, "tid", open->tid);
		key_text(dst, "thread", open->thread);
		key_text(dst, "function", open->function);
		key_seconds(dst, "seconds", open->seconds);
		key_hex(dst, "stream", open->stream);
		key_hex(dst, "comm", open->comm);
		key_number(dst, "bytes", open->bytes);
		key_open(dst, "stack", '[');
		for (i = 0; i < open->nr_stack; i++) {
			item(dst);
			text_add_json(dst, open->stack[i]);
		}
		buf_add_str(dst, "]}");
	}
	buf_add_char(dst, ']');
}

static void add_process(struct buf *dst, const struct gpu_report_process *process)
{
	item_open(dst);
	key_number(dst, "pid", process->pid);
	key_text(dst, "name", process->name);
	key_text_or_null(dst, "container", process->container);
	key_text_or_null(dst, "pod", process->pod);
	key_text_or_null(dst, "namespace", process->namespace);
	key_text_or_null(dst, "ray_task", process->ray_task);
	key_text_or_null(dst, "rank", process->rank);
	add_calls(dst, process);
	add_launches(dst, process);
	add_copies(dst, process);
	add_memory(dst, &process->memory);
	add_starved(dst, &process->starved);
	add_collectives(dst, process);
	add_completions(dst, process);
	add_comms(dst, process);
	add_open(dst, process);
	buf_add_char(dst, '}');
}

static void add_library(struct buf *dst, const struct gpu_report_library *library)
{
	item_open(dst);
	key_text(dst, "path", library->path);
	key_open(dst, "layers", '[');
	if (library->cuda)
		buf_add_str(dst, "\"cuda\"");
	if (library->nccl) {
		item(dst);
		buf_add_str(dst, "\"nccl\"");
	}
	buf_add_char(dst, ']');
	key_number(dst, "functions", library->functions);
	if (library->problem)
		key_text(dst, "problem", library->problem);
	else
		key_number_or_null(dst, "problem", false, 0);
	buf_add_char(dst, '}');
}

void gpu_json(struct buf *dst, const struct gpu_report *report)
{
	size_t i;

	buf_add_char(dst, '{');
	key_text(dst, "host", report->host);
	key_seconds(dst, "seconds", report->seconds);
	key_open(dst, "libraries", '[');
	for (i = 0; i < report->nr_libraries; i++)
		add_library(dst, &report->libraries[i]);
	buf_add_char(dst, ']');
	key_open(dst, "processes", '[');
	for (i = 0; i < report->nr_processes; i++)
		add_process(dst, &report->processes[i]);
	buf_add_char(dst, ']');
	key_open(dst, "stacks", '{');
	key_number(dst, "taken", report->stacks_taken);
	key_number(dst, "skipped", report->stacks_skipped);
	buf_add_char(dst, '}');
	key_open(dst, "lost", '{');
	for (i = 0; i < report->nr_lost; i++)
		key_number(dst, report->lost[i].name, report->lost[i].count);
	buf_add_str(dst, "}}\n");
}
