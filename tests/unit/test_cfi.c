// SPDX-License-Identifier: Apache-2.0
/*
 * The reader of .eh_frame over images made here: what compilers do not write, what is malformed,
 * and the exact rows. tests/hostbpf/test_libdw.c compares it with libdw over real files.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "elf/image.h"
#include "unwind/cfi.h"
#include "unwind/reader.h"
#include "made_frame.h"
#include "unwind_native.h"

#define PCREL4 (DW_EH_PE_pcrel | DW_EH_PE_sdata4)

struct bench { /* an image under test */
	struct made frame, hdr;
	struct elf_image *img;
	struct cfi *cfi;
	void *data;
	uint64_t rows[CFI_PAGE_MAX_ROWS];
};

static struct bench *bench_new(void)
{
	struct bench *b = calloc(1, sizeof(*b));

	cr_assert(b);
	made_init(&b->frame);
	made_init(&b->hdr);
	return b;
}

static void bench_close(struct bench *b)
{
	cfi_free(b->cfi);
	elf_image_free(b->img);
	free(b->data);
	b->cfi = NULL;
	b->img = NULL;
	b->data = NULL;
}

static int bench_open(struct bench *b)
{
	bench_close(b);
	b->img = made_image(&b->frame, b->hdr.len ? &b->hdr : NULL, &b->data);
	return cfi_new(&b->cfi, b->img);
}

static void bench_free(struct bench *b)
{
	bench_close(b);
	made_fini(&b->frame);
	made_fini(&b->hdr);
	free(b);
}

struct array_reader {
	struct unwind_reader reader; /* first */
	uint64_t words[32]; /* at 0x10000 */
};

static int array_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	struct array_reader *array = (struct array_reader *)reader;

	if (va < 0x10000 || va - 0x10000 > sizeof(array->words) - len)
		return -EFAULT;
	memcpy(dst, (char *)array->words + (va - 0x10000), len);
	return 0;
}

static void array_init(struct array_reader *array)
{
	array->reader.read = array_read;
	for (uint64_t i = 0; i < 32; i++)
		array->words[i] = 0xaa00 + i;
}

static struct unwind_state state_at(uint64_t pc)
{
	struct unwind_state s = { .valid = UNWIND_ALL_REGS, .exact = 1 };

	for (uint64_t i = 0; i < BPFPROF_NR_REGS; i++)
		s.regs[i] = 0x500 + i;
	s.regs[UNWIND_RSP] = 0x10000;
	s.regs[UNWIND_RIP] = pc;
	return s;
}

/* rsp + off with nothing saved, the end, nothing, rare: as the page has them. */
static uint64_t row_sp(uint32_t at, int32_t off)
{
	return unwind_row_make(at, ROW_CFA, UNWIND_RSP, off / 8, BP_SAME, 0, 0);
}

static uint64_t row_of(uint32_t at, enum unwind_row_kind kind)
{
	return unwind_row_make(at, kind, 0, 0, 0, 0, 0);
}

#define CHECK_ROWS(b, page, ...)                                                                   \
	check_rows(b, page, (const uint64_t[]){ __VA_ARGS__ },                                     \
		   sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t), __LINE__)

static void check_rows(struct bench *b, uint32_t page, const uint64_t *want, int nr, int line)
{
	int got = cfi_build_page(b->cfi, page, b->rows);

	for (int i = 0; i < got && i < nr; i++)
		cr_assert_eq(b->rows[i], want[i], "line %d: row %d is %#lx, not %#lx", line, i,
			     b->rows[i], want[i]);
	cr_assert_eq(got, nr, "line %d: %d rows, not %d", line, got, nr);
}

/* Two functions with a gap of one byte, one that crosses into the next page, two segments. */
Test(cfi, rows_of_pages)
{
	struct bench *b = bench_new();
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
		cr_assert_eq(bench_open(b), 0);
		CHECK_ROWS(b, 0, row_of(0, ROW_NONE), row_sp(0x1010, 8),
			   unwind_row_make(0x1011, ROW_CFA, 7, 2, BP_AT_CFA, -2, 0),
			   unwind_row_make(0x1014, ROW_CFA, 6, 2, BP_AT_CFA, -2, 0),
			   row_sp(0x101c, 8), row_of(0x1030, ROW_NONE), row_sp(0x1031, 8),
			   row_of(0x1050, ROW_NONE), row_sp(0xf000, 8), row_sp(0xf800, 16));
		CHECK_ROWS(b, 1, row_sp(0, 16), row_sp(0x800, 24), row_of(0x1000, ROW_NONE));
		CHECK_ROWS(b, 7, row_of(0, ROW_NONE));
		CHECK_ROWS(b, UINT32_MAX, row_of(0, ROW_NONE));
	}
	bench_free(b);
}

struct pointer_case {
	char name[32];
	uint8_t enc;
	uint8_t bytes; /* 0: LEB */
	uint64_t value; /* written for the start of the function; pcrel: minus its place */
	bool bad;
};

#define START (MADE_CODE1 + 0x100)

ParameterizedTestParameters(cfi, pointers)
{
	static struct pointer_case cases[] = {
		{ "absptr", DW_EH_PE_absptr, 8, START, false },
		{ "udata4", DW_EH_PE_udata4, 4, START, false },
		{ "sdata4", DW_EH_PE_sdata4, 4, START, false },
		{ "udata8", DW_EH_PE_udata8, 8, START, false },
		{ "sdata8", DW_EH_PE_sdata8, 8, START, false },
		{ "uleb128", DW_EH_PE_uleb128, 0, START, false },
		{ "sleb128", DW_EH_PE_sleb128, 0, START, false },
		{ "pcrel sdata4", PCREL4, 4, START, false },
		{ "pcrel sdata8", DW_EH_PE_pcrel | DW_EH_PE_sdata8, 8, START, false },
		{ "pcrel absptr", DW_EH_PE_pcrel | DW_EH_PE_absptr, 8, START, false },
		{ "aligned", DW_EH_PE_aligned, 8, START, false },
		{ "indirect", DW_EH_PE_indirect | DW_EH_PE_udata4, 4, MADE_FRAME_VA, false },
		{ "indirect, out of the file", DW_EH_PE_indirect | DW_EH_PE_udata4, 4, 16, true },
		{ "datarel", DW_EH_PE_datarel | DW_EH_PE_sdata4, 4, START, true },
		{ "textrel", DW_EH_PE_textrel | DW_EH_PE_sdata4, 4, START, true },
		{ "funcrel", DW_EH_PE_funcrel | DW_EH_PE_sdata4, 4, START, true },
		{ "unknown size", 0x05, 8, START, true },
		{ "omit", DW_EH_PE_omit, 8, START, true },
	};

	return cr_make_param_array(struct pointer_case, cases, sizeof(cases) / sizeof(cases[0]));
}

/* Writes a number as encoding c says, or its length of code, which is absolute. */
static void put_pointer(struct made *frame, const struct pointer_case *c, uint64_t value)
{
	if (c->enc == DW_EH_PE_aligned)
		while (frame->len % 8)
			made_u8(frame, 0);
	if (c->bytes)
		made_uint(frame, value, c->bytes);
	else if ((c->enc & 0x0f) == DW_EH_PE_uleb128)
		made_uleb(frame, value);
	else
		made_sleb(frame, (int64_t)value);
}

