// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

Test(buf, appends)
{
	struct buf buf;
	char *data;

	buf_init(&buf, 1000);
	buf_add(&buf, "abc", 2);
	buf_add_char(&buf, 'c');
	buf_add_str(&buf, "def");
	buf_printf(&buf, " %d %s", 42, "x");
	buf_add(&buf, NULL, 0);
	cr_assert_eq(buf_error(&buf), 0);
	cr_assert_eq(buf.len, 11);
	cr_assert_str_eq(buf.data, "abcdef 42 x");
	data = buf_take(&buf);
	cr_assert_str_eq(data, "abcdef 42 x");
	free(data);
	cr_assert(!buf.data && !buf.len && buf.max == 1000);
	buf_fini(&buf);
}

Test(buf, maximum_is_exact_and_the_error_stays)
{
	struct buf buf;

	buf_init(&buf, 10);
	buf_add_str(&buf, "0123456789");
	cr_assert(buf_error(&buf) == 0 && buf.len == 10 && buf.data[10] == 0);
	cr_assert_leq(buf.cap, 11);
	buf_add_char(&buf, 'x');
	cr_assert_eq(buf_error(&buf), -E2BIG);
	buf_printf(&buf, "more");
	buf_add(&buf, "", 0);
	cr_assert(buf_error(&buf) == -E2BIG && buf.len == 10);
	cr_assert_null(buf_take(&buf));
	buf_reset(&buf);
	cr_assert(buf_error(&buf) == 0 && buf.len == 0 && buf.data[0] == 0);
	buf_add(&buf, "x", SIZE_MAX);
	cr_assert_eq(buf_error(&buf), -E2BIG);
	buf_fini(&buf);
}

Test(buf, grows_and_keeps_what_it_has)
{
	struct buf buf;
	size_t i;

	buf_init(&buf, 1 << 20);
	for (i = 0; i < 100000; i++)
		buf_add_char(&buf, (char)('a' + i % 26));
	cr_assert(buf_error(&buf) == 0 && buf.len == 100000);
	for (i = 0; i < 100000; i++)
		cr_assert_eq(buf.data[i], (char)('a' + i % 26));
	buf_fini(&buf);
}

Test(buf, taking_nothing_gives_an_empty_string)
{
	struct buf buf;
	char *data;

	buf_init(&buf, 0);
	data = buf_take(&buf);
	cr_assert_str_eq(data, "");
	free(data);
	buf_fini(&buf);
}

/* One more byte than the limit, for the NUL, is none then. */
Test(buf, as_large_as_can_be)
{
	struct buf buf;

	buf_init(&buf, SIZE_MAX);
	buf_add_str(&buf, "te");
	buf_add_str(&buf, "xt");
	cr_assert_eq(buf_error(&buf), 0);
	cr_expect_geq(buf.cap, 5);
	cr_expect_str_eq(buf.data, "text");
	buf_fini(&buf);
}
