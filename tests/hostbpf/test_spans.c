// SPDX-License-Identifier: Apache-2.0
/*
 * spans_at() and code_fingerprint() over memory that changes between samples, with holes: each byte
 * as it is now, and no code object that has changed is taken for what it was.
 */
#include <criterion/criterion.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifndef __noinline
#define __noinline __attribute__((noinline))
#endif
#define __weak static /* a global function of BPF programs */
struct unwind_reader;
static int spans_read(struct unwind_reader *reader, __u8 *dst, __u32 len, __u64 va);
#include "python_chain.h"
#include "python_fingerprint.h"

#define BASE 0x7f0000400000ULL
#define NR_PAGES 300
#define BYTES (NR_PAGES * SPANS_PAGE_BYTES)

static __u8 memory[BYTES];
static bool missing[NR_PAGES];
static unsigned int nr_reads;
static struct python_prints prints;

static bool readable(__u64 va, __u64 len)
{
	for (__u64 page = (va - BASE) / SPANS_PAGE_BYTES;
	     page <= (va + len - 1 - BASE) / SPANS_PAGE_BYTES; page++)
		if (page >= NR_PAGES || missing[page])
			return false;
	return true;
}

static int spans_read(struct unwind_reader *reader, __u8 *dst, __u32 len, __u64 va)
{
	(void)reader;
	nr_reads++;
	if (!readable(va, len)) {
		memset(dst, 0, len); /* as the kernel does */
		return -1;
	}
	memcpy(dst, memory + (va - BASE), len);
	return 0;
}

static void memory_fill(void)
{
	for (size_t i = 0; i < sizeof(memory); i += 4)
		*(__u32 *)(memory + i) = (__u32)rand();
}

static void reset(void)
{
	srand(1);
	memset(missing, 0, sizeof(missing));
	memset(&prints, 0, sizeof(prints));
	prints.seed = 0x1234567890abcdefULL;
	nr_reads = 0;
	memory_fill();
}

static const __u8 *at(__u64 va, __u32 len, __u32 below)
{
	return spans_at(NULL, &prints.spans, va, len, below);
}

TestSuite(spans, .init = reset, .timeout = 60);

struct asked {
	const __u8 *copy;
	__u64 va;
	__u32 len;
};

/* The requested copy and the two before it are still valid. */
static void check_last(const struct asked *asked, unsigned int nr)
{
	for (unsigned int i = nr > 2 ? nr - 2 : 0; i <= nr; i++) {
		const struct asked *a = &asked[i % 4];

		cr_assert_eq(!a->copy, !readable(a->va, a->len), "%llx, %u bytes", a->va, a->len);
		if (a->copy)
			cr_assert(!memcmp(a->copy, memory + (a->va - BASE), a->len),
				  "%llx, %u bytes", a->va, a->len);
	}
}

static void ask_at_random(unsigned int first, unsigned int nr_pages)
{
	struct asked asked[4];

	for (unsigned int i = 0; i < 400; i++) {
		struct asked *a = &asked[i % 4];

		a->va = BASE + first * SPANS_PAGE_BYTES +
			(unsigned int)rand() % (nr_pages * SPANS_PAGE_BYTES - SPANS_OBJECT_BYTES);
		a->len = 1 + (unsigned int)rand() % (SPANS_OBJECT_BYTES - 1);
		a->copy = at(a->va, a->len, rand() % 2 ? 2048 : 0);
		check_last(asked, i);
	}
}

Test(spans, bytes_are_those_of_now)
{
	for (int run = 0; run < 600; run++) {
		static const unsigned int nr_pages[] = { 1, 3, 8, 20, 200 };

		if (run % 3 == 0)
			memory_fill();
		for (int i = 0; i < NR_PAGES; i++)
			missing[i] = run % 2 && rand() % 8 == 0;
		spans_begin(&prints.spans);
		ask_at_random((unsigned int)rand() % 60, nr_pages[run % 5]);
	}
}