ParameterizedTest(struct pointer_case *c, cfi, pointers)
{
	struct bench *b = bench_new();
	size_t cie, fde;
	uint64_t value = c->value;

	made_uint(&b->frame, 12,
		  4); /* a CIE too short to be one, holding what indirect points to */
	made_uint(&b->frame, 0, 4);
	made_uint(&b->frame, 0, 8);
	if (c->value == MADE_FRAME_VA) {
		memcpy(b->frame.data + 8, &(uint64_t){ START }, 8);
		value += 8;
	}
	cie = made_cie(&b->frame, c->enc);
	if (b->frame.len % 8 == 0) { /* so that an aligned pointer needs bytes before it */
		made_uint(&b->frame, 8, 4);
		made_uint(&b->frame, 0, 8);
	}
	fde = made_begin(&b->frame);
	made_uint(&b->frame, b->frame.len - cie, 4);
	if ((c->enc & 0x70) == DW_EH_PE_pcrel && c->enc != DW_EH_PE_omit)
		value -= MADE_FRAME_VA + b->frame.len;
	put_pointer(&b->frame, c, value);
	if (c->enc == DW_EH_PE_aligned) /* only the start is aligned, which it now is */
		made_uint(&b->frame, 0x40, 8);
	else
		put_pointer(&b->frame, c, 0x40);
	made_uleb(&b->frame, 0);
	made_end(&b->frame, fde);
	cr_assert_eq(bench_open(b), 0);
	if (c->bad)
		CHECK_ROWS(b, 0, row_of(0, ROW_NONE));
	else
		CHECK_ROWS(b, 0, row_of(0, ROW_NONE), row_sp(0x1100, 8), row_of(0x1140, ROW_NONE));
	bench_free(b);
}

struct cie_case {
	char name[40];
	uint8_t bytes[48]; /* after the id */
	uint8_t len;
	bool bad;
};

/* Code alignment, data alignment, return address; then what the rules need. */
#define HEAD 1, 0x78, 16
#define RULES DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1
#define CIE_CASE(name, bad, ...)                                                                   \
	{                                                                                          \
		name, { __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }), bad               \
	}

ParameterizedTestParameters(cfi, cies)
{
	static struct cie_case cases[] = {
		CIE_CASE("version 1", false, 1, 'z', 'R', 0, HEAD, 1, PCREL4, RULES),
		CIE_CASE("version 3", false, 3, 'z', 'R', 0, HEAD, 1, PCREL4, RULES),
		CIE_CASE("version 3: wide return register", false, 3, 'z', 'R', 0, 1, 0x78, 0x90, 0,
			 1, PCREL4, RULES),
		CIE_CASE("version 4", false, 4, 'z', 'R', 0, 8, 0, HEAD, 1, PCREL4, RULES),
		CIE_CASE("version 4: 32-bit addresses", true, 4, 'z', 'R', 0, 4, 0, HEAD, 1, PCREL4,
			 RULES),
		CIE_CASE("version 4: segments", true, 4, 'z', 'R', 0, 8, 2, HEAD, 1, PCREL4, RULES),
		CIE_CASE("version 2", true, 2, 'z', 'R', 0, HEAD, 1, PCREL4, RULES),
		CIE_CASE("version 5", true, 5, 'z', 'R', 0, HEAD, 1, PCREL4, RULES),
		CIE_CASE("C++: personality and LSDA", false, 1, 'z', 'P', 'L', 'R', 0, HEAD, 7,
			 DW_EH_PE_indirect | PCREL4, 1, 2, 3, 4, PCREL4, PCREL4, RULES),
		CIE_CASE("order of letters", false, 1, 'z', 'R', 'L', 'P', 0, HEAD, 7, PCREL4,
			 PCREL4, PCREL4, 1, 2, 3, 4, RULES),
		CIE_CASE("pointer authentication letters", false, 1, 'z', 'R', 'B', 'G', 0, HEAD, 1,
			 PCREL4, RULES),
		CIE_CASE("unknown letter after R", false, 1, 'z', 'R', 'Q', 0, HEAD, 3, PCREL4, 9,
			 9, RULES),
		CIE_CASE("augmentation without z", true, 1, 'R', 0, HEAD, PCREL4, RULES),
		CIE_CASE("augmentation without end", true, 1, 'z', 'R', 'R', 'R', 'R', 'R', 'R',
			 'R', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 0, HEAD, 1, PCREL4,
			 RULES),
		CIE_CASE("augmentation data too long", true, 1, 'z', 'R', 0, HEAD, 100, PCREL4,
			 RULES),
		CIE_CASE("augmentation data too short", true, 1, 'z', 'R', 0, HEAD, 0, RULES),
		CIE_CASE("instruction unknown", true, 1, 'z', 'R', 0, HEAD, 1, PCREL4, RULES, 0x3f),
		CIE_CASE("instruction of another machine", true, 1, 'z', 'R', 0, HEAD, 1, PCREL4,
			 RULES, DW_CFA_GNU_window_save),
		CIE_CASE("restore in the CIE", true, 1, 'z', 'R', 0, HEAD, 1, PCREL4, RULES,
			 DW_CFA_restore | 6),
		CIE_CASE("advance in the CIE", true, 1, 'z', 'R', 0, HEAD, 1, PCREL4, RULES,
			 DW_CFA_advance_loc | 1),
		CIE_CASE("instruction cut off", true, 1, 'z', 'R', 0, HEAD, 1, PCREL4, RULES,
			 DW_CFA_nop, DW_CFA_nop, DW_CFA_def_cfa, 7),
		CIE_CASE("expression over the end", true, 1, 'z', 'R', 0, HEAD, 1, PCREL4, RULES,
			 DW_CFA_def_cfa_expression, 100),
		CIE_CASE("LEB over the end", true, 1, 'z', 'R', 0, HEAD, 1, PCREL4, DW_CFA_def_cfa,
			 0x87, 0x80, 0x80, 0x80),
		CIE_CASE("LEB of eleven bytes", true, 1, 'z', 'R', 0, HEAD, 1, PCREL4, RULES,
			 DW_CFA_def_cfa_offset, 0x88, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
			 0x80, 0x80, 0),
		CIE_CASE("LEB with zeros", false, 1, 'z', 'R', 0, HEAD, 1, PCREL4, RULES,
			 DW_CFA_def_cfa_offset, 0x88, 0x80, 0x80, 0),
	};

	return cr_make_param_array(struct cie_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct cie_case *c, cfi, cies)
{
	for (int with_hdr = 0; with_hdr < 2; with_hdr++) {
		struct bench *b = bench_new();
		size_t cie = made_begin(&b->frame), fde;

		made_uint(&b->frame, 0, 4);
		made_bytes(&b->frame, c->bytes, c->len);
		/* Cut-off instructions must be the very end. */
		memcpy(b->frame.data, &(uint32_t){ (uint32_t)b->frame.len - 4 }, 4);
		fde = made_fde(&b->frame, cie, START, 0x40);
		made_end(&b->frame, fde);
		if (with_hdr) {
			const uint64_t entry[1][2] = { { START, fde } };

			made_hdr(&b->hdr, &b->frame, entry, 1);
		}
		cr_assert_eq(bench_open(b), 0);
		if (c->bad && with_hdr) /* the table says that code is there */
			CHECK_ROWS(b, 0, row_of(0, ROW_NONE), row_of(0x1100, ROW_RARE));
		else if (c->bad)
			CHECK_ROWS(b, 0, row_of(0, ROW_NONE));
		else
			CHECK_ROWS(b, 0, row_of(0, ROW_NONE), row_sp(0x1100, 8),
				   row_of(0x1140, ROW_NONE));
		bench_free(b);
	}
}

struct program_case {
	char name[40];
	uint8_t bytes[64]; /* instructions after which the function goes on for 8 bytes */
	uint8_t len;
	uint64_t row; /* there */
};

#define PROGRAM(name, row, ...)                                                                    \
	{                                                                                          \
		name, { __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }), row               \
	}
