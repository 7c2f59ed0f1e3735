/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_STACK_SET_H
#define BPFPROF_PROFILE_STACK_SET_H

/*
 * Distinct stacks, each kept once: struct profile_stack points into one array of elements, which are
 * frames or locations. Stacks are never removed. The memory comes out of a budget that several sets
 * share. All zero is an empty set.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/index.h"

struct stack_set {
	struct vec stacks; /* struct profile_stack */
	struct vec elements, hashes;
	struct index index;
};

/*
 * Looks up the stack of nr elements of `bytes` each, and adds it if it is new; *ret is its index. 0,
 * -E2BIG or -ENOMEM.
 */
int stack_set_add(struct stack_set *set, struct table_budget *budget, uint64_t seed,
		  const void *elements, size_t bytes, size_t nr, uint32_t *ret);
void stack_set_fini(struct stack_set *set);

#endif
