// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "bpfprof.h"
#include "python/codes.h"

#define RAW(n) (BPFPROF_CODE_ID_RAW | (n))

static struct codes *codes;
static struct bpfprof_python_code piece;

static void setup(void)
{
	cr_assert_eq(codes_new(&codes, 1 << 20), 0);
}

static void teardown(void)
{
	codes_free(codes);
}

TestSuite(python_codes, .init = setup, .fini = teardown);

static uint32_t sender; /* id of the process that sends */

static void send_part(uint64_t id, uint32_t part, const void *data, uint32_t len, uint32_t off,
		      uint32_t total)
{
	memset(&piece, 0, sizeof(piece));
	piece.code_id = id;
	piece.python = sender;
	piece.part = part;
	piece.first_line = 10;
	piece.char_bytes = 1;
	piece.total = total;
	piece.off = off;
	piece.len = len;
	memcpy(piece.data, data, len);
	codes_piece(codes, &piece, offsetof(struct bpfprof_python_code, data) + len,
		    PYTHON_LINES_LNOTAB);
}

static void send_all(uint64_t id, const char *name, const char *file, const char *lines,
		     uint32_t len)
{
	send_part(id, PYTHON_PART_NAME, name, (uint32_t)strlen(name), 0, (uint32_t)strlen(name));
	send_part(id, PYTHON_PART_FILENAME, file, (uint32_t)strlen(file), 0,
		  (uint32_t)strlen(file));
	send_part(id, PYTHON_PART_LINES, lines, len, 0, len);
}

static uint64_t frame(uint64_t id, uint32_t lasti)
{
	return (uint64_t)BPFPROF_FRAME_PYTHON << BPFPROF_FRAME_SHIFT | id << BPFPROF_LASTI_BITS |
	       lasti;
}

/* Line 10 for 4 bytes, then 12, after 6 more 15. */
#define TABLE "\4\2\6\3"

Test(python_codes, one)
{
	struct code_info info;
	uint64_t made;

	send_all(RAW(1), "f", "/a/b.py", TABLE, 4);
	made = codes_frame(codes, frame(RAW(1), 3), 0);
	cr_expect_neq(made, frame(RAW(1), 3));
	cr_assert_eq(codes_describe(codes, made, &info), 0);
	cr_expect_str_eq(info.name, "f");
	cr_expect_str_eq(info.file, "/a/b.py");
	cr_expect_eq(info.first_line, 10);
	cr_expect_eq(info.line, 12);
	/* The same line, another instruction: the same frame. */
	cr_expect_eq(codes_frame(codes, frame(RAW(1), 4), 0), made);
	cr_expect_neq(codes_frame(codes, frame(RAW(1), 5), 0), made);
	cr_assert_eq(codes_describe(codes, frame(RAW(1), 5), &info), 0);
	cr_expect_eq(info.line, 15);
	cr_assert_eq(codes_describe(codes, frame(RAW(1), BPFPROF_LASTI_NONE), &info), 0);
	cr_expect_eq(info.line, 10);
}

Test(python_codes, same_code_in_many_processes)
{
	uint64_t i, first;

	send_all(RAW(1), "f", "/a/b.py", TABLE, 4);
	first = codes_frame(codes, frame(RAW(1), 3), 0);
	for (i = 2; i < 1000; i++) {
		send_all(RAW(i), "f", "/a/b.py", TABLE, 4);
		cr_assert_eq(codes_frame(codes, frame(RAW(i), 3), 0), first);
	}
	cr_expect_eq(codes_counts(codes)->nr_objects, 999);
	cr_expect_eq(codes_counts(codes)->nr_kept, 1);
}

