// SPDX-License-Identifier: Apache-2.0
/* Rules of Go code: of each kind of function, in all versions of the table, known from the assembly. */
#include "unwind/go_rows.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/go_table.h"
#include "elf/image.h"
#include "unwind/cfi.h"
#include "unwind/reader.h"
#include "made_go.h"
#include "test_elf_fixture.h"
#include "unwind_native.h"

TestSuite(go_rows, .timeout = 120);

#define ANY_BP 4
#define SP(at, off, bp, bp_off)                                                                    \
	{                                                                                          \
		at, ROW_CFA, UNWIND_RSP, off, bp, bp_off                                           \
	}

static const struct row_case {
	const char *at;
	uint32_t kind, reg;
	int64_t off;
	uint32_t bp;
	int64_t bp_off;
} row_cases[] = {
	SP("leaf", 8, ANY_BP, 0),
	SP("pushes", 8, BP_SAME, 0),
	SP("pushes_1", 16, BP_AT_CFA, -16),
	SP("pushes_2", 48, BP_AT_CFA, -16),
	SP("pushes_3", 16, BP_AT_CFA, -16),
	SP("pushes_4", 8, BP_SAME, 0),
	SP("stores", 8, BP_SAME, 0),
	SP("stores_1", 48, BP_SAME, 0), /* there is room for it, and it is not there yet */
	SP("stores_2", 48, BP_AT_CFA, -16),
	SP("stores_3", 8, BP_SAME, 0),
	SP("large_1", 16, BP_AT_CFA, -16),
	{ "large_2", ROW_FAR, UNWIND_RSP, 0x200010, BP_AT_CFA, -16 },
	SP("large_3", 16, BP_AT_CFA, -16),
	SP("by_hand_1", 16, BP_SAME, 0),
	SP("by_hand_2", 80, BP_SAME, 0),
	SP("by_hand_3", 80, BP_AT_CFA, -32),
	SP("spoils_1", 8, BP_LOST, 0),
	SP("systemstack_1", 8, BP_LOST, 0),
	{ "systemstack_2", ROW_END, 0, 0, 0, 0 },
	SP("systemstack_3", 8, BP_LOST, 0),
	SP("systemstack_4", 8, BP_LOST, 0),
	SP("mcall_1", 16, BP_AT_CFA, -16),
	{ "mcall_2", ROW_END, 0, 0, 0, 0 },
	{ "mcall_3", ROW_END, 0, 0, 0, 0 },
	SP("gogo_1", 8, BP_LOST, 0),
	{ "gogo_2", ROW_RARE, 0, 0, 0, 0 },
	SP("nanotime_2", 32, BP_AT_CFA, -16),
	{ "nanotime_3", ROW_FAR, UNWIND_RBP, 16, BP_AT_CFA, -16 },
	SP("nanotime_4", 32, BP_AT_CFA, -16),
	SP("nanotime_5", 16, BP_AT_CFA, -16),
	{ "nanotime_7", ROW_FAR, UNWIND_RBP, 16, BP_AT_CFA, -16 },
	SP("asmcgocall_1", 16, BP_AT_CFA, -16),
	{ "asmcgocall_2", ROW_RARE, 0, 0, 0, 0 },
	{ "asmcgocall_3", ROW_GO_C, 0, 16, BP_AT_CFA, 8 },
	SP("asmcgocall_5", 16, BP_AT_CFA, -16),
	SP("asmcgocall_7", 16, BP_AT_CFA, -16),
	{ "asmcgocall_8", ROW_RARE, 0, 0, 0, 0 },
	{ "asmcgocall_9", ROW_GO_C, 0, 16, BP_AT_CFA, 8 },
	SP("asmcgocall_10", 16, BP_AT_CFA, -16),
	{ "goexit", ROW_END, 0, 0, 0, 0 },
	SP("sigtramp_1", 32, BP_LOST, 0),
	{ "sigreturn", ROW_SIGNAL, 0, 40, 0, 0 },
};

