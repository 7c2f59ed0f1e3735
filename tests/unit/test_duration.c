// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>

#include "base/duration.h"

#define SECOND 1000000000ULL

Test(duration, accepts)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} cases[] = {
		{ "30", 30 * SECOND },
		{ "30s", 30 * SECOND },
		{ "1.5", 1500000000 },
		{ ".5", 500000000 },
		{ "2.", 2 * SECOND },
		{ "5m", 300 * SECOND },
		{ "1.5m", 90 * SECOND },
		{ "2h", 7200 * SECOND },
		{ "0.25h", 900 * SECOND },
		{ "007", 7 * SECOND },
		{ "0.000000001", 1 },
		{ "0.0000000019", 1 },
		{ "1.000000001s", SECOND + 1 },
		{ "8784h", DURATION_MAX_NS },
		{ "31622400", DURATION_MAX_NS },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t ns = 0;
		int err = duration_parse(cases[i].text, &ns);

		cr_expect_eq(err, 0, "%s: %d", cases[i].text, err);
		cr_expect_eq(ns, cases[i].ns, "%s: %llu", cases[i].text, (unsigned long long)ns);
	}
}

Test(duration, refuses)
{
	static const struct {
		const char *text;
		int err;
	} cases[] = {
		{ "", -EINVAL },
		{ ".", -EINVAL },
		{ "s", -EINVAL },
		{ ".m", -EINVAL },
		{ "-1", -EINVAL },
		{ "+1", -EINVAL },
		{ " 1", -EINVAL },
		{ "1 ", -EINVAL },
		{ "5x", -EINVAL },
		{ "5ms", -EINVAL },
		{ "5S", -EINVAL },
		{ "1m30s", -EINVAL },
		{ "1..5", -EINVAL },
		{ "1e3", -EINVAL },
		{ "0x10", -EINVAL },
		{ "inf", -EINVAL },
		{ "nan", -EINVAL },
		{ "1,5", -EINVAL },
		{ "0", -ERANGE },
		{ "0.0", -ERANGE },
		{ "0h", -ERANGE },
		{ "0.0000000009", -ERANGE },
		{ "31622401", -ERANGE },
		{ "31622400.1", -ERANGE },
		{ "8785h", -ERANGE },
		{ "5124096h", -ERANGE },
		{ "18446744073709551616", -ERANGE },
		{ "99999999999999999999999999999999h", -ERANGE },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t ns = 42;
		int err = duration_parse(cases[i].text, &ns);

		cr_expect_eq(err, cases[i].err, "'%s': %d", cases[i].text, err);
		cr_expect_eq(ns, 42, "'%s': the result was touched", cases[i].text);
	}
}
