// SPDX-License-Identifier: Apache-2.0
#include "gpu/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/units.h"
#include "gpu/report_writer.h"
#include "profile/stats.h"

#define DEFAULT_COLUMNS 80
#define MIN_COLUMNS 40
#define NEARLY_FULL 95.0 /* percent: from this use on, devices were seen to become slow */
#define MAX_STACK 48 /* lines, unless all rows were asked for */
#define MAX_GROUP 8 /* kinds of collectives, unless all rows were asked for */
#define MAX_TEXT_BYTES (64U << 10)
#define MAX_FUNCTION 32 /* columns */
#define MAX_PROBLEM 40
#define ERRORS 6 /* columns */

/* Calls that have not returned. */

/* The communicator of a call, before its other arguments. */
static void add_comm_of(struct gpu_writer *w, uint64_t va)
{
	const struct gpu_report_comm *comm = gpu_report_comm_of(w->process, va);

	buf_printf(w->dst, "communicator 0x%" PRIx64 ", ", va);
	if (comm && comm->known)
		buf_printf(w->dst, "rank %u of %u, ", comm->rank, comm->size);
}

static void add_grouped(struct gpu_writer *w, const struct gpu_report_grouped *row)
{
	bool named = *row->extra && strcmp(row->extra_name, "op");
	char text[UNITS_TEXT];

	gpu_add_rest_printf(w, "%" PRIu64 " %s %s %s%s%s%s%s,", row->count, row->operation,
			    row->datatype, units_bytes(text, row->bytes), *row->extra ? " " : "",
			    named ? row->extra_name : "", named ? " " : "", row->extra);
	buf_add_str(w->dst, "        ");
	if (row->comm == UINT64_MAX)
		buf_add_str(w->dst, "communicator not known, ");
	else
		add_comm_of(w, row->comm);
	gpu_add_words(w, "stream 0x%" PRIx64, row->stream);
}

/* Adds the collectives that ncclGroupEnd waits for, or the reason why they are not known. */
static void add_group(struct gpu_writer *w, const struct gpu_report_group *group)
{
	size_t shown = w->rows && group->nr > MAX_GROUP ? MAX_GROUP : group->nr, i;
	uint64_t listed = 0;

	if (!group->known) {
		gpu_add_words(w, "    in the group: not known, the group began before the hooks");
		return;
	}
	if (!group->nr && !group->calls) {
		gpu_add_words(w, "    in the group: no collective that is known");
		return;
	}
	for (i = 0; i < group->nr; i++)
		listed += group->rows[i].count;
	for (i = 0; i < shown; i++) {
		buf_add_str(w->dst, i ? "    and " : "    in the group: ");
		add_grouped(w, &group->rows[i]);
	}
	gpu_add_more(w, group->nr, shown);
	if (listed < group->calls)
		gpu_add_words(w, "    %s %" PRIu64 " %s that are not known",
			      group->nr ? "and" : "in the group:", group->calls - listed,
			      group->nr ? "more" : "collectives");
	else if (!group->complete)
		gpu_add_words(w, "    (this may not be all)");
}

/*
 * Adds "1.2 GB bfloat16 sum," and the communicator. The call that ends a communicator has no bytes.
 */
static void add_collective(struct gpu_writer *w, const struct gpu_report_open *open)
{
	char text[UNITS_TEXT];

	if (open->datatype || open->bytes)
		gpu_add_rest_printf(w, "    %s%s%s%s%s%s%s%s%s,", units_bytes(text, open->bytes),
				    open->datatype ? " " : "", open->datatype ?: "",
				    open->op ? " " : "", open->op ?: "", open->extra ? " " : "",
				    open->extra ? open->extra_name : "", open->extra ? " " : "",
				    open->extra ?: "");
	buf_add_str(w->dst, "    ");
	if (open->comm)
		add_comm_of(w, open->comm);
	gpu_add_words(w, "stream 0x%" PRIx64, open->stream);
}

