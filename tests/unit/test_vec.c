// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdint.h>

#include "base/vec.h"

struct grow_case {
	char name[32];
	size_t had, nr, max, cap;
	int err;
};

ParameterizedTestParameters(vec, room)
{
	static struct grow_case cases[] = {
		{ .name = "the first", .nr = 1, .max = 100, .cap = 16 },
		{ .name = "the first of few", .nr = 1, .max = 3, .cap = 3 },
		{ .name = "none wanted", .nr = 0, .max = 100, .cap = 0 },
		{ .name = "enough", .had = 20, .nr = 20, .max = 100, .cap = 20 },
		{ .name = "twice", .had = 20, .nr = 21, .max = 100, .cap = 40 },
		{ .name = "as many as wanted", .had = 20, .nr = 77, .max = 100, .cap = 77 },
		{ .name = "up to the limit", .had = 60, .nr = 61, .max = 100, .cap = 100 },
		{ .name = "the limit itself", .had = 60, .nr = 100, .max = 100, .cap = 100 },
		{ .name = "beyond the limit",
		  .had = 60,
		  .nr = 101,
		  .max = 100,
		  .cap = 60,
		  .err = -E2BIG },
		{ .name = "no room at all", .nr = 1, .max = 0, .cap = 0, .err = -E2BIG },
#ifndef SANITIZED /* which takes such a size for a mistake */
		{ .name = "more than memory",
		  .had = 20,
		  .nr = SIZE_MAX / 8,
		  .max = SIZE_MAX,
		  .cap = 20,
		  .err = -ENOMEM },
		{ .name = "more than counts",
		  .had = 20,
		  .nr = SIZE_MAX / 2,
		  .max = SIZE_MAX,
		  .cap = 20,
		  .err = -ENOMEM },
#endif
	};

	return cr_make_param_array(struct grow_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct grow_case *c, vec, room)
{
	uint64_t *array = c->had ? calloc(c->had, sizeof(*array)) : NULL, *before = array;
	size_t cap = c->had;

	for (size_t i = 0; i < c->had; i++)
		array[i] = i;
	cr_assert_eq(vec_grow(array, c->nr, cap, c->max), c->err, "%s", c->name);
	cr_assert_eq(cap, c->cap, "%s: %zu", c->name, cap);
	cr_assert(!c->err || array == before, "%s", c->name);
	for (size_t i = 0; i < c->had; i++)
		cr_assert_eq(array[i], i, "%s", c->name);
	for (size_t i = c->had; i < cap; i++)
		array[i] = i; /* the room is there */
	free(array);
}

Test(vec, small_counts_keep_their_type)
{
	uint16_t *array = NULL;
	uint32_t nr, cap = 0;

	for (nr = 0; nr < 1000; nr++) {
		cr_assert_eq(vec_grow(array, nr + 1, cap, 1000), 0);
		array[nr] = (uint16_t)nr;
	}
	cr_assert_eq(cap, 1000);
	cr_assert_eq(vec_grow(array, nr + 1, cap, 1000), -E2BIG);
	cr_assert_eq(array[999], 999);
	free(array);
}

Test(vec, fits_exactly_or_stays)
{
	volatile size_t too_many = SIZE_MAX / 2;
	uint64_t *array = NULL, *before;

	cr_assert(vec_fit(array, 0));
	cr_assert_not_null(array);
	cr_assert(vec_fit(array, 3));
	array[2] = 7;
	before = array;
#ifndef SANITIZED
	cr_assert_not(vec_fit(array, too_many));
#else
	(void)too_many;
#endif
	cr_assert_eq(array, before);
	cr_assert_eq(array[2], 7);
	free(array);
}
