// SPDX-License-Identifier: Apache-2.0
/*
 * The reader of .eh_frame over images that are made here: tables that no compiler writes, malformed
 * tables, and the exact rows. tests/hostbpf/test_libdw.c compares it with libdw over real files.
 */
#include <criterion/criterion.h>
#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "elf/image.h"
#include "unwind/cfi.h"
#include "unwind/reader.h"
#include "made_frame.h"
#include "unwind_native.h"
#include "cfi_bench.h"

/* Two functions with a gap of one byte, one that crosses into the next page, two segments. */
Test(cfi, rows_of_pages)
{
	struct cfi_bench *b = cfi_bench_new();
	size_t cie = made_cie(&b->frame, PCREL4), f[4];

	f[0] = made_fde(&b->frame, cie, MADE_CODE1 + 0x10, 0x20);
	MADE_OPS(&b->frame, DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 16, DW_CFA_offset | 6, 2,
		 DW_CFA_advance_loc | 3, DW_CFA_def_cfa_register, 6, DW_CFA_advance_loc | 4,
		 DW_CFA_nop, DW_CFA_advance_loc | 4, DW_CFA_def_cfa, 7, 8, DW_CFA_restore | 6);
	made_end(&b->frame, f[0]);
	f[1] = made_fde(&b->frame, cie, MADE_CODE1 + 0x31, 0x10);
	made_end(&b->frame, f[1]);
	f[2] = made_fde(&b->frame, cie, MADE_CODE1 + 0x41, 0x0f); /* equal rule: merged */
	made_end(&b->frame, f[2]);
	f[3] = made_fde(&b->frame, cie, MADE_CODE2 + 0xa000, 0x2000); /* file 0xf000-0x11000 */
	MADE_OPS(&b->frame, DW_CFA_advance_loc2, 0x00, 0x08, DW_CFA_def_cfa_offset, 16);
	MADE_OPS(&b->frame, DW_CFA_advance_loc4, 0, 0x10, 0, 0, DW_CFA_def_cfa_offset, 24);
	made_end(&b->frame, f[3]);

	for (int with_hdr = 0; with_hdr < 2; with_hdr++) {
		const uint64_t entries[4][2] = { { MADE_CODE1 + 0x10, f[0] },
						 { MADE_CODE1 + 0x31, f[1] },
						 { MADE_CODE1 + 0x41, f[2] },
						 { MADE_CODE2 + 0xa000, f[3] } };

		if (with_hdr)
			made_hdr(&b->hdr, &b->frame, entries, 4);
		cr_assert_eq(cfi_bench_open(b), 0);
		CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE), cfi_row_sp(0x1010, 8),
			   unwind_row_make(0x1011, ROW_CFA, 7, 2, BP_AT_CFA, -2, 0),
			   unwind_row_make(0x1014, ROW_CFA, 6, 2, BP_AT_CFA, -2, 0),
			   cfi_row_sp(0x101c, 8), cfi_row_of(0x1030, ROW_NONE),
			   cfi_row_sp(0x1031, 8), cfi_row_of(0x1050, ROW_NONE),
			   cfi_row_sp(0xf000, 8), cfi_row_sp(0xf800, 16));
		CHECK_ROWS(b, 1, cfi_row_sp(0, 16), cfi_row_sp(0x800, 24),
			   cfi_row_of(0x1000, ROW_NONE));
		CHECK_ROWS(b, 7, cfi_row_of(0, ROW_NONE));
		CHECK_ROWS(b, UINT32_MAX, cfi_row_of(0, ROW_NONE));
	}
	cfi_bench_free(b);
}