/* The memory stays the same until memory_fill() is called. */
Test(spans, positions_that_wrap_around)
{
	prints.spans.head = -(__u32)SPANS_RING_BYTES * 2;
	for (int run = 0; run < 50; run++) {
		spans_begin(&prints.spans);
		ask_at_random(0, 40);
	}
}

static unsigned int reads_of_run(unsigned int nr, unsigned int distance)
{
	nr_reads = 0;
	spans_begin(&prints.spans);
	for (unsigned int i = 0; i < nr; i++)
		cr_assert(at(BASE + i * distance, 176, 0));
	return nr_reads;
}

Test(spans, neighbours_are_read_at_once)
{
	cr_expect_eq(reads_of_run(30, 208), 30, "nobody knows yet");
	cr_expect_eq(reads_of_run(30, 208), 1, "two pages");
	reads_of_run(30, 700);
	cr_expect_eq(reads_of_run(30, 700), 2, "two blocks");
	cr_expect_eq(reads_of_run(10, SPANS_BLOCK_BYTES), 10);
	prints.spans.run += SPANS_FORGET_RUNS;
	cr_expect_eq(reads_of_run(30, 208), 30, "forgotten");
}

/* If a page between them is missing, the memory behind it is not tried again and again. */
Test(spans, neighbours_beyond_a_hole)
{
	missing[1] = true;
	for (int run = 0; run < 3; run++) {
		cr_expect_eq(reads_of_run(2, 2 * SPANS_PAGE_BYTES), run ? 2 : 3);
		cr_expect_eq(reads_of_run(2, 2 * SPANS_PAGE_BYTES), 2);
	}
	missing[1] = false;
	cr_expect_eq(reads_of_run(2, 2 * SPANS_PAGE_BYTES), 2);
	prints.spans.run += SPANS_FORGET_RUNS;
	reads_of_run(2, 2 * SPANS_PAGE_BYTES);
	cr_expect_eq(reads_of_run(2, 2 * SPANS_PAGE_BYTES), 1, "tried again after a while");
}

Test(spans, callers_come_with_a_frame)
{
	spans_begin(&prints.spans);
	for (unsigned int i = 0; i < 20; i++)
		cr_assert(at(BASE + 2000 - i * 100, 80, 2048));
	cr_expect_eq(nr_reads, 1);
}

/* A code object with its strings, far from one another. */
#define CODE (BASE + 10 * SPANS_PAGE_BYTES + 64)
#define NAME (BASE + 12 * SPANS_PAGE_BYTES + 128)
#define FILE_NAME (BASE + 14 * SPANS_PAGE_BYTES + 256)
#define MAX_PATH_BYTES 300

static __u8 *mem(__u64 va)
{
	return memory + (va - BASE);
}

static __u64 fingerprint(const struct bpfprof_python_layout *l)
{
	__u8 *code;

	spans_begin(&prints.spans);
	code = spans_at(NULL, &prints.spans, CODE, l->code_bytes, 0);
	cr_assert(code);
	return code_fingerprint(NULL, &prints, l, code, CODE);
}

static void code_put(struct bpfprof_python_layout *l, __u32 path_bytes)
{
	*(__u64 *)(mem(CODE) + l->code_name) = NAME;
	*(__u64 *)(mem(CODE) + l->code_filename) = FILE_NAME;
	*(__u64 *)(mem(FILE_NAME) + l->unicode_length) = path_bytes;
	*(__u32 *)(mem(FILE_NAME) + l->unicode_state) =
		1U << l->unicode_kind_shift | 24U << l->unicode_kind_shift;
	l->code_start = 16;
}

static void expect_change(const struct bpfprof_python_layout *l, __u8 *byte, bool changes,
			  const char *what, __u32 off)
{
	__u64 before = fingerprint(l);

	for (int bit = 0; bit < 8; bit++) {
		*byte ^= 1 << bit;
		cr_expect_eq(fingerprint(l) != before, changes, "%s, byte %u, bit %d: %s", what,
			     off, bit, changes ? "the same" : "another one");
		*byte ^= 1 << bit;
	}
	cr_expect_eq(fingerprint(l), before);
}

