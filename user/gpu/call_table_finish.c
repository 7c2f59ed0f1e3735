// SPDX-License-Identifier: Apache-2.0
#include "gpu/call_table_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/capped.h"
#include "gpu/shares.h"

#define STREAM_TEXT_BYTES 32
#define GRAPH_TEXT_BYTES 56
#define DEVICE_IDLE_LABEL "launch"
#define UNSEEN_LABEL "[before this launch]" /* idle time in which no thread was seen */
#define GAP_LABEL "gap"
#define CAPTURED_LABEL "[captured]" /* written into a graph instead of executed */

struct call_table_sums call_table_sums(const struct stack_entry *stack)
{
	struct call_table_sums sums = { 0 };

	for (; stack; stack = stack->next) {
		sums.seen += stack->seen;
		sums.bytes = capped_add(sums.bytes, stack->bytes);
		sums.ns = capped_add(sums.ns, stack->ns);
	}
	return sums;
}

static const struct {
	enum profile_call_value allocated, inuse;
} memory_values[GPU_NR_SPACES] = {
	[GPU_SPACE_DEVICE] = { PROFILE_ALLOCATED_BYTES, PROFILE_INUSE_BYTES },
	[GPU_SPACE_HOST] = { PROFILE_HOST_ALLOCATED_BYTES, PROFILE_HOST_INUSE_BYTES },
	[GPU_SPACE_TENSOR] = { PROFILE_TENSOR_ALLOCATED_BYTES, PROFILE_TENSOR_INUSE_BYTES },
};

/*
 * The values of a sample from calls, bytes and time of the same function. Captured copies move
 * nothing.
 */
static void values_fill(const struct gpu_function *function, bool captured, uint64_t calls,
			uint64_t bytes, uint64_t ns, uint64_t values[PROFILE_NR_CALL_VALUES])
{
	values[PROFILE_CALLS] = calls;
	if (captured)
		bytes = 0;
	values[PROFILE_BLOCKED_NS] = function->wire.flags & BPFPROF_GPU_BLOCKS ? ns : 0;
	values[PROFILE_GC_NS] = function->wire.kind == GPU_KIND_GC ? ns : 0;
	values[function->wire.kind == GPU_KIND_ALLOC ? memory_values[function->space].allocated
						     : PROFILE_MOVED_BYTES] = bytes;
}

/* A sample without room is counted as lost. */
static void sample_add(struct call_table *table, const struct aggregate_call_at *from,
		       bool captured, const char *kernel, uint32_t call,
		       const uint64_t values[PROFILE_NR_CALL_VALUES])
{
	struct aggregate_call_at at = *from;
	size_t i;

	for (i = 0; i < PROFILE_NR_CALL_VALUES && !values[i]; i++)
		;
	if (i == PROFILE_NR_CALL_VALUES)
		return;
	if (captured)
		at.stack = aggregate_stack_with(table->aggregate, at.stack,
						aggregate_label(table->aggregate, CAPTURED_LABEL));
	if (kernel)
		at.stack = aggregate_stack_with(table->aggregate, at.stack,
						aggregate_label(table->aggregate, kernel));
	if (aggregate_call_sample(table->aggregate, &at, call, values) == -EINVAL)
		/* The aggregate counts its own losses. */
		table->calls_lost += values[PROFILE_CALLS];
}

/* "graph of 412 kernels"; NULL: its content is not known. */
static const char *graph_text(const struct call_table *table, const struct bpfprof_gpu_key *key,
			      char room[GRAPH_TEXT_BYTES])
{
	uint64_t nr = 0;
	struct gpu_graph graph;
	size_t i;

	if (!call_table_graph_of(table, key, &graph) || (!graph.complete && !graph.nr))
		return NULL;
	for (i = 0; i < graph.nr; i++)
		if (BPFPROF_GPU_IS_LAUNCH(gpu_function(graph.nodes[i].function)->wire.kind))
			nr += graph.nodes[i].count;
	snprintf(room, GRAPH_TEXT_BYTES, "graph of %s%" PRIu64 " kernel%s",
		 graph.complete ? "" : "at least ", nr, nr == 1 ? "" : "s");
	return room;
}

/*
 * The kernel sent no stack of this key in this interval: its calls are given to the stacks of the
 * last one.
 */