/* By the layout that unwind_native.h documents, as a constant. */
#define ROW(kind, reg, off, rule, bp_off, second)                                                  \
	((uint64_t)(kind) << 16 | (uint64_t)(reg) << 20 | (uint64_t)((off) / 8 & 0xffff) << 24 |   \
	 (uint64_t)(rule) << 40 | (uint64_t)((bp_off) / 8 & 0x3fff) << 42 |                        \
	 (uint64_t)((second)&0xff) << 56)
#define RARE ROW(ROW_RARE, 0, 0, 0, 0, 0)
#define SP(off, rule, bp_off, bx) ROW(ROW_CFA, 7, off, rule, bp_off, bx)
#define PLT(threshold)                                                                             \
	DW_CFA_def_cfa_expression, 11, DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and,    \
		DW_OP_lit0 + (threshold), DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus

ParameterizedTestParameters(cfi, programs)
{
	static struct program_case cases[] = {
		PROGRAM("nothing", SP(8, BP_SAME, 0, 0), DW_CFA_nop),
		PROGRAM("def_cfa_sf", SP(24, BP_SAME, 0, 0), DW_CFA_def_cfa_sf, 7, 0x7d),
		PROGRAM("def_cfa_offset_sf", SP(24, BP_SAME, 0, 0), DW_CFA_def_cfa_offset_sf, 0x7d),
		PROGRAM("args_size", SP(8, BP_SAME, 0, 0), DW_CFA_GNU_args_size, 16),
		PROGRAM("offset_extended", SP(8, BP_AT_CFA, -16, 0), DW_CFA_offset_extended, 6, 2),
		PROGRAM("offset_extended_sf", SP(8, BP_AT_CFA, -16, 0), DW_CFA_offset_extended_sf,
			6, 2),
		PROGRAM("negative_offset_extended", SP(8, BP_AT_CFA, 16, 0),
			DW_CFA_GNU_negative_offset_extended, 6, 2),
		PROGRAM("restore_extended", SP(8, BP_SAME, 0, 0), DW_CFA_offset | 6, 2,
			DW_CFA_restore_extended, 6),
		PROGRAM("undefined rbp", SP(8, BP_LOST, 0, 0), DW_CFA_undefined, 6),
		PROGRAM("same_value rbp", SP(8, BP_SAME, 0, 0), DW_CFA_offset | 6, 2,
			DW_CFA_same_value, 6),
		PROGRAM("rbp in a register", RARE, DW_CFA_register, 6, 11),
		PROGRAM("rbp in rbp", SP(8, BP_SAME, 0, 0), DW_CFA_register, 6, 6),
		PROGRAM("rbp is a cfa offset", RARE, DW_CFA_val_offset, 6, 2),
		PROGRAM("rbp at rbp + 16", SP(8, BP_AT_BP, 16, 0), DW_CFA_expression, 6, 2,
			DW_OP_breg6, 16),
		PROGRAM("rbp at rsp - 8", SP(8, BP_AT_CFA, -16, 0), DW_CFA_expression, 6, 2,
			DW_OP_breg7, 0x78),
		PROGRAM("rbp at rax", RARE, DW_CFA_expression, 6, 2, DW_OP_breg0, 0),
		PROGRAM("rbp at *rbp", RARE, DW_CFA_expression, 6, 3, DW_OP_breg6, 0, DW_OP_deref),
		PROGRAM("rbp too far", RARE, DW_CFA_offset | 6, 0x81, 0x40),
		PROGRAM("rbp as far as can be", SP(8, BP_AT_CFA, -0x10000, 0), DW_CFA_offset | 6,
			0x80, 0x40),
		PROGRAM("rbx saved", SP(8, BP_SAME, 0, -3), DW_CFA_offset | 3, 3),
		PROGRAM("rbx as far as can be", SP(8, BP_SAME, 0, -128), DW_CFA_offset | 3, 0x80,
			1),
		PROGRAM("rbx too far: lost", SP(8, BP_SAME, 0, 1), DW_CFA_offset | 3, 0x81, 1),
		PROGRAM("rbx undefined", SP(8, BP_SAME, 0, 1), DW_CFA_undefined, 3),
		PROGRAM("vector register", SP(8, BP_SAME, 0, 0), DW_CFA_offset_extended, 0x80, 1,
			2),
		PROGRAM("remember and restore", SP(16, BP_AT_CFA, -16, 0), DW_CFA_def_cfa_offset,
			16, DW_CFA_offset | 6, 2, DW_CFA_remember_state, DW_CFA_def_cfa, 6, 64,
			DW_CFA_undefined, 6, DW_CFA_restore_state),
		PROGRAM("restore without remember", RARE, DW_CFA_restore_state),
		PROGRAM("remembered too often", RARE, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10,
			10, 10, 10, 10, 10, DW_CFA_remember_state),
		PROGRAM("remembered often", SP(8, BP_SAME, 0, 0), 10, 10, 10, 10, 10, 10, 10, 10,
			10, 10, 10, 10, 10, 10, 10, 10),
		PROGRAM("return address undefined", ROW(ROW_END, 0, 0, 0, 0, 0), DW_CFA_undefined,
			16),
		PROGRAM("return address elsewhere", RARE, DW_CFA_offset | 16, 2),
		PROGRAM("return address in a register", RARE, DW_CFA_register, 16, 5),
		PROGRAM("return address unchanged", RARE, DW_CFA_same_value, 16),
		PROGRAM("rsp saved", RARE, DW_CFA_offset | 7, 2),
		PROGRAM("rsp is the cfa", SP(8, BP_SAME, 0, 0), DW_CFA_val_offset, 7, 0),
		PROGRAM("rsp is not the cfa", RARE, DW_CFA_val_offset, 7, 1),
		PROGRAM("offset not of words", RARE, DW_CFA_def_cfa_offset, 12),
		PROGRAM("largest offset", SP(0x3fff8, BP_SAME, 0, 0), DW_CFA_def_cfa_offset, 0xf8,
			0xff, 0x0f),
		PROGRAM("offset too large", RARE, DW_CFA_def_cfa_offset, 0x80, 0x80, 0x10),
		PROGRAM("smallest offset", ROW(ROW_CFA, 3, -0x40000, 0, 0, 0), DW_CFA_def_cfa_sf, 3,
			0x80, 0x80, 2),
		PROGRAM("offset too small", RARE, DW_CFA_def_cfa_sf, 3, 0x81, 0x80, 2),
		PROGRAM("negative offset as clang has it", ROW(ROW_CFA, 3, -64, 0, 0, 0),
			DW_CFA_def_cfa, 3, 0xc0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
		PROGRAM("cfa on rip", RARE, DW_CFA_def_cfa, 16, 8),
		PROGRAM("cfa on no register", RARE, DW_CFA_def_cfa, 0xff, 0xff, 3, 8),
		PROGRAM("register without a cfa register", RARE, DW_CFA_def_cfa_expression, 2,
			DW_OP_breg7, 8, DW_CFA_def_cfa_register, 6),
		PROGRAM("offset without a cfa register", RARE, DW_CFA_def_cfa_expression, 2,
			DW_OP_breg7, 8, DW_CFA_def_cfa_offset, 16),
		PROGRAM("expression of reg and offset", SP(16, BP_SAME, 0, 0),
			DW_CFA_def_cfa_expression, 4, DW_OP_breg7, 8, DW_OP_plus_uconst, 8),
		PROGRAM("expression of bregx", ROW(ROW_CFA, 12, -8, 0, 0, 0),
			DW_CFA_def_cfa_expression, 3, DW_OP_bregx, 12, 0x78),
		PROGRAM("plt", ROW(ROW_PLT, 7, 8, 0, 0, 11), PLT(11)),
		PROGRAM("plt of the IBT kind", ROW(ROW_PLT, 7, 8, 0, 0, 10), PLT(10)),
		PROGRAM("plt that loses rbx", RARE, PLT(11), DW_CFA_undefined, 3),
		PROGRAM("plt, 9", ROW(ROW_PLT, 7, 8, 0, 0, 9), PLT(9)),
		PROGRAM("plt with another mask", RARE, DW_CFA_def_cfa_expression, 11, DW_OP_breg7,
			8, DW_OP_breg16, 0, DW_OP_lit7, DW_OP_and, DW_OP_lit11, DW_OP_ge,
			DW_OP_lit3, DW_OP_shl, DW_OP_plus),
		PROGRAM("plt with more", RARE, DW_CFA_def_cfa_expression, 12, DW_OP_breg7, 8,
			DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and, DW_OP_lit11, DW_OP_ge, DW_OP_lit3,
			DW_OP_shl, DW_OP_plus, DW_OP_not),
		PROGRAM("deref", ROW(ROW_DEREF, 6, -8, BP_AT_BP, 0, 0), DW_CFA_def_cfa_expression,
			3, DW_OP_breg6, 0x78, DW_OP_deref, DW_CFA_expression, 6, 2, DW_OP_breg6, 0),
		PROGRAM("deref and addend", ROW(ROW_DEREF, 7, 16, 0, 0, -2),
			DW_CFA_def_cfa_expression, 6, DW_OP_breg7, 8, DW_OP_lit8, DW_OP_plus,
			DW_OP_deref, DW_OP_nop, DW_CFA_def_cfa_expression, 6, DW_OP_breg7, 16,
			DW_OP_deref, DW_OP_const1s, 16, DW_OP_minus),
		PROGRAM("deref and too large an addend", RARE, DW_CFA_def_cfa_expression, 6,
			DW_OP_breg7, 16, DW_OP_deref, DW_OP_plus_uconst, 0x80, 8),
		PROGRAM("deref twice", RARE, DW_CFA_def_cfa_expression, 4, DW_OP_breg7, 16,
			DW_OP_deref, DW_OP_deref),
		PROGRAM("index", ROW(ROW_INDEX, 9, 8, 0, 0, 1), DW_CFA_def_cfa_expression, 10,
			DW_OP_breg7, 8, DW_OP_breg9, 0, DW_OP_lit8, DW_OP_mul, DW_OP_plus,
			DW_OP_deref, DW_OP_plus_uconst, 8),
		PROGRAM("index without deref", RARE, DW_CFA_def_cfa_expression, 7, DW_OP_breg7, 8,
			DW_OP_breg9, 0, DW_OP_lit8, DW_OP_mul, DW_OP_plus),
		PROGRAM("index with an offset", RARE, DW_CFA_def_cfa_expression, 10, DW_OP_breg7, 8,
			DW_OP_breg9, 8, DW_OP_lit8, DW_OP_mul, DW_OP_plus, DW_OP_deref,
			DW_OP_plus_uconst, 8),
		PROGRAM("index by bytes", RARE, DW_CFA_def_cfa_expression, 10, DW_OP_breg7, 8,
			DW_OP_breg9, 0, DW_OP_lit4, DW_OP_mul, DW_OP_plus, DW_OP_deref,
			DW_OP_plus_uconst, 8),
		PROGRAM("expression cut off", RARE, DW_CFA_def_cfa_expression, 1, DW_OP_breg7),
		PROGRAM("expression of nothing", RARE, DW_CFA_def_cfa_expression, 0),
		PROGRAM("instruction unknown", RARE, 0x3f),
	};

	return cr_make_param_array(struct program_case, cases, sizeof(cases) / sizeof(cases[0]));
}

/* Eight bytes under the rule of the CIE, then eight under the case's, then another function. */
ParameterizedTest(struct program_case *c, cfi, programs)
{
	struct bench *b = bench_new();
	size_t cie = made_cie(&b->frame, PCREL4), fde;
	uint64_t want[4] = { row_of(0, ROW_NONE), row_sp(0x1100, 40), c->row | 0x1108,
			     row_of(0x1110, ROW_NONE) };
	int nr;

	fde = made_fde(&b->frame, cie, START, 16);
	MADE_OPS(&b->frame, DW_CFA_def_cfa_offset, 40, DW_CFA_advance_loc | 8,
		 DW_CFA_def_cfa_offset, 8);
	made_bytes(&b->frame, c->bytes, c->len);
	made_end(&b->frame, fde);
	cr_assert_eq(bench_open(b), 0);
	nr = cfi_build_page(b->cfi, 0, b->rows);
	for (int i = 0; i < 4; i++)
		if (b->rows[i] != want[i])
			cr_assert(0, "%s: row %d is %#lx, not %#lx", c->name, i, b->rows[i],
				  want[i]);
	cr_assert_eq(nr, 4);
	bench_free(b);
}

/* set_loc and 64-bit records, of both kinds. */
Test(cfi, wide_records)
{
	for (int id_bytes = 4; id_bytes <= 8; id_bytes += 4) {
		struct bench *b = bench_new();
		uint64_t len;
		size_t fde;

		made_uint(&b->frame, UINT32_MAX, 4);
		made_uint(&b->frame, 0, 8);
		made_uint(&b->frame, 0, (size_t)id_bytes);
		MADE_OPS(&b->frame, 1, 'z', 'R', 0, HEAD, 1, DW_EH_PE_absptr, RULES);
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

		cr_assert_eq(bench_open(b), 0);
		CHECK_ROWS(b, 0, row_of(0, ROW_NONE), row_sp(0x1100, 8), row_sp(0x1120, 16),
			   row_of(0x1140, ROW_NONE));
		bench_free(b);
	}
}

/* Places in the code may not go back, nor wrap. */
Test(cfi, locations_that_go_back)
{
	struct bench *b = bench_new();
	size_t cie = made_cie(&b->frame, DW_EH_PE_absptr), fde;

	fde = made_begin(&b->frame);
	made_uint(&b->frame, b->frame.len - cie, 4);
	made_uint(&b->frame, START, 8);
	made_uint(&b->frame, 0x40, 8);
	made_uleb(&b->frame, 0);
	MADE_OPS(&b->frame, DW_CFA_advance_loc | 0x10, DW_CFA_def_cfa_offset, 16, DW_CFA_set_loc);
	made_uint(&b->frame, START + 8, 8);
	made_end(&b->frame, fde);
	cr_assert_eq(bench_open(b), 0);
	CHECK_ROWS(b, 0, row_of(0, ROW_NONE), row_sp(0x1100, 8), row_of(0x1110, ROW_RARE),
		   row_of(0x1140, ROW_NONE));
	bench_free(b);
}

/* glibc's __restore_rt, and one with a register in the wrong place. */
Test(cfi, signal_frame)
{
	static const uint8_t order[] = { 8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16 };

	struct array_reader array;
	struct unwind_state s;

	array_init(&array);
	for (int variant = 0; variant < 4; variant++) {
		struct bench *b = bench_new();
		size_t cie = made_begin(&b->frame), fde;
		int base = variant == 1 ? 56 : 40;

		made_uint(&b->frame, 0, 4);
		MADE_OPS(&b->frame, 1, 'z', 'R', 'S', 0, HEAD, 1, PCREL4);
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
		cr_assert_eq(bench_open(b), 0);
		CHECK_ROWS(b, 0, row_of(0, ROW_NONE),
			   variant >= 2 ? row_of(0x10ff, ROW_RARE)
					: unwind_row_make(0x10ff, ROW_SIGNAL, UNWIND_RSP, base / 8,
							  0, 0, 0),
			   row_of(0x1109, ROW_NONE));
		s = state_at(START);
		cr_assert_eq(cfi_step(b->cfi, 0x1100, &s, &array.reader), 0);
		for (uint64_t i = 0; i < 17; i++) /* rsp is lower: it was another stack */
			if (variant != 2 || i != 9)
				cr_assert_eq(s.regs[order[i]], 0xaa00 + (uint64_t)base / 8 + i);
		cr_assert_eq(s.valid, UNWIND_ALL_REGS);
		cr_assert_eq(s.exact, 1);
		bench_free(b);
	}
}

/* Several functions at one address, of which one has code; functions that overlap. */
Test(cfi, empty_and_overlapping_functions)
{
	for (int with_hdr = 0; with_hdr < 2; with_hdr++) {
		struct bench *b = bench_new();
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
		cr_assert_eq(bench_open(b), 0);
		CHECK_ROWS(b, 0, row_of(0, ROW_NONE), row_sp(0x1100, 8), row_sp(0x1120, 16),
			   row_of(0x1130, ROW_NONE));
		bench_free(b);
	}
}

/* What a search table may say that is not so. */
Test(cfi, malformed_table)
{
	struct bench *b = bench_new();
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
		  { row_of(0, ROW_NONE), row_of(0x1100, ROW_RARE), row_sp(0x1110, 8),
		    row_of(0x1120, ROW_RARE) } },
		/* no FDE at all: a CIE, and nothing */
		{ { { START, cie }, { START + 0x10, f[1] }, { START + 0x20, other } },
		  { row_of(0, ROW_NONE), row_of(0x1100, ROW_RARE), row_sp(0x1110, 8),
		    row_of(0x1120, ROW_RARE) } },
		/* not sorted */
		{ { { START, f[0] }, { START + 0x10, f[1] }, { START, f[0] } },
		  { row_of(0, ROW_NONE), row_sp(0x1100, 8), row_of(0x1110, ROW_RARE),
		    row_of(0x5000, ROW_NONE) } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		b->hdr.len = 0;
		made_hdr(&b->hdr, &b->frame, (const uint64_t(*)[2])cases[i].entries, 3);
		cr_assert_eq(bench_open(b), 0);
		check_rows(b, 0, cases[i].rows, 4, (int)i);
	}
	bench_free(b);
}

