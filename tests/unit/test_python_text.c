// SPDX-License-Identifier: Apache-2.0
#include "python/text.h"

#include <criterion/criterion.h>
#include <iconv.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "\xe2\x80\xa6"
#define BAD "\xef\xbf\xbd"

TestSuite(python_text, .timeout = 60);

/* Made of src and total bytes, in memory of exactly these sizes. */
static char *text_of(size_t cap, const void *src, size_t len, size_t total, uint32_t char_bytes)
{
	char *dst = malloc(cap), *result;
	uint8_t *copy = malloc(len ? len : 1);
	size_t ret;

	memcpy(copy, src, len);
	memset(dst, 'x', cap);
	ret = python_text(dst, cap, copy, len, total, char_bytes);
	cr_assert_lt(ret, cap);
	cr_assert_eq(dst[ret], '\0');
	cr_assert_eq(strlen(dst), ret);
	result = strdup(dst);
	free(copy);
	free(dst);
	return result;
}

struct example {
	const char *src;
	size_t len;
	size_t total;
	uint32_t char_bytes;
	const char *want;
};

#define WHOLE(src) src, sizeof(src) - 1, sizeof(src) - 1

Test(python_text, characters)
{
	static const struct example examples[] = {
		{ WHOLE(""), 1, "" },
		{ WHOLE("run"), 1, "run" },
		{ WHOLE("a\tb\nc\x7f"), 1, "a\tb\nc\x7f" },
		{ WHOLE("\xfc\x80\xff"), 1, "\xc3\xbc\xc2\x80\xc3\xbf" },
		{ WHOLE("a\0b"), 1, "a" BAD "b" },
		{ WHOLE("a\0\xac\x20"), 2, "a\xe2\x82\xac" },
		{ WHOLE("\xff\x07\0\x08\xff\xff"), 2, "\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf" },
		/* A pair of surrogates is two lone ones: Python has no UTF-16. */
		{ WHOLE("\x3d\xd8\x00\xde"), 2, BAD BAD },
		{ WHOLE("\xff\xd7\x00\xd8\xff\xdf\x00\xe0"), 2,
		  "\xed\x9f\xbf" BAD BAD "\xee\x80\x80" },
		{ WHOLE("a\0\x80\xdc"), 2, "a" BAD },
		{ WHOLE("\x00\xf6\x01\x00"), 4, "\xf0\x9f\x98\x80" },
		{ WHOLE("\xff\xff\x10\x00\x00\x00\x11\x00"), 4, "\xf4\x8f\xbf\xbf" BAD },
		{ WHOLE("a\0\0\x80\xff\xff\xff\xff"), 4, BAD BAD },
		{ WHOLE("\x80\xdc\0\0\0\0\x01\0"), 4, BAD "\xf0\x90\x80\x80" },
		/* Cut before it came here */
		{ "run", 3, 4, 1, "run" MARK },
		{ "", 0, 9, 1, MARK },
		{ "a\0b", 3, 4, 2, "a" MARK },
		{ "a\0b", 3, 3, 2, "a" MARK },
		{ "a\0\0", 3, 400, 4, MARK },
		{ "running", 7, 3, 1, "run" },
		{ "run", 3, SIZE_MAX, 1, "run" MARK },
		/* No string of Python's */
		{ WHOLE("run"), 0, "" },
		{ WHOLE("runrun"), 3, "" },
		{ WHOLE("runs"), 8, "" },
	};

	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		const struct example *ex = &examples[i];
		char *text = text_of(64, ex->src, ex->len, ex->total, ex->char_bytes);

		cr_expect_str_eq(text, ex->want, "example %zu: %s", i, text);
		free(text);
	}
}