static void seen_before(struct key_entry *of)
{
	struct stack_entry *stack;

	for (stack = of->stacks; stack; stack = stack->next)
		stack->seen = stack->before;
}

/* Adds the idle time before launches from this stack in which no thread was seen. */
static void unseen_add(struct call_table *table, const struct stack_entry *stack,
		       const char *kernel, uint32_t call)
{
	const struct bpfprof_gpu_key *key = &stack->key.of->key;
	struct process_entry *process = call_table_process_find(table, key->pid, key->start_ns);
	uint64_t values[PROFILE_NR_CALL_VALUES] = { [PROFILE_DEVICE_IDLE_NS] =
							    stack->device_idle_ns };
	struct aggregate_call_at at = stack->at;

	if (process && stack->short_ns)
		values[PROFILE_DEVICE_IDLE_NS] += share_take(
			&process->short_left_ns, &process->short_all_ns, stack->short_ns);
	if (!values[PROFILE_DEVICE_IDLE_NS])
		return;
	if (kernel)
		at.stack = aggregate_stack_with(table->aggregate, at.stack,
						aggregate_label(table->aggregate, kernel));
	sample_add(table, &at, false, UNSEEN_LABEL, call, values);
}

static void key_finish(struct call_table *table, const struct call_table_count *counted,
		       const struct aggregate_call_labels *labels)
{
	const struct gpu_function *function = gpu_function(counted->key.function);
	uint32_t call = aggregate_call(table->aggregate, labels);
	uint64_t calls = counted->count.calls, bytes = counted->count.bytes, ns = counted->count.ns;
	bool captured = counted->key.flags & BPFPROF_KEY_CAPTURED;
	uint64_t completed = 0, complete_ns = 0;
	const struct stack_entry *stack;
	struct aggregate_call_at at;
	struct key_entry *of = hash_table_find(&table->keys, &counted->key);
	struct call_table_sums left;

	left = call_table_sums(of ? of->stacks : NULL);
	if (of && !left.seen) {
		seen_before(of);
		left = call_table_sums(of->stacks);
	}
	if (of) {
		completed = of->completed;
		complete_ns = of->complete_ns;
	}
	/*
	 * A stack gets the bytes and the time that its own calls reported. Without these it gets a
	 * part that follows the number of times it was seen.
	 */
	for (stack = of ? of->stacks : NULL; stack; stack = stack->next) {
		uint64_t values[PROFILE_NR_CALL_VALUES] = { 0 };
		uint64_t seen_bytes = left.seen, seen_ns = left.seen;
		uint64_t seen_completed = left.seen, seen_complete = left.seen;

		values_fill(function, captured, 0,
			    left.bytes ? share_take(&bytes, &left.bytes, stack->bytes)
				       : share_take(&bytes, &seen_bytes, stack->seen),
			    left.ns ? share_take(&ns, &left.ns, stack->ns)
				    : share_take(&ns, &seen_ns, stack->seen),
			    values);
		values[PROFILE_CALLS] = share_take(&calls, &left.seen, stack->seen);
		values[memory_values[function->space].inuse] = stack->live_bytes;
		values[PROFILE_COMPLETED] = share_take(&completed, &seen_completed, stack->seen);
		values[PROFILE_COMPLETE_NS] = share_take(&complete_ns, &seen_complete, stack->seen);
		sample_add(table, &stack->at, captured, labels->kernel, call, values);
		unseen_add(table, stack, labels->kernel, call);
	}
	if (calls || bytes || ns || completed) {
		uint64_t values[PROFILE_NR_CALL_VALUES] = { 0 };

		values_fill(function, captured, calls, bytes, ns, values);
		values[PROFILE_COMPLETED] = completed;
		values[PROFILE_COMPLETE_NS] = complete_ns;
		if (!call_table_no_stack(table, &counted->key, &at))
			sample_add(table, &at, captured, labels->kernel, call, values);
		else
			table->calls_lost += calls;
	}
}

uint64_t call_table_device_idle_rest(const struct process_entry *process)
{
	uint64_t reported =
		capped_add(process->device_idle_reported_ns, process->device_idle_seen_ns);

	return process->device_idle_ns > reported ? process->device_idle_ns - reported : 0;
}

struct gap_finish {
	struct call_table *table;
	uint32_t call;
};