static void row_check(const char *file, const struct row_case *want, uint64_t row)
{
	uint32_t bp = unwind_row_bp_rule(row);
	int64_t off = unwind_row_off(row);

	if (unwind_row_kind(row) == ROW_FAR)
		off += unwind_row_second(row) * UNWIND_FAR_BYTES;
	cr_assert(unwind_row_kind(row) == want->kind && unwind_row_reg(row) == want->reg &&
			  off == want->off && (want->bp == ANY_BP || bp == want->bp) &&
			  unwind_row_bp_off(row) == want->bp_off,
		  "%s, %s: kind %u reg %u off %ld bp %u %ld", file, want->at, unwind_row_kind(row),
		  unwind_row_reg(row), (long)off, bp, (long)unwind_row_bp_off(row));
}

static uint64_t row_at(const uint64_t *rows, int nr, uint64_t rva)
{
	while (nr && unwind_row_low(rows[nr - 1]) > (rva & 0xffff))
		nr--;
	cr_assert(nr > 0);
	return rows[nr - 1];
}

/*
 * In pages, as the walker builds them: the text is in one page, at the same offset as in the file.
 */
Test(go_rows, all_versions)
{
	static uint64_t rows[CFI_PAGE_MAX_ROWS];
	struct elf_image *img;
	struct cfi *cfi;
	char file[16];
	uint64_t rva;
	size_t i, k;
	int nr;

	for (i = 0; i < MADE_GO_VERSIONS; i++) {
		snprintf(file, sizeof(file), "go%d", made_go_versions[i]);
		made_go(file, made_go_versions[i], "");
		img = made_go_open(file);
		cr_assert_eq(cfi_new(&cfi, img), 0);
		nr = cfi_build_page(cfi, 0, rows);
		cr_assert(nr > 0);
		for (k = 0; k < sizeof(row_cases) / sizeof(row_cases[0]); k++)
			row_check(file, &row_cases[k],
				  row_at(rows, nr, made_go_label(file, row_cases[k].at)));
		/*
		 * A look-up for code after a call, and for the signal handler's return, uses the
		 * byte before.
		 */
		rva = made_go_label(file, "sigreturn") - 1;
		cr_assert_eq(unwind_row_kind(row_at(rows, nr, rva)), ROW_SIGNAL);
		/* Foreign code is not the table's. */
		rva = made_go_label(file, "foreign");
		cr_assert_eq(unwind_row_kind(row_at(rows, nr, rva)), ROW_NONE);
		cfi_free(cfi);
		elf_image_free(img);
	}
}

static int read_word(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	(void)reader;
	memset(dst, 0, len);
	memcpy(dst, &va, len < 8 ? len : 8);
	return 0;
}

/* A step by the complete rules gives the result of the row; without a row it reports that. */
Test(go_rows, steps)
{
	struct unwind_reader reader = { .read = read_word };
	struct unwind_state state = { .valid = UNWIND_ALL_REGS, .exact = 1 };
	struct elf_image *img;
	struct cfi *cfi;
	uint64_t text;

	made_go("go", 20, "");
	img = made_go_open("go");
	cr_assert_eq(cfi_new(&cfi, img), 0);
	text = 0x1000 - made_go_label("go", "_start");
	state.regs[UNWIND_RSP] = 0x7000;
	cr_assert_eq(cfi_step(cfi, made_go_label("go", "large_2") + text, &state, &reader), 0);
	cr_assert_eq(state.regs[UNWIND_RSP], 0x7000 + 0x200010);
	cr_assert_eq(state.regs[UNWIND_RIP], 0x7000 + 0x200008);
	cr_assert_eq(state.regs[UNWIND_RBP], 0x7000 + 0x200000);
	cr_assert_eq(cfi_step(cfi, made_go_label("go", "goexit") + text, &state, &reader),
		     BPFPROF_STOP_COMPLETE);
	cr_assert_eq(cfi_step(cfi, made_go_label("go", "gogo_2") + text, &state, &reader),
		     BPFPROF_STOP_NO_TABLE);
	cfi_free(cfi);
	elf_image_free(img);
}

