// SPDX-License-Identifier: Apache-2.0
#include "symbol/perfmap.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "elf/image.h"

static struct strtab *names;

static void setup(void)
{
	cr_assert(!strtab_new(&names, 1 << 20));
}

static void teardown(void)
{
	strtab_free(names);
}

TestSuite(perfmap, .init = setup, .fini = teardown, .timeout = 60);

struct text {
	const char *data;
	int nr_closed;
	int error;
};

static ssize_t text_read(void *arg, void *dst, size_t len, uint64_t off)
{
	struct text *text = arg;

	if (text->error)
		return text->error;
	memcpy(dst, text->data + off, len);
	return (ssize_t)len;
}

static void text_close(void *arg)
{
	((struct text *)arg)->nr_closed++;
}

static int resolve(const char *data, size_t len, struct perfmap_query *queries, size_t nr)
{
	struct text text = { .data = data };
	struct elf_source source = { text_read, text_close, &text, len, false };
	int err = perfmap_resolve(&source, names, queries, nr);

	cr_assert_eq(text.nr_closed, 1);
	return err;
}

static const char *name_of(const char *data, uint64_t va)
{
	struct perfmap_query query = { .va = va };

	cr_assert_eq(resolve(data, strlen(data), &query, 1), 0);
	return strtab_get(names, query.name);
}

Test(perfmap, lines)
{
	static const struct {
		const char *text;
		uint64_t va;
		const char *want;
	} cases[] = {
		{ "1000 10 plain\n", 0x1000, "plain" },
		{ "1000 10 plain\n", 0x100f, "plain" },
		{ "1000 10 plain\n", 0x1010, "" },
		{ "1000 10 plain\n", 0xfff, "" },
		{ "1000 10 no newline", 0x1000, "no newline" },
		{ "0x1000 0x10 prefixed\n", 0x1001, "prefixed" },
		{ "1000 10 LazyCompile:~f /a b.js:1\n", 0x1001, "LazyCompile:~f /a b.js:1" },
		{ "1000\t10\ttabs\r\n", 0x1001, "tabs" },
		{ "1000  10   blanks  \n", 0x1001, "blanks" },
		{ "ABCDEF 10 Upper\n", 0xabcdef, "Upper" },
		{ "7f0123456789 1000 py::f:/a.py\n", 0x7f0123456abc, "py::f:/a.py" },
		{ "1000 10 old\n1000 10 new\n", 0x1004, "new" },
		{ "1000 100 outer\n1010 10 inner\n", 0x1014, "inner" },
		{ "1000 100 outer\n1010 10 inner\n", 0x1024, "outer" },
		{ "1010 10 inner\n1000 100 outer\n", 0x1014, "outer" },
		{ "1000 0 empty\n", 0x1000, "" },
		{ "1000 10 \n", 0x1000, "" },
		{ "1000 10\n", 0x1000, "" },
		{ "1000\n\n \nx y z\n1000 10 after\n", 0x1000, "after" },
		{ "-1000 10 negative\n", 0x1000, "" },
		{ "1000 -10 negative\n", 0x1000, "" },
		{ "1000 1g bad\n", 0x1000, "" },
		{ "10000000000001000 10 wide\n", 0x1000, "" },
		{ "ffffffffffffff00 200 wraps\n", 0xffffffffffffff80, "" },
		{ "ffffffffffffff00 100 top\n", UINT64_MAX, "top" },
		{ "", 0x1000, "" },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_assert_str_eq(name_of(cases[i].text, cases[i].va), cases[i].want, "case %zu", i);
}

Test(perfmap, long_lines_are_passed_over)
{
	size_t lengths[] = { 1000, 2000, 3000, 32768, 40000, 70000 }, i, n;
	struct buf data;

	buf_init(&data, 100000);
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		buf_reset(&data);
		buf_add_str(&data, "1000 10 first\n2000 10 ");
		for (n = 0; n < lengths[i]; n++)
			buf_add_char(&data, 'x');
		buf_add_str(&data, "\n3000 10 last\n");
		cr_assert_str_eq(name_of(data.data, 0x1000), "first");
		cr_assert_str_eq(name_of(data.data, 0x3000), "last", "%zu", lengths[i]);
		n = lengths[i] <= 2000 ? lengths[i] : 0;
		cr_assert_eq(strlen(name_of(data.data, 0x2000)), n);
	}
	/* Nor is the end of a long line a line. */
	for (i = 0; i < 2; i++) {
		buf_reset(&data);
		buf_add_str(&data, i ? "y" : "yy");
		for (n = 0; n < 17000; n++)
			buf_add_str(&data, "1 ");
		cr_assert_str_eq(name_of(data.data, 1), "");
	}
	buf_fini(&data);
}

