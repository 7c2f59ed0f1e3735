// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "python/codes.h"
#include "bpfprof.h"

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
	send_part(RAW(7), PYTHON_PART_LINES, &TABLE[2], 2, 2, 4); /* out of order: waits */
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
	send_part(RAW(7), PYTHON_PART_LINES, &TABLE[2], 2, 2, 4);
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
	codes_frame(codes, frame(RAW(3), 3), 0); /* a process has it */
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

static bool only_one_lives(void *arg, uint32_t python)
{
	return python == *(uint32_t *)arg;
}

/* For ever: what ran once is let go, what is still needed keeps its number. */
Test(python_codes, sweep)
{
	struct code_info info;
	uint64_t frames[3];
	uint32_t alive = 1;
	char name[32];

	sender = 1;
	send_all(RAW(1), "lives", "a.py", "\2\1", 2);
	frames[0] = codes_frame(codes, frame(RAW(1), 2), 1);
	sender = 2;
	send_all(RAW(2), "framed", "b.py", "\2\1", 2);
	frames[1] = codes_frame(codes, frame(RAW(2), 2), 2);
	send_part(RAW(3), PYTHON_PART_NAME, "half", 4, 0, 4);
	frames[2] = codes_frame(codes, frame(RAW(3), 2), 2);
	for (uint32_t i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "dead%u", i);
		send_all(RAW(100 + i), name, "c.py", "\2\1", 2);
		codes_frame(codes, frame(RAW(100 + i), 2), 2);
	}
	cr_expect_eq(codes_counts(codes)->nr_kept, 102);
	codes_sweep(codes, frames + 1, 2, only_one_lives, &alive);
	cr_expect_eq(codes_counts(codes)->nr_kept, 2);
	cr_assert_eq(codes_describe(codes, frames[0], &info), 0);
	cr_expect_str_eq(info.name, "lives");
	cr_expect_str_eq(info.file, "a.py");
	cr_assert_eq(codes_describe(codes, frames[1], &info), 0);
	cr_expect_str_eq(info.name, "framed");
	cr_expect_eq(info.line, 11);
	cr_assert_eq(codes_describe(codes, frames[2], &info), 0);
	cr_expect_str_eq(info.name, "half");
	/* The same code once more is no second one. */
	sender = 3;
	send_all(RAW(500), "lives", "a.py", "\2\1", 2);
	cr_expect_eq(codes_frame(codes, frame(RAW(500), 2), 3), frames[0]);
	cr_expect_eq(codes_counts(codes)->nr_kept, 2);
	codes_sweep(codes, NULL, 0, only_one_lives, &alive);
	cr_expect_eq(codes_counts(codes)->nr_kept, 1);
	cr_expect_eq(codes_describe(codes, frames[1], &info), -ENOENT);
	cr_expect_eq(codes_describe(codes, frames[2], &info), -ENOENT);
}

/* Many times the room, process after process: each finds room, with its lines. */
Test(python_codes, sweep_makes_room)
{
	static char table[8192];
	struct code_info info;
	char name[32];
	uint64_t f;

	memset(table, 1, sizeof(table));
	for (uint32_t i = 1; i <= 2000; i++) {
		sender = i;
		snprintf(name, sizeof(name), "function%u", i);
		send_part(RAW(i), PYTHON_PART_NAME, name, (uint32_t)strlen(name), 0,
			  (uint32_t)strlen(name));
		send_part(RAW(i), PYTHON_PART_FILENAME, name, (uint32_t)strlen(name), 0,
			  (uint32_t)strlen(name));
		for (uint32_t off = 0; off < sizeof(table); off += 1024)
			send_part(RAW(i), PYTHON_PART_LINES, table, 1024, off, sizeof(table));
		f = codes_frame(codes, frame(RAW(i), 2), i);
		cr_assert_not(f >> BPFPROF_LASTI_BITS & BPFPROF_CODE_ID_RAW, "%u", i);
		cr_assert_eq(codes_describe(codes, f, &info), 0);
		cr_assert_str_eq(info.name, name);
		if (i % 20 == 0)
			codes_sweep(codes, NULL, 0, only_one_lives, &i);
	}
	cr_expect_eq(codes_counts(codes)->nr_full, 0);
	cr_expect_leq(codes_counts(codes)->nr_kept, 1);
}

static bool these_two_live(void *arg, uint32_t python)
{
	const uint32_t *alive = arg;

	return python == alive[0] || python == alive[1];
}

/*
 * A process that lives on and makes function after function, beside one that it always runs:
 * when it is crowded it gets another id, and each has its name always.
 */