/* set_loc and 64-bit records, of both kinds. */
Test(cfi, wide_records)
{
	for (int id_bytes = 4; id_bytes <= 8; id_bytes += 4) {
		struct cfi_bench *b = cfi_bench_new();
		uint64_t len;
		size_t fde;

		made_uint(&b->frame, UINT32_MAX, 4);
		made_uint(&b->frame, 0, 8);
		made_uint(&b->frame, 0, (size_t)id_bytes);
		MADE_OPS(&b->frame, 1, 'z', 'R', 0, CIE_HEAD, 1, DW_EH_PE_absptr, CIE_RULES);
		len = b->frame.len - 12;
		memcpy(b->frame.data + 4, &len, 8);

		fde = b->frame.len;
		made_uint(&b->frame, UINT32_MAX, 4);
		made_uint(&b->frame, 0, 8);
		made_uint(&b->frame, b->frame.len, (size_t)id_bytes);
		made_uint(&b->frame, START, 8);
		made_uint(&b->frame, 0x40, 8);
		made_uleb(&b->frame, 0);
		made_u8(&b->frame, DW_CFA_set_loc);
		made_uint(&b->frame, START + 0x20, 8);
		MADE_OPS(&b->frame, DW_CFA_def_cfa_offset, 16);
		len = b->frame.len - fde - 12;
		memcpy(b->frame.data + fde + 4, &len, 8);

		cr_assert_eq(cfi_bench_open(b), 0);
		CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE), cfi_row_sp(0x1100, 8),
			   cfi_row_sp(0x1120, 16), cfi_row_of(0x1140, ROW_NONE));
		cfi_bench_free(b);
	}
}

/* Addresses in the code must not go back, nor wrap. */
Test(cfi, locations_that_go_back)
{
	struct cfi_bench *b = cfi_bench_new();
	size_t cie = made_cie(&b->frame, DW_EH_PE_absptr), fde;

	fde = made_begin(&b->frame);
	made_uint(&b->frame, b->frame.len - cie, 4);
	made_uint(&b->frame, START, 8);
	made_uint(&b->frame, 0x40, 8);
	made_uleb(&b->frame, 0);
	MADE_OPS(&b->frame, DW_CFA_advance_loc | 0x10, DW_CFA_def_cfa_offset, 16, DW_CFA_set_loc);
	made_uint(&b->frame, START + 8, 8);
	made_end(&b->frame, fde);
	cr_assert_eq(cfi_bench_open(b), 0);
	CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE), cfi_row_sp(0x1100, 8),
		   cfi_row_of(0x1110, ROW_RARE), cfi_row_of(0x1140, ROW_NONE));
	cfi_bench_free(b);
}

/* glibc's __restore_rt, and one with a register in the wrong place. */
Test(cfi, signal_frame)
{
	static const uint8_t order[] = { 8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16 };

	struct made_stack array;
	struct unwind_state s;

	made_stack_init(&array);
	for (int variant = 0; variant < 4; variant++) {
		struct cfi_bench *b = cfi_bench_new();
		size_t cie = made_begin(&b->frame), fde;
		int base = variant == 1 ? 56 : 40;

		made_uint(&b->frame, 0, 4);
		MADE_OPS(&b->frame, 1, 'z', 'R', 'S', 0, CIE_HEAD, 1, PCREL4);
		made_end(&b->frame, cie);
		fde = made_fde(&b->frame, cie, START - 1, 10);
		MADE_OPS(&b->frame, DW_CFA_def_cfa_expression, 4, DW_OP_breg7);
		made_sleb(&b->frame, base + 15 * 8 + (variant == 3 ? 8 : 0));
		made_u8(&b->frame, DW_OP_deref);
		for (int i = 0; i < 17; i++) {
			int off = base + 8 * i + (variant == 2 && i == 9 ? 8 : 0);

			MADE_OPS(&b->frame, DW_CFA_expression, order[i], off < 64 ? 2 : 3,
				 DW_OP_breg7);
			made_sleb(&b->frame, off);
		}
		made_end(&b->frame, fde);
		cr_assert_eq(cfi_bench_open(b), 0);
		CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE),
			   variant >= 2 ? cfi_row_of(0x10ff, ROW_RARE)
					: unwind_row_make(0x10ff, ROW_SIGNAL, UNWIND_RSP, base / 8,
							  0, 0, 0),
			   cfi_row_of(0x1109, ROW_NONE));
		s = made_stack_state(START);
		cr_assert_eq(cfi_step(b->cfi, 0x1100, &s, &array.reader), 0);
		for (uint64_t i = 0; i < 17; i++) /* rsp is lower: it was another stack */
			if (variant != 2 || i != 9)
				cr_assert_eq(s.regs[order[i]], 0xaa00 + (uint64_t)base / 8 + i);
		cr_assert_eq(s.valid, UNWIND_ALL_REGS);
		cr_assert_eq(s.exact, 1);
		cfi_bench_free(b);
	}
}

