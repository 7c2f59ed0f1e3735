// SPDX-License-Identifier: Apache-2.0
#include "gpu/call_table_state.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/memory_log.h"

#define TENSOR_REST 8 /* tensors do not get this part (1/8) of the room for allocations */

_Static_assert(GPU_MEMORY_LOG_MAX_BYTES <= UINT64_MAX / CALL_TABLE_MAX_LIVE,
	       "sums do not overflow");

static struct call_table_memory *memory_of(struct call_table *table, struct process_entry *entry,
					   uint32_t space)
{
	return &table->processes[entry->index].memory[space];
}

void call_table_mappings_forget(struct call_table *table, struct process_entry *process,
				uint64_t end_ns)
{
	size_t i;

	for (i = 0; table->memory_log && i < process->mappings.nr; i++)
		gpu_memory_log_leave(table->memory_log, process->mappings.all[i].logged, end_ns);
	table->nr_mappings -= process->mappings.nr;
	gpu_mappings_fini(&process->mappings);
}

static void live_remove(struct call_table *table, struct live_entry *live)
{
	struct process_entry *process =
		call_table_process_find(table, live->key.pid, live->key.start_ns);

	if (process) {
		memory_of(table, process, live->key.space)->live_bytes -= live->bytes;
		process->nr_live--;
	}
	if (live->stack)
		live->stack->live_bytes -= live->bytes;
	hash_table_remove(&table->live, live);
}

/* The key of the memory that a call allocates, frees, refers to or maps. */
static struct handle_key live_key(const struct bpfprof_gpu_call *call, uint64_t value)
{
	return (struct handle_key){ .start_ns = call->key.start_ns,
				    .value = value,
				    .pid = call->key.pid,
				    .space = gpu_function(call->key.function)->space };
}

static struct live_entry *live_find(const struct call_table *table, const struct handle_key *key)
{
	return hash_table_find(&table->live, key);
}

void call_table_log_memory(struct call_table *table, struct gpu_memory_log *log)
{
	table->memory_log = log;
}

static uint64_t returned_ns(const struct bpfprof_gpu_call *call)
{
	return call->begin_ns + call->ns;
}

/* Notes memory of the device in the log. Returns its number there, 0: it is not in it. */
static uint32_t logged_add(struct call_table *table, const struct process_entry *process,
			   const struct bpfprof_gpu_call *call, enum gpu_memory_kind kind,
			   const struct live_entry *live)
{
	const struct stack_entry *stack = live->stack;
	const struct gpu_allocation allocation = {
		.va = call->va,
		.bytes = call->bytes,
		.stream = kind == GPU_MEMORY_TENSOR ? call->site_stream : call->key.stream,
		.begin_ns = returned_ns(call),
		.stack = stack ? stack->at.stack : GPU_MEMORY_NO_STACK,
		.aggregate_process = stack ? stack->at.process : 0,
		.process = (uint16_t)process->index,
		.kind = (uint8_t)kind,
		.device = live->device,
	};

	return table->memory_log ? gpu_memory_log_add(table->memory_log, &allocation) : 0;
}

static void logged_end(struct call_table *table, uint32_t logged, uint64_t now_ns,
		       const struct stack_entry *stack)
{
	if (table->memory_log)
		gpu_memory_log_end(table->memory_log, logged, now_ns,
				   stack ? stack->at.stack : GPU_MEMORY_NO_STACK);
}

/* The kind of what the function allocates; 0: it has no address of the device, or not yet. */
static enum gpu_memory_kind kind_of(const struct gpu_function *function)
{
	if (function->space == GPU_SPACE_TENSOR)
		return GPU_MEMORY_TENSOR;
	return function->space == GPU_SPACE_DEVICE && strcmp(function->name, "cuMemCreate") != 0
		       ? GPU_MEMORY_SEGMENT
		       : GPU_MEMORY_INVALID;
}

/*
 * Tensors are far more than the driver's allocations; so a part of the room is kept for the latter.
 */
