// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "base/shares.h"

#define LIMIT 1024

static struct shares shares;

static void setup(void)
{
	shares_init(&shares, LIMIT);
}

static void teardown(void)
{
	shares_fini(&shares);
}

TestSuite(shares, .init = setup, .fini = teardown);

/* The amount that the tenant gets by asking for 1 again and again. */
static size_t take_all(uint32_t tenant)
{
	size_t got = 0;

	while (shares_take(&shares, tenant, 1))
		got++;
	return got;
}

Test(shares, each_gets_what_is_free)
{
	cr_expect_eq(take_all(1), LIMIT / 2);
	cr_expect_eq(take_all(2), LIMIT / 4);
	cr_expect_eq(take_all(1), 0, "it has more than is free");
	cr_expect_eq(take_all(3), LIMIT / 8);
	cr_expect_eq(shares.used, LIMIT / 2 + LIMIT / 4 + LIMIT / 8);
}

Test(shares, given_back)
{
	cr_expect(shares_take(&shares, 1, 500));
	cr_expect_not(shares_take(&shares, 1, 500));
	cr_expect(shares_take(&shares, 2, 200));
	shares_give(&shares, 1, 500);
	shares_give(&shares, 7, 500); /* it has nothing */
	cr_expect_eq(shares.used, 200);
	cr_expect_eq(shares.tenants.nr, 1);
	cr_expect(shares_take(&shares, 1, 400));
	cr_expect_not(shares_take(&shares, 1, SIZE_MAX));
	cr_expect_not(shares_take(&shares, 3, LIMIT));
	cr_expect_eq(shares.used, 600);
}