/* Headers of the table that say less, or nothing that can be used. */
Test(cfi, table_headers)
{
	struct bench *b = bench_new();
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
		cr_assert_eq(bench_open(b), cases[i].err, "case %zu", i);
		if (!cases[i].err)
			CHECK_ROWS(b, 0, row_of(0, ROW_NONE), row_sp(0x1100, 8),
				   row_of(0x1140, ROW_NONE));
	}
	bench_free(b);
}

/* Without section headers and search table, the records are found by their looks. */
Test(cfi, found_by_scanning)
{
	struct bench *b = bench_new();
	size_t cie, fde;
	Elf64_Ehdr *eh;

	made_uint(&b->frame, 0x14, 4); /* looks like one at first */
	made_uint(&b->frame, 0, 4);
	MADE_OPS(&b->frame, 1, 'z', 'R', 0, 1, 0x78, 16, 1, PCREL4, 0x3f, 0x3f, 0x3f);
	cie = made_cie(&b->frame, PCREL4);
	fde = made_fde(&b->frame, cie, START, 0x40);
	made_end(&b->frame, fde);
	made_uint(&b->frame, 0, 4);
	cr_assert_eq(bench_open(b), 0);
	cfi_free(b->cfi);
	b->cfi = NULL;
	elf_image_free(b->img);
	eh = b->data;
	eh->e_shnum = eh->e_shstrndx = 0;
	eh->e_shoff = 0;
	cr_assert_eq(elf_image_open_memory(&b->img, b->data, MADE_FRAME_OFF + b->frame.len + 64),
		     0);
	cr_assert_eq(cfi_new(&b->cfi, b->img), 0);
	CHECK_ROWS(b, 0, row_of(0, ROW_NONE), row_sp(0x1100, 8), row_of(0x1140, ROW_NONE));
	bench_free(b);
}

