/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_PROCESS_MAP_H
#define BPFPROF_BASE_PROCESS_MAP_H

/*
 * Hash tables (base/hash_table.h) whose entries have a `struct process_key key`. A pid alone does not
 * name a process: the kernel gives it to another one later.
 */

#include <stdint.h>

#include "base/hash_table.h"

struct process_key {
	uint64_t start_ns; /* since boot, as in struct bpfprof_task_id */
	uint32_t pid, pad;
};

/* hash_table_find(), hash_table_add() and hash_table_get(), by pid and start. */
void *process_map_find(const struct hash_table *map, uint32_t pid, uint64_t start_ns);
void *process_map_add(struct hash_table *map, uint32_t pid, uint64_t start_ns);
void *process_map_get(struct hash_table *map, uint32_t pid, uint64_t start_ns);

#endif
