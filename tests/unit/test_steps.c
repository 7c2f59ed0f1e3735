// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>

#include "ray/steps.h"

struct range_case {
	char text[32];
	uint64_t start, stop; /* 0, 0: refused */
};

ParameterizedTestParameters(steps, range)
{
	static struct range_case cases[] = {
		{ "3:5", 3, 5 },
		{ "1:2", 1, 2 },
		{ "1:1000000000", 1, 1000000000 },
		{ "0003:5", 3, 5 },
		{ "windows:3:5", 3, 5 },
		{ "calls:1:2", 1, 2 },
		{ "windows:5:5", 0, 0 },
		{ "calls:0:2", 0, 0 },
		{ "windows:", 0, 0 },
		{ "windows:3", 0, 0 },
		{ "calls:windows:3:5", 0, 0 },
		{ "windows: 3:5", 0, 0 },
		{ "windows3:5", 0, 0 },
		{ "window:3:5", 0, 0 },
		{ "Calls:3:5", 0, 0 },
		{ "3:5:calls", 0, 0 },
		{ "0:10", 0, 0 },
		{ "5:5", 0, 0 },
		{ "5:4", 0, 0 },
		{ "a:b", 0, 0 },
		{ "5:", 0, 0 },
		{ ":5", 0, 0 },
		{ ":", 0, 0 },
		{ "", 0, 0 },
		{ "5", 0, 0 },
		{ "3:5:7", 0, 0 },
		{ "3:5x", 0, 0 },
		{ "3 :5", 0, 0 },
		{ " 3:5", 0, 0 },
		{ "3: 5", 0, 0 },
		{ "+3:5", 0, 0 },
		{ "-3:5", 0, 0 },
		{ "3:-5", 0, 0 },
		{ "3-5", 0, 0 },
		{ "3.0:5", 0, 0 },
		{ "0x3:5", 0, 0 },
		{ "1:1000000001", 0, 0 },
		{ "18446744073709551617:3", 0, 0 },
		{ "1:18446744073709551617", 0, 0 },
	};

	return cr_make_param_array(struct range_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct range_case *c, steps, range)
{
	struct steps_range range = { .start = 77, .stop = 78, .kind = STEPS_CALLS };
	int err = steps_range_parse(&range, c->text);

	cr_assert_eq(err, c->stop ? 0 : -EINVAL, "%s", c->text);
	cr_expect_eq(range.start, c->stop ? c->start : 77, "%s", c->text);
	cr_expect_eq(range.stop, c->stop ? c->stop : 78, "%s", c->text);
	if (!c->stop)
		cr_expect_eq(range.kind, STEPS_CALLS, "%s", c->text);
}

Test(steps, kinds)
{
	struct steps_range range;

	cr_assert_eq(steps_range_parse(&range, "windows:3:5"), 0);
	cr_expect_eq(range.kind, STEPS_WINDOWS);
	cr_assert_eq(steps_range_parse(&range, "calls:3:5"), 0);
	cr_expect_eq(range.kind, STEPS_CALLS);
	cr_assert_eq(steps_range_parse(&range, "3:5"), 0);
	cr_expect_eq(range.kind, STEPS_EITHER);
}

/* Step n takes from 100 n to 100 n + 40. */
static void steps_run(struct steps *steps, const struct steps_range *range, uint64_t nr)
{
	uint64_t n;

	for (n = 1; n <= nr; n++) {
		steps_begin(steps, range, 100 * n);
		steps_end(steps, 100 * n + 40);
	}
}

Test(steps, windows)
{
	const struct steps_range range = { .start = 3, .stop = 5 };
	struct steps steps = { 0 };
	uint64_t ts;

	steps_end(&steps, 1); /* of one that began before */
	cr_expect_eq(steps.nr_recorded, 0);
	steps_run(&steps, &range, 6);
	cr_expect_eq(steps.nr_begun, 6);
	cr_expect_eq(steps.nr_open, 0);
	cr_expect_eq(steps.nr_recorded, 2);
	cr_expect_eq(steps.recorded_ns, 80);
	for (ts = 0; ts < 700; ts++)
		cr_expect_eq(steps_have(&steps, ts),
			     (ts >= 300 && ts < 340) || (ts >= 400 && ts < 440), "%d", (int)ts);
}

Test(steps, running)
{
	const struct steps_range range = { .start = 2, .stop = 4 };
	struct steps steps = { 0 };

	steps_run(&steps, &range, 1);
	cr_expect_eq(steps_have(&steps, 120), 0);
	steps_begin(&steps, &range, 200);
	cr_expect_eq(steps_have(&steps, 199), 0);
	cr_expect_eq(steps_have(&steps, 200), 1);
	cr_expect_eq(steps_have(&steps, UINT64_MAX - 1), 1);
	cr_expect_eq(steps.nr_recorded, 0);
	cr_expect_eq(steps.nr_windows, 1);
	steps_end_all(&steps, 260);
	cr_expect_eq(steps.recorded_ns, 60);
	cr_expect_eq(steps_have(&steps, 259), 1);
	cr_expect_eq(steps_have(&steps, 260), 0);
	cr_expect_not(steps_through(&steps, &range));
	steps_begin(&steps, &range, 270);
	cr_expect_not(steps_through(&steps, &range));
	steps_end(&steps, 300);
	cr_expect_not(steps_begin(&steps, &range, 300)); /* step 4 */
	cr_expect_eq(steps_have(&steps, 300), 0);
	cr_expect_eq(steps.nr_recorded, 2);
	cr_expect(steps_through(&steps, &range));
}

/* Wanted steps 2, 3 and 4 of 100 to 200, 150 to 300 and 400 to 450: two windows. */
Test(steps, overlapping)
{
	const struct steps_range range = { .start = 2, .stop = 5 };
	struct steps steps = { 0 };
	uint64_t ts;

	cr_expect_not(steps_begin(&steps, &range, 50)); /* it runs all the time */
	cr_expect(steps_begin(&steps, &range, 100));
	cr_expect(steps_begin(&steps, &range, 150));
	cr_expect_eq(steps.nr_open, 2);
	steps_end(&steps, 200);
	cr_expect_eq(steps_have(&steps, 250), 1);
	steps_end(&steps, 300);
	cr_expect_not(steps_through(&steps, &range));
	cr_expect(steps_begin(&steps, &range, 400));
	cr_expect_not(steps_begin(&steps, &range, 420));
	cr_expect_not(steps_through(&steps, &range));
	steps_end(&steps, 450);
	cr_expect(steps_through(&steps, &range));
	cr_expect_eq(steps.nr_recorded, 3);
	cr_expect_eq(steps.recorded_ns, 250);
	for (ts = 0; ts < 500; ts++)
		cr_expect_eq(steps_have(&steps, ts),
			     (ts >= 100 && ts < 300) || (ts >= 400 && ts < 450), "%d", (int)ts);
}

/* Of very many steps the last ones are known; earlier ones are not invented. */
Test(steps, many)
{
	const struct steps_range range = { .start = 1, .stop = STEPS_MAX };
	struct steps steps = { 0 };
	uint64_t nr = 10 * STEPS_KEPT;

	steps_run(&steps, &range, nr);
	cr_expect_eq(steps.nr_recorded, nr);
	cr_expect_eq(steps_have(&steps, 100 * nr), 1);
	cr_expect_eq(steps_have(&steps, 100 * nr + 40), 0);
	cr_expect_eq(steps_have(&steps, 100 * (nr - STEPS_KEPT + 1)), 1);
	cr_expect_eq(steps_have(&steps, 100 * (nr - STEPS_KEPT + 1) - 1), -ENODATA);
	cr_expect_eq(steps_have(&steps, 100), -ENODATA);
}

/* Earlier steps were not reported: only their number is known. */
Test(steps, skip)
{
	const struct steps_range range = { .start = 3, .stop = 6 };
	struct steps steps = { 0 };

	steps_skip_to(&steps, 0, 5);
	steps_skip_to(&steps, 1, 5);
	cr_expect_eq(steps.nr_begun, 0);
	steps_skip_to(&steps, 3, 10);
	cr_expect_eq(steps.nr_begun, 2);
	steps_begin(&steps, &range, 10);
	steps_skip_to(&steps, 4, 15); /* it is the next one anyway */
	cr_expect_eq(steps.nr_open, 1);
	steps_skip_to(&steps, 5, 20); /* the third has ended, and the fourth is not known */
	cr_expect_eq(steps.nr_begun, 4);
	cr_expect_eq(steps.nr_open, 0);
	cr_expect_eq(steps.nr_recorded, 1);
	cr_expect_eq(steps.recorded_ns, 10);
	steps_begin(&steps, &range, 20);
	steps_end(&steps, 30);
	cr_expect_eq(steps.nr_recorded, 2);
	cr_expect_eq(steps_have(&steps, 12), 1);
	cr_expect_eq(steps_have(&steps, 25), 1);
	cr_expect_eq(steps_have(&steps, 30), 0);
	steps_skip_to(&steps, 2, 40);
	cr_expect_eq(steps.nr_begun, 5);
}