Test(cfi, nothing_there)
{
	struct bench *b = bench_new();

	cr_assert_eq(bench_open(b), 0);
	CHECK_ROWS(b, 0, row_of(0, ROW_NONE));
	made_uint(&b->frame, 0, 4);
	cr_assert_eq(bench_open(b), 0); /* a section, but nothing in it */
	CHECK_ROWS(b, 0, row_of(0, ROW_NONE));
	CHECK_ROWS(b, 0, row_of(0, ROW_NONE));
	bench_free(b);
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
	struct bench *b = bench_new();
	size_t cie = made_cie(&b->frame, PCREL4), fde;
	uint64_t last;

	fde = made_fde(&b->frame, cie, MADE_CODE2, 0x14000); /* from file 0x5000 on */
	for (int i = 0; i < 0x14000 / 2; i++)
		MADE_OPS(&b->frame, DW_CFA_advance_loc | 2, DW_CFA_def_cfa_offset, i & 1 ? 8 : 16);
	made_end(&b->frame, fde);
	cr_assert_eq(bench_open(b), 0);
	cr_assert_eq(cfi_build_page(b->cfi, 0, b->rows), CFI_PAGE_MAX_ROWS);
	last = b->rows[CFI_PAGE_MAX_ROWS - 1];
	cr_assert_eq(unwind_row_kind(last), ROW_RARE);
	cr_assert_eq(unwind_row_low(last), 0x5000 + 2 * (CFI_PAGE_MAX_ROWS - 2));
	cr_assert_eq(unwind_row_kind(b->rows[CFI_PAGE_MAX_ROWS - 2]), ROW_CFA);
	cr_assert(cfi_build_page(b->cfi, 1, b->rows) > 10000);
	bench_free(b);
}

