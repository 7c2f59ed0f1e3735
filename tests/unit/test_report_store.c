// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>

#include "cmd/report_store.h"

TestSuite(report_store);

#define NOW 1764597600ULL /* 2025-12-01T14:00:00Z */

static uint64_t time_of(const char *text)
{
	uint64_t seconds = 0;

	cr_expect_eq(report_time(text, NOW, &seconds), 0, "%s", text);
	return seconds;
}

/* A time of the day is the last one of that name. */
Test(report_store, times)
{
	cr_expect_eq(time_of("14:00"), NOW);
	cr_expect_eq(time_of("14:00:00"), NOW);
	cr_expect_eq(time_of("13:59:58"), NOW - 2);
	cr_expect_eq(time_of("14:01"), NOW + 60 - 86400);
	cr_expect_eq(time_of("00:00"), NOW - 14 * 3600);
	cr_expect_eq(time_of("2025-12-02T14:00:01Z"), NOW + 86401);
	cr_expect_eq(time_of("2024-02-29T00:00:00Z"), 1709164800);
}

Test(report_store, no_times)
{
	static const char *const texts[] = { "",
					     "14",
					     "14:",
					     "25:00",
					     "14:60",
					     "14:00:00x",
					     "2025-13-01T00:00:00Z",
					     "1900-01-01T00:00:00Z",
					     "2025-12-01",
					     "-1:00" };
	uint64_t seconds;
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_expect_eq(report_time(texts[i], NOW, &seconds), -EINVAL, "%s", texts[i]);
}
