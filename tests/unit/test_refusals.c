// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/refusals.h"
#include "base/tenant.h"
#include "base/time.h"

static struct refusals refusals;

static void setup(void)
{
	refusals_init(&refusals);
}

static void teardown(void)
{
	refusals_fini(&refusals);
}

TestSuite(refusals, .init = setup, .fini = teardown, .timeout = 60);

static uint64_t count_of(const char *name, enum refusal reason)
{
	const struct refused *row;

	hash_table_each(&refusals.rows, row)
		if (!strcmp(row->name, name) && row->of.reason == reason)
			return row->count;
	return 0;
}

Test(refusals, are_counted_by_tenant_and_reason)
{
	refusals_count(NULL, 1, REFUSAL_FILE);
	refusals_count(&refusals, tenant_of_user(0), REFUSAL_FILE);
	refusals_count(&refusals, tenant_of_user(65534), REFUSAL_FILE);
	refusals_count(&refusals, tenant_of_user(65534), REFUSAL_FILE);
	refusals_count(&refusals, tenant_of_user(65534), REFUSAL_CALL);
	refusals_count(&refusals, tenant_of_process(77), REFUSAL_JOB);
	refusals_count(&refusals, tenant_of_process(78), REFUSAL_JOB);
	cr_expect_eq(count_of("uid 0", REFUSAL_FILE), 1);
	cr_expect_eq(count_of("uid 65534", REFUSAL_FILE), 2);
	cr_expect_eq(count_of("uid 65534", REFUSAL_CALL), 1);
	cr_expect_eq(count_of("unknown", REFUSAL_JOB), 2);
	cr_expect_eq(refusals.rows.nr, 4);
	cr_expect_not(refusals.nameless);
}

Test(refusals, containers_get_their_names_later)
{
	refusals_count(&refusals, TENANT_CONTAINER | 1, REFUSAL_FILE);
	refusals_count(&refusals, TENANT_CONTAINER | 1, REFUSAL_JOB);
	refusals_count(&refusals, TENANT_CONTAINER | 0x2a, REFUSAL_JOB);
	cr_expect(refusals.nameless);
	cr_expect_null(refusals_log_next(&refusals, NS_PER_SECOND));
	refusals_name(&refusals, TENANT_CONTAINER | 1, "ml/trainer\033-0/main");
	refusals_name_rest(&refusals);
	refusals_name(&refusals, TENANT_CONTAINER | 1, "another");
	cr_expect_not(refusals.nameless);
	cr_expect_eq(count_of("ml/trainer?-0/main", REFUSAL_FILE), 1);
	cr_expect_eq(count_of("ml/trainer?-0/main", REFUSAL_JOB), 1);
	cr_expect_eq(count_of("container #8000002a", REFUSAL_JOB), 1);
}

Test(refusals, rows_are_bounded)
{
	uint32_t uid;

	for (uid = 0; uid < 10 * REFUSALS_MAX; uid++)
		refusals_count(&refusals, tenant_of_user(uid), uid % REFUSAL_NR);
	for (uid = 0; uid < 10 * REFUSALS_MAX; uid++)
		refusals_count(&refusals, tenant_of_user(uid), uid % REFUSAL_NR);
	cr_expect_eq(refusals.rows.nr, REFUSALS_MAX + REFUSAL_NR);
	cr_expect_eq(count_of("uid 7", 7), 2);
	cr_expect_geq(count_of("others", REFUSAL_FILE), 2 * 9 * (REFUSALS_MAX / REFUSAL_NR));
}

static size_t log_all(uint64_t now_ns)
{
	size_t nr = 0;

	while (refusals_log_next(&refusals, now_ns))
		nr++;
	return nr;
}

Test(refusals, are_logged_once_and_again_after_an_hour)
{
	const uint64_t hour_ns = REFUSALS_LOG_AGAIN_SECONDS * NS_PER_SECOND;
	uint64_t now_ns = 5 * NS_PER_SECOND;
	const struct refused *row;

	refusals_count(&refusals, tenant_of_user(7), REFUSAL_FILE);
	row = refusals_log_next(&refusals, now_ns);
	cr_assert_not_null(row);
	cr_expect_str_eq(row->name, "uid 7");
	refusals_count(&refusals, tenant_of_user(7), REFUSAL_FILE);
	cr_expect_eq(log_all(now_ns), 0);
	cr_expect_eq(log_all(now_ns + hour_ns), 0);
	cr_expect_eq(log_all(now_ns + hour_ns + 1), 1);
	cr_expect_eq(log_all(now_ns + 3 * hour_ns), 0, "nothing more was refused");
}

Test(refusals, a_flood_is_logged_slowly)
{
	const uint64_t step_ns = REFUSALS_LOG_SECONDS * NS_PER_SECOND;
	uint64_t now_ns = 1000 * NS_PER_SECOND;
	uint32_t uid;

	for (uid = 0; uid < 100; uid++)
		refusals_count(&refusals, tenant_of_user(uid), REFUSAL_JOB);
	cr_expect_eq(log_all(now_ns), REFUSALS_LOG_BURST);
	cr_expect_eq(log_all(now_ns + step_ns - 1), 0);
	cr_expect_eq(log_all(now_ns + step_ns), 1);
	cr_expect_eq(log_all(now_ns + step_ns + 1), 0);
	cr_expect_eq(log_all(now_ns + 2 * step_ns), 1);
}
