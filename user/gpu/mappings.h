/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_MAPPINGS_H
#define BPFPROF_GPU_MAPPINGS_H

/*
 * The ranges of addresses that a process has mapped by handle (cuMemMap), sorted, without overlaps.
 * All zero at first. Finding is a binary search; adding and removing moves the elements behind.
 */

#include <stddef.h>
#include <stdint.h>

struct gpu_mapping {
	uint64_t va, end;
	uint64_t handle; /* of the mapped memory */
	uint64_t serial; /* distinguishes memory with the same handle */
	uint32_t logged; /* number of the allocation in the memory log, or 0 */
	uint32_t pad;
};

struct gpu_mappings {
	struct gpu_mapping *all;
	size_t nr, cap;
};

void gpu_mappings_fini(struct gpu_mappings *mappings);

/* The number of mappings that overlap [va, end); all[*ret_first] is the first, or its place. */
size_t gpu_mappings_find(const struct gpu_mappings *mappings, uint64_t va, uint64_t end,
			 size_t *ret_first);
/* Adds a mapping that overlaps no other. 0 or -ENOMEM. */
int gpu_mappings_add(struct gpu_mappings *mappings, const struct gpu_mapping *mapping);
void gpu_mappings_remove(struct gpu_mappings *mappings, size_t first, size_t nr);

#endif
