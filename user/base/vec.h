/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_VEC_H
#define BPFPROF_BASE_VEC_H

/*
 * Growing arrays: a pointer, the number of elements that have room (of any unsigned type), and a
 * maximum. The owner frees the pointer. On failure pointer and room stay unchanged.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Another limit bounds the array: that of memory, of a file or of its table. */
#define VEC_BOUNDED UINT32_MAX

/*
 * Returns data with room for nr elements of size bytes; *cap is the room, at least twice the old one.
 * NULL: *err is -E2BIG (nr is more than max) or -ENOMEM.
 */
void *vec_grown(void *data, size_t nr, size_t *cap, size_t size, size_t max, int *err);

/* Room for nr elements: 0, -E2BIG or -ENOMEM. array and cap are lvalues. */
#define vec_grow(array, nr, cap, max)                                                              \
	({                                                                                         \
		size_t vec_cap = (cap);                                                            \
		int vec_err = 0;                                                                   \
		void *vec_data = vec_grown(array, nr, &vec_cap, sizeof(*(array)), max, &vec_err);  \
                                                                                                   \
		if (!vec_err) {                                                                    \
			(array) = vec_data;                                                        \
			(cap) = (typeof(cap))vec_cap;                                              \
		}                                                                                  \
		vec_err;                                                                           \
	})

/* Room for exactly nr elements, for arrays that seldom grow: false without memory. */
#define vec_fit(array, nr)                                                                         \
	({                                                                                         \
		void *vec_data = reallocarray(array, (nr) ? (nr) : 1, sizeof(*(array)));           \
                                                                                                   \
		if (vec_data)                                                                      \
			(array) = vec_data;                                                        \
		vec_data != NULL;                                                                  \
	})

/* For arrays that share a budget of memory. */
struct table_budget {
	size_t bytes, max_bytes;
	bool last_room; /* an index that cannot grow may be filled further, which makes it slow */
};

struct vec {
	void *data;
	size_t nr, cap;
};

/* Room for n more elements of size bytes: 0, -E2BIG or -ENOMEM. */
int vec_reserve(struct table_budget *budget, struct vec *vec, size_t n, size_t size);

#endif