/*
 * The values of one function never end, or do not advance: it has no rules, and other functions
 * keep theirs.
 */
Test(go_rows, malformed)
{
	static const char *const values[] = { "\x80\x80\x80\x80\x80\x80", "\2\0\20\0\20\40" };
	static uint64_t rows[CFI_PAGE_MAX_ROWS];
	struct elf_image *img;
	struct cfi *cfi;
	char *path, *data;
	size_t len, at, i;
	int nr;

	made_go("go", 20, "");
	path = fixture_path("go");
	at = made_go_label("go", "stores_sp") - made_go_label("go", "table") + 0x2000;
	for (i = 0; i < 2; i++) {
		data = fixture_read(path, &len);
		memcpy(data + at, values[i], 6);
		cr_assert_eq(elf_image_open_memory(&img, data, len), 0);
		cr_assert_eq(cfi_new(&cfi, img), 0);
		nr = cfi_build_page(cfi, 0, rows);
		cr_assert(nr > 0);
		cr_assert_eq(unwind_row_kind(row_at(rows, nr, made_go_label("go", "stores_2"))),
			     ROW_RARE);
		cr_assert_eq(unwind_row_off(row_at(rows, nr, made_go_label("go", "pushes_2"))), 48);
		cr_assert_eq(unwind_row_kind(row_at(rows, nr, made_go_label("go", "large_2"))),
			     ROW_FAR);
		cfi_free(cfi);
		elf_image_free(img);
		free(data);
	}
	free(path);
}

/* A program without a readable table has no rules from it. */
Test(go_rows, no_table)
{
	static uint64_t rows[CFI_PAGE_MAX_ROWS];
	struct elf_image *img;
	struct cfi *cfi;
	char *path, *data;
	size_t len;

	made_go("go", 20, "");
	path = fixture_path("go");
	data = fixture_read(path, &len);
	memset(data + 0x2000, 0, 8);
	cr_assert_eq(elf_image_open_memory(&img, data, len), 0);
	cr_assert_eq(cfi_new(&cfi, img), 0);
	cr_assert_eq(cfi_build_page(cfi, 0, rows), 1);
	cr_assert(unwind_row_unexplored(rows[0]));
	cfi_free(cfi);
	elf_image_free(img);
	free(data);
	free(path);
}

/* go_costly.S, and how often its file is read. */
struct costly {
	struct elf_image *img;
	char *data;
	unsigned int nr_reads;
};

static ssize_t costly_read(void *arg, void *dst, size_t len, uint64_t off)
{
	struct costly *costly = arg;

	costly->nr_reads++;
	memcpy(dst, costly->data + off, len);
	return (ssize_t)len;
}

static void costly_open(struct costly *costly, const char *flags)
{
	char script[1024], *root = realpath(".", NULL), *path;
	struct elf_source source = { .read = costly_read, .arg = costly };

	snprintf(script, sizeof(script),
		 "gcc -nostdlib -static -Wl,--build-id=none %s -o costly %s/tests/unit/go_costly.S",
		 flags, root);
	fixture_run(script);
	path = fixture_path("costly");
	*costly = (struct costly){ .data = fixture_read(path, &source.size) };
	cr_assert_eq(elf_image_new(&costly->img, &source), 0);
	free(path);
	free(root);
}

static void costly_close(struct costly *costly)
{
	elf_image_free(costly->img);
	free(costly->data);
}

static void row_count(void *arg, uint64_t start, uint64_t end, uint64_t row)
{
	(void)start;
	(void)end;
	(void)row;
	++*(unsigned int *)arg;
}

