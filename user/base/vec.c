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
