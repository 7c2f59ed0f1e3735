/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_INDEX_H
#define BPFPROF_BASE_INDEX_H

/*
 * Hash indexes over arrays whose elements are never removed: what is found is a number. They take their
 * memory out of the budget of the array. The owner frees slots, and data of the array and its hashes.
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

/* First place to look at for hash; false: nothing was put there yet. */
bool index_start(const struct index *index, uint64_t hash, uint32_t *slot);
/* Walks the chain of hash: *slot is the next to look at; false at its end. */
bool index_next(const struct index *index, const struct vec *hashes, uint64_t hash, uint32_t *slot,
		uint32_t *ret);
/* Room for one more element of vec, after none was found; *slot is where it goes. */
int index_reserve(struct table_budget *budget, struct vec *vec, size_t size, struct vec *hashes,
		  struct index *index, uint64_t hash, uint32_t *slot);
/* Notes that the element just appended to its vec has hash; slot is where index_reserve() said. */
void index_put(struct index *index, struct vec *hashes, uint64_t hash, uint32_t slot);

#endif
