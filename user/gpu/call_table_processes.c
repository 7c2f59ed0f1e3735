// SPDX-License-Identifier: Apache-2.0
/* The processes of a call table. */
#include "base/vec.h"
#include "gpu/call_table_state.h"

struct process_entry *call_table_process_find(const struct call_table *table, uint32_t pid,
					      uint64_t start_ns)
{
	return process_map_find(&table->by_process, pid, start_ns);
}

struct process_entry *call_table_process_get(struct call_table *table, uint32_t pid,
					     uint64_t start_ns)
{
	struct process_entry *entry = process_map_find(&table->by_process, pid, start_ns);

	if (entry)
		return entry;
	if (table->nr_processes < CALL_TABLE_MAX_PROCESSES &&
	    vec_fit(table->processes, table->nr_processes + 1))
		entry = process_map_add(&table->by_process, pid, start_ns);
	if (!entry) {
		table->processes_lost++;
		return NULL;
	}
	entry->index = (uint32_t)table->nr_processes;
	table->processes[table->nr_processes++] = (struct call_table_process){
		.kernel_pid = pid, .pid = table->pids_are_own ? pid : 0, .start_ns = start_ns
	};
	return entry;
}
