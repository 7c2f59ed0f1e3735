// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "base/budget.h"
#include "base/tenant.h"
#include "base/time.h"

TestSuite(budget, .timeout = 60);

Test(budget, a_tenant_uses_up_its_own)
{
	static struct tenant_budgets budgets;
	struct budget *one = budget_of(&budgets, tenant_of_user(1000)), *other;
	uint64_t now_ns = 100 * NS_PER_SECOND;
	uint32_t uid, nr_poor = 0;

	cr_expect_eq(budget_of(&budgets, 0), &budgets.loop);
	cr_expect(budget_allows(one, 10, NS_PER_SECOND, now_ns));
	budget_spend(one, 2 * NS_PER_SECOND);
	cr_expect_not(budget_allows(one, 10, NS_PER_SECOND, now_ns));
	cr_expect(budget_allows(&budgets.loop, 10, NS_PER_SECOND, now_ns));
	for (uid = 0; uid < 1000; uid++) {
		other = budget_of(&budgets, tenant_of_user(uid));
		cr_assert(other > &budgets.loop && other < &budgets.of[BUDGET_NR_TENANTS]);
		nr_poor += !budget_allows(other, 10, NS_PER_SECOND, now_ns);
	}
	cr_expect_lt(nr_poor, 40, "they are spread");
	cr_expect(budget_allows(one, 10, NS_PER_SECOND, now_ns + 11 * NS_PER_SECOND));
}