static bool live_has_room(const struct call_table *table, const struct process_entry *process,
			  uint32_t space)
{
	uint32_t of_process = CALL_TABLE_MAX_PROCESS_LIVE / table->share;
	uint32_t all = CALL_TABLE_MAX_LIVE / table->share;

	if (space == GPU_SPACE_TENSOR) {
		of_process -= of_process / TENSOR_REST;
		all -= all / TENSOR_REST;
	}
	return process->nr_live < of_process && table->live.nr < all;
}

/* Adds memory with one reference and without bytes. NULL: there is no room, which is counted. */
static struct live_entry *live_add(struct call_table *table, struct process_entry *process,
				   const struct handle_key *key)
{
	struct live_entry *live = live_has_room(table, process, key->space)
					  ? hash_table_add(&table->live, key)
					  : NULL;

	if (!live) {
		table->live_lost++;
		return NULL;
	}
	live->serial = ++table->nr_serials;
	live->refs = 1;
	process->nr_live++;
	return live;
}

static void on_alloc(struct call_table *table, struct process_entry *process,
		     const struct bpfprof_gpu_call *call, struct stack_entry *stack)
{
	struct handle_key key = live_key(call, call->va);
	struct call_table_memory *memory = memory_of(table, process, key.space);
	struct live_entry *live = live_find(table, &key);
	enum gpu_memory_kind kind = kind_of(gpu_function(call->key.function));
	uint64_t bytes =
		call->bytes < GPU_MEMORY_LOG_MAX_BYTES ? call->bytes : GPU_MEMORY_LOG_MAX_BYTES;

	if (call->result)
		return;
	if (live) { /* its free raised no event */
		logged_end(table, live->logged, returned_ns(call), NULL);
		live_remove(table, live);
	}
	memory->allocations++;
	live = live_add(table, process, &key);
	if (!live)
		return;
	live->bytes = bytes;
	live->stack = stack;
	live->device = BPFPROF_CALL_DEVICE(call->flags);
	if (kind)
		live->logged = logged_add(table, process, call, kind, live);
	memory->live_bytes += bytes;
	if (memory->live_bytes > memory->peak_bytes)
		memory->peak_bytes = memory->live_bytes;
	if (stack)
		stack->live_bytes += bytes;
}

/*
 * A reference or a mapping of the memory ended. Is the memory freed by that, and was it allocated
 * here?
 */
static bool live_drop(struct call_table *table, struct live_entry *live)
{
	bool freed = !live->borrowed;

	if (live->refs || live->nr_mapped)
		return false;
	live_remove(table, live);
	return freed;
}

/* A nested call is counted by the outer call of its layer. Outside of steps no call counts. */
static bool is_uncounted(const struct bpfprof_gpu_call *call)
{
	return call->flags & (BPFPROF_CALL_NESTED | BPFPROF_CALL_OUTSIDE);
}

static void on_free(struct call_table *table, struct process_entry *process,
		    const struct bpfprof_gpu_call *call, const struct stack_entry *stack)
{
	struct handle_key key = live_key(call, call->va);
	struct call_table_memory *memory = memory_of(table, process, key.space);
	struct live_entry *live;
	bool known, freed = true;

	if (!call->va) /* a free of NULL is allowed */
		return;
	live = live_find(table, &key);
	known = live && live->refs;
	if (known) {
		logged_end(table, live->logged, call->begin_ns, stack);
		live->refs--;
		freed = live_drop(table, live);
	}
	if (is_uncounted(call))
		return;
	memory->frees += freed;
	memory->unknown_frees += !known;
}

/*
 * Adds a reference to memory by handle. Memory of another process, or from before the hooks, has no
 * size here, and its release frees nothing.
 */
static void on_ref(struct call_table *table, struct process_entry *process,
		   const struct bpfprof_gpu_call *call)
{
	struct handle_key key = live_key(call, call->va);
	struct live_entry *live = live_find(table, &key);

	if (live) {
		live->refs += live->refs < UINT32_MAX;
		return;
	}
	live = live_add(table, process, &key);
	if (live)
		live->borrowed = true;
}