Test(python_codes, long_life)
{
	static char table[8192];
	uint32_t nr_renewed = 0, next = 1, alive[2] = { 7, 0 };
	uint64_t f, stable = RAW(next++);
	struct code_info info;
	char name[32];

	memset(table, 1, sizeof(table));
	sender = alive[0];
	send_all(stable, "stable", "a.py", "\2\1", 2);
	for (uint32_t i = 1; i <= 2000; i++) {
		uint64_t id = RAW(next++);

		snprintf(name, sizeof(name), "function%u", i);
		send_part(id, PYTHON_PART_NAME, name, (uint32_t)strlen(name), 0,
			  (uint32_t)strlen(name));
		send_part(id, PYTHON_PART_FILENAME, "x", 1, 0, 1);
		for (uint32_t off = 0; off < sizeof(table); off += 1024)
			send_part(id, PYTHON_PART_LINES, table, 1024, off, sizeof(table));
		f = codes_frame(codes, frame(id, 2), sender);
		cr_assert_eq(codes_describe(codes, f, &info), 0, "%u", i);
		cr_assert_str_eq(info.name, name);
		f = codes_frame(codes, frame(stable, 2), sender);
		cr_assert_eq(codes_describe(codes, f, &info), 0, "%u", i);
		cr_assert_str_eq(info.name, "stable");
		cr_assert_eq(info.line, 11);
		if (i % 10)
			continue;
		alive[1] = 0;
		codes_sweep(codes, NULL, 0, these_two_live, alive);
		if (!codes_is_crowded(codes, sender))
			continue;
		nr_renewed++;
		alive[1] = alive[0];
		sender = ++alive[0];
		/* A sample that was under way. */
		f = codes_frame(codes, frame(id, 2), sender);
		cr_assert_eq(codes_describe(codes, f, &info), 0, "%u", i);
		cr_assert_str_eq(info.name, name);
		stable = RAW(next++);
		send_all(stable, "stable", "a.py", "\2\1", 2);
	}
	cr_expect_eq(codes_counts(codes)->nr_full, 0);
	cr_expect_gt(nr_renewed, 10);
	cr_expect_lt(nr_renewed, 150); /* not at each sweep */
	cr_expect_lt(codes_counts(codes)->nr_kept, 50);
}

static bool all_live(void *arg, uint32_t python)
{
	(void)arg;
	(void)python;
	return true;
}

static bool all_but_two(void *arg, uint32_t python)
{
	(void)arg;
	return python != 2;
}

/* No room for some: the process that had none is named, and others are not. */
Test(python_codes, crowded_for_want_of_room)
{
	static char table[1024];

	sender = 1;
	send_all(RAW(1), "small", "a.py", "\2\1", 2);
	sender = 2;
	for (uint32_t i = 0; !codes_counts(codes)->nr_full; i++) {
		memcpy(table, &i, sizeof(i));
		send_all(RAW(2 + i), "f", "x.py", table, sizeof(table));
		cr_assert_lt(i, 10000);
	}
	codes_sweep(codes, NULL, 0, all_live, NULL);
	cr_expect(codes_is_crowded(codes, 2));
	cr_expect_not(codes_is_crowded(codes, 1));
	sender = 3; /* the process continues under this id */
	send_all(RAW(1000000), "f", "x.py", table, 10);
	codes_sweep(codes, NULL, 0, all_but_two, NULL);
	cr_expect_not(codes_is_crowded(codes, 3));
}

/* Many processes of one tenant leave a quarter of the room; a process of another tenant is known, and gets its room back. */
Test(python_codes, a_tenant_leaves_room)
{
	char lines[16000] = "", name[16] = "";
	struct code_info info;
	uint64_t i, full;

	for (sender = 1; sender <= 8; sender++) {
		cr_expect_not(codes_has(codes, sender));
		codes_set_tenant(codes, sender, 7);
		for (i = 0; i < 100; i++) {
			snprintf(name, sizeof(name), "n%d", (int)i);
			memcpy(lines, &i, sizeof(i));
			memcpy(lines + 8, &sender, sizeof(sender));
			send_all(RAW(sender * 1000 + i), name, "x.py", lines, sizeof(lines));
		}
	}
	cr_expect(codes_has(codes, 8));
	full = codes_counts(codes)->nr_full;
	cr_expect_gt(full, 0);
	codes_set_tenant(codes, sender, 8);
	for (i = 0; i < 10; i++) {
		memcpy(lines, &i, sizeof(i));
		send_all(RAW(90000 + i), "mine", "y.py", lines, sizeof(lines));
	}
	cr_expect_eq(codes_counts(codes)->nr_full, full);
	cr_assert_eq(codes_describe(codes, codes_frame(codes, frame(RAW(90009), 3), sender), &info),
		     0);
	/* Sweeping counts the tenants again. */
	codes_sweep(codes, NULL, 0, all_live, NULL);
	send_all(RAW(95000), "later", "y.py", lines, sizeof(lines));
	cr_expect_eq(codes_counts(codes)->nr_full, full);
	sender = 9000;
	codes_set_tenant(codes, sender, 7);
	send_all(RAW(96000), "none", "z.py", lines, sizeof(lines) - 1);
	cr_expect_gt(codes_counts(codes)->nr_full, full);
}
