// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>

#include "base/map.h"

Test(map, every_key_keeps_its_value)
{
	struct map map;
	uint32_t value = 7;
	uint64_t i;

	map_init(&map, 10000);
	cr_assert_not(map_find(&map, 0, &value));
	cr_assert_eq(value, 7);
	for (i = 0; i < 10000; i++)
		cr_assert_eq(map_set(&map, i << 40 | i * 64, (uint32_t)i), 0);
	for (i = 0; i < 10000; i++) {
		cr_assert(map_find(&map, i << 40 | i * 64, &value));
		cr_assert_eq(value, i);
	}
	cr_assert_not(map_find(&map, 1, &value));
	map_fini(&map);
}

Test(map, full_is_full_and_clear_empties)
{
	struct map map;
	uint32_t value;

	map_init(&map, 2);
	cr_assert_eq(map_set(&map, 1, 10), 0);
	cr_assert_eq(map_set(&map, 2, 20), 0);
	cr_assert_eq(map_set(&map, 3, 30), -ENOSPC);
	cr_assert_eq(map_set(&map, 2, 21), 0);
	cr_assert(map_find(&map, 2, &value) && value == 21);
	cr_assert_eq(map.nr, 2);
	map_clear(&map);
	cr_assert_not(map_find(&map, 1, &value));
	cr_assert_eq(map_set(&map, 3, 30), 0);
	map_fini(&map);
}
