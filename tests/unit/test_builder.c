// SPDX-License-Identifier: Apache-2.0
/* Profiles that are put together piece by piece. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "profile/builder.h"

#define DEPTH 65536

/* Stacks share their callers, so the budget does not bound the time that it takes to go through all of them. */
Test(builder, frames_of_all_samples_are_bounded)
{
	uint32_t *locations = calloc(DEPTH, sizeof(*locations)), first, stack, nr = 0;
	struct profile_builder builder;
	int err = 0;

	cr_assert(locations);
	cr_assert_eq(profile_builder_init(&builder, 1U << 30), 0);
	cr_assert_eq(profile_builder_stack(&builder, locations, DEPTH, &first), 0);
	for (; !err && nr < 10000; nr++) {
		err = profile_builder_stack(&builder, locations, DEPTH, &stack);
		cr_assert(err || stack == first);
	}
	cr_expect_eq(err, -E2BIG);
	cr_expect_eq(nr, (1U << 28) / DEPTH);
	cr_expect_eq(profile_builder_stack(&builder, locations, 1, &stack), -E2BIG);
	profile_builder_fini(&builder);
	free(locations);
}