/* Several functions at one address, and only one has code; functions that overlap. */
Test(cfi, empty_and_overlapping_functions)
{
	for (int with_hdr = 0; with_hdr < 2; with_hdr++) {
		struct cfi_bench *b = cfi_bench_new();
		size_t cie = made_cie(&b->frame, PCREL4), f[5];

		f[0] = made_fde(&b->frame, cie, START, 0);
		made_end(&b->frame, f[0]);
		f[1] = made_fde(&b->frame, cie, START, 0x40);
		made_end(&b->frame, f[1]);
		f[2] = made_fde(&b->frame, cie, START, 0);
		made_end(&b->frame, f[2]);
		f[3] = made_fde(&b->frame, cie, START + 0x20, 0x10);
		MADE_OPS(&b->frame, DW_CFA_def_cfa_offset, 16);
		made_end(&b->frame, f[3]);
		f[4] = made_fde(&b->frame, cie, START + 0x50, 0);
		made_end(&b->frame, f[4]);
		if (with_hdr) {
			const uint64_t entries[5][2] = { { START, f[0] },
							 { START, f[1] },
							 { START, f[2] },
							 { START + 0x20, f[3] },
							 { START + 0x50, f[4] } };

			made_hdr(&b->hdr, &b->frame, entries, 5);
		}
		cr_assert_eq(cfi_bench_open(b), 0);
		CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE), cfi_row_sp(0x1100, 8),
			   cfi_row_sp(0x1120, 16), cfi_row_of(0x1130, ROW_NONE));
		cfi_bench_free(b);
	}
}

/* Search tables with false content. */
Test(cfi, malformed_table)
{
	struct cfi_bench *b = cfi_bench_new();
	size_t cie = made_cie(&b->frame, PCREL4), f[2], other;

	f[0] = made_fde(&b->frame, cie, START, 0x10);
	made_end(&b->frame, f[0]);
	f[1] = made_fde(&b->frame, cie, START + 0x10, 0x10);
	made_end(&b->frame, f[1]);
	other = b->frame.len + 0x1000; /* past the end of the segment */

	struct {
		uint64_t entries[3][2];
		uint64_t rows[4];
	} cases[] = {
		/* another function's FDE */
		{ { { START, f[1] }, { START + 0x10, f[1] }, { START + 0x20, f[1] } },
		  { cfi_row_of(0, ROW_NONE), cfi_row_of(0x1100, ROW_RARE), cfi_row_sp(0x1110, 8),
		    cfi_row_of(0x1120, ROW_RARE) } },
		/* no FDE at all: a CIE, and nothing */
		{ { { START, cie }, { START + 0x10, f[1] }, { START + 0x20, other } },
		  { cfi_row_of(0, ROW_NONE), cfi_row_of(0x1100, ROW_RARE), cfi_row_sp(0x1110, 8),
		    cfi_row_of(0x1120, ROW_RARE) } },
		/* not sorted */
		{ { { START, f[0] }, { START + 0x10, f[1] }, { START, f[0] } },
		  { cfi_row_of(0, ROW_NONE), cfi_row_sp(0x1100, 8), cfi_row_of(0x1110, ROW_RARE),
		    cfi_row_of(0x5000, ROW_NONE) } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		b->hdr.len = 0;
		made_hdr(&b->hdr, &b->frame, (const uint64_t(*)[2])cases[i].entries, 3);
		cr_assert_eq(cfi_bench_open(b), 0);
		cfi_bench_check_rows(b, 0, cases[i].rows, 4, (int)i);
	}
	cfi_bench_free(b);
}

/* Headers of search tables that are smaller, or unusable. */
Test(cfi, table_headers)
{
	struct cfi_bench *b = cfi_bench_new();
	size_t cie = made_cie(&b->frame, PCREL4), fde = made_fde(&b->frame, cie, START, 0x40);
	const uint64_t entry[1][2] = { { START, fde } };
	static const struct {
		uint8_t at, value;
		int err;
	} cases[] = {
		{ 0, 1, 0 }, /* as it is */
		{ 0, 2, -EBADMSG }, /* version */
		{ 1, DW_EH_PE_omit, -EBADMSG }, /* no .eh_frame */
		{ 4, 0x7f, -EBADMSG }, /* .eh_frame outside of the file, as that byte is high */
		{ 2, DW_EH_PE_omit, 0 }, /* no count, no table: a pass over all */
		{ 3, DW_EH_PE_omit, 0 },
		{ 3, DW_EH_PE_datarel | DW_EH_PE_uleb128, 0 }, /* cannot be searched */
		{ 8, 200, 0 }, /* more entries than bytes */
		{ 8, 0, 0 }, /* none */
	};

	made_end(&b->frame, fde);
	made_uint(&b->frame, 0, 4); /* terminator: what follows is no record */
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		b->hdr.len = 0;
		made_hdr(&b->hdr, &b->frame, entry, 1);
		b->hdr.data[cases[i].at == 4 ? 7 : cases[i].at] = cases[i].value;
		cr_assert_eq(cfi_bench_open(b), cases[i].err, "case %zu", i);
		if (!cases[i].err)
			CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE), cfi_row_sp(0x1100, 8),
				   cfi_row_of(0x1140, ROW_NONE));
	}
	cfi_bench_free(b);
}

