// SPDX-License-Identifier: Apache-2.0
#include "base/index.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_SLOTS 1024

static int index_grow(struct table_budget *budget, struct index *index, const struct vec *hashes)
{
	uint32_t nr = index->nr_slots ? index->nr_slots * 2 : FIRST_SLOTS, i, slot;
	const uint32_t *hash = hashes->data;
	uint32_t *slots, free_slots;

	if ((uint64_t)index->nr * 4 < (uint64_t)index->nr_slots * 3)
		return 0;
	/* At the end of the budget a search takes longer. */
	free_slots = index->nr_slots / (budget->last_room ? 32 : 8);
	if (budget->bytes + nr / 2 * sizeof(*slots) > budget->max_bytes)
		return index->nr + 1 < index->nr_slots - free_slots ? 0 : -E2BIG;
	slots = calloc(nr, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (i = 0; i < index->nr; i++) {
		for (slot = hash[i] & (nr - 1); slots[slot]; slot = (slot + 1) & (nr - 1))
			;
		slots[slot] = i + 1;
	}
	budget->bytes += nr / 2 * sizeof(*slots);
	free(index->slots);
	index->slots = slots;
	index->nr_slots = nr;
	return 0;
}

static uint32_t slot_of(const struct index *index, uint64_t hash)
{
	return (uint32_t)hash & (index->nr_slots - 1);
}

bool index_start(const struct index *index, uint64_t hash, uint32_t *slot)
{
	*slot = index->nr_slots ? slot_of(index, hash) : 0;
	return index->nr_slots;
}

bool index_next(const struct index *index, const struct vec *hashes, uint64_t hash, uint32_t *slot,
		uint32_t *ret)
{
	const uint32_t *all = hashes->data;
	uint32_t at;

	for (at = *slot; index->slots[at]; at = (at + 1) & (index->nr_slots - 1)) {
		if (all[index->slots[at] - 1] != (uint32_t)hash)
			continue;
		*ret = index->slots[at] - 1;
		*slot = (at + 1) & (index->nr_slots - 1);
		return true;
	}
	*slot = at;
	return false;
}

int index_reserve(struct table_budget *budget, struct vec *vec, size_t size, struct vec *hashes,
		  struct index *index, uint64_t hash, uint32_t *slot)
{
	uint32_t nr_slots = index->nr_slots, found;
	int err = vec_reserve(budget, vec, 1, size);

	if (!err)
		err = vec_reserve(budget, hashes, 1, sizeof(uint32_t));
	if (!err)
		err = index_grow(budget, index, hashes);
	if (err || index->nr_slots == nr_slots)
		return err;
	*slot = slot_of(index, hash);
	while (index_next(index, hashes, hash, slot, &found))
		;
	return 0;
}

void index_put(struct index *index, struct vec *hashes, uint64_t hash, uint32_t slot)
{
	((uint32_t *)hashes->data)[hashes->nr++] = (uint32_t)hash;
	index->slots[slot] = ++index->nr;
}
