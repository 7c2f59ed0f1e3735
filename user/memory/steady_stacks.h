/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_STEADY_STACKS_H
#define BPFPROF_MEMORY_STEADY_STACKS_H

/*
 * The stacks whose held memory never fell by more than a tenth below its most: what they hold may be a
 * leak. A stack that gives memory back between two looks, and takes it again, is not recognized.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/hash_table.h"

struct memory_answer;
struct held_row;

struct steady_stacks {
	struct hash_table table;
	uint64_t nr_looks;
	uint64_t sample_bytes; /* of the last look */
	uint64_t nr_full; /* stacks over the limit: these are not steady */
};

void steady_stacks_init(struct steady_stacks *stacks);
void steady_stacks_fini(struct steady_stacks *stacks);
/* sample_bytes: a change makes other estimates, which are no change of the memory. */
void steady_stacks_look(struct steady_stacks *stacks, const struct memory_answer *answer,
			uint64_t sample_bytes);
bool steady_stacks_has(const struct steady_stacks *stacks, const struct held_row *row);

#endif
