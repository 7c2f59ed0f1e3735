// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/print.h"

static const struct print_case {
	const char *text;
	size_t len;
	const char *expect;
} cases[] = {
	{ NULL, 0, "" },
	{ "one\n\ttwo \xc3\xa9\n", 12, "one\n\ttwo \xc3\xa9\n" },
	{ "\x1b[31mred\x07\x7f\r", 11, "?[31mred???" },
	{ "\xc2\x9b\x9b\x85z", 5, "????z" },
	{ "\xe2\x80\xaetxt", 6, "???txt" },
	{ "\xff\xc3", 2, "??" },
	{ "a\0b", 3, "a?b" },
};

Test(print, lines_without_what_controls_a_terminal)
{
	char written[64];
	FILE *out;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		out = fmemopen(written, sizeof(written), "w");
		cr_assert(out);
		cr_expect_eq(print_lines(out, cases[i].text, cases[i].len), 0);
		putc(0, out);
		fclose(out);
		cr_expect_str_eq(written, cases[i].expect, "%zu: %s", i, written);
	}
}

Test(print, errors_are_returned)
{
	FILE *out = fopen("/dev/full", "w");

	cr_assert(out);
	cr_expect_eq(print_lines(out, "x\n", 2), -ENOSPC);
	setvbuf(out, NULL, _IONBF, 0);
	cr_expect_eq(print_lines(out, "x\n", 2), -ENOSPC);
	fclose(out);
}