/* For a function with very many values only those up to the address are read, within the limit. */
Test(go_rows, work_of_values)
{
	int64_t work = GO_ROWS_PAGE_WORK;
	unsigned int nr_rows = 0;
	struct costly costly;
	struct go_table tab;
	uint64_t rva;

	costly_open(&costly, "");
	rva = made_go_label("costly", "dense");
	cr_assert_eq(go_table_find(&tab, costly.img), 0);
	costly.nr_reads = 0;
	cr_assert_eq(go_rows_make(&tab, rva + 10, rva + 11, &work, row_count, &nr_rows), 0);
	cr_assert_eq(nr_rows, 1);
	cr_assert_gt(work, GO_ROWS_PAGE_WORK - 2000);
	cr_assert_lt(costly.nr_reads, 6, "%u reads", costly.nr_reads);
	work = 10000;
	cr_assert_eq(go_rows_make(&tab, tab.start, tab.end, &work, row_count, &nr_rows), -E2BIG);
	cr_assert_eq(work, 0);
	cr_assert(nr_rows > 1000 && nr_rows < 10000);
	costly_close(&costly);
}

/* Functions of no length end the table: there would be no end of them. */
Test(go_rows, work_of_functions)
{
	int64_t work = GO_ROWS_PAGE_WORK;
	unsigned int nr_rows = 0;
	struct costly costly;
	struct go_table tab;

	costly_open(&costly, "-DEMPTY=100000");
	cr_assert_eq(go_table_find(&tab, costly.img), 0);
	costly.nr_reads = 0;
	cr_assert_eq(go_rows_make(&tab, tab.start, tab.end, &work, row_count, &nr_rows), -EBADMSG);
	cr_assert_gt(work, GO_ROWS_PAGE_WORK / 2);
	cr_assert_lt(costly.nr_reads, 40, "%u reads", costly.nr_reads);
	costly_close(&costly);
}

/* A page and a step give up where a function costs too much; what comes before it has its rows. */
Test(go_rows, work_of_code)
{
	static uint64_t rows[CFI_PAGE_MAX_ROWS];
	struct unwind_reader reader = { .read = read_word };
	struct unwind_state state = { .valid = UNWIND_ALL_REGS, .exact = 1 };
	uint64_t first, to_off;
	struct costly costly;
	struct cfi *cfi;
	int nr;

	costly_open(&costly, "-DREPEATED -DDENSE=1000");
	first = made_go_label("costly", "first");
	to_off = (first & 0xfff) + 0x1000 - first;
	cr_assert_eq(cfi_new(&cfi, costly.img), 0);
	nr = cfi_build_page(cfi, 0, rows);
	cr_assert(nr > 0 && nr < CFI_PAGE_MAX_ROWS);
	cr_assert_eq(unwind_row_off(row_at(rows, nr, first + to_off + 5)), 16);
	cr_assert_eq(unwind_row_kind(row_at(rows, nr, made_go_label("costly", "dense") + to_off)),
		     ROW_CFA);
	cr_assert_eq(
		unwind_row_kind(row_at(rows, nr, made_go_label("costly", "repeated") + to_off)),
		ROW_RARE);
	cr_assert_eq(cfi_step(cfi, made_go_label("costly", "repeated") + to_off, &state, &reader),
		     BPFPROF_STOP_NO_TABLE);
	cfi_free(cfi);
	costly_close(&costly);
}

Test(go_rows, work_of_steps)
{
	struct unwind_reader reader = { .read = read_word };
	struct unwind_state state = { .valid = UNWIND_ALL_REGS, .exact = 1 };
	struct costly costly;
	struct cfi *cfi;
	uint64_t dense;

	costly_open(&costly, "");
	dense = (made_go_label("costly", "dense") & 0xfff) + 0x1000;
	cr_assert_eq(cfi_new(&cfi, costly.img), 0);
	state.regs[UNWIND_RSP] = 0x7000;
	cr_assert_eq(cfi_step(cfi, dense + 10000, &state, &reader), 0);
	cr_assert_eq(state.regs[UNWIND_RSP], 0x7000 + 16);
	cr_assert_eq(cfi_step(cfi, dense + 39000, &state, &reader), BPFPROF_STOP_NO_TABLE);
	cfi_free(cfi);
	costly_close(&costly);
}
