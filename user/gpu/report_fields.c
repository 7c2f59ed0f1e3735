// SPDX-License-Identifier: Apache-2.0
#include "gpu/report_fields.h"

#include "gpu/report.h"

const struct gpu_report_comm *gpu_report_comm_of(const struct gpu_report_process *process,
						 uint64_t comm)
{
	size_t i;

	for (i = 0; i < process->nr_comms; i++)
		if (process->comms[i].comm == comm)
			return &process->comms[i];
	return NULL;
}

#define AT(name, kind_of, where, ...)                                                              \
	{                                                                                          \
		.key = (name), .type = (kind_of), .offset = (where), ##__VA_ARGS__                 \
	}
#define FIELD(name, type, row, member, ...)                                                        \
	AT(name, type, offsetof(struct gpu_report_##row, member), ##__VA_ARGS__)
#define MEMBER(row, member) (((struct gpu_report_##row *)NULL)->member)

/* A field whose key is the name of its member and whose type is that of the member. */
#define F(row, member, ...)                                                                        \
	FIELD(#member,                                                                             \
	      _Generic(MEMBER(row, member),                                                        \
		       const char *: GPU_FIELD_TEXT,                                               \
		       uint32_t: GPU_FIELD_U32,                                                    \
		       uint64_t: GPU_FIELD_U64,                                                    \
		       bool: GPU_FIELD_BOOL,                                                       \
		       double: GPU_FIELD_SECONDS,                                                  \
		       uint32_t *: GPU_FIELD_THREE),                                               \
	      row, member, ##__VA_ARGS__)
#define NAME(row, member, ...) FIELD(#member, GPU_FIELD_NAME, row, member, ##__VA_ARGS__)
#define HEX(row, member, ...) FIELD(#member, GPU_FIELD_HEX, row, member, ##__VA_ARGS__)
#define WRITTEN .written = true
#define EXTRA(row, ...)                                                                            \
	FIELD("", GPU_FIELD_EXTRA, row, extra_name,                                                \
	      .more = offsetof(struct gpu_report_##row, extra), ##__VA_ARGS__)
#define STACK(row)                                                                                 \
	FIELD("stack", GPU_FIELD_TEXTS, row, stack,                                                \
	      .more = offsetof(struct gpu_report_##row, nr_stack))
#define LIST(name, row, member, nr, table, ...)                                                    \
	FIELD(name, GPU_FIELD_ARRAY, row, member, .more = offsetof(struct gpu_report_##row, nr),   \
	      .of = &(table), ##__VA_ARGS__)
#define OBJECT(name, row, member, table, ...)                                                      \
	FIELD(name, GPU_FIELD_OBJECT, row, member, .of = &(table), ##__VA_ARGS__)
#define PART(table, ...) AT("", GPU_FIELD_PART, 0, .of = &(table), ##__VA_ARGS__)

#define CONDITION(row, member)                                                                     \
	.offset = offsetof(struct gpu_report_##row, member), .size = sizeof(MEMBER(row, member))
#define KNOWN_IF(row, member) .known = { CONDITION(row, member) }
#define KNOWN_UNLESS(row, member) .known = { CONDITION(row, member), .negated = true }
#define GIVEN_IF(row, member) .given = { CONDITION(row, member) }

#define TABLE(name, row, row_kind, ...)                                                            \
	static const struct gpu_field name##_array[] = { __VA_ARGS__, { .type = GPU_FIELD_END } }; \
	static const struct gpu_fields name = { name##_array, sizeof(struct gpu_report_##row),     \
						row_kind }

TABLE(call_fields, call, GPU_ROW_WRITTEN, F(call, function), F(call, exported), F(call, calls),
      F(call, bytes), F(call, ns), F(call, max_ns), F(call, errors));

TABLE(launch_fields, launch, GPU_ROW_WRITTEN, F(launch, kernel), HEX(launch, handle),
      F(launch, function), F(launch, exported), NAME(launch, library), NAME(launch, entry),
      F(launch, grid), F(launch, block), HEX(launch, stream), F(launch, calls),
      F(launch, captured));

TABLE(node_fields, node, GPU_ROW_WRITTEN, F(node, function), NAME(node, kernel), F(node, count));

TABLE(graph_fields, graph, GPU_ROW_WRITTEN, HEX(graph, content, KNOWN_IF(graph, content)),
      F(graph, launches), F(graph, complete), LIST("nodes", graph, nodes, nr_nodes, node_fields));

TABLE(copy_fields, copy, GPU_ROW_WRITTEN, F(copy, direction), F(copy, function), HEX(copy, stream),
      F(copy, calls), F(copy, bytes), F(copy, ns), F(copy, captured));

TABLE(memory_fields, memory, GPU_ROW_WRITTEN, F(memory, live_bytes), F(memory, peak_bytes, WRITTEN),
      F(memory, allocations, WRITTEN), F(memory, frees, WRITTEN),
      F(memory, unknown_frees, WRITTEN));

TABLE(device_memory_fields, memory, GPU_ROW_MEMORY, PART(memory_fields),
      F(memory, device_free, KNOWN_IF(memory, device_known)),
      F(memory, device_total, KNOWN_IF(memory, device_known)));

TABLE(device_idle_fields, device_idle, GPU_ROW_WRITTEN, F(device_idle, ns), F(device_idle, max_ns),
      F(device_idle, gaps), F(device_idle, copy_ns), F(device_idle, since_seconds));

TABLE(spans_fields, spans, GPU_ROW_WRITTEN, F(spans, count), F(spans, ns), F(spans, max_ns),
      F(spans, since_seconds));

TABLE(collective_fields, collective, GPU_ROW_COLLECTIVE, F(collective, operation),
      F(collective, datatype), EXTRA(collective, WRITTEN), HEX(collective, comm),
      HEX(collective, stream), F(collective, calls), F(collective, bytes), F(collective, ns),
      F(collective, max_ns), F(collective, captured));

TABLE(completion_fields, completion, GPU_ROW_COMPLETION, F(completion, operation),
      F(completion, datatype), EXTRA(completion, WRITTEN), HEX(completion, comm),
      F(completion, bytes), F(completion, count), F(completion, ns), F(completion, max_ns),
      F(completion, within_ns), F(completion, within_max_ns, WRITTEN), F(completion, pending),
      F(completion, unknown, WRITTEN),
      F(completion, pending_seconds, KNOWN_IF(completion, pending)),
      HEX(completion, pending_stream, KNOWN_IF(completion, pending)));

TABLE(rank_fields, comm, GPU_ROW_WRITTEN, HEX(comm, hash, KNOWN_IF(comm, known)),
      F(comm, rank, KNOWN_IF(comm, known)), F(comm, size, KNOWN_IF(comm, known)));

TABLE(comm_fields, comm, GPU_ROW_COMM, HEX(comm, comm, WRITTEN), PART(rank_fields, WRITTEN),
      F(comm, calls), F(comm, last));

TABLE(grouped_fields, grouped, GPU_ROW_GROUPED, F(grouped, operation), F(grouped, datatype),
      EXTRA(grouped), FIELD("comm", GPU_FIELD_HEX_OR_MAX, grouped, comm), HEX(grouped, stream),
      F(grouped, bytes), F(grouped, count));

TABLE(open_fields, open, GPU_ROW_OPEN, F(open, tid), F(open, thread), F(open, function),
      F(open, seconds), F(open, since_before),
      HEX(open, stream, KNOWN_UNLESS(open, arguments_unknown)),
      HEX(open, comm, KNOWN_UNLESS(open, arguments_unknown)),
      AT("", GPU_FIELD_RANK, 0, .of = &rank_fields),
      F(open, bytes, KNOWN_UNLESS(open, arguments_unknown)), NAME(open, datatype, WRITTEN),
      F(open, op, WRITTEN, GIVEN_IF(open, op)), EXTRA(open),
      LIST("group", open, group.rows, group.nr, grouped_fields, GIVEN_IF(open, ends_group),
	   KNOWN_IF(open, group.known)),
      FIELD("group_calls", GPU_FIELD_U64, open, group.calls, GIVEN_IF(open, ends_group),
	    KNOWN_IF(open, group.known)),
      FIELD("group_complete", GPU_FIELD_BOOL, open, group.complete, GIVEN_IF(open, ends_group)),
      STACK(open));

TABLE(where_fields, where, GPU_ROW_WHERE, F(where, tid), F(where, thread),
      FIELD("last_in_nccl", GPU_FIELD_BOOL, where, was_in_nccl), F(where, running), STACK(where));

TABLE(who_fields, process, GPU_ROW_PROCESS, F(process, pid), F(process, name),
      NAME(process, container), NAME(process, pod), NAME(process, namespace),
      NAME(process, ray_task), NAME(process, rank));

TABLE(process_fields, process, GPU_ROW_PROCESS, PART(who_fields),
      LIST("calls", process, calls, nr_calls, call_fields),
      LIST("launches", process, launches, nr_launches, launch_fields),
      LIST("graphs", process, graphs, nr_graphs, graph_fields),
      LIST("copies", process, copies, nr_copies, copy_fields),
      OBJECT("memory", process, memory, device_memory_fields),
      OBJECT("host_memory", process, host_memory, memory_fields),
      OBJECT("tensor_memory", process, tensor_memory, memory_fields,
	     KNOWN_IF(process, tensors_known)),
      OBJECT("starved", process, device_idle, device_idle_fields,
	     KNOWN_IF(process, device_idle.known)),
      OBJECT("spans", process, spans, spans_fields, KNOWN_IF(process, spans.known)),
      LIST("collectives", process, collectives, nr_collectives, collective_fields),
      LIST("completions", process, completions, nr_completions, completion_fields),
      LIST("communicators", process, comms, nr_comms, comm_fields),
      LIST("open", process, open, nr_open, open_fields),
      LIST("where", process, where, nr_where, where_fields));

TABLE(silent_fields, process, GPU_ROW_PROCESS, PART(who_fields),
      LIST("where", process, where, nr_where, where_fields));

TABLE(layer_fields, library, GPU_ROW_WRITTEN, F(library, cuda), F(library, nccl), F(library, torch),
      F(library, python));

TABLE(library_fields, library, GPU_ROW_WRITTEN, F(library, path),
      AT("layers", GPU_FIELD_FLAGS, 0, .of = &layer_fields), F(library, functions),
      NAME(library, problem));

#define R(name, type, member, ...)                                                                 \
	AT(name, type, offsetof(struct gpu_report, member), ##__VA_ARGS__)
#define R_LIST(name, type, member, ...)                                                            \
	R(name, type, member, .more = offsetof(struct gpu_report, nr_##member), ##__VA_ARGS__)

static const struct gpu_field stacks_array[] = {
	R("taken", GPU_FIELD_U64, stacks_taken),
	R("skipped", GPU_FIELD_U64, stacks_skipped),
	R("per_thread_and_second", GPU_FIELD_U32, stacks_hz),
	{ .type = GPU_FIELD_END },
};
static const struct gpu_fields stacks_fields = { .fields = stacks_array };

static const struct gpu_field report_array[] = {
	R("host", GPU_FIELD_TEXT, host),
	R("seconds", GPU_FIELD_SECONDS, seconds),
	R("start_seconds", GPU_FIELD_SECONDS, start_seconds),
	R_LIST("libraries", GPU_FIELD_ARRAY, libraries, .of = &library_fields),
	R_LIST("processes", GPU_FIELD_ARRAY, processes, .of = &process_fields),
	R_LIST("without_calls", GPU_FIELD_ARRAY, silent, .of = &silent_fields),
	AT("stacks", GPU_FIELD_OBJECT, 0, .of = &stacks_fields),
	R_LIST("lost", GPU_FIELD_LOST, lost),
	{ .type = GPU_FIELD_END },
};
const struct gpu_fields gpu_report_fields = { .fields = report_array };
