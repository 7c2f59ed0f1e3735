// SPDX-License-Identifier: Apache-2.0
#include "gpu/call_table_state.h"

#include <stdlib.h>

#include "base/capped.h"
#include "gpu/handle_generations.h"
#include "profile/aggregate_rollover.h"

/* Has the process ended? Also true if it is not known. */
static bool is_over(const struct call_table *table, uint32_t pid, uint64_t start_ns)
{
	const struct process_entry *process = call_table_process_find(table, pid, start_ns);

	return !process || table->processes[process->index].ended;
}

/* Are all launches of ended generations reported? */
static bool is_settled(const void *arg, uint32_t pid, uint64_t start_ns)
{
	const struct call_table *table = arg;

	return is_over(table, pid, start_ns) || call_table_is_described(table, pid, start_ns);
}

/* Copies the kept stacks of a key to next. */
static void key_rollover(struct call_table *table, struct key_entry *of,
			 const struct aggregate_view *from, struct aggregate *next,
			 size_t max_bytes)
{
	bool ended = CALL_TABLE_GENERATION(&of->key)
			     ? is_settled(table, of->key.pid, of->key.start_ns)
			     : is_over(table, of->key.pid, of->key.start_ns);
	bool any = call_table_sums(of->stacks).seen != 0;
	struct aggregate_call_at at;
	struct stack_entry *stack;

	for (stack = of->stacks; stack; stack = stack->next) {
		if (any)
			stack->before = stack->seen;
		stack->kept = false;
		if (ended || (any && !stack->seen && !stack->live_bytes && !stack->ns))
			continue;
		if (aggregate_bytes(next) > max_bytes / 2 ||
		    aggregate_rollover(next, from, &stack->at, &at)) {
			table->stacks_lost++;
			continue;
		}
		stack->kept = true;
		stack->at = at;
		stack->seen = stack->bytes = stack->ns = 0;
		stack->device_idle_ns = stack->short_ns = 0;
	}
}

/*
 * Drops calls of ended processes, and pointers to stacks that are not kept. Returns true if a call
 * is left.
 */
static bool open_unlink(const struct call_table *table, struct open_entry *open)
{
	struct open_call *call;
	bool any = false;
	int i;

	for (i = 0; i < BPFPROF_GPU_MAX_OPEN; i++) {
		call = &open->calls[i];
		if (call->stack && !call->stack->kept)
			call->stack = NULL;
		if (call->begin_ns && is_over(table, call->key.pid, call->key.start_ns))
			call->begin_ns = 0;
		any |= call->begin_ns;
	}
	return any;
}

/* Drops all pointers to stacks that are not kept. */
static void stacks_unlink(struct call_table *table)
{
	struct open_entry *open;
	struct live_entry *live;

	hash_table_each(&table->live, live)
		if (live->stack && !live->stack->kept)
			live->stack = NULL;
	hash_table_each(&table->open, open)
		if (!open_unlink(table, open))
			hash_table_remove(&table->open, open);
}

/* Gives the kept stacks of a key their new numbers and frees the others. */
static void key_relink(struct call_table *table, struct key_entry *of)
{
	struct process_entry *process =
		call_table_process_find(table, of->key.pid, of->key.start_ns);
	struct stack_entry *stack = of->stacks, *next;
	struct stack_key key = { .of = of };

	of->stacks = NULL;
	for (; stack; stack = next) {
		next = stack->next;
		if (!stack->kept) {
			if (process)
				process->nr_stacks--;
			hash_table_remove(&table->stacks, stack);
			continue;
		}
		key.process = stack->at.process;
		key.stack = stack->at.stack;
		key.tid = stack->at.tid;
		key.thread = stack->at.thread;
		hash_table_rekey(&table->stacks, stack, &key);
		stack->next = of->stacks;
		of->stacks = stack;
	}
}

static bool graph_is_over(const void *table, uint32_t pid, uint64_t start_ns)
{
	return is_over(table, pid, start_ns);
}

static void ended_forget(struct call_table *table)
{
	struct process_entry *process, *last;
	struct name_entry *name;

	hash_table_each(&table->names, name) {
		if (is_over(table, name->key.pid, name->key.start_ns) ||
		    (name->key.space && is_settled(table, name->key.pid, name->key.start_ns)))
			call_table_name_forget(table, name);
	}
	gpu_graphs_forget(table->graphs, graph_is_over, table);
	handle_generations_forget(table->generations, is_settled, table);
	hash_table_each(&table->by_process, process) {
		struct call_table_process *moved = &table->processes[table->nr_processes - 1];

		if (!table->processes[process->index].ended)
			continue;
		call_table_process_clear(&table->processes[process->index]);
		last = call_table_process_find(table, moved->kernel_pid, moved->start_ns);
		if (last) {
			table->processes[process->index] = *moved;
			last->index = process->index;
		}
		table->nr_processes--;
		call_table_process_free(table, process);
	}
}

void call_table_next(struct call_table *table, struct aggregate *next, size_t max_bytes)
{
	struct process_entry *process;
	struct key_entry *key;
	struct aggregate_view from;

	hash_table_each(&table->by_process, process) {
		process->device_idle_reported_ns += capped_add(
			process->device_idle_seen_ns, call_table_device_idle_rest(process));
		process->device_idle_seen_ns = process->short_ns = 0;
	}
	if (table->waits_ns)
		table->waited_ns = table->waits_ns;
	aggregate_view_get(table->aggregate, &from);
	hash_table_each(&table->by_process, process)
		if (process->gaps)
			gpu_gaps_next(process->gaps, &from, next, max_bytes / 2);
	hash_table_each(&table->keys, key)
		key_rollover(table, key, &from, next, max_bytes);
	stacks_unlink(table);
	hash_table_each(&table->keys, key) {
		key_relink(table, key);
		key->completed = key->complete_ns = 0;
		if (!key->stacks)
			hash_table_remove(&table->keys, key);
	}
	ended_forget(table);
	table->aggregate = next;
}