/* Removes nr mappings of a process, from `first` on. Returns how many allocations this frees. */
static uint64_t mappings_end(struct call_table *table, struct process_entry *process,
			     const struct bpfprof_gpu_call *call, size_t first, size_t nr)
{
	const struct gpu_mapping *mapping;
	struct live_entry *live;
	struct handle_key key;
	uint64_t freed = 0;
	size_t i;

	for (i = first; i < first + nr; i++) {
		mapping = &process->mappings.all[i];
		logged_end(table, mapping->logged, returned_ns(call), NULL);
		key = live_key(call, mapping->handle);
		live = live_find(table, &key);
		if (!live || live->serial != mapping->serial)
			continue;
		live->nr_mapped--;
		freed += live_drop(table, live);
	}
	gpu_mappings_remove(&process->mappings, first, nr);
	table->nr_mappings -= nr;
	return freed;
}

static uint64_t mapping_end(const struct bpfprof_gpu_call *call)
{
	return call->va + call->bytes < call->va ? UINT64_MAX : call->va + call->bytes;
}

static void on_unmap(struct call_table *table, struct process_entry *process,
		     const struct bpfprof_gpu_call *call)
{
	const struct gpu_mappings *mappings = &process->mappings;
	uint64_t end = mapping_end(call), freed;
	size_t first, nr = gpu_mappings_find(mappings, call->va, end, &first);

	/* The driver refuses to unmap a part of a mapping. */
	if (!nr || mappings->all[first].va < call->va || mappings->all[first + nr - 1].end > end)
		return;
	freed = mappings_end(table, process, call, first, nr);
	if (!is_uncounted(call))
		memory_of(table, process, live_key(call, 0).space)->frees += freed;
}

static void on_map(struct call_table *table, struct process_entry *process,
		   const struct bpfprof_gpu_call *call)
{
	struct handle_key key = live_key(call, call->key.handle);
	struct gpu_mapping mapping = { .va = call->va,
				       .end = mapping_end(call),
				       .handle = key.value };
	size_t first, nr = gpu_mappings_find(&process->mappings, mapping.va, mapping.end, &first);
	struct live_entry *live;

	if (nr) /* their unmapping raised no event */
		memory_of(table, process, key.space)->frees +=
			mappings_end(table, process, call, first, nr);
	live = live_find(table, &key);
	if (!live || !call->bytes)
		return;
	mapping.serial = live->serial;
	if (process->mappings.nr >= CALL_TABLE_MAX_PROCESS_LIVE / table->share ||
	    table->nr_mappings >= CALL_TABLE_MAX_LIVE / table->share ||
	    gpu_mappings_add(&process->mappings, &mapping)) {
		table->mappings_lost++;
		return;
	}
	if (!live->borrowed)
		process->mappings.all[first].logged =
			logged_add(table, process, call, GPU_MEMORY_MAPPING, live);
	table->nr_mappings++;
	live->nr_mapped++;
}

void call_table_memory_call(struct call_table *table, struct process_entry *process,
			    const struct bpfprof_gpu_call *call, struct stack_entry *stack)
{
	switch (gpu_function(call->key.function)->wire.kind) {
	case GPU_KIND_ALLOC:
		on_alloc(table, process, call, stack);
		break;
	case GPU_KIND_FREE:
		on_free(table, process, call, stack);
		break;
	case GPU_KIND_MEMORY_REF:
		on_ref(table, process, call);
		break;
	case GPU_KIND_MEMORY_MAP:
		on_map(table, process, call);
		break;
	case GPU_KIND_MEMORY_UNMAP:
		on_unmap(table, process, call);
		break;
	}
}

void call_table_memory_forget(struct call_table *table, struct process_entry *process,
			      uint64_t end_ns)
{
	struct live_entry *live;

	call_table_mappings_forget(table, process, end_ns);
	if (!process->nr_live)
		return;
	hash_table_each(&table->live, live) {
		if (live->key.pid != process->key.pid ||
		    live->key.start_ns != process->key.start_ns)
			continue;
		if (table->memory_log)
			gpu_memory_log_leave(table->memory_log, live->logged, end_ns);
		live_remove(table, live);
	}
}