/* Without section headers and search table, the records are found by their content. */
Test(cfi, found_by_scanning)
{
	struct cfi_bench *b = cfi_bench_new();
	size_t cie, fde;
	Elf64_Ehdr *eh;

	made_uint(&b->frame, 0x14, 4); /* first this looks like a record */
	made_uint(&b->frame, 0, 4);
	MADE_OPS(&b->frame, 1, 'z', 'R', 0, 1, 0x78, 16, 1, PCREL4, 0x3f, 0x3f, 0x3f);
	cie = made_cie(&b->frame, PCREL4);
	fde = made_fde(&b->frame, cie, START, 0x40);
	made_end(&b->frame, fde);
	made_uint(&b->frame, 0, 4);
	cr_assert_eq(cfi_bench_open(b), 0);
	cfi_free(b->cfi);
	b->cfi = NULL;
	elf_image_free(b->img);
	eh = b->data;
	eh->e_shnum = eh->e_shstrndx = 0;
	eh->e_shoff = 0;
	cr_assert_eq(elf_image_open_memory(&b->img, b->data, MADE_FRAME_OFF + b->frame.len + 64),
		     0);
	cr_assert_eq(cfi_new(&b->cfi, b->img), 0);
	CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE), cfi_row_sp(0x1100, 8),
		   cfi_row_of(0x1140, ROW_NONE));
	cfi_bench_free(b);
}

Test(cfi, nothing_there)
{
	struct cfi_bench *b = cfi_bench_new();

	cr_assert_eq(cfi_bench_open(b), 0);
	CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE));
	made_uint(&b->frame, 0, 4);
	cr_assert_eq(cfi_bench_open(b), 0); /* a section, but nothing in it */
	CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE));
	CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE));
	cfi_bench_free(b);
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* One function that changes its rule at every second byte: more rows than a page may have. */
Test(cfi, too_many_rows)
{
	struct cfi_bench *b = cfi_bench_new();
	size_t cie = made_cie(&b->frame, PCREL4), fde;
	uint64_t last;

	fde = made_fde(&b->frame, cie, MADE_CODE2, 0x14000); /* from file 0x5000 on */
	for (int i = 0; i < 0x14000 / 2; i++)
		MADE_OPS(&b->frame, DW_CFA_advance_loc | 2, DW_CFA_def_cfa_offset, i & 1 ? 8 : 16);
	made_end(&b->frame, fde);
	cr_assert_eq(cfi_bench_open(b), 0);
	cr_assert_eq(cfi_build_page(b->cfi, 0, b->rows), CFI_PAGE_MAX_ROWS);
	last = b->rows[CFI_PAGE_MAX_ROWS - 1];
	cr_assert_eq(unwind_row_kind(last), ROW_RARE);
	cr_assert_eq(unwind_row_low(last), 0x5000 + 2 * (CFI_PAGE_MAX_ROWS - 2));
	cr_assert_eq(unwind_row_kind(b->rows[CFI_PAGE_MAX_ROWS - 2]), ROW_CFA);
	cr_assert(cfi_build_page(b->cfi, 1, b->rows) > 10000);
	cfi_bench_free(b);
}

