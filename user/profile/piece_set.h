/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_PIECE_SET_H
#define BPFPROF_PROFILE_PIECE_SET_H

/*
 * An array that holds each distinct item once: all bytes of the key count, so padding must be zero.
 * Items are never removed. The memory comes out of a budget that several sets share. All zero is an
 * empty set.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/index.h"

struct piece_set {
	struct vec items, hashes;
	struct index index;
	size_t max; /* items, 0: only the budget bounds them */
};

/* The type of the items: its size, and how many bytes of its beginning are the key. */
struct piece_type {
	size_t bytes, key_bytes;
};

#define PIECE_TYPE(type)                                                                           \
	(struct piece_type)                                                                        \
	{                                                                                          \
		sizeof(type), sizeof(type)                                                         \
	}

/*
 * Looks the item up by its key and adds it if it is new; *ret is its index. 1: it is new. 0: it was
 * there. -E2BIG or -ENOMEM: there is no room.
 */
int piece_set_add(struct piece_set *set, struct table_budget *budget, uint64_t seed,
		  const void *item, struct piece_type type, uint32_t *ret);
void piece_set_fini(struct piece_set *set);

#endif