Test(python_text, room)
{
	static const struct {
		size_t cap;
		const char *want;
	} cases[] = {
		/* a U+00E9 U+20AC U+1F600 z: 1 + 2 + 3 + 4 + 1 bytes */
		{ 1, "" },
		{ 2, "" },
		{ 3, "" },
		{ 4, MARK },
		{ 5, "a" MARK },
		{ 6, "a" MARK },
		{ 7, "a\xc3\xa9" MARK },
		{ 9, "a\xc3\xa9" MARK },
		{ 10, "a\xc3\xa9\xe2\x82\xac" MARK },
		{ 11, "a\xc3\xa9\xe2\x82\xac" MARK },
		{ 12, "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z" },
		{ 13, "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z" },
	};
	static const uint32_t src[] = { 'a', 0xe9, 0x20ac, 0x1f600, 'z' };
	char byte = 'x';

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = text_of(cases[i].cap, src, sizeof(src), sizeof(src), 4);

		cr_expect_str_eq(text, cases[i].want, "room for %zu: %s", cases[i].cap, text);
		free(text);
	}
	cr_expect_eq(python_text(&byte, 0, (const uint8_t *)"run", 3, 3, 1), 0);
	cr_expect_eq(byte, 'x');
	/* Cut before, and the mark just fits or does not. */
	for (size_t cap = 5; cap <= 7; cap++) {
		char *text = text_of(cap, "run", 3, 4, 1);

		cr_expect_str_eq(text, cap == 5 ? "r" MARK : cap == 6 ? "ru" MARK : "run" MARK);
		free(text);
	}
}

/* Every code point that there is, as iconv writes it. */
Test(python_text, every_code_point)
{
	iconv_t conv = iconv_open("UTF-8", "UTF-32LE");
	uint16_t narrow;
	uint32_t c;

	cr_assert_neq(conv, (iconv_t)-1);
	for (c = 1; c <= 0x10ffff; c++) {
		char want[8] = "", got[8], *in = (char *)&c, *out = want;
		size_t nr_in = sizeof(c), nr_out = sizeof(want);

		if (c >= 0xd800 && c <= 0xdfff)
			continue;
		cr_assert_eq(iconv(conv, &in, &nr_in, &out, &nr_out), 0);
		cr_assert_eq(python_text(got, sizeof(got), (uint8_t *)&c, 4, 4, 4),
			     (size_t)(out - want));
		cr_assert_str_eq(got, want, "U+%X", c);
		narrow = (uint16_t)c;
		if (c <= UINT16_MAX) {
			python_text(got, sizeof(got), (uint8_t *)&narrow, 2, 2, 2);
			cr_assert_str_eq(got, want, "U+%X", c);
		}
		if (c <= UINT8_MAX) {
			python_text(got, sizeof(got), (uint8_t *)&c, 1, 1, 1);
			cr_assert_str_eq(got, want, "U+%X", c);
		}
	}
	iconv_close(conv);
}

TestSuite(python_short_file, .timeout = 60);

/* Folders that have an __init__.py, and from where on nothing can be seen. */
struct folders {
	const char *const *with;
	const char *unseen;
	int nr_asked;
};

static int has_init(void *arg, const char *folder)
{
	struct folders *folders = arg;

	folders->nr_asked++;
	cr_assert(folder[0] && folder[strlen(folder) - 1] != '/', "asked for '%s'", folder);
	if (folders->unseen && !strcmp(folder, folders->unseen))
		return -1;
	for (const char *const *with = folders->with; *with; with++) {
		if (!strcmp(folder, *with))
			return 1;
	}
	return 0;
}

