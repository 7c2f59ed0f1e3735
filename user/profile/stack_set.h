/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_STACK_SET_H
#define BPFPROF_PROFILE_STACK_SET_H

/*
 * Distinct stacks as a tree: stacks that begin with the same callers share these. A stack is the number of
 * its leaf. For each number there is an element, which is a frame or a location, and the number of the
 * stack that is left without it, its caller. A caller has a smaller number; 0 is the empty stack, whose
 * element means nothing. Stacks are never removed. The memory comes out of a budget that several sets
 * share. All zero is an empty set.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/index.h"

/* Goes through a stack, leaf first. */
#define stack_each(at, callers, stack) for ((at) = (stack); (at); (at) = (callers)[at])

#define STACK_SET_RECENT 1024

struct stack_set {
	struct vec elements, callers, hashes;
	struct index index;
	/* Stacks that were found last, by the hash of their elements. */
	uint32_t recent[STACK_SET_RECENT];
};

/* The number of frames of a stack. */
static inline uint32_t stack_depth(const uint32_t *callers, uint32_t stack)
{
	uint32_t at, nr = 0;

	stack_each(at, callers, stack)
		nr++;
	return nr;
}

/*
 * Looks up the stack of nr elements above the stack `caller`, leaf first, of `bytes` each (4 or 8), and adds
 * what is new; *ret is its number. 0, -E2BIG or -ENOMEM.
 */
int stack_set_add(struct stack_set *set, struct table_budget *budget, uint64_t seed,
		  uint32_t caller, const void *elements, size_t bytes, size_t nr, uint32_t *ret);
void stack_set_fini(struct stack_set *set);

#endif