static void add_open(struct gpu_writer *w, const struct gpu_report_open *open)
{
	size_t shown = w->rows && open->nr_stack > MAX_STACK ? MAX_STACK : open->nr_stack, i;
	char text[UNITS_TEXT];

	buf_add_str(w->dst, "  ");
	gpu_add_name(w, open->function, MAX_FUNCTION);
	buf_printf(w->dst, " has not returned for %s%s: thread %u ",
		   open->since_before ? "more than " : "", units_ns(text, gpu_ns(open->seconds)),
		   open->tid);
	gpu_add_rest(w, open->thread);
	if (open->datatype || open->comm)
		add_collective(w, open);
	else if (open->bytes)
		gpu_add_words(w, "    %s, stream 0x%" PRIx64, units_bytes(text, open->bytes),
			      open->stream);
	if (open->ends_group)
		add_group(w, &open->group);
	for (i = 0; i < shown; i++) {
		buf_add_str(w->dst, "      ");
		gpu_add_rest(w, open->stack[i]);
	}
	if (shown < open->nr_stack)
		gpu_add_words(w, "      ... and %zu more frames", open->nr_stack - shown);
	if (!open->nr_stack)
		gpu_add_words(w, "      (no stack was taken)");
}

static void add_hung(struct gpu_writer *w)
{
	const struct gpu_report_process *process = w->process;
	struct gpu_row *rows = gpu_rows_new(w, process->nr_open, sizeof(*rows));
	size_t nr = 0, shown, i;

	for (i = 0; rows && i < process->nr_open; i++)
		if (gpu_is_hung(&process->open[i]))
			rows[nr++] = (struct gpu_row){ .key = gpu_ns(process->open[i].seconds),
						       .name = process->open[i].function,
						       .index = i };
	if (nr) {
		shown = gpu_rows_sort(w, rows, nr);
		gpu_line_end(w);
		for (i = 0; i < shown; i++)
			add_open(w, &process->open[rows[i].index]);
		gpu_add_more(w, nr, shown);
	}
	free(rows);
}

/* Copies. */

static bool streams_differ(const struct gpu_report_process *process)
{
	size_t i;

	for (i = 1; i < process->nr_copies; i++)
		if (process->copies[i].stream != process->copies[0].stream)
			return true;
	return false;
}

static void add_copies(struct gpu_writer *w)
{
	const struct gpu_report_process *process = w->process;
	const struct gpu_report_copy *copy;
	bool streams = streams_differ(process);
	size_t nr = process->nr_copies, shown, i;
	struct gpu_row *rows;
	char stream[32];

	if (!nr)
		return;
	rows = gpu_rows_new(w, nr, sizeof(*rows));
	if (!rows)
		return;
	for (i = 0; i < nr; i++) {
		copy = &process->copies[i];
		rows[i] = (struct gpu_row){ .key = gpu_row_key(w, GPU_SORT_BYTES, copy->calls,
							       copy->bytes, copy->ns),
					    .calls = copy->calls,
					    .name = copy->function,
					    .index = i };
	}
	shown = gpu_rows_sort(w, rows, nr);
	gpu_line_end(w);
	buf_printf(w->dst, "  %*s  %*s  %*s  ", GPU_CALLS_WIDTH, "Copies", GPU_BYTES_WIDTH, "Bytes",
		   GPU_TIME_WIDTH, "Time");
	if (streams)
		buf_printf(w->dst, "%-*s  ", GPU_STREAM_WIDTH, "Stream");
	gpu_add_rest(w, "Direction, call");
	for (i = 0; i < shown; i++) {
		copy = &process->copies[rows[i].index];
		buf_add_str(w->dst, "  ");
		gpu_add_count(w, GPU_CALLS_WIDTH, copy->calls);
		gpu_add_bytes(w, copy->bytes);
		gpu_add_time(w, copy->ns);
		snprintf(stream, sizeof(stream), "0x%" PRIx64, copy->stream);
		if (streams)
			gpu_add_name_cell(w, GPU_STREAM_WIDTH, stream);
		gpu_add_rest_printf(w, "%s%s %s", copy->captured ? GPU_CAPTURED : "",
				    copy->direction, copy->function);
	}
	gpu_add_more(w, nr, shown);
	free(rows);
}

