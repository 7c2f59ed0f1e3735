// SPDX-License-Identifier: Apache-2.0
#include "base/vec.h"

#include <errno.h>

#define FIRST_ROOM 16

void *vec_grown(void *data, size_t nr, size_t *cap, size_t size, size_t max, int *err)
{
	size_t more = *cap > max / 2 ? max : *cap * 2;

	if (nr <= *cap)
		return data;
	if (nr > max) {
		*err = -E2BIG;
		return NULL;
	}
	if (more < FIRST_ROOM)
		more = FIRST_ROOM < max ? FIRST_ROOM : max;
	if (more < nr)
		more = nr;
	data = reallocarray(data, more, size);
	if (data)
		*cap = more;
	else
		*err = -ENOMEM;
	return data;
}

int vec_reserve(struct table_budget *budget, struct vec *vec, size_t n, size_t size)
{
	size_t cap = vec->cap ? vec->cap * 2 : 64;
	void *tmp;

	if (vec->nr + n <= vec->cap)
		return 0;
	while (cap < vec->nr + n)
		cap *= 2;
	/* Near the end of the budget steps are smaller: otherwise half of it would stay unused. */
	if (budget->bytes + (cap - vec->cap) * size > budget->max_bytes)
		cap = vec->nr + n + vec->cap / 8;
	if (budget->bytes + (cap - vec->cap) * size > budget->max_bytes)
		return -E2BIG;
	tmp = realloc(vec->data, cap * size);
	if (!tmp)
		return -ENOMEM;
	budget->bytes += (cap - vec->cap) * size;
	vec->data = tmp;
	vec->cap = cap;
	return 0;
}