/* A map as a JIT writes it: many lines, over several blocks; each query gets its own. */
Test(perfmap, many_lines_many_queries)
{
	struct perfmap_query *queries = calloc(10000, sizeof(*queries));
	struct buf data;
	char want[32];
	size_t i;

	buf_init(&data, 1 << 20);
	for (i = 0; i < 10000; i++) {
		buf_printf(&data, "%zx 20 function_%zu\n", 0x10000 + i * 0x40, i);
		queries[i].va = 0x10000 + i * 0x20;
	}
	cr_assert_eq(resolve(data.data, data.len, queries, 10000), 0);
	for (i = 0; i < 10000; i++) {
		snprintf(want, sizeof(want), "function_%zu", i / 2);
		cr_assert_str_eq(strtab_get(names, queries[i].name), i % 2 ? "" : want);
		if (!(i % 2))
			cr_assert_eq(queries[i].start, queries[i].va);
	}
	buf_fini(&data);
	free(queries);
}

/* Lines without a name: few enough that sanitizers read them in seconds. */
static char *lines_new(size_t len)
{
	char *data = malloc(len);
	size_t i;

	cr_assert(data);
	memset(data, '#', len);
	for (i = 511; i < len; i += 512)
		data[i] = '\n';
	return data;
}

/* Empty lines take time, too. */
Test(perfmap, too_many_lines)
{
	const size_t len = PERFMAP_MAX_BYTES;
	struct perfmap_query query = { .va = 0x1000 };
	char *data = malloc(len);

	cr_assert(data);
	memset(data, '\n', len);
	memcpy(data, "1000 10 f\n", 10);
	cr_assert_eq(resolve(data, len, &query, 1), -E2BIG);
	cr_expect_str_eq(strtab_get(names, query.name), "f");
	free(data);
}

Test(perfmap, head_and_end_of_a_huge_file)
{
	const size_t half = PERFMAP_MAX_BYTES / 2, len = PERFMAP_MAX_BYTES + 8192;
	struct perfmap_query queries[4] = {
		{ .va = 0x1000 }, { .va = 0x2000 }, { .va = 0x3000 }, { .va = 0x4000 }
	};
	char *data = lines_new(len);

	memcpy(data, "1000 10 first\n", 14);
	memcpy(data + half - 15, "\n2000 10 upto_\n", 15);
	memcpy(data + half, "3000 10 left_out\n", 17);
	data[len - half - 51] = '\n';
	memset(data + len - half - 50, 'a', 100); /* a line that begins before the end */
	memcpy(data + len - half + 50, " 10 half\n", 9);
	memcpy(data + len - 15, "\n4000 10 last_\n", 15);
	cr_assert_eq(resolve(data, len, queries, 4), 1);
	cr_expect_str_eq(strtab_get(names, queries[0].name), "first");
	cr_expect_str_eq(strtab_get(names, queries[1].name), "upto_");
	cr_expect_str_eq(strtab_get(names, queries[2].name), "");
	cr_expect_str_eq(strtab_get(names, queries[3].name), "last_");
	free(data);
}

Test(perfmap, a_large_file_is_read_whole)
{
	const size_t len = PERFMAP_MAX_BYTES;
	struct perfmap_query query = { .va = 0x3000 };
	char *data = lines_new(len);

	memcpy(data + len / 2 - 5, "\n3000 10 middle\n", 16);
	cr_assert_eq(resolve(data, len, &query, 1), 0);
	cr_expect_str_eq(strtab_get(names, query.name), "middle");
	free(data);
}

/*
 * A line that the writer's buffer cut off is no name; a last line that only lacks its newline is
 * one.
 */
Test(perfmap, half_a_line_at_the_end)
{
	const char line[] = "1000 10 compiled_function";
	char data[2 * 4096 + 1];
	size_t len;

	for (len = 4095; len <= 4097; len++) {
		memset(data, '\n', len);
		memcpy(data + len - strlen(line), line, strlen(line));
		data[len] = '\0';
		cr_expect_str_eq(name_of(data, 0x1000), len == 4096 ? "" : "compiled_function",
				 "%zu", len);
	}
}

