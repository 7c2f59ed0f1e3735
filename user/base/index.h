/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_INDEX_H
#define BPFPROF_BASE_INDEX_H

/*
 * Hash indexes over arrays whose elements are never removed; the result of a search is an element's
 * number. Of a hash 32 bits are kept. The memory counts against the budget of the array. The owner frees slots, and data of the
 * array and of its hashes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

/* Open addressing: slots hold index + 1, 0 = free. Keys are compared by the caller. */
struct index {
	uint32_t *slots;
	uint32_t nr_slots; /* power of two */
	uint32_t nr;
};

/* The first slot for hash; false: the index is empty. */
bool index_start(const struct index *index, uint64_t hash, uint32_t *slot);
/* The next element with that hash, from *slot on, which moves; false at the end. */
bool index_next(const struct index *index, const struct vec *hashes, uint64_t hash, uint32_t *slot,
		uint32_t *ret);
/* Room for one more element of vec, after a search without result; *slot is its place. */
int index_reserve(struct table_budget *budget, struct vec *vec, size_t size, struct vec *hashes,
		  struct index *index, uint64_t hash, uint32_t *slot);
/* Adds the element just appended to its vec; slot is that of index_reserve(). */
void index_put(struct index *index, struct vec *hashes, uint64_t hash, uint32_t slot);

#endif