Test(python_codes, what_differs_is_kept_apart)
{
	struct code_info info;

	send_all(RAW(1), "f", "/a/b.py", TABLE, 4);
	send_all(RAW(2), "g", "/a/b.py", TABLE, 4);
	send_all(RAW(3), "f", "/a/c.py", TABLE, 4);
	send_all(RAW(4), "f", "/a/b.py", "\4\1", 2);
	cr_expect_eq(codes_counts(codes)->nr_kept, 4);
	cr_assert_eq(codes_describe(codes, frame(RAW(2), 0), &info), 0);
	cr_expect_str_eq(info.name, "g");
	cr_assert_eq(codes_describe(codes, frame(RAW(3), 0), &info), 0);
	cr_expect_str_eq(info.file, "/a/c.py");
	cr_assert_eq(codes_describe(codes, frame(RAW(4), 3), &info), 0);
	cr_expect_eq(info.line, 11);
}

Test(python_codes, pieces)
{
	uint64_t raw = frame(RAW(7), 3);
	struct code_info info;

	cr_expect_eq(codes_describe(codes, raw, &info), -ENOENT);
	send_part(RAW(7), PYTHON_PART_LINES, TABLE + 2, 2, 2, 4); /* out of order: waits */
	send_part(RAW(7), PYTHON_PART_FILENAME, "x.py", 4, 0, 4);
	cr_expect_eq(codes_describe(codes, raw, &info), -ENOENT);
	send_part(RAW(7), PYTHON_PART_NAME, "f", 1, 0, 1);
	cr_assert_eq(codes_describe(codes, raw, &info), 0);
	cr_expect_str_eq(info.name, "f");
	cr_expect_eq(info.line, 0);
	cr_expect_eq(info.first_line, 10);
	send_part(RAW(7), PYTHON_PART_LINES, TABLE, 2, 0, 4);
	cr_expect_eq(codes_frame(codes, raw, 0), raw);
	send_part(RAW(7), PYTHON_PART_LINES, TABLE, 2, 0, 4); /* again */
	send_part(RAW(7), PYTHON_PART_LINES, TABLE + 2, 2, 2, 4);
	cr_expect_neq(codes_frame(codes, raw, 0), raw);
	cr_assert_eq(codes_describe(codes, raw, &info), 0);
	cr_expect_eq(info.line, 12);
}

Test(python_codes, long_name_is_cut_visibly)
{
	char name[4097];
	struct code_info info;

	memset(name, 'n', sizeof(name));
	send_part(RAW(1), PYTHON_PART_NAME, name, 4096, 0, 10000);
	cr_assert_eq(codes_describe(codes, frame(RAW(1), 0), &info), 0);
	cr_expect_str_eq(info.name + strlen(info.name) - 3, "\xe2\x80\xa6");
}

Test(python_codes, hostile_pieces)
{
	struct code_info info;
	char data[64] = "";

	memset(&piece, 0, sizeof(piece));
	codes_piece(codes, &piece, 10, PYTHON_LINES_LNOTAB);
	piece.len = UINT32_MAX;
	codes_piece(codes, &piece, sizeof(piece), PYTHON_LINES_LNOTAB);
	cr_expect_eq(codes_counts(codes)->nr_malformed, 2);
	send_part(RAW(1), 77, data, 4, 0, 4);
	cr_expect_eq(codes_counts(codes)->nr_malformed, 3);
	send_part(RAW(2), PYTHON_PART_LINES, data, 4, 0, UINT32_MAX); /* absurd total */
	cr_expect_eq(codes_counts(codes)->nr_malformed, 4);
	send_part(RAW(3), PYTHON_PART_LINES, data, 8, 0, 16);
	send_part(RAW(3), PYTHON_PART_LINES, data, 8, 12, 16); /* past its end */
	send_part(RAW(3), PYTHON_PART_LINES, data, 8, UINT32_MAX, 16);
	send_part(RAW(3), PYTHON_PART_LINES, data, 8, 8, 1 << 20); /* another total */
	cr_expect_eq(codes_frame(codes, frame(RAW(3), 0), 0), frame(RAW(3), 0));
	cr_expect_eq(codes_describe(codes, frame(123456, 0), &info), -ENOENT);
}

