/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_BUDGET_H
#define BPFPROF_BASE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A share of the time for one kind of work. Unused time is saved up to a limit. Work that others can
 * cause without end (new programs, misses) gets no more than its share. A struct of zeros is a fresh
 * budget with everything saved up.
 */
struct budget {
	uint64_t spent_ns; /* not yet earned again */
	uint64_t earned_ns; /* time was earned up to this moment */
};

/* May work begin now? `share` nanoseconds earn one; at most saved_ns are saved up. */
bool budget_allows(struct budget *budget, uint32_t share, uint64_t saved_ns, uint64_t now_ns);
void budget_spend(struct budget *budget, uint64_t ns);

/* A budget for each tenant (tenant.h), so that none uses up the time of others. */
#define BUDGET_NR_TENANTS 64
struct tenant_budgets {
	struct budget loop, of[BUDGET_NR_TENANTS];
};

/* The budget of the tenant; 0: that of work which is no job of a tenant (background_tenant()). */
struct budget *budget_of(struct tenant_budgets *budgets, uint32_t tenant);

#endif
