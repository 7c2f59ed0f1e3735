// SPDX-License-Identifier: Apache-2.0
#include "capture/memory_requirements.h"

#include <criterion/criterion.h>

#include "capture/bpf_features.h"
#include "capture/requirements.h"

TestSuite(memory_requirements, .timeout = 60);

Test(memory_requirements, a_line_for_each_part)
{
	static const char *const names[] = { "resident_memory", "allocations" };
	struct requirements reqs = { 0 };
	size_t i;

	memory_requirements_add(&reqs);
	cr_assert_eq(reqs.nr, 2);
	for (i = 0; i < reqs.nr; i++) {
		cr_expect_str_eq(reqs.items[i].name, names[i]);
		cr_expect_neq(reqs.items[i].status, REQUIREMENT_FAIL, "all else works without");
		cr_expect_eq(!reqs.items[i].remedy, reqs.items[i].status == REQUIREMENT_OK);
	}
	requirements_fini(&reqs);
}

Test(memory_requirements, no_such_tracepoint)
{
	cr_expect_not(bpf_has_raw_tracepoint("no_such_event"));
}