/* Only a section says where the records end; else it is the first terminator. */
Test(cfi, records_after_a_terminator)
{
	struct bench *b = bench_new();
	size_t cie = made_cie(&b->frame, PCREL4), fde = made_fde(&b->frame, cie, START, 0x40);

	made_end(&b->frame, fde);
	made_uint(&b->frame, 0, 4);
	fde = made_fde(&b->frame, cie, START + 0x80, 0x40);
	made_end(&b->frame, fde);
	cr_assert_eq(bench_open(b), 0);
	CHECK_ROWS(b, 0, row_of(0, ROW_NONE), row_sp(0x1100, 8), row_of(0x1140, ROW_NONE),
		   row_sp(0x1180, 8), row_of(0x11c0, ROW_NONE));
	made_hdr(&b->hdr, &b->frame, NULL, 0);
	cr_assert_eq(bench_open(b), 0);
	CHECK_ROWS(b, 0, row_of(0, ROW_NONE), row_sp(0x1100, 8), row_of(0x1140, ROW_NONE));
	bench_free(b);
}

/* Long programs within the bounds. */
Test(cfi, long_programs)
{
	struct bench *b = bench_new();
	size_t cie = made_cie(&b->frame, PCREL4), fde;
	struct array_reader array;
	struct unwind_state s = state_at(START);

	array_init(&array);
	fde = made_fde(&b->frame, cie, START, 0x40);
	for (int i = 0; i < 500000; i++)
		MADE_OPS(&b->frame, DW_CFA_nop);
	MADE_OPS(&b->frame, DW_CFA_advance_loc | 8);
	made_end(&b->frame, fde);
	cr_assert_eq(bench_open(b), 0);
	CHECK_ROWS(b, 0, row_of(0, ROW_NONE), row_sp(0x1100, 8), row_of(0x1140, ROW_NONE));
	cr_assert_eq(cfi_step(b->cfi, 0x1110, &s, &array.reader), 0);
	bench_close(b);

	b->frame.len = 0;
	cie = made_cie(&b->frame, PCREL4);
	for (uint64_t nr = 0; nr < 16; nr++) {
		fde = made_fde(&b->frame, cie, START + 0x10 * nr, 0x10);
		for (int i = 0; i < 65000 * (nr < 15); i++)
			MADE_OPS(&b->frame, DW_CFA_nop);
		made_end(&b->frame, fde);
	}
	cr_assert_eq(bench_open(b), 0);
	CHECK_ROWS(b, 0, row_of(0, ROW_NONE), row_sp(0x1100, 8), row_of(0x1200, ROW_NONE));
	bench_free(b);
}

/*
 * Hostile: thousands of FDEs, each with another of more huge CIEs than are kept. The index is
 * given up, the page of a search table ends as rare, and one step is still possible.
 */
Test(cfi, work_is_bounded)
{
	static uint64_t entries[4000][2];
	struct bench *b = bench_new();
	struct array_reader array;
	struct unwind_state s = state_at(START + 3999);
	double first, again;
	size_t cies[20], fde;
	int nr;

	for (int i = 0; i < 20; i++) {
		cies[i] = made_begin(&b->frame);
		made_uint(&b->frame, 0, 4);
		MADE_OPS(&b->frame, 1, 'z', 'R', 0, HEAD, 1, PCREL4, RULES);
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
	cr_assert_eq(bench_open(b), 0);
	first = now_s();
	cr_assert_eq(cfi_build_page(b->cfi, 0, b->rows), -E2BIG);
	again = now_s();
	cr_assert_eq(cfi_build_page(b->cfi, 0, b->rows), -E2BIG);
	cr_assert(now_s() - again < (again - first) / 4, "the index is made again");

	made_hdr(&b->hdr, &b->frame, (const uint64_t(*)[2])entries, 4000);
	cr_assert_eq(bench_open(b), 0);
	nr = cfi_build_page(b->cfi, 0, b->rows);
	cr_assert_eq(nr, 3);
	cr_assert_eq(b->rows[1], row_sp(0x1100, 8));
	cr_assert_eq(unwind_row_kind(b->rows[2]), ROW_RARE);
	cr_assert_lt(unwind_row_low(b->rows[2]), 0x1100 + 4000);
	array_init(&array);
	cr_assert_eq(cfi_step(b->cfi, 0x1100 + 3999, &s, &array.reader), 0);
	bench_free(b);
}

/* cfi_step() */

struct expr_case {
	char name[40];
	uint8_t bytes[40];
	uint8_t len;
	int stop;
	uint64_t value; /* of rbx, by val_expression; at the start the cfa is on the stack */
};

#define EXPR(name, stop, value, ...)                                                               \
	{                                                                                          \
		name, { __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }), stop, value       \
	}
#define C8(x) DW_OP_const1s, (uint8_t)(x)