Test(python_short_file, packages)
{
	static const char *const with[] = {
		"/app/pkg", "/app/pkg/sub",	      "/app/other/pkg/deep", "/top", "rel/pkg",
		"rel",	    "/s/site-packages/torch", "/app//pkg",	     NULL
	};
	static const char *const cases[][2] = {
		{ "/app/main.py", "main.py" },
		{ "/app/pkg/mod.py", "pkg/mod.py" },
		{ "/app/pkg/__init__.py", "pkg/__init__.py" },
		{ "/app/pkg/sub/mod.py", "pkg/sub/mod.py" },
		/* A folder without one ends the package. */
		{ "/app/pkg/data/mod.py", "mod.py" },
		{ "/app/other/pkg/deep/mod.py", "deep/mod.py" },
		{ "/top/mod.py", "top/mod.py" },
		{ "/mod.py", "mod.py" },
		{ "mod.py", "mod.py" },
		{ "rel/pkg/mod.py", "rel/pkg/mod.py" },
		{ "/app/pkg//mod.py", "pkg//mod.py" },
		{ "/app//pkg/mod.py", "pkg/mod.py" },
		/* Seen folders take precedence over guesses. */
		{ "/s/site-packages/six.py", "six.py" },
		{ "/s/site-packages/torch/nn.py", "torch/nn.py" },
		{ "/s/lib/python3.11/site-packages/a/b.py", "b.py" },
		{ "<string>", "<string>" },
		{ "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>" },
		{ "<a/b c>", "<a/b c>" },
		{ "", "" },
		{ "/", "/" },
		{ "//", "//" },
		{ "/app/pkg/", "/app/pkg/" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct folders folders = { .with = with };
		const char *path = cases[i][0], *got;

		got = python_short_file(path, has_init, &folders);
		cr_expect_str_eq(got, cases[i][1], "%s: %s", path, got);
		cr_expect(got >= path && got <= path + strlen(path), "%s: not a part", path);
	}
}

Test(python_short_file, unseen)
{
	static const char *const none[] = { "/a/pkg/sub", NULL };
	static const char *const cases[][2] = {
		{ "/usr/lib/python3.11/json/decoder.py", "json/decoder.py" },
		{ "/usr/lib64/python3.9/json/x.py", "json/x.py" },
		{ "/opt/lib/python3.13t/asyncio/events.py", "asyncio/events.py" },
		{ "lib/python3.11/json/decoder.py", "json/decoder.py" },
		{ "/usr/lib/python3/dist-packages/yaml/x.py", "yaml/x.py" },
		{ "/v/lib/python3.11/site-packages/torch/nn/f.py", "torch/nn/f.py" },
		{ "site-packages/a.py", "a.py" },
		/* The last one */
		{ "/v/site-packages/a/site-packages/b/c.py", "b/c.py" },
		{ "/v/site-packages/a/lib/python3.11/b/c.py", "b/c.py" },
		/* Not quite */
		{ "/v/my-site-packages/a/b.py", "b.py" },
		{ "/v/site-packages.old/a/b.py", "b.py" },
		{ "/v/mylib/python3.11/a/b.py", "b.py" },
		{ "/v/lib/python3/a/b.py", "b.py" },
		{ "/v/lib/python.11/a/b.py", "b.py" },
		{ "/v/lib/python3./a/b.py", "b.py" },
		{ "/v/lib/python3.11d/a/b.py", "b.py" },
		{ "/v/lib/python3.11", "python3.11" },
		{ "/v/lib/pypy3.11/a/b.py", "b.py" },
		{ "/app/pkg/mod.py", "mod.py" },
		{ "/v/site-packages/", "/v/site-packages/" },
		{ "/v/site-packages/a/", "/v/site-packages/a/" },
		{ "/mod.py", "mod.py" },
		{ "mod.py", "mod.py" },
		{ "<string>", "<string>" },
		{ "/v/lib/python3.11/<x>", "<x>" },
	};
	struct folders folders = { .with = none, .unseen = "/a/pkg" };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *got = python_short_file(cases[i][0], NULL, NULL);

		cr_expect_str_eq(got, cases[i][1], "%s: %s", cases[i][0], got);
	}
	/* A package whose outer folder cannot be seen */
	cr_expect_str_eq(python_short_file("/a/pkg/sub/mod.py", has_init, &folders), "mod.py");
	cr_expect_eq(folders.nr_asked, 2);
}

static int always(void *arg, const char *folder)
{
	(*(int *)arg)++;
	return strlen(folder) < PATH_MAX ? 1 : -1;
}

/* Paths of any depth and length: the number of checks is limited. */
Test(python_short_file, hostile)
{
	char *path = malloc(3 * PATH_MAX);
	int nr_asked = 0;
	size_t n;

	for (n = 0; n < PATH_MAX - 8; n += 2)
		memcpy(path + n, "/a", 2);
	memcpy(path + n, "/b.py", 6);
	cr_expect_str_eq(python_short_file(path, always, &nr_asked), path + n - 2 * 64 + 1);
	cr_expect_eq(nr_asked, 64);
	/* A folder of the longest name that there can be, and one byte more. */
	memset(path + 1, 'a', PATH_MAX);
	memcpy(path + PATH_MAX - 1, "/b.py", 6);
	nr_asked = 0;
	cr_expect_str_eq(python_short_file(path, always, &nr_asked), path + 1);
	cr_expect_eq(nr_asked, 1);
	memcpy(path + PATH_MAX, "/b.py", 6);
	path[PATH_MAX - 1] = 'a';
	nr_asked = 0;
	cr_expect_str_eq(python_short_file(path, always, &nr_asked), "b.py");
	cr_expect_eq(nr_asked, 0);
	free(path);
}
