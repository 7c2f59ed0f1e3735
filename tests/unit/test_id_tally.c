// SPDX-License-Identifier: Apache-2.0
#include "python/id_tally.h"

#include <criterion/criterion.h>

Test(id_tally, ids_of_a_long_life)
{
	struct id_tally tally = { 0 };
	struct id_count *found;
	uint32_t i;

	cr_assert_null(id_tally_find(&tally, 0));
	id_tally_sort(&tally);
	/* Far apart, up to the highest there is, in no order. */
	for (i = 0; i < 1000; i++)
		cr_assert_eq(id_tally_add(&tally, UINT32_MAX - (i * 7919 % 1000) * 4000000), 0);
	id_tally_sort(&tally);
	cr_expect_leq(tally.cap, 1024);
	for (i = 0; i < 1000; i++) {
		found = id_tally_find(&tally, UINT32_MAX - i * 4000000);
		cr_assert(found && found->id == UINT32_MAX - i * 4000000 && !found->nr);
		found->nr = i;
		cr_assert_null(id_tally_find(&tally, UINT32_MAX - i * 4000000 - 1));
	}
	for (i = 0; i < 1000; i++)
		cr_assert_eq(id_tally_find(&tally, UINT32_MAX - i * 4000000)->nr, i);
	cr_assert_null(id_tally_find(&tally, 0));
	id_tally_fini(&tally);
	cr_assert_null(id_tally_find(&tally, UINT32_MAX));
}