static void gap_add(void *arg, const struct aggregate_call_at *at, uint64_t ns)
{
	const uint64_t values[PROFILE_NR_CALL_VALUES] = { [PROFILE_DEVICE_IDLE_NS] = ns };
	const struct gap_finish *finish = arg;

	sample_add(finish->table, at, false, NULL, finish->call, values);
}

/*
 * Adds samples of threads in gaps. The rest of the idle time stays with the launches that ended the
 * gaps.
 */
static void gaps_finish(struct call_table *table, struct process_entry *process)
{
	const struct aggregate_call_labels labels = { .function = GAP_LABEL };
	struct gap_finish finish = { .table = table };
	uint64_t ns = capped_add(process->short_ns, call_table_device_idle_rest(process));

	process->short_all_ns = process->short_left_ns = ns;
	if (!process->gaps)
		return;
	process->short_left_ns -= gpu_gaps_share(process->gaps, ns, process->idle_ns);
	finish.call = aggregate_call(table->aggregate, &labels);
	gpu_gaps_each(process->gaps, gap_add, &finish);
}

/* Idle time before launches without a stack. */
static void device_idle_finish(struct call_table *table, struct process_entry *process)
{
	const struct bpfprof_gpu_key key = { .start_ns = process->key.start_ns,
					     .pid = process->key.pid };
	const struct aggregate_call_labels labels = { .function = DEVICE_IDLE_LABEL };
	uint64_t values[PROFILE_NR_CALL_VALUES] = { 0 };
	struct aggregate_call_at at;

	values[PROFILE_DEVICE_IDLE_NS] = share_take(&process->short_left_ns, &process->short_all_ns,
						    call_table_device_idle_rest(process));
	if (values[PROFILE_DEVICE_IDLE_NS] &&
	    !call_table_nowhere(table, &key, DEVICE_IDLE_LABEL, &at))
		sample_add(table, &at, false, NULL, aggregate_call(table->aggregate, &labels),
			   values);
}

void call_table_finish(struct call_table *table, const struct call_table_count *counts, size_t nr,
		       void (*comm_text)(void *arg, const struct bpfprof_gpu_key *key,
					 char comm[24], char rank[16]),
		       void *arg)
{
	char stream[STREAM_TEXT_BYTES], kernel[CALL_TABLE_KERNEL_TEXT], comm[24], rank[16];
	char graph[GRAPH_TEXT_BYTES];
	struct process_entry *process;
	size_t i;

	hash_table_each(&table->by_process, process)
		gaps_finish(table, process);
	for (i = 0; i < nr; i++) {
		const struct bpfprof_gpu_key *key = &counts[i].key;
		const struct gpu_function *function = gpu_function(key->function);
		struct aggregate_call_labels labels = { .function = function->shown };

		if (function->wire.stream || function->wire.kind == GPU_KIND_LAUNCH_CONFIG) {
			snprintf(stream, sizeof(stream), "0x%" PRIx64, (uint64_t)key->stream);
			labels.stream = key->stream == BPFPROF_GPU_OTHER ? "[other]" : stream;
		}
		if (BPFPROF_GPU_IS_LAUNCH(function->wire.kind))
			labels.kernel = call_table_kernel_text(table, key, kernel);
		else if (function->wire.kind == GPU_KIND_GRAPH)
			labels.kernel = graph_text(table, key, graph);
		if (function->wire.kind == GPU_KIND_COLLECTIVE) {
			comm[0] = rank[0] = 0;
			comm_text(arg, key, comm, rank);
			labels.comm = comm;
			labels.rank = rank;
			labels.op = function->shown;
		}
		key_finish(table, &counts[i], &labels);
	}
	hash_table_each(&table->by_process, process)
		device_idle_finish(table, process);
}

uint64_t call_table_nr_unknown(const struct call_table *table,
			       const struct call_table_count *counts, size_t nr)
{
	const struct bpfprof_gpu_key *key;
	uint64_t unknown = 0;
	size_t i;

	for (i = 0; i < nr; i++) {
		key = &counts[i].key;
		if (BPFPROF_GPU_IS_LAUNCH(gpu_function(key->function)->wire.kind) &&
		    !call_table_kernel(table, key))
			unknown += counts[i].count.calls;
	}
	return unknown;
}
