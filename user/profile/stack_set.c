// SPDX-License-Identifier: Apache-2.0
#include "profile/stack_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "profile/profile.h"

int stack_set_add(struct stack_set *set, struct table_budget *budget, uint64_t seed,
		  const void *elements, size_t bytes, size_t nr, uint32_t *ret)
{
	uint64_t hash = XXH3_64bits_withSeed(elements, nr * bytes, seed);
	const struct profile_stack *stacks = set->stacks.data;
	const char *all = set->elements.data;
	uint32_t slot, i;
	int err;

	if (index_start(&set->index, hash, &slot))
		while (index_next(&set->index, &set->hashes, hash, &slot, &i))
			if (stacks[i].nr == nr &&
			    (!nr || !memcmp(all + stacks[i].first * bytes, elements, nr * bytes))) {
				*ret = i;
				return 0;
			}
	if (set->elements.nr + nr > UINT32_MAX)
		return -E2BIG;
	err = vec_reserve(budget, &set->elements, nr, bytes);
	if (!err)
		err = index_reserve(budget, &set->stacks, sizeof(*stacks), &set->hashes,
				    &set->index, hash, &slot);
	if (err)
		return err;
	if (nr)
		memcpy((char *)set->elements.data + set->elements.nr * bytes, elements, nr * bytes);
	((struct profile_stack *)set->stacks.data)[set->stacks.nr] =
		(struct profile_stack){ .first = (uint32_t)set->elements.nr, .nr = (uint32_t)nr };
	set->elements.nr += nr;
	*ret = (uint32_t)set->stacks.nr++;
	index_put(&set->index, &set->hashes, hash, slot);
	return 0;
}

void stack_set_fini(struct stack_set *set)
{
	free(set->stacks.data);
	free(set->elements.data);
	free(set->hashes.data);
	free(set->index.slots);
	*set = (struct stack_set){ 0 };
}