/* A map that is written anew after its lines were read and before their names are. */
struct changing {
	const char *first, *then;
	size_t len;
	int nr_reads;
};

static ssize_t changing_read(void *arg, void *dst, size_t len, uint64_t off)
{
	struct changing *changing = arg;
	const char *data = changing->nr_reads++ ? changing->then : changing->first;

	if (off >= changing->len)
		return 0;
	len = len < changing->len - off ? len : changing->len - off;
	memcpy(dst, data + off, len);
	return (ssize_t)len;
}

Test(perfmap, rewritten_while_it_is_read)
{
	static const struct {
		const char *then, *want;
	} cases[] = {
		{ "1000 10 function_a\n2000 10 function_b\n", "function_a" },
		{ "1000 10 function_c\n2000 10 function_b\n", "function_c" },
		{ "5000 10 function_d\n2000 10 function_b\n", "" },
		{ "00 1000 10 functio\n2000 10 function_b\n", "" },
		{ "1000 10\n7000 10 ab\n2000 10 function_b\n", "" },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct changing changing = { .first = cases[0].then,
					     .then = cases[i].then,
					     .len = strlen(cases[0].then) };
		struct elf_source source = { .read = changing_read,
					     .arg = &changing,
					     .size = changing.len };
		struct perfmap_query query = { .va = 0x1004 };

		cr_assert_eq(strlen(cases[i].then), changing.len);
		cr_assert_eq(perfmap_resolve(&source, names, &query, 1), 0);
		cr_expect_str_eq(strtab_get(names, query.name), cases[i].want, "case %zu", i);
	}
}

/* A file of lines that all cover everything: bounded work, one name kept. */
Test(perfmap, hostile_overlap)
{
	struct perfmap_query *queries = calloc(4096, sizeof(*queries));
	struct buf data;
	size_t i;

	buf_init(&data, 2 << 20);
	for (i = 0; i < 4096; i++)
		queries[i].va = 0x1000 + i;
	for (i = 0; i < 50000; i++)
		buf_printf(&data, "0 ffffffff name_%zu\n", i);
	cr_assert_eq(resolve(data.data, data.len, queries, 4096), -E2BIG);
	cr_assert_neq(queries[0].name, 0);
	cr_assert_leq(strtab_count(names), 4);
	buf_fini(&data);
	free(queries);
}

Test(perfmap, errors_of_the_source)
{
	struct text text = { .data = "1000 10 f\n", .error = -EIO };
	struct elf_source source = { text_read, text_close, &text, 10, false };
	struct perfmap_query query = { .va = 0x1000 };

	cr_assert_eq(perfmap_resolve(&source, names, &query, 1), -EIO);
	cr_assert_eq(query.name, 0);
	cr_assert_eq(perfmap_resolve(&source, names, &query, 0), 0);
	cr_assert_eq(text.nr_closed, 2);
}

/* The second block (4 KiB) of the file is swapped out; lines have 15 bytes. */
static ssize_t holey_read(void *arg, void *dst, size_t len, uint64_t off)
{
	const char *data = arg;

	if (off / 4096 == 1)
		return -ENODATA;
	if (off < 4096 && len > 4096 - off)
		len = 4096 - off;
	memcpy(dst, data + off, len);
	return (ssize_t)len;
}

Test(perfmap, parts_that_cannot_be_had)
{
	static const struct {
		uint64_t line;
		bool known;
	} cases[] = { { 0, true },    { 272, true }, { 273, false }, { 400, false },
		      { 546, false }, { 547, true }, { 767, true } };
	struct perfmap_query queries[sizeof(cases) / sizeof(cases[0])] = { 0 };
	struct elf_source source = { .read = holey_read };
	struct buf data;
	size_t i;

	buf_init(&data, 20000);
	for (i = 0; i < 768; i++)
		buf_printf(&data, "%05zx 10 named\n", i * 16);
	source.arg = data.data;
	source.size = data.len;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		queries[i].va = cases[i].line * 16;
	cr_expect_eq(perfmap_resolve(&source, names, queries, i), 1);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(queries[i].name != 0, cases[i].known, "line %lu", cases[i].line);
	buf_fini(&data);
}