ParameterizedTestParameters(cfi, expressions)
{
	static struct expr_case cases[] = {
		EXPR("the cfa", 0, 0x10008, DW_OP_nop),
		EXPR("literal", 0, 31, DW_OP_lit31),
		EXPR("const1u", 0, 0xff, DW_OP_const1u, 0xff),
		EXPR("const1s", 0, -1ULL, DW_OP_const1s, 0xff),
		EXPR("const2u", 0, 0xfffe, DW_OP_const2u, 0xfe, 0xff),
		EXPR("const2s", 0, -2ULL, DW_OP_const2s, 0xfe, 0xff),
		EXPR("const4u", 0, 0xfffffffd, DW_OP_const4u, 0xfd, 0xff, 0xff, 0xff),
		EXPR("const4s", 0, -3ULL, DW_OP_const4s, 0xfd, 0xff, 0xff, 0xff),
		EXPR("const8u", 0, 0x0807060504030201, DW_OP_const8u, 1, 2, 3, 4, 5, 6, 7, 8),
		EXPR("constu", 0, 0x3fff, DW_OP_constu, 0xff, 0x7f),
		EXPR("consts", 0, -64ULL, DW_OP_consts, 0x40),
		EXPR("addr", 0, 0x7000 + START, DW_OP_addr, 0, 0x11, 0x40, 0, 0, 0, 0, 0),
		EXPR("breg", 0, 0x50c - 1, DW_OP_breg12, 0x7f),
		EXPR("bregx", 0, 0x50c + 1, DW_OP_bregx, 12, 1),
		EXPR("breg without a value", BPFPROF_STOP_REG_LOST, 0, DW_OP_breg11, 0),
		EXPR("breg of no register", BPFPROF_STOP_BAD_CFI, 0, DW_OP_breg31, 0),
		EXPR("deref", 0, 0xaa01, DW_OP_deref),
		EXPR("deref_size 1", 0, 0x01, DW_OP_deref_size, 1),
		EXPR("deref_size 2", 0, 0xaa01, DW_OP_deref_size, 2),
		EXPR("deref_size 0", BPFPROF_STOP_BAD_CFI, 0, DW_OP_deref_size, 0),
		EXPR("deref_size 9", BPFPROF_STOP_BAD_CFI, 0, DW_OP_deref_size, 9),
		EXPR("deref of nowhere", BPFPROF_STOP_READ_FAULT, 0, DW_OP_lit0, DW_OP_deref),
		EXPR("dup", 0, 10, DW_OP_lit5, DW_OP_dup, DW_OP_plus),
		EXPR("drop", 0, 1, DW_OP_lit1, DW_OP_lit2, DW_OP_drop),
		EXPR("over", 0, 1, DW_OP_lit1, DW_OP_lit2, DW_OP_over),
		EXPR("pick", 0, 1, DW_OP_lit1, DW_OP_lit2, DW_OP_lit3, DW_OP_pick, 2),
		EXPR("pick too deep", BPFPROF_STOP_BAD_CFI, 0, DW_OP_pick, 1),
		EXPR("swap", 0, -1ULL, DW_OP_lit3, DW_OP_lit2, DW_OP_swap, DW_OP_minus),
		/* 1 2 3 -> 3 1 2: top 2, then 1, then 3 */
		EXPR("rot, top", 0, 2, DW_OP_lit1, DW_OP_lit2, DW_OP_lit3, DW_OP_rot),
		EXPR("rot, second", 0, 1, DW_OP_lit1, DW_OP_lit2, DW_OP_lit3, DW_OP_rot,
		     DW_OP_drop),
		EXPR("rot, third", 0, 3, DW_OP_lit1, DW_OP_lit2, DW_OP_lit3, DW_OP_rot, DW_OP_drop,
		     DW_OP_drop),
		EXPR("rot of too few", BPFPROF_STOP_BAD_CFI, 0, DW_OP_lit1, DW_OP_rot),
		EXPR("abs", 0, 7, C8(-7), DW_OP_abs),
		EXPR("abs of the smallest", 0, 1ULL << 63, DW_OP_const8u, 0, 0, 0, 0, 0, 0, 0, 0x80,
		     DW_OP_abs),
		EXPR("neg", 0, -7ULL, DW_OP_lit7, DW_OP_neg),
		EXPR("not", 0, ~7ULL, DW_OP_lit7, DW_OP_not),
		EXPR("and", 0, 4, DW_OP_lit6, DW_OP_lit12, DW_OP_and),
		EXPR("or", 0, 14, DW_OP_lit6, DW_OP_lit12, DW_OP_or),
		EXPR("xor", 0, 10, DW_OP_lit6, DW_OP_lit12, DW_OP_xor),
		EXPR("minus", 0, -6ULL, DW_OP_lit6, DW_OP_lit12, DW_OP_minus),
		EXPR("mul", 0, -42ULL, C8(-6), DW_OP_lit7, DW_OP_mul),
		EXPR("div", 0, -3ULL, C8(-7), DW_OP_lit2, DW_OP_div),
		EXPR("div by -1", 0, 1ULL << 63, DW_OP_const8u, 0, 0, 0, 0, 0, 0, 0, 0x80, C8(-1),
		     DW_OP_div),
		EXPR("div by 0", BPFPROF_STOP_BAD_CFI, 0, DW_OP_lit1, DW_OP_lit0, DW_OP_div),
		EXPR("mod", 0, 1, DW_OP_lit7, DW_OP_lit3, DW_OP_mod),
		EXPR("mod by 0", BPFPROF_STOP_BAD_CFI, 0, DW_OP_lit1, DW_OP_lit0, DW_OP_mod),
		EXPR("shl", 0, 40, DW_OP_lit5, DW_OP_lit3, DW_OP_shl),
		EXPR("shl by 64", 0, 0, DW_OP_lit5, DW_OP_const1u, 64, DW_OP_shl),
		EXPR("shr", 0, 0x7fffffffffffffff, C8(-1), DW_OP_lit1, DW_OP_shr),
		EXPR("shr by 64", 0, 0, C8(-1), DW_OP_const1u, 64, DW_OP_shr),
		EXPR("shra", 0, -2ULL, C8(-8), DW_OP_lit2, DW_OP_shra),
		EXPR("shra by 64", 0, -1ULL, C8(-8), DW_OP_const1u, 64, DW_OP_shra),
		EXPR("eq", 0, 0, DW_OP_lit5, DW_OP_lit3, DW_OP_eq),
		EXPR("ne", 0, 1, DW_OP_lit5, DW_OP_lit3, DW_OP_ne),
		EXPR("ge is signed", 0, 0, C8(-1), DW_OP_lit3, DW_OP_ge),
		EXPR("ge of equals", 0, 1, DW_OP_lit3, DW_OP_lit3, DW_OP_ge),
		EXPR("gt of equals", 0, 0, DW_OP_lit3, DW_OP_lit3, DW_OP_gt),
		EXPR("le of equals", 0, 1, DW_OP_lit3, DW_OP_lit3, DW_OP_le),
		EXPR("lt is signed", 0, 1, C8(-1), DW_OP_lit3, DW_OP_lt),
		EXPR("one operand", BPFPROF_STOP_BAD_CFI, 0, DW_OP_drop, DW_OP_lit1, DW_OP_plus),
		EXPR("nothing left", BPFPROF_STOP_BAD_CFI, 0, DW_OP_drop),
		EXPR("skip", 0, 1, DW_OP_lit1, DW_OP_skip, 1, 0, DW_OP_lit2),
		EXPR("skip to the end", 0, 1, DW_OP_lit1, DW_OP_skip, 0, 0),
		EXPR("skip past the end", BPFPROF_STOP_BAD_CFI, 0, DW_OP_skip, 1, 0),
		EXPR("skip before the start", BPFPROF_STOP_BAD_CFI, 0, DW_OP_skip, 0xfc, 0xff),
		EXPR("endless", BPFPROF_STOP_BAD_CFI, 0, DW_OP_skip, 0xfd, 0xff),
		EXPR("bra taken", 0, 1, DW_OP_lit1, DW_OP_lit9, DW_OP_bra, 1, 0, DW_OP_lit2),
		EXPR("bra not taken", 0, 2, DW_OP_lit1, DW_OP_lit0, DW_OP_bra, 1, 0, DW_OP_lit2),
		/* 10 times: add 2, count down */
		EXPR("loop", 0, 20, DW_OP_lit0, DW_OP_lit10, DW_OP_swap, DW_OP_lit2, DW_OP_plus,
		     DW_OP_swap, DW_OP_lit1, DW_OP_minus, DW_OP_dup, DW_OP_bra, 0xf6, 0xff,
		     DW_OP_drop),
		EXPR("stack overflow", BPFPROF_STOP_BAD_CFI, 0, DW_OP_dup, DW_OP_skip, 0xfc, 0xff),
		EXPR("operation unknown", BPFPROF_STOP_BAD_CFI, 0, 0xfe),
		EXPR("not in call frames", BPFPROF_STOP_BAD_CFI, 0, DW_OP_call_frame_cfa),
		EXPR("cut off", BPFPROF_STOP_BAD_CFI, 0, DW_OP_const8u, 1, 2),
	};

	return cr_make_param_array(struct expr_case, cases, sizeof(cases) / sizeof(cases[0]));
}