/* Only a section shows where the records end; otherwise the first terminator ends them. */
Test(cfi, records_after_a_terminator)
{
	struct cfi_bench *b = cfi_bench_new();
	size_t cie = made_cie(&b->frame, PCREL4), fde = made_fde(&b->frame, cie, START, 0x40);

	made_end(&b->frame, fde);
	made_uint(&b->frame, 0, 4);
	fde = made_fde(&b->frame, cie, START + 0x80, 0x40);
	made_end(&b->frame, fde);
	cr_assert_eq(cfi_bench_open(b), 0);
	CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE), cfi_row_sp(0x1100, 8),
		   cfi_row_of(0x1140, ROW_NONE), cfi_row_sp(0x1180, 8),
		   cfi_row_of(0x11c0, ROW_NONE));
	made_hdr(&b->hdr, &b->frame, NULL, 0);
	cr_assert_eq(cfi_bench_open(b), 0);
	CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE), cfi_row_sp(0x1100, 8),
		   cfi_row_of(0x1140, ROW_NONE));
	cfi_bench_free(b);
}

/* Long programs within the bounds. */
Test(cfi, long_programs)
{
	struct cfi_bench *b = cfi_bench_new();
	size_t cie = made_cie(&b->frame, PCREL4), fde;
	struct made_stack array;
	struct unwind_state s = made_stack_state(START);

	made_stack_init(&array);
	fde = made_fde(&b->frame, cie, START, 0x40);
	for (int i = 0; i < 500000; i++)
		MADE_OPS(&b->frame, DW_CFA_nop);
	MADE_OPS(&b->frame, DW_CFA_advance_loc | 8);
	made_end(&b->frame, fde);
	cr_assert_eq(cfi_bench_open(b), 0);
	CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE), cfi_row_sp(0x1100, 8),
		   cfi_row_of(0x1140, ROW_NONE));
	cr_assert_eq(cfi_step(b->cfi, 0x1110, &s, &array.reader), 0);
	cfi_bench_close(b);

	b->frame.len = 0;
	cie = made_cie(&b->frame, PCREL4);
	for (uint64_t nr = 0; nr < 16; nr++) {
		fde = made_fde(&b->frame, cie, START + 0x10 * nr, 0x10);
		for (int i = 0; i < 65000 * (nr < 15); i++)
			MADE_OPS(&b->frame, DW_CFA_nop);
		made_end(&b->frame, fde);
	}
	cr_assert_eq(cfi_bench_open(b), 0);
	CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE), cfi_row_sp(0x1100, 8),
		   cfi_row_of(0x1200, ROW_NONE));
	cfi_bench_free(b);
}

/*
 * Hostile: thousands of FDEs, each with another of more huge CIEs than are kept. The index is
 * given up, the page of a search table ends as rare, and one step is still possible.
 */
Test(cfi, work_is_bounded)
{
	static uint64_t entries[4000][2];
	struct cfi_bench *b = cfi_bench_new();
	struct made_stack array;
	struct unwind_state s = made_stack_state(START + 3999);
	double first, again;
	size_t cies[20], fde;
	int nr;

	for (int i = 0; i < 20; i++) {
		cies[i] = made_begin(&b->frame);
		made_uint(&b->frame, 0, 4);
		MADE_OPS(&b->frame, 1, 'z', 'R', 0, CIE_HEAD, 1, PCREL4, CIE_RULES);
		for (int k = 0; k < 40000; k++)
			made_u8(&b->frame, DW_CFA_nop);
		made_end(&b->frame, cies[i]);
	}
	for (uint64_t i = 0; i < 4000; i++) {
		fde = made_fde(&b->frame, cies[i % 20], START + i, 1);
		made_end(&b->frame, fde);
		entries[i][0] = START + i;
		entries[i][1] = fde;
	}
	cr_assert_eq(cfi_bench_open(b), 0);
	first = now_s();
	cr_assert_eq(cfi_build_page(b->cfi, 0, b->rows), -E2BIG);
	again = now_s();
	cr_assert_eq(cfi_build_page(b->cfi, 0, b->rows), -E2BIG);
	cr_assert(now_s() - again < (again - first) / 4, "the index is made again");

	made_hdr(&b->hdr, &b->frame, (const uint64_t(*)[2])entries, 4000);
	cr_assert_eq(cfi_bench_open(b), 0);
	nr = cfi_build_page(b->cfi, 0, b->rows);
	cr_assert_eq(nr, 3);
	cr_assert_eq(b->rows[1], cfi_row_sp(0x1100, 8));
	cr_assert_eq(unwind_row_kind(b->rows[2]), ROW_RARE);
	cr_assert_lt(unwind_row_low(b->rows[2]), 0x1100 + 4000);
	made_stack_init(&array);
	cr_assert_eq(cfi_step(b->cfi, 0x1100 + 3999, &s, &array.reader), 0);
	cfi_bench_free(b);
}
