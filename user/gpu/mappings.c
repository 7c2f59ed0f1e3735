// SPDX-License-Identifier: Apache-2.0
#include "gpu/mappings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

void gpu_mappings_fini(struct gpu_mappings *mappings)
{
	free(mappings->all);
	*mappings = (struct gpu_mappings){ 0 };
}

/* The index of the first mapping that ends behind va. */
static size_t place(const struct gpu_mappings *mappings, uint64_t va)
{
	size_t from = 0, to = mappings->nr, middle;

	while (from < to) {
		middle = from + (to - from) / 2;
		if (mappings->all[middle].end <= va)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

size_t gpu_mappings_find(const struct gpu_mappings *mappings, uint64_t va, uint64_t end,
			 size_t *ret_first)
{
	size_t first = place(mappings, va), last = first;

	while (last < mappings->nr && mappings->all[last].va < end)
		last++;
	*ret_first = first;
	return last - first;
}

int gpu_mappings_add(struct gpu_mappings *mappings, const struct gpu_mapping *mapping)
{
	size_t at = place(mappings, mapping->va);

	if (vec_grow(mappings->all, mappings->nr + 1, mappings->cap, VEC_BOUNDED))
		return -ENOMEM;
	memmove(&mappings->all[at + 1], &mappings->all[at],
		(mappings->nr - at) * sizeof(*mappings->all));
	mappings->all[at] = *mapping;
	mappings->nr++;
	return 0;
}

void gpu_mappings_remove(struct gpu_mappings *mappings, size_t first, size_t nr)
{
	memmove(&mappings->all[first], &mappings->all[first + nr],
		(mappings->nr - first - nr) * sizeof(*mappings->all));
	mappings->nr -= nr;
}