/* Calls, and how long they blocked. */

static uint64_t blocked_ns(const struct gpu_report_call *call)
{
	return call->blocks ? call->ns : 0;
}

static void add_call(struct gpu_writer *w, const struct gpu_report_call *call, bool errors)
{
	buf_add_str(w->dst, "  ");
	gpu_add_count(w, GPU_CALLS_WIDTH, call->calls);
	gpu_add_time(w, blocked_ns(call));
	gpu_add_time(w, call->blocks ? call->max_ns : 0);
	gpu_add_bytes(w, call->bytes);
	if (errors)
		gpu_add_count(w, ERRORS, call->errors);
	gpu_add_rest(w, call->function);
}

static void add_calls_head(struct gpu_writer *w, uint64_t calls, uint64_t blocked, bool errors)
{
	char text[UNITS_TEXT];

	gpu_line_end(w);
	buf_printf(w->dst, "  Calls: %" PRIu64, calls);
	if (blocked)
		buf_printf(w->dst, ", blocked for %s (%.0f%% of one thread's time)",
			   units_ns(text, blocked), gpu_rate(w, blocked) / 1e7);
	gpu_line_end(w);
	buf_printf(w->dst, "  %*s  %*s  %*s  %*s  ", GPU_CALLS_WIDTH, "Calls", GPU_TIME_WIDTH,
		   "Blocked", GPU_TIME_WIDTH, "Longest", GPU_BYTES_WIDTH, "Bytes");
	if (errors)
		buf_printf(w->dst, "%*s  ", ERRORS, "Errors");
	gpu_add_rest(w, "Call");
}

static void add_calls(struct gpu_writer *w)
{
	const struct gpu_report_process *process = w->process;
	uint64_t calls = 0, blocked = 0, errors = 0;
	size_t nr = process->nr_calls, shown, i;
	const struct gpu_report_call *call;
	struct gpu_row *rows;

	if (!nr)
		return;
	rows = gpu_rows_new(w, nr, sizeof(*rows));
	if (!rows)
		return;
	for (i = 0; i < nr; i++) {
		call = &process->calls[i];
		rows[i] = (struct gpu_row){ .key = gpu_row_key(w, GPU_SORT_BLOCKED, call->calls,
							       call->bytes, blocked_ns(call)),
					    .calls = call->calls,
					    .name = call->function,
					    .index = i };
		calls += call->calls;
		blocked += blocked_ns(call);
		errors += call->errors;
	}
	shown = gpu_rows_sort(w, rows, nr);
	add_calls_head(w, calls, blocked, errors);
	for (i = 0; i < shown; i++)
		add_call(w, &process->calls[rows[i].index], errors);
	gpu_add_more(w, nr, shown);
	free(rows);
}

/* Memory. */

static bool memory_used(const struct gpu_report_memory *memory)
{
	return memory->allocations || memory->frees || memory->unknown_frees ||
	       memory->live_bytes || memory->peak_bytes;
}

static void add_device(struct gpu_writer *w, const struct gpu_report_memory *memory)
{
	uint64_t total = memory->device_total;
	uint64_t used = memory->device_free < total ? total - memory->device_free : 0;
	double percent = total ? 100.0 * (double)used / (double)total : 0;
	char used_text[UNITS_TEXT], total_text[UNITS_TEXT];

	buf_printf(w->dst, "  Device: %s of %s used (%.1f%%), by its last cuMemGetInfo",
		   units_bytes(used_text, used), units_bytes(total_text, total), percent);
	gpu_line_end(w);
	if (percent > NEARLY_FULL)
		gpu_add_words(w,
			      "    NEARLY FULL (over 95%%): kernels and collectives may take many "
			      "times longer");
}

