// SPDX-License-Identifier: Apache-2.0
#include "profile/piece_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

int piece_set_add(struct piece_set *set, struct table_budget *budget, uint64_t seed,
		  const void *item, struct piece_type type, uint32_t *ret)
{
	uint64_t hash = XXH3_64bits_withSeed(item, type.key_bytes, seed);
	const char *items = set->items.data;
	uint32_t slot, found;
	int err;

	if (index_start(&set->index, hash, &slot))
		while (index_next(&set->index, &set->hashes, hash, &slot, &found))
			if (!memcmp(items + found * type.bytes, item, type.key_bytes)) {
				*ret = found;
				return 0;
			}
	if (set->max && set->items.nr >= set->max)
		return -E2BIG;
	err = index_reserve(budget, &set->items, type.bytes, &set->hashes, &set->index, hash,
			    &slot);
	if (err)
		return err;
	memcpy((char *)set->items.data + set->items.nr * type.bytes, item, type.bytes);
	*ret = (uint32_t)set->items.nr++;
	index_put(&set->index, &set->hashes, hash, slot);
	return 1;
}

void piece_set_fini(struct piece_set *set)
{
	free(set->items.data);
	free(set->hashes.data);
	free(set->index.slots);
	*set = (struct piece_set){ 0 };
}
