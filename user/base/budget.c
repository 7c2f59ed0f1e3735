// SPDX-License-Identifier: Apache-2.0
#include "base/budget.h"

#include "base/tenant.h"

bool budget_allows(struct budget *budget, uint32_t share, uint64_t saved_ns, uint64_t now_ns)
{
	uint64_t earned = now_ns > budget->earned_ns ? (now_ns - budget->earned_ns) / share : 0;

	if (now_ns > budget->earned_ns)
		budget->earned_ns = now_ns;
	budget->spent_ns -= earned < budget->spent_ns ? earned : budget->spent_ns;
	return budget->spent_ns < saved_ns;
}

struct budget *budget_of(struct tenant_budgets *budgets, uint32_t tenant)
{
	return tenant ? &budgets->of[tenant_slot(tenant, BUDGET_NR_TENANTS)] : &budgets->loop;
}

void budget_spend(struct budget *budget, uint64_t ns)
{
	budget->spent_ns += ns;
}
