// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "bpfprof.h"
#include "python_place.h"

/* Old frames in some C frames do not change the place that most calls agree on. */
Test(python_place, votes)
{
	struct python_place place = { 0 };
	int i;

	python_place_vote(&place, 3);
	cr_assert_eq(place.place, 3);
	for (i = 0; i < 100; i++) {
		python_place_vote(&place, 3);
		python_place_vote(&place, 3);
		python_place_vote(&place, 1);
		cr_assert_eq(place.place, 3);
		cr_assert_gt(place.score, 0);
		cr_assert_leq(place.score, PYTHON_PLACE_SURE);
	}
	/* Another one that they all hold it in takes over soon, however long it was the first. */
	for (i = 0; place.place != 2; i++)
		python_place_vote(&place, 2);
	cr_assert_leq(i, PYTHON_PLACE_SURE + 1);
	cr_assert_eq(place.score, 1);
}
