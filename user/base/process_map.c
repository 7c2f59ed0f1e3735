// SPDX-License-Identifier: Apache-2.0
#include "base/process_map.h"

void *process_map_find(const struct hash_table *map, uint32_t pid, uint64_t start_ns)
{
	return hash_table_find(map, &(struct process_key){ .start_ns = start_ns, .pid = pid });
}

void *process_map_add(struct hash_table *map, uint32_t pid, uint64_t start_ns)
{
	return hash_table_add(map, &(struct process_key){ .start_ns = start_ns, .pid = pid });
}

void *process_map_get(struct hash_table *map, uint32_t pid, uint64_t start_ns)
{
	return hash_table_get(map, &(struct process_key){ .start_ns = start_ns, .pid = pid });
}
