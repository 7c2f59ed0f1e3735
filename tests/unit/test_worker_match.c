// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "ray/worker_match.h"

struct match_case {
	char pattern[64], title[64], comm[16], script[32];
	int want;
};

ParameterizedTestParameters(worker_match, table)
{
	static struct match_case cases[] = {
		{ "*policy*", "ray::DTensorPolicyWorker.train", "ray::DTensorPo", "", 1 },
		{ "dtensor_policy_worker", "ray::DTensorPolicyWorker.train", "ray::DTensorPo", "",
		  1 },
		{ "DTENSORPOLICYWORKER", "ray::DTensorPolicyWorker", "ray::DTensorPo", "", 1 },
		{ "dtensorpolicyworker.train", "ray::DTensorPolicyWorker.train", "x", "", 1 },
		{ "dtensorpolicyworker.eval", "ray::DTensorPolicyWorker.train", "x", "", 0 },
		{ "policy", "ray::DTensorPolicyWorker.train", "x", "", 0 },
		{ "*.train", "ray::A_B.train", "x", "", 1 },
		{ "a?b", "ray::AxB.train", "x", "", 1 },
		{ "a?b", "ray::AB.train", "x", "", 0 },
		{ "[xyz]*", "ray::Yes", "x.", "", 1 },
		{ "[!xyz]*", "ray::Yes", "x", "", 0 },
		{ "[A-C]*", "ray::bee", "x", "", 1 },
		{ "[_]x", "ray::_x", "c", "", 0 },
		{ "[_y]x", "ray::_yx", "c", "", 1 },
		{ "[", "ray::[", "c", "", 1 },
		{ "ray::Trainer", "ray::Trainer.fit", "c", "", 0 },
		{ "mapbatches(a.b)", "ray::MapBatches(a.b)", "c", "", 1 },
		{ "mapbatches", "ray::MapBatches(a.b)", "c", "", 1 },
		{ "idle", "ray::IDLE", "ray::IDLE", "", 1 },
		{ "raylet", "", "raylet", "", 1 },
		{ "gcsserver", "", "gcs_server", "", 1 },
		{ "train.py", "", "python3", "train.py", 1 },
		{ "train*", "", "python3", "train.py", 1 },
		{ "python3", "", "python3", "train.py", 1 },
		{ "*", "", "", "", 0 },
		{ "\\*", "ray::x", "*", "", 0 },
	};

	return cr_make_param_array(struct match_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct match_case *c, worker_match, table)
{
	struct worker_names names = { .title = c->title[0] ? c->title : NULL,
				      .comm = c->comm,
				      .script = c->script[0] ? c->script : NULL };
	char *patterns[] = { "no such worker", c->pattern };

	cr_assert_eq(worker_match(patterns, 2, &names), c->want ? 1 : -1, "%s: %s", c->pattern,
		     c->title);
}

/* Between two calls an actor has its class for a title. */
Test(worker_match, class_at_rest)
{
	static const struct {
		const char *pattern, *title;
		int want;
	} cases[] = {
		{ "trainer.fit", "ray::Trainer", 1 }, { "trai*.fit", "ray::Trainer", 1 },
		{ "trainer", "ray::Trainer", 1 },     { "trainer.fit", "ray::Trainer.fit", 1 },
		{ "trainer.fit", "ray::Other", 0 },   { "*.fit", "ray::Trainer", 0 },
		{ "?*.fit", "ray::Trainer", 0 },      { "*.*", "ray::Trainer", 0 },
		{ ".fit", "ray::Trainer", 0 },	      { "fit", "ray::Trainer", 0 },
		{ "*t*.fit", "ray::Trainer", 1 },
	};
	struct worker_names names = { .comm = "x" };
	char *patterns[] = { "no such worker", NULL };
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		names.title = cases[i].title;
		patterns[1] = (char *)cases[i].pattern;
		cr_expect_eq(worker_match_class(patterns, 2, &names), cases[i].want ? 1 : -1,
			     "%s: %s", cases[i].pattern, cases[i].title);
	}
	names.title = NULL;
	cr_expect_eq(worker_match_class(patterns, 2, &names), -1);
}

Test(worker_match, names)
{
	struct worker_names names = { .comm = "python3" };

	cr_expect_str_eq(worker_name(&names), "python3");
	names.script = "train.py";
	cr_expect_str_eq(worker_name(&names), "train.py");
	names.title = "ray::Trainer.fit";
	cr_expect_str_eq(worker_name(&names), "Trainer.fit");
}

/* Longer than can be: it finds nothing, and nothing is written past an end. */
Test(worker_match, too_long)
{
	static char pattern[4096], title[TITLE_MAX + 512] = "ray::";
	char *patterns[] = { pattern };
	struct worker_names names = { .title = title, .comm = "x" };

	memset(pattern, '*', sizeof(pattern) - 1);
	cr_assert_eq(worker_match(patterns, 1, &names), -1);
	pattern[1] = 0;
	memset(title + 5, 'a', sizeof(title) - 6);
	cr_assert_eq(worker_match(patterns, 1, &names), 0); /* by its comm */
	names.comm = "";
	cr_assert_eq(worker_match(patterns, 1, &names), -1);
}

/* Titles of the greatest length that differ in the last byte are different. */
Test(worker_match, long_title)
{
	char pattern[TITLE_MAX + 1] = "", title[TITLE_MAX + 1] = "ray::";
	char *patterns[] = { pattern };
	struct worker_names names = { .title = title, .comm = "" };
	size_t len = TITLE_MAX - 5;

	memset(title + 5, 'a', len);
	memset(pattern, 'A', len);
	cr_assert_eq(worker_match(patterns, 1, &names), 0);
	title[TITLE_MAX - 1] = 'b';
	cr_assert_eq(worker_match(patterns, 1, &names), -1);
	memcpy(pattern, "*ab", sizeof("*ab"));
	cr_assert_eq(worker_match(patterns, 1, &names), 0);
	memcpy(pattern, "*a*a*a*a*a*a*c", sizeof("*a*a*a*a*a*a*c"));
	cr_assert_eq(worker_match(patterns, 1, &names), -1);
}
