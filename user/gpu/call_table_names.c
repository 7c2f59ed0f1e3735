// SPDX-License-Identifier: Apache-2.0
#include "gpu/call_table_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name_cut.h"
#include "gpu/handle_generations.h"
#include "symbol/demangle.h"

static void generation_set(struct bpfprof_gpu_key *key, uint32_t generation)
{
	key->flags |= (uint16_t)(generation << CALL_TABLE_GENERATION_SHIFT);
}

static struct handle_key kernel_key(const struct bpfprof_gpu_key *key)
{
	return (struct handle_key){ .start_ns = key->start_ns,
				    .value = key->handle,
				    .pid = key->pid,
				    .space = CALL_TABLE_GENERATION(key) };
}

static struct name_entry *name_find(const struct call_table *table, const struct handle_key *key)
{
	return hash_table_find(&table->names, key);
}

static void name_set(struct call_table *table, const struct handle_key *key, const char *name)
{
	struct name_entry *entry = name_find(table, key);
	struct process_entry *process = call_table_process_get(table, key->pid, key->start_ns);
	size_t len = strlen(name), old = entry ? strlen(entry->name) : 0;
	char *copy;

	if (!process || !key->value)
		return;
	if ((!entry && (process->nr_names >= CALL_TABLE_MAX_PROCESS_NAMES / table->share ||
			table->names.nr >= table->names.max)) ||
	    process->name_bytes - old + len > CALL_TABLE_PROCESS_NAME_BYTES / table->share ||
	    table->name_bytes - old + len > CALL_TABLE_NAME_BYTES / table->share) {
		table->names_lost++;
		return;
	}
	copy = strdup(name);
	if (copy && !entry) {
		entry = hash_table_add(&table->names, key);
		process->nr_names += entry != NULL;
	}
	if (!copy || !entry) {
		free(copy);
		table->names_lost++;
		return;
	}
	free(entry->name);
	entry->name = copy;
	process->name_bytes += len - old;
	table->name_bytes += len - old;
}

void call_table_kernel_set(struct call_table *table, const struct bpfprof_gpu_key *key,
			   const char *name)
{
	const struct handle_key kernel = kernel_key(key);
	const struct name_entry *entry = name_find(table, &kernel);
	char text[DEMANGLE_MAX_OUTPUT];

	if (!*name) /* an empty name means "not known" */
		return;
	if (entry && (entry->unsettled || !*entry->name))
		return;
	demangle(name, text);
	name_set(table, &kernel, text);
}

/* A name whose end was not read is not demangled; the handle makes it unique. */
static void name_without_end(const char *name, uint64_t handle, char text[DEMANGLE_MAX_OUTPUT])
{
	char cut_name[NAME_CUT_MAX], place[32];
	struct name_cut cut;

	snprintf(place, sizeof(place), "...@0x%" PRIx64, handle);
	name_cut_init(&cut);
	name_cut_add(&cut, name, strlen(name));
	name_cut_add(&cut, place, strlen(place));
	name_cut_finish(&cut, cut_name);
	demangle(cut_name, text);
}

/* The name that a record reports for a handle. NULL: not known; "": one of several names. */
static const char *name_reported(const struct call_table *table, const struct bpfprof_gpu_name *e,
				 char text[DEMANGLE_MAX_OUTPUT])
{
	const struct handle_key key = { .start_ns = e->task.start_ns,
					.value = e->other,
					.pid = e->task.pid };
	char mangled[BPFPROF_GPU_NAME_BYTES];
	const struct name_entry *other;

	if (e->other) {
		other = name_find(table, &key);
		return other ? other->name : NULL;
	}
	memcpy(mangled, e->name, sizeof(mangled));
	mangled[sizeof(mangled) - 1] = 0;
	if (!*mangled)
		return NULL;
	if (strlen(mangled) == sizeof(mangled) - 1)
		name_without_end(mangled, e->handle, text);
	else
		demangle(mangled, text);
	return text;
}

/* Ends the generation of a handle: another kernel has it now. False: there is no room. */
static bool generation_end(struct call_table *table, const struct handle_key *key, uint64_t ts_ns)
{
	uint32_t generation = handle_generations_end(table->generations, key->pid, key->start_ns,
						     key->value, ts_ns);
	struct name_entry *entry = name_find(table, key);
	struct handle_key ended = *key;

	if (!generation)
		return false;
	ended.space = generation;
	if (entry)
		hash_table_rekey(&table->names, entry, &ended);
	gpu_graphs_generation_end(table->graphs, key->pid, key->start_ns, key->value, generation);
	return true;
}

static void name_reused(struct call_table *table, const struct handle_key *key, const char *name,
			uint64_t ts_ns)
{
	struct name_entry *entry;

	if (!generation_end(table, key, ts_ns))
		name = "";
	if (name)
		name_set(table, key, name);
	entry = name_find(table, key);
	if (entry)
		entry->unsettled = true;
}

