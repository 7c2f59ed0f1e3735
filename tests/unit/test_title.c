// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proc/title.h"

#define X10 "xxxxxxxxxx"
#define X120 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10

struct title_case {
	char name[32];
	char raw[160];
	size_t len; /* 0: all of raw */
	char want[TITLE_MAX + 1]; /* "": refused */
};

ParameterizedTestParameters(title, parse)
{
	static struct title_case cases[] = {
		{ "method", "ray::Trainer.fit", 0, "ray::Trainer.fit" },
		{ "idle", "ray::IDLE", 0, "ray::IDLE" },
		{ "old", "ray::f()", 0, "ray::f()" },
		{ "blanks", "ray::MapBatches(a, b)", 0, "ray::MapBatches(a, b)" },
		{ "utf8",
		  "ray::Stra\xc3\x9f"
		  "e",
		  0,
		  "ray::Stra\xc3\x9f"
		  "e" },
		{ "no_nul", "ray::Trainer.fitxxx", 16, "ray::Trainer.fit" },
		{ "one_character", "ray::x", 0, "ray::x" },
		{ "empty", "", 0, "" },
		{ "nothing_behind", "ray::", 0, "" },
		{ "not_ray", "python3 train.py", 0, "" },
		{ "half_written", "ray:", 0, "" },
		{ "escape", "ray::\033[2Jx", 0, "" },
		{ "newline", "ray::a\nb", 0, "" },
		{ "delete", "ray::a\x7f", 0, "" },
		{ "c1", "ray::a\xc2\x9b", 0, "" },
		{ "lone_continuation", "ray::a\x80", 0, "" },
		{ "overlong", "ray::\xc0\x80", 0, "" },
		{ "surrogate", "ray::\xed\xa0\x80", 0, "" },
		{ "past_unicode", "ray::\xf5\x80\x80\x80", 0, "" },
		{ "cut_character", "ray::a\xc3", 0, "" },
		{ "as_long_as_can_be", "ray::" X120 "xx", 0, "ray::" X120 "xx" },
		{ "too_long", "ray::" X120 "xxx", 0, "ray::" X120 "xxx" },
	};
	static const char tail[] = "ray::" X120;
	const size_t nr = sizeof(cases) / sizeof(cases[0]);

	/* 128 bytes: 124 of them and "...". */
	memcpy(cases[nr - 1].want, tail, 124 - 1);
	cases[nr - 1].want[123] = 'x';
	memcpy(cases[nr - 1].want + 124, "...", 4);
	return cr_make_param_array(struct title_case, cases, nr);
}

ParameterizedTest(struct title_case *c, title, parse)
{
	char dst[TITLE_MAX + 1] = "before";
	int err = title_parse(dst, c->raw, c->len ? c->len : sizeof(c->raw));

	if (!c->want[0]) {
		cr_assert_eq(err, -EBADMSG, "%s", c->name);
		cr_assert_str_eq(dst, "before", "%s", c->name);
		return;
	}
	cr_assert_eq(err, 0, "%s", c->name);
	cr_assert_str_eq(dst, c->want, "%s: %s", c->name, dst);
}

/* Where a title is cut, no half character stays, and what is cut off is not judged. */
Test(title, cut_between_characters)
{
	char raw[136], dst[TITLE_MAX + 1];
	size_t shift, i;

	for (shift = 0; shift < 3; shift++) {
		memset(raw, 'a', sizeof(raw));
		memcpy(raw, "ray::", 5);
		for (i = 5 + shift; i + 3 <= sizeof(raw); i += 3)
			memcpy(raw + i, "\xe2\x82\xac", 3);
		for (; i < sizeof(raw); i++)
			raw[i] = "\xe2\x82\xac"[i % 3 == (5 + shift) % 3 ? 0 : 1];
		cr_assert_eq(title_parse(dst, raw, sizeof(raw)), 0, "shift %zu", shift);
		i = strlen(dst);
		cr_assert(i <= TITLE_MAX && i > TITLE_MAX - 6, "%zu", i);
		cr_assert_str_eq(dst + i - 3, "...");
		cr_assert_eq((i - 3 - 5 - shift) % 3, 0, "shift %zu: half a character", shift);
	}
	memset(raw, 'a', sizeof(raw));
	memcpy(raw, "ray::", 5);
	raw[100] = '\033';
	cr_assert_eq(title_parse(dst, raw, sizeof(raw)), -EBADMSG);
	raw[100] = 'a';
	raw[130] = '\033';
	cr_assert_eq(title_parse(dst, raw, sizeof(raw)), 0);
}

/* Any bytes: within dst, and nothing but what may be shown. */
Test(title, any_bytes)
{
	char raw[136], dst[TITLE_MAX + 1];

	for (unsigned int seed = 1; seed <= 200000; seed++) {
		size_t len = seed % (sizeof(raw) + 1);

		srand(seed);
		for (size_t i = 0; i < len; i++)
			raw[i] = (char)(seed & 1 ? rand() : " .aZ\xc3\xa9"[rand() % 6]);
		if (len >= 5)
			memcpy(raw, "ray::", 5);
		if (title_parse(dst, raw, len))
			continue;
		cr_assert(memchr(dst, 0, sizeof(dst)) && strlen(dst) > 5);
		for (const char *at = dst; *at; at++)
			cr_assert(*at < 0 || (*at >= ' ' && *at != 0x7f));
	}
}