static void add_allocations(struct gpu_writer *w, const char *what,
			    const struct gpu_report_memory *memory)
{
	char live[UNITS_TEXT], peak[UNITS_TEXT];

	if (memory_used(memory))
		gpu_add_words(
			w, "  %s: %s live, peak %s; %" PRIu64 " allocations, %" PRIu64 " frees",
			what, units_bytes(live, memory->live_bytes),
			units_bytes(peak, memory->peak_bytes), memory->allocations, memory->frees);
	if (memory->unknown_frees)
		gpu_add_words(w, "    %" PRIu64 " frees were of memory allocated before the start",
			      memory->unknown_frees);
}

static void add_memory(struct gpu_writer *w)
{
	const struct gpu_report_memory *memory = &w->process->memory;
	const struct gpu_report_memory *host = &w->process->host_memory;
	const struct gpu_report_memory *tensors = &w->process->tensor_memory;

	if (!memory_used(memory) && !memory->device_known && !memory_used(host) &&
	    !memory_used(tensors))
		return;
	gpu_line_end(w);
	add_allocations(w, "Memory", memory);
	if (memory->device_known)
		add_device(w, memory);
	add_allocations(w, "PyTorch's tensors", tensors);
	add_allocations(w, "Page-locked on host", host);
}

/* Collectives, communicator by communicator. */

static void add_collective_rows(struct gpu_writer *w, uint64_t comm)
{
	const struct gpu_report_process *process = w->process;
	struct gpu_row *rows = gpu_rows_new(w, process->nr_collectives, sizeof(*rows));
	const struct gpu_report_collective *c;
	size_t nr = 0, shown, i;

	for (i = 0; rows && i < process->nr_collectives; i++) {
		c = &process->collectives[i];
		if (c->comm == comm)
			rows[nr++] =
				(struct gpu_row){ .key = gpu_row_key(w, GPU_SORT_BLOCKED, c->calls,
								     c->bytes, c->ns),
						  .calls = c->calls,
						  .name = c->operation,
						  .index = i };
	}
	shown = nr ? gpu_rows_sort(w, rows, nr) : 0;
	if (nr) {
		buf_printf(w->dst, "  %*s  %*s  %*s  %*s  ", GPU_CALLS_WIDTH, "Calls",
			   GPU_BYTES_WIDTH, "Bytes", GPU_TIME_WIDTH, "Time", GPU_TIME_WIDTH,
			   "Longest");
		gpu_add_rest(w, "Operation");
	}
	for (i = 0; i < shown; i++) {
		c = &process->collectives[rows[i].index];
		buf_add_str(w->dst, "  ");
		gpu_add_count(w, GPU_CALLS_WIDTH, c->calls);
		gpu_add_bytes(w, c->bytes);
		gpu_add_time(w, c->ns);
		gpu_add_time(w, c->max_ns);
		buf_add_str(w->dst, c->captured ? GPU_CAPTURED : "");
		gpu_add_operation(w, c->operation, c->datatype, c->extra_name, c->extra);
	}
	gpu_add_more(w, nr, shown);
	free(rows);
	gpu_add_completions(w, comm);
}

static void add_comm(struct gpu_writer *w, const struct gpu_report_comm *comm)
{
	gpu_line_end(w);
	buf_printf(w->dst, "  Communicator 0x%" PRIx64 ": ", comm->comm);
	if (comm->known)
		gpu_add_words(w, "rank %u of %u, hash 0x%" PRIx64, comm->rank, comm->size,
			      comm->hash);
	else
		gpu_add_words(w, "rank not known");
	if (comm->calls) {
		buf_printf(w->dst, "    %" PRIu64 " call%s since it was first seen, the last one ",
			   comm->calls, comm->calls == 1 ? "" : "s");
		gpu_add_rest(w, comm->last);
	}
	add_collective_rows(w, comm->comm);
}

