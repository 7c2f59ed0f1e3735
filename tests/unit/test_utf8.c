// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <criterion/criterion.h>
#include <string.h>

Test(utf8, every_code_point_survives)
{
	char text[UTF8_MAX];
	uint32_t c, read;
	size_t len;

	for (c = 0; c <= 0x10ffff; c++) {
		len = utf8_encode(text, c);
		read = 0;
		if (c >= 0xd800 && c <= 0xdfff) {
			cr_assert_eq(utf8_decode(text, len, &read), 0, "surrogate U+%04X", c);
			continue;
		}
		cr_assert_eq(utf8_decode(text, len, &read), len, "U+%04X", c);
		cr_assert_eq(read, c);
		cr_assert_eq(len, c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, "U+%04X", c);
		if (len > 1)
			cr_assert_eq(utf8_decode(text, len - 1, &read), 0, "cut U+%04X", c);
	}
}

Test(utf8, longer_than_it_must_be_or_beyond_unicode)
{
	static const char *const bad[] = { "\xc0\xaf",
					   "\xc1\xbf",
					   "\xe0\x80\xaf",
					   "\xe0\x9f\xbf",
					   "\xf0\x80\x80\xaf",
					   "\xf0\x8f\xbf\xbf",
					   "\xf4\x90\x80\x80",
					   "\xf5\x80\x80\x80",
					   "\xff",
					   "\x80",
					   "\xc3",
					   "\xe2\x82",
					   "\xe2(\x82",
					   "\xf0\x9f\x98" };
	uint32_t c = 77;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_assert_eq(utf8_decode(bad[i], SIZE_MAX, &c), 0, "%zu", i);
	cr_assert_eq(c, 77, "untouched on failure");
}

Test(utf8, controls_cannot_be_printed)
{
	cr_assert_eq(utf8_printable("\x1b[2J", SIZE_MAX), 0);
	cr_assert_eq(utf8_printable("\x7f", 1), 0);
	cr_assert_eq(utf8_printable("\xc2\x9b", 2), 0); /* U+009B, CSI */
	cr_assert_eq(utf8_printable("\xe2\x80\xa8", 3), 0); /* U+2028, ends a line */
	cr_assert_eq(utf8_printable("\xe2\x80\xae", 3), 0); /* U+202E, writes from right to left */
	cr_assert_eq(utf8_printable("\xe2\x81\xa6", 3), 0); /* U+2066 */
	cr_assert_eq(utf8_printable("\xd8\x9c", 2), 0); /* U+061C */
	cr_assert_eq(utf8_printable("\xe2\x80\xa7", 3), 3);
	cr_assert_eq(utf8_printable("\xc2\xa0", 2), 2);
	cr_assert_eq(utf8_printable("a", 1), 1);
}
