// SPDX-License-Identifier: Apache-2.0
#include "profile/stack_set.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Appends the element and its caller, after index_reserve(). */
static void append(struct stack_set *set, uint32_t caller, const void *element, size_t bytes)
{
	memcpy((char *)set->elements.data + set->elements.nr++ * bytes, element, bytes);
	((uint32_t *)set->callers.data)[set->callers.nr++] = caller;
}

/* The empty stack, which no search finds. */
static int first_add(struct stack_set *set, struct table_budget *budget, size_t bytes)
{
	static const uint64_t none;
	uint32_t slot = 0;
	int err = vec_reserve(budget, &set->callers, 1, sizeof(uint32_t));

	if (!err)
		err = index_reserve(budget, &set->elements, bytes, &set->hashes, &set->index, 0,
				    &slot);
	if (err)
		return err;
	append(set, UINT32_MAX, &none, bytes);
	index_put(&set->index, &set->hashes, 0, slot);
	return 0;
}

static int element_add(struct stack_set *set, struct table_budget *budget, uint64_t seed,
		       uint32_t caller, const void *element, size_t bytes, uint32_t *ret)
{
	uint64_t hash = XXH3_64bits_withSeed(element, bytes, seed + caller);
	const uint32_t *callers = set->callers.data;
	uint32_t slot, i;
	int err;

	index_start(&set->index, hash, &slot);
	while (index_next(&set->index, &set->hashes, hash, &slot, &i))
		if (callers[i] == caller &&
		    !memcmp((char *)set->elements.data + i * bytes, element, bytes)) {
			*ret = i;
			return 0;
		}
	if (set->elements.nr == UINT32_MAX)
		return -E2BIG;
	err = vec_reserve(budget, &set->callers, 1, sizeof(*callers));
	if (!err)
		err = index_reserve(budget, &set->elements, bytes, &set->hashes, &set->index, hash,
				    &slot);
	if (err)
		return err;
	*ret = (uint32_t)set->elements.nr;
	append(set, caller, element, bytes);
	index_put(&set->index, &set->hashes, hash, slot);
	return 0;
}

static bool is_stack(const struct stack_set *set, uint32_t stack, uint32_t caller,
		     const char *elements, size_t bytes, size_t nr)
{
	const uint32_t *callers = set->callers.data;
	const char *all = set->elements.data;

	for (; nr && stack; nr--, elements += bytes, stack = callers[stack])
		if (memcmp(all + stack * bytes, elements, bytes))
			return false;
	return !nr && stack == caller;
}

int stack_set_add(struct stack_set *set, struct table_budget *budget, uint64_t seed,
		  uint32_t caller, const void *elements, size_t bytes, size_t nr, uint32_t *ret)
{
	uint64_t hash = XXH3_64bits_withSeed(elements, nr * bytes, seed + caller);
	uint32_t *recent = &set->recent[hash % STACK_SET_RECENT], stack = caller;
	int err = set->callers.nr ? 0 : first_add(set, budget, bytes);

	/* Most samples have a stack that was there a moment ago. */
	if (!err && *recent && is_stack(set, *recent, caller, elements, bytes, nr)) {
		*ret = *recent;
		return 0;
	}
	while (!err && nr-- > 0)
		err = element_add(set, budget, seed, stack, (const char *)elements + nr * bytes,
				  bytes, &stack);
	if (!err)
		*ret = *recent = stack;
	return err;
}

void stack_set_fini(struct stack_set *set)
{
	free(set->elements.data);
	free(set->callers.data);
	free(set->hashes.data);
	free(set->index.slots);
	*set = (struct stack_set){ 0 };
}