static void check_code(const struct bpfprof_python_layout *made)
{
	struct bpfprof_python_layout l = *made;
	__u32 word = l.code_flags & ~7U, off;

	code_put(&l, 40);
	for (off = 0; off < (__u32)l.code_bytes + 16; off++) {
		if (off - l.code_name < 8 || off - l.code_filename < 8)
			continue; /* leads elsewhere */
		if (off - word < 8 && off - l.code_flags >= 4 && off - l.code_firstlineno >= 4)
			continue;
		expect_change(&l, mem(CODE) + off, off >= l.code_start && off < l.code_bytes,
			      "code", off);
	}
	for (off = 0; off < 8; off++)
		expect_change(&l, mem(NAME) + l.unicode_hash + off, true, "hash of the name", off);
}

Test(fingerprint, of_every_byte, .init = reset, .timeout = 60)
{
	check_code(python_layout_made(PYTHON_CHAIN_OBJECTS));
	check_code(python_layout_made(PYTHON_CHAIN_ENTRY_FLAG));
}

Test(fingerprint, of_every_character, .init = reset, .timeout = 60)
{
	struct bpfprof_python_layout l = *python_layout_made(PYTHON_CHAIN_ENTRY_FLAG);
	__u32 len, off;

	for (len = 1; len <= MAX_PATH_BYTES; len += len < 40 ? 1 : 13) {
		code_put(&l, len);
		for (off = 0; off < len + 9; off++)
			expect_change(&l, mem(FILE_NAME) + l.ascii_data + off,
				      off < len && off + DIGEST_BYTES >= len, "file name", off);
	}
}

/* Paths that differ in two places, which must not make up for one another. */
Test(fingerprint, of_two_changes, .init = reset, .timeout = 60)
{
	struct bpfprof_python_layout l = *python_layout_made(PYTHON_CHAIN_OBJECTS);
	__u8 *text = mem(FILE_NAME) + l.ascii_data;
	__u64 before;
	unsigned int i;

	code_put(&l, DIGEST_BYTES);
	before = fingerprint(&l);
	for (i = 0; i < 200000; i++) {
		__u8 *a = &text[rand() % DIGEST_BYTES], *b = &text[rand() % DIGEST_BYTES];
		__u8 x = 1 + (__u8)(rand() % 255), y = 1 + (__u8)(rand() % 255);

		if (a == b)
			continue;
		*a ^= x;
		*b ^= y;
		cr_assert_neq(fingerprint(&l), before, "%td and %td", a - text, b - text);
		*a ^= x;
		*b ^= y;
	}
}

/* Unreadable memory does not stop the hash, and differs from readable memory. */
Test(fingerprint, of_strings_that_are_gone, .init = reset)
{
	struct bpfprof_python_layout l = *python_layout_made(PYTHON_CHAIN_ENTRY_FLAG);
	__u64 all, name, file;

	code_put(&l, 40);
	all = fingerprint(&l);
	missing[12] = true;
	name = fingerprint(&l);
	missing[14] = true;
	file = fingerprint(&l);
	cr_expect(all != name && name != file && all != file);
	cr_expect_eq(fingerprint(&l), file);
}

/* Numbered ones are known by their number. */
Test(fingerprint, of_a_version, .init = reset)
{
	struct bpfprof_python_layout l = *python_layout_made(PYTHON_CHAIN_FRAMES);
	__u64 before;

	code_put(&l, 40);
	l.code_version = 140;
	l.code_bytes = 144;
	*(__u32 *)(mem(CODE) + l.code_version) = 7;
	before = fingerprint(&l);
	nr_reads = 0;
	cr_expect_eq(fingerprint(&l), before);
	cr_expect_eq(nr_reads, 1);
	++*(__u32 *)(mem(CODE) + l.code_version);
	cr_expect_neq(fingerprint(&l), before);
}
