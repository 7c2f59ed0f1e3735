/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_MAPPINGS_H
#define BPFPROF_GPU_MAPPINGS_H

/*
 * Where a process has mapped memory by handle (cuMemMap): ranges of addresses, in their order, of which
 * no two overlap. All zero to begin with. Finding is a binary search; adding and removing moves
 * what lies behind.
 */

#include <stddef.h>
#include <stdint.h>

struct gpu_mapping {
	uint64_t va, end;
	uint64_t handle; /* of what is mapped, */
	uint64_t serial; /* and which of those that had that handle */
};

struct gpu_mappings {
	struct gpu_mapping *all;
	size_t nr, cap;
};

void gpu_mappings_fini(struct gpu_mappings *mappings);

/* How many have something of [va, end); all[*ret_first] is the first of them, or where it would be. */
size_t gpu_mappings_find(const struct gpu_mappings *mappings, uint64_t va, uint64_t end,
			 size_t *ret_first);
/* Where none is. 0 or -ENOMEM. */
int gpu_mappings_add(struct gpu_mappings *mappings, const struct gpu_mapping *mapping);
void gpu_mappings_remove(struct gpu_mappings *mappings, size_t first, size_t nr);

#endif
