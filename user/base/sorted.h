/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_SORTED_H
#define BPFPROF_BASE_SORTED_H

/* Binary search in sorted arrays, and orders for qsort(3). */

#include <stddef.h>
#include <stdint.h>

/*
 * The number of elements at the beginning of an array of nr for which `before` holds: an expression
 * over the element's number, which is called at. After the first element without it none has it.
 */
#define sorted_count(nr, at, before)                                                               \
	({                                                                                         \
		size_t sorted_low = 0, sorted_high = (nr), at;                                     \
                                                                                                   \
		while (sorted_low < sorted_high) {                                                 \
			at = sorted_low + (sorted_high - sorted_low) / 2;                          \
			if (before)                                                                \
				sorted_low = at + 1;                                               \
			else                                                                       \
				sorted_high = at;                                                  \
		}                                                                                  \
		sorted_low;                                                                        \
	})

/* -1, 0 or 1 as x is less than, equal to or greater than y. */
#define sorted_order(x, y) (((x) > (y)) - ((x) < (y)))

/* For arrays of numbers, or of structs that begin with one, in ascending order. */
static inline int sorted_by_u32(const void *a, const void *b)
{
	return sorted_order(*(const uint32_t *)a, *(const uint32_t *)b);
}

static inline int sorted_by_u64(const void *a, const void *b)
{
	return sorted_order(*(const uint64_t *)a, *(const uint64_t *)b);
}

#endif