/* As the rule of a register, where a failure leaves it unknown, and as the cfa, where it stops. */
ParameterizedTest(struct expr_case *c, cfi, expressions)
{
	struct array_reader array;
	struct unwind_state s, before;

	array_init(&array);
	for (int as_cfa = 0; as_cfa < 2; as_cfa++) {
		struct bench *b = bench_new();
		size_t cie = made_cie(&b->frame, PCREL4), fde;

		fde = made_fde(&b->frame, cie, START, 16);
		if (as_cfa)
			MADE_OPS(&b->frame, DW_CFA_def_cfa_expression);
		else
			MADE_OPS(&b->frame, DW_CFA_val_expression, 3);
		made_uleb(&b->frame, c->len + (as_cfa ? 2U : 0U));
		if (as_cfa)
			MADE_OPS(&b->frame, DW_OP_breg7, 8);
		made_bytes(&b->frame, c->bytes, c->len);
		made_end(&b->frame, fde);
		cr_assert_eq(bench_open(b), 0);
		s = state_at(0x7000 + START);
		s.valid &= ~(1U << 11);
		before = s;
		if (as_cfa && c->stop) {
			/* with two more bytes before it, one jump lands inside */
			if (strcmp(c->name, "skip before the start"))
				cr_assert_eq(cfi_step(b->cfi, 0x1100, &s, &array.reader), c->stop,
					     "%s", c->name);
			cr_assert(!memcmp(&s, &before, sizeof(s)), "%s", c->name);
		} else if (!as_cfa) {
			cr_assert_eq(cfi_step(b->cfi, 0x1100, &s, &array.reader), 0, "%s", c->name);
			cr_assert_eq(s.valid >> 3 & 1, c->stop ? 0U : 1U, "%s", c->name);
			if (!c->stop)
				cr_assert_eq(s.regs[3], c->value, "%s: %llx", c->name, s.regs[3]);
		}
		bench_free(b);
	}
}

/* Every kind of rule at once. */
Test(cfi, step_restores_registers)
{
	struct bench *b = bench_new();
	size_t cie = made_cie(&b->frame, PCREL4), fde;
	struct array_reader array;
	struct unwind_state s, before;

	fde = made_fde(&b->frame, cie, START, 16);
	MADE_OPS(&b->frame, DW_CFA_def_cfa_offset, 64, DW_CFA_offset | 6, 2, DW_CFA_offset | 12, 3,
		 DW_CFA_register, 13, 0, DW_CFA_val_offset, 14, 4, DW_CFA_expression, 15, 2,
		 DW_OP_breg7, 8, DW_CFA_undefined, 3, DW_CFA_same_value, 9);
	made_end(&b->frame, fde);
	cr_assert_eq(bench_open(b), 0);
	array_init(&array);
	s = before = state_at(START);
	cr_assert_eq(cfi_step(b->cfi, 0x1100, &s, &array.reader), 0);
	cr_assert_eq(s.regs[7], 0x10040); /* cfa */
	cr_assert_eq(s.regs[16], 0xaa07); /* at cfa - 8 */
	cr_assert_eq(s.regs[6], 0xaa06); /* at cfa - 16 */
	cr_assert_eq(s.regs[12], 0xaa05); /* at cfa - 24 */
	cr_assert_eq(s.regs[13], 0x500); /* rax */
	cr_assert_eq(s.regs[14], 0x10040 - 32);
	cr_assert_eq(s.regs[15], 0xaa01); /* at rsp + 8 */
	cr_assert_eq(s.regs[9], 0x509);
	cr_assert_eq(s.valid, 1U << 6 | 1U << 7 | 1U << 9 | 15U << 12 | 1U << 16);
	cr_assert_eq(s.exact, 0);

	s = before;
	cr_assert_eq(cfi_step(b->cfi, 0x1110, &s, &array.reader), BPFPROF_STOP_NO_TABLE);
	cr_assert_eq(cfi_step(b->cfi, 0x10ff, &s, &array.reader), BPFPROF_STOP_NO_TABLE);
	cr_assert_eq(cfi_step(b->cfi, 0x10, &s, &array.reader), BPFPROF_STOP_NO_TABLE);
	cr_assert_eq(cfi_step(b->cfi, 1ULL << 40, &s, &array.reader), BPFPROF_STOP_NO_TABLE);
	s.regs[UNWIND_RSP] = 0x10000 + sizeof(array.words) - 56;
	cr_assert_eq(cfi_step(b->cfi, 0x1100, &s, &array.reader), BPFPROF_STOP_READ_FAULT);
	s.regs[UNWIND_RSP] = -64ULL;
	cr_assert_eq(cfi_step(b->cfi, 0x1100, &s, &array.reader), BPFPROF_STOP_READ_FAULT);
	s = before;
	s.valid &= ~(1U << UNWIND_RSP);
	cr_assert_eq(cfi_step(b->cfi, 0x1100, &s, &array.reader), BPFPROF_STOP_REG_LOST);
	s = before;
	array.words[7] = 0;
	cr_assert_eq(cfi_step(b->cfi, 0x1100, &s, &array.reader), BPFPROF_STOP_COMPLETE);
	bench_free(b);
}

/* vfork keeps its return address in a register; where rbx lies is read when it is asked for. */
Test(cfi, step_of_rare_rules)
{
	static const struct {
		uint8_t bytes[16];
		uint8_t len;
		int stop;
		uint64_t rip, rsp;
	} cases[] = {
		{ { DW_CFA_register, 16, 5 }, 3, 0, 0x505, 0x10008 },
		{ { DW_CFA_register, 16, 5, DW_CFA_def_cfa_offset, 0 }, 5, 0, 0x505, 0x10000 },
		{ { DW_CFA_offset | 16, 0x7e }, 2, BPFPROF_STOP_READ_FAULT, 0, 0 },
		{ { DW_CFA_offset_extended_sf, 16, 0x7e }, 3, 0, 0xaa03, 0x10008 },
		{ { DW_CFA_undefined, 16 }, 2, BPFPROF_STOP_COMPLETE, 0, 0 },
		{ { DW_CFA_def_cfa_offset, 12 }, 2, 0, 0xaa0100000000, 0x1000c },
		{ { DW_CFA_def_cfa_offset, 0 }, 2, BPFPROF_STOP_READ_FAULT, 0, 0 },
		{ { DW_CFA_val_offset_sf, 7, 0x7f }, 3, 0, 0xaa00, 0x10010 },
		{ { DW_CFA_val_offset, 7, 1 }, 3, BPFPROF_STOP_BAD_FRAME, 0, 0 },
		{ { DW_CFA_def_cfa, 3, 16 }, 3, 0, 0xaa0b, 0x10060 },
		{ { 0x3f }, 1, BPFPROF_STOP_BAD_CFI, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bench *b = bench_new();
		size_t cie = made_cie(&b->frame, PCREL4), fde;
		struct array_reader array;
		struct unwind_state s = state_at(START);

		fde = made_fde(&b->frame, cie, START, 16);
		made_bytes(&b->frame, cases[i].bytes, cases[i].len);
		made_end(&b->frame, fde);
		cr_assert_eq(bench_open(b), 0);
		array_init(&array);
		array.words[20] = 0x10050;
		s.regs[UNWIND_RBX] = 0x10000 + 20 * 8;
		s.valid = (s.valid & ~(1U << UNWIND_RBX)) | UNWIND_RBX_SAVED;
		cr_assert_eq(cfi_step(b->cfi, 0x1100, &s, &array.reader), cases[i].stop, "case %zu",
			     i);
		if (!cases[i].stop) {
			cr_assert_eq(s.regs[UNWIND_RIP], cases[i].rip, "case %zu: %llx", i,
				     s.regs[UNWIND_RIP]);
			cr_assert_eq(s.regs[UNWIND_RSP], cases[i].rsp, "case %zu", i);
			cr_assert_eq(s.regs[UNWIND_RBX], 0x10050, "case %zu", i);
			cr_assert(s.valid & 1U << UNWIND_RBX);
		}
		bench_free(b);
	}
}