/* Includes the collectives of communicators that had no room in the table. */
static void add_comms(struct gpu_writer *w)
{
	const struct gpu_report_process *process = w->process;
	struct gpu_row *rows = gpu_rows_new(w, process->nr_comms, sizeof(*rows));
	size_t shown, i, k;

	for (i = 0; rows && i < process->nr_comms; i++)
		rows[i] =
			(struct gpu_row){ .key = process->comms[i].calls, .name = "", .index = i };
	shown = rows ? gpu_rows_sort(w, rows, process->nr_comms) : 0;
	for (i = 0; i < shown; i++)
		add_comm(w, &process->comms[rows[i].index]);
	if (rows)
		gpu_add_more(w, process->nr_comms, shown);
	free(rows);
	for (i = 0; i < process->nr_collectives; i++) {
		if (gpu_report_comm_of(process, process->collectives[i].comm))
			continue;
		for (k = 0; k < i; k++)
			if (process->collectives[k].comm == process->collectives[i].comm)
				break;
		if (k == i)
			add_comm(w,
				 &(struct gpu_report_comm){ .comm = process->collectives[i].comm });
	}
}

/* A process. */

static bool is_idle(const struct gpu_report_process *process)
{
	return !process->nr_calls && !process->nr_launches && !process->nr_copies &&
	       !process->nr_collectives && !process->nr_comms && !process->nr_open &&
	       !memory_used(&process->memory) && !process->memory.device_known &&
	       !memory_used(&process->host_memory) && !memory_used(&process->tensor_memory);
}

static void add_nothing(struct gpu_writer *w, const char *indent)
{
	buf_printf(w->dst, "%sno CUDA or NCCL call in %.1f s", indent,
		   gpu_seconds(w->report->seconds));
	gpu_line_end(w);
}

/* The pod, the container and the Ray task, if they are known. */
static void add_place(struct gpu_writer *w, const struct gpu_report_process *process)
{
	const char *separator = "";
	struct buf line;

	buf_init(&line, MAX_TEXT_BYTES);
	if (*process->pod) {
		buf_printf(&line, "pod %s/%s", process->namespace, process->pod);
		separator = ", ";
	}
	if (*process->container) {
		buf_printf(&line, "%scontainer %s", separator, process->container);
		separator = ", ";
	}
	if (*process->ray_task && strcmp(process->ray_task, process->name))
		buf_printf(&line, "%s%s", separator, process->ray_task);
	if (line.len && !buf_error(&line)) {
		buf_add_str(w->dst, "  ");
		gpu_add_rest(w, line.data);
	}
	buf_fini(&line);
}

static void add_process(struct gpu_writer *w, const struct gpu_report_process *process)
{
	w->process = process;
	gpu_line_end(w);
	buf_printf(w->dst, "Process %u: ", process->pid);
	if (*process->rank)
		gpu_add_rest_printf(w, "%s, rank %s", process->name, process->rank);
	else
		gpu_add_rest(w, process->name);
	add_place(w, process);
	if (is_idle(process)) {
		add_nothing(w, "  ");
		return;
	}
	add_hung(w);
	gpu_add_launches(w);
	gpu_add_graphs(w);
	add_copies(w);
	add_calls(w);
	gpu_add_spans(w);
	gpu_add_device_idle(w);
	gpu_add_gc(w);
	add_memory(w);
	add_comms(w);
}

/* The hooked libraries and the losses. */

static void add_library(struct gpu_writer *w, const struct gpu_report_library *library)
{
	if (library->problem) {
		buf_add_str(w->dst, "Not hooked (");
		gpu_add_name(w, library->problem, MAX_PROBLEM);
		buf_add_str(w->dst, "): ");
	} else {
		buf_printf(w->dst, "Hooked: %u functions of ", library->functions);
	}
	gpu_add_rest(w, library->path);
}

static void add_reason(struct gpu_writer *w, const struct stats_reason *reason)
{
	char name[128], *c;

	if (!reason->count)
		return;
	snprintf(name, sizeof(name), "%s", reason->name);
	for (c = name; *c; c++)
		if (*c == '_')
			*c = ' ';
	gpu_add_rest_printf(w, "Lost: %" PRIu64 " (%s)", reason->count, name);
}

