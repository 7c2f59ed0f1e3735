// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/report_bundle.h"

#define FAIL_AT 3

struct seen {
	char text[256];
	int nr;
};

static int see(void *arg, const struct report_bundle_file *file)
{
	struct seen *seen = arg;
	size_t len = strlen(seen->text);

	snprintf(seen->text + len, sizeof(seen->text) - len, "%s=%.*s;", file->name, (int)file->len,
		 file->data);
	return ++seen->nr == FAIL_AT ? -ECANCELED : 0;
}

Test(report_bundle, files)
{
	static const struct {
		const char *text, *seen;
		int err;
	} cases[] = {
		{ "bpfprof-files\n", "", 0 },
		{ "bpfprof-files\n1 a\nx", "a=x;", 0 },
		{ "bpfprof-files\n0 a\n2 b c\n\ny", "a=;b c=\ny;", 0 },
		{ "bpfprof-files\n0 a\n0 b\n0 c\n0 d\n", "a=;b=;c=;", -ECANCELED },
		{ "bpfprof-files\n2 a\nx", "", -EBADMSG },
		{ "bpfprof-files\n1 a\nx1 b", "a=x;", -EBADMSG },
		{ "bpfprof-files\n1 \nx", "", -EBADMSG },
		{ "bpfprof-files\n1", "", -EBADMSG },
		{ "bpfprof-files\n-1 a\n", "", -EBADMSG },
		{ "bpfprof-files\n9999999999999999999999 a\nx", "", -EBADMSG },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct seen seen = { 0 };
		size_t len = strlen(cases[i].text);

		cr_assert(report_bundle_is(cases[i].text, len));
		cr_expect_eq(report_bundle_each(cases[i].text, len, see, &seen), cases[i].err,
			     "case %zu", i);
		cr_expect_str_eq(seen.text, cases[i].seen, "case %zu", i);
	}
	cr_expect_not(report_bundle_is("bpfprof-file", 12));
	cr_expect_not(report_bundle_is("", 0));
}

static int see_short(void *arg, const struct report_bundle_file *file)
{
	see(arg, file);
	return file->len == 1 ? 0 : file->len == 2 ? -ENOMEM : -EINVAL;
}

Test(report_bundle, bad_files)
{
	static const struct {
		const char *text, *seen;
		int err;
		bool bad;
	} cases[] = {
		{ "bpfprof-files\n", "", 0, false },
		{ "bpfprof-files\n0 a\n1 b\nx", "a=;b=x;", 0, true },
		{ "bpfprof-files\n0 a\n0 b\n", "a=;b=;", -ECANCELED, true },
		{ "bpfprof-files\n2 a\nxx1 b\nx", "a=xx;", -ENOMEM, true },
		{ "bpfprof-files\n0 a\n1 b\nx3 c\n", "a=;b=x;", -EBADMSG, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct seen seen = { 0 };
		bool bad = false;

		cr_expect_eq(report_bundle_read(cases[i].text, strlen(cases[i].text), see_short,
						&seen, &bad),
			     cases[i].err, "case %zu", i);
		cr_expect_eq(bad, cases[i].bad, "case %zu", i);
		cr_expect_str_eq(seen.text, cases[i].seen, "case %zu", i);
	}
}