static bool is_seven(void *arg, uint32_t python)
{
	(void)arg;
	return python == 7;
}

Test(python_codes, ids_of_the_dead_are_forgotten)
{
	uint64_t first, second;
	struct code_info info;

	send_all(RAW(1), "f", "/a/b.py", TABLE, 4);
	first = codes_frame(codes, frame(RAW(1), 3), 0);
	send_part(RAW(3), PYTHON_PART_NAME, "g", 1, 0, 1);
	codes_frame(codes, frame(RAW(3), 3), 0); /* somebody has it */
	send_part(RAW(5), PYTHON_PART_NAME, "h", 1, 0, 1);
	codes_forget(codes, is_seven, NULL);
	cr_expect_eq(codes_describe(codes, frame(RAW(5), 3), &info), -ENOENT);
	cr_expect_eq(codes_describe(codes, frame(RAW(1), 3), &info), -ENOENT);
	cr_assert_eq(codes_describe(codes, first, &info), 0, "what it was stays");
	cr_expect_str_eq(info.name, "f");
	cr_expect_eq(codes_describe(codes, frame(RAW(3), 3), &info), 0,
		     "a frame with it was given out");
	send_all(RAW(4), "f", "/a/b.py", TABLE, 4);
	second = codes_frame(codes, frame(RAW(4), 3), 0);
	cr_expect_eq(second, first);
}

Test(python_codes, one_process_does_not_take_the_room_of_others)
{
	char lines[16000] = "", name[16] = "";
	struct code_info info;
	uint64_t i;

	sender = 1;
	for (i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "n%d", (int)i);
		memcpy(lines, &i, sizeof(i));
		send_all(RAW(i + 1), name, "x.py", lines, sizeof(lines));
	}
	cr_expect_gt(codes_counts(codes)->nr_full, 0);
	/* An object that only says it were large takes no more than what came of it. */
	send_part(RAW(5000), PYTHON_PART_LINES, lines, 16, 0, 1 << 20);
	sender = 2;
	send_all(RAW(9000), "mine", "y.py", TABLE, 4);
	cr_assert_eq(codes_describe(codes, codes_frame(codes, frame(RAW(9000), 3), 2), &info), 0);
	cr_expect_str_eq(info.name, "mine");
	cr_expect_eq(info.line, 12);
}

/* Looking up lines in long tables takes a share of the time, not all of it. */
Test(python_codes, long_tables)
{
	char *table = calloc(1, 200000);
	uint64_t start_ns = time_monotonic_ns(), raw = 0, made;
	uint32_t off, i, n;

	send_part(RAW(1), PYTHON_PART_NAME, "f", 1, 0, 1);
	send_part(RAW(1), PYTHON_PART_FILENAME, "x.py", 4, 0, 4);
	for (off = 0; off < 200000; off += n) {
		n = 200000 - off < 16000 ? 200000 - off : 16000;
		memset(table, 1, n);
		send_part(RAW(1), PYTHON_PART_LINES, table, n, off, 200000);
	}
	free(table);
	for (i = 0; i < 200000; i++) {
		made = codes_frame(codes, frame(RAW(1), i % 500000), 0);
		raw += made == frame(RAW(1), i % 500000);
	}
	cr_expect_gt(raw, 0);
	cr_expect_lt(raw, 200000);
	cr_expect_lt(time_monotonic_ns() - start_ns, 10 * NS_PER_SECOND);
}

Test(python_codes, bounded)
{
	char *lines = calloc(1, 16000);
	uint64_t i;

	for (i = 0; i < 1000; i++) {
		memcpy(lines, &i, sizeof(i));
		send_all(RAW(i + 1), "f", "x.py", lines, 16000);
	}
	free(lines);
	cr_expect_gt(codes_counts(codes)->nr_full, 0);
	cr_expect_lt(codes_counts(codes)->nr_kept, 80);
}
