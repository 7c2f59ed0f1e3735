// SPDX-License-Identifier: Apache-2.0
#include "base/backoff.h"

#include <criterion/criterion.h>

Test(backoff, nothing_is_due_before_a_failure)
{
	struct backoff backoff = { 0 };

	cr_assert(!backoff_is_due(&backoff, UINT64_MAX));
}

Test(backoff, waits_twice_as_long_each_time_and_ends)
{
	struct backoff backoff = { 0 };
	uint64_t now_ns = 5, wait_ns = BACKOFF_FIRST_NS;
	int i;

	for (i = 0; i < BACKOFF_TRIES; i++) {
		cr_assert(backoff_fail(&backoff, now_ns), "try %d", i);
		cr_assert(!backoff_is_due(&backoff, now_ns + wait_ns - 1), "try %d", i);
		cr_assert(backoff_is_due(&backoff, now_ns + wait_ns), "try %d", i);
		now_ns += wait_ns;
		wait_ns *= 2;
	}
	cr_assert(!backoff_fail(&backoff, now_ns));
	cr_assert(!backoff_is_due(&backoff, UINT64_MAX));
}