static void add_tail(struct gpu_writer *w)
{
	const struct gpu_report *report = w->report;
	size_t i;

	gpu_line_end(w);
	if (!report->nr_libraries)
		gpu_add_words(w, "No process has libcuda.so.1 or libnccl mapped.");
	for (i = 0; i < report->nr_libraries; i++)
		add_library(w, &report->libraries[i]);
	if (report->stacks_taken || report->stacks_skipped)
		gpu_add_words(w,
			      "Stacks: %" PRIu64 " taken, %" PRIu64
			      " skipped, over %u per second and thread",
			      report->stacks_taken, report->stacks_skipped, report->stacks_hz);
	for (i = 0; i < report->nr_lost; i++)
		add_reason(w, &report->lost[i]);
}

/* The time of the longest call that hangs. */
static double hung_seconds(const struct gpu_report_process *process)
{
	double most = 0;
	size_t i;

	for (i = 0; i < process->nr_open; i++)
		if (gpu_is_hung(&process->open[i]) && process->open[i].seconds > most)
			most = process->open[i].seconds;
	return most;
}

struct ranked {
	double hung;
	uint64_t launches, blocked_ns;
	size_t index;
};

static int compare_processes(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return GPU_ORDER(y->hung, x->hung) ?: GPU_ORDER(y->launches, x->launches) ?:
	       GPU_ORDER(y->blocked_ns, x->blocked_ns) ?: GPU_ORDER(x->index, y->index);
}

/* Processes with calls that hang first, then the busiest. The caller frees the array. */
static size_t *order_of(struct gpu_writer *w)
{
	const struct gpu_report *report = w->report;
	struct ranked *ranked = gpu_rows_new(w, report->nr_processes, sizeof(*ranked));
	size_t *order = gpu_rows_new(w, report->nr_processes, sizeof(*order)), i;

	for (i = 0; ranked && i < report->nr_processes; i++)
		ranked[i] = (struct ranked){ hung_seconds(&report->processes[i]),
					     report->processes[i].recent_launches,
					     report->processes[i].recent_blocked_ns, i };
	if (ranked)
		qsort(ranked, report->nr_processes, sizeof(*ranked), compare_processes);
	for (i = 0; ranked && order && i < report->nr_processes; i++)
		order[i] = ranked[i].index;
	free(ranked);
	return order;
}

static void add_title(struct gpu_writer *w)
{
	buf_add_str(w->dst, "GPU calls");
	if (*w->report->host)
		buf_add_str(w->dst, " on ");
	if (*w->report->host)
		gpu_add_name(w, w->report->host, MIN_COLUMNS);
	buf_printf(w->dst, ", %.1f s", gpu_seconds(w->report->seconds));
	gpu_line_end(w);
}

static enum gpu_sort sort_by_name(const char *name)
{
	if (!name)
		return GPU_SORT_NATURAL;
	if (!strcmp(name, "calls"))
		return GPU_SORT_CALLS;
	if (!strcmp(name, "bytes"))
		return GPU_SORT_BYTES;
	return !strcmp(name, "blocked") ? GPU_SORT_BLOCKED : GPU_SORT_NATURAL;
}

void gpu_table(struct buf *dst, const struct gpu_report *report,
	       const struct gpu_report_options *options)
{
	size_t columns = options->columns ? options->columns : DEFAULT_COLUMNS, i;
	struct gpu_writer w = { .dst = dst,
				.report = report,
				.sort = sort_by_name(options->sort),
				.rows = options->rows,
				.columns = columns < MIN_COLUMNS ? MIN_COLUMNS : columns,
				.line = dst->len };
	size_t *order;

	buf_init(&w.text, MAX_TEXT_BYTES);
	w.order = order = order_of(&w);
	if (options->screen_rows && order)
		gpu_add_overview(&w, options->screen_rows);
	else
		add_title(&w);
	for (i = 0; order && i < report->nr_processes; i++)
		add_process(&w, &report->processes[order[i]]);
	if (!report->nr_processes && options->screen_rows)
		gpu_line_end(&w);
	if (!report->nr_processes)
		add_nothing(&w, "");
	add_tail(&w);
	free(order);
	buf_fini(&w.text);
}