void call_table_name(struct call_table *table, const struct bpfprof_gpu_name *e)
{
	const struct handle_key key = { .start_ns = e->task.start_ns,
					.value = e->handle,
					.pid = e->task.pid };
	char text[DEMANGLE_MAX_OUTPUT];
	const char *name = name_reported(table, e, text);
	const struct name_entry *before = name_find(table, &key);

	/* A process that only looks kernels up has entries in the kernel's maps, too. */
	if (!call_table_process_get(table, key.pid, key.start_ns))
		return;
	if (e->flags & BPFPROF_NAME_REUSED) {
		name_reused(table, &key, name, e->rec.ts_ns);
		return;
	}
	if (before && name && *name && strcmp(before->name, name)) {
		/*
		 * Two threads may look the same handle up at the same time; the record of the other
		 * one may still come.
		 */
		if (!(e->flags & BPFPROF_NAME_UNSEEN))
			return;
		name = "";
	}
	if (name)
		name_set(table, &key, name);
}

/*
 * all: every launch of the handle's earlier kernels is reported now. If not, nobody knows which
 * launches were theirs, and the handle loses its name.
 */
static void on_reported(struct call_table *table, const struct handle_key *kernel, bool all)
{
	struct name_entry *entry = name_find(table, kernel);

	if (!all)
		name_set(table, kernel, "");
	else if (entry)
		entry->unsettled = false;
}

void call_table_reused(struct call_table *table, const struct bpfprof_gpu_call *call)
{
	const struct handle_key kernel = kernel_key(&call->key);
	struct bpfprof_gpu_key ended = call->key;
	uint32_t generation;
	struct key_entry *of;

	if (!call->key.function) {
		on_reported(table, &kernel, call->bytes);
		return;
	}
	generation = handle_generations_key_end(table->generations, &call->key, call->bytes);
	if (!generation) { /* the launches of its kernels cannot be distinguished any more */
		name_set(table, &kernel, "");
		return;
	}
	generation_set(&ended, generation);
	of = hash_table_find(&table->keys, &call->key);
	if (of && !hash_table_find(&table->keys, &ended))
		hash_table_rekey(&table->keys, of, &ended);
}

const char *call_table_kernel(const struct call_table *table, const struct bpfprof_gpu_key *key)
{
	const struct handle_key kernel = kernel_key(key);
	const struct name_entry *entry = name_find(table, &kernel);

	if (key->handle == BPFPROF_GPU_OTHER)
		return "[other kernels]";
	return entry && !entry->unsettled && *entry->name ? entry->name : NULL;
}

const char *call_table_kernel_text(const struct call_table *table,
				   const struct bpfprof_gpu_key *key,
				   char room[CALL_TABLE_KERNEL_TEXT])
{
	const char *name = call_table_kernel(table, key);

	snprintf(room, CALL_TABLE_KERNEL_TEXT, "kernel@0x%" PRIx64, (uint64_t)key->handle);
	return name ? name : room;
}

struct bpfprof_gpu_key call_table_kernel_at(const struct call_table *table, uint32_t pid,
					    uint64_t start_ns, uint64_t handle, uint64_t ts_ns)
{
	struct bpfprof_gpu_key key = { .start_ns = start_ns, .pid = pid, .handle = handle };

	generation_set(&key,
		       handle_generations_at(table->generations, pid, start_ns, handle, ts_ns));
	return key;
}

void call_table_split(const struct call_table *table, struct call_table_count *count,
		      uint64_t before, void (*add)(void *arg, const struct call_table_count *part),
		      void *arg)
{
	uint64_t calls = before + count->count.calls;
	const struct handle_generations_end *ends;
	struct call_table_count part;
	size_t nr, i;

	ends = handle_generations_ends(table->generations, &count->key, &nr);
	for (i = 0; i < nr && before < calls; i++) {
		if (ends[i].calls <= before)
			continue;
		part = *count;
		generation_set(&part.key, ends[i].generation);
		part.count.calls = (ends[i].calls < calls ? ends[i].calls : calls) - before;
		before += part.count.calls;
		count->count.calls -= part.count.calls;
		add(arg, &part);
	}
}

size_t call_table_nr_parts(const struct call_table *table)
{
	return handle_generations_nr(table->generations);
}

void call_table_name_forget(struct call_table *table, struct name_entry *name)
{
	struct process_entry *process =
		call_table_process_find(table, name->key.pid, name->key.start_ns);
	size_t len = strlen(name->name);

	if (process) {
		process->nr_names--;
		process->name_bytes -= len;
	}
	table->name_bytes -= len;
	free(name->name);
	hash_table_remove(&table->names, name);
}
