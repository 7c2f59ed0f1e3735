// SPDX-License-Identifier: Apache-2.0
#include "daemon/tokens.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

#define ONE "0123456789abcdef"
#define TWO "a.B/c==89abcdef0"
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static int parse(struct tokens *ret, const char *text, struct buf *why)
{
	char copy[512];

	snprintf(copy, sizeof(copy), "%s", text);
	return tokens_parse(ret, copy, why);
}

Test(tokens, lines)
{
	struct buf why = { .max = 1000 };
	struct tokens tokens;

	cr_assert_eq(parse(&tokens,
			   "# comment\n\n " ONE "\tml/train-*\r\n" TWO "\n" ONE " web\n  \n", &why),
		     0, "%s", why.data);
	cr_assert_eq(tokens.nr, 2);
	cr_expect_str_eq(tokens.all[0].text, ONE);
	cr_expect_not(tokens.all[0].everything);
	cr_assert_eq(tokens.all[0].pods.nr_pods, 2);
	cr_expect_str_eq(tokens.all[0].pods.pods[0], "ml/train-*");
	cr_expect_str_eq(tokens.all[0].pods.pods[1], "web");
	cr_expect(tokens.all[1].everything);
	cr_expect_eq(tokens.all[1].pods.nr_pods, 0);
	tokens_fini(&tokens);
	buf_fini(&why);
}

Test(tokens, refused)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "", "no token" },
		{ "# " ONE "\n", "no token" },
		{ ONE " a b", "a line is TOKEN" },
		{ ONE " a/b/c", "pod's name" },
		{ ONE "\nshort pod\n", "at least 16 characters" },
		{ ONE "\303\251 pod", "one word" },
		{ ONE ONE ONE ONE ONE ONE ONE ONE, "at most 127" },
	};
	struct buf why = { .max = 1000 };
	struct tokens tokens;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		buf_reset(&why);
		cr_expect_eq(parse(&tokens, cases[i].text, &why), -EINVAL, "%zu", i);
		cr_expect(why.data && strstr(why.data, cases[i].says), "%zu: %s", i, why.data);
	}
	buf_fini(&why);
}

Test(tokens, found)
{
	static const struct {
		const char *header;
		int err;
		const char *token;
	} cases[] = {
		{ NULL, -ENOENT, NULL },
		{ "", -ENOENT, NULL },
		{ "Bearer", -ENOENT, NULL },
		{ "Bearer ", -ENOENT, NULL },
		{ "Bearer" ONE, -ENOENT, NULL },
		{ ONE, -ENOENT, NULL },
		{ "Basic " ONE, -ENOENT, NULL },
		{ "Bearer " ONE, 0, ONE },
		{ "bearer \t " TWO " \t", 0, TWO },
		{ "Bearer 0123456789abcdeF", -EACCES, NULL },
		{ "Bearer 1123456789abcdef", -EACCES, NULL },
		{ "Bearer 0123456789abcde", -EACCES, NULL },
		{ "Bearer " ONE "0", -EACCES, NULL },
		{ "Bearer " ONE ONE, -EACCES, NULL },
		{ "Bearer " ONE " " TWO, -EACCES, NULL },
	};
	struct buf why = { .max = 1000 };
	const struct token *found;
	struct tokens tokens;

	cr_assert_eq(parse(&tokens, ONE " pod\n" TWO "\n", &why), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		found = NULL;
		cr_expect_eq(tokens_find(&found, &tokens, cases[i].header), cases[i].err, "%s",
			     cases[i].header);
		if (cases[i].token)
			cr_expect_str_eq(found->text, cases[i].token);
		else
			cr_expect_null(found);
	}
	tokens_fini(&tokens);
	buf_fini(&why);
}
