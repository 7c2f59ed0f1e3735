// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proc/title.h"

#define RAW_BYTES (TITLE_MAX + 9) /* as the kernel's side reads it */

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
	};

	return cr_make_param_array(struct title_case, cases, sizeof(cases) / sizeof(cases[0]));
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

/*
 * A title is whole as long as there is room, and the bytes behind its NUL do not count; otherwise
 * it is cut visibly.
 */
Test(title, lengths)
{
	static const size_t lengths[] = { 6,   100, 127,  128,	129,  200,  511,  512,
					  513, 872, 1022, 1023, 1024, 1031, 1032, 2000 };
	char raw[2048], dst[TITLE_MAX + 1];
	size_t i, len;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		len = lengths[i];
		memset(raw, '\033', sizeof(raw));
		memset(raw, 'x', len);
		memcpy(raw, "ray::", 5);
		raw[len - 1] = 'z';
		raw[len] = 0;
		cr_assert_eq(title_parse(dst, raw, sizeof(raw)), 0, "%zu", len);
		if (len <= TITLE_MAX) {
			cr_assert_str_eq(dst, raw, "%zu", len);
			cr_assert_eq(title_parse(dst, raw, len), 0, "%zu", len);
			cr_assert_str_eq(dst, raw, "%zu: without a NUL", len);
			continue;
		}
		cr_assert_eq(strlen(dst), TITLE_MAX, "%zu", len);
		cr_assert_eq(memcmp(dst, raw, TITLE_MAX - 3), 0, "%zu", len);
		cr_assert_str_eq(dst + TITLE_MAX - 3, "...", "%zu", len);
	}
}

Test(title, cut_to)
{
	char dst[16] = "before";

	title_cut(dst, 8, "ray::abc", 7);
	cr_assert_str_eq(dst, "ray::ab");
	title_cut(dst, 8, "ray::abc", 8);
	cr_assert_str_eq(dst, "ray:...");
	title_cut(dst, 8, "ra\xe2\x82\xac\xe2\x82\xac", 8);
	cr_assert_str_eq(dst, "ra...");
	title_cut(dst, 4, "\x82\x82\x82\x82\x82", 5);
	cr_assert_str_eq(dst, "...");
	title_cut(dst, 8, "", 0);
	cr_assert_str_eq(dst, "");
}

Test(title, keep)
{
	char *kept = NULL, *first;

	cr_assert_eq(title_keep(&kept, "ray::A.f", 6), 0);
	cr_assert_str_eq(kept, "ray::A");
	first = kept;
	cr_assert_eq(title_keep(&kept, "ray::A", SIZE_MAX), 0);
	cr_assert_eq(kept, first);
	cr_assert_eq(title_keep(&kept, "ray::", SIZE_MAX), 0);
	cr_assert_str_eq(kept, "ray::");
	cr_assert_eq(title_keep(&kept, "ray::A", SIZE_MAX), 0);
	cr_assert_str_eq(kept, "ray::A");
	free(kept);
}

/* A cut leaves no half character, and the rest is not checked. */
Test(title, cut_between_characters)
{
	char raw[RAW_BYTES], dst[TITLE_MAX + 1];
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
	raw[TITLE_MAX + 3] = '\033';
	cr_assert_eq(title_parse(dst, raw, sizeof(raw)), 0);
}

/* Any bytes: within dst, and nothing but what may be shown. */
Test(title, any_bytes)
{
	char raw[RAW_BYTES], dst[TITLE_MAX + 1];

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
