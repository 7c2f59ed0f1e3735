// SPDX-License-Identifier: Apache-2.0
/* Tables with one record each: pointers, CIEs and programs in all forms, and malformed. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dwarf.h>
#include <string.h>

#include "unwind/cfi.h"
#include "unwind/reader.h"
#include "made_frame.h"
#include "unwind_native.h"
#include "cfi_bench.h"

struct pointer_case {
	char name[32];
	uint8_t enc;
	uint8_t bytes; /* 0: LEB */
	uint64_t value; /* written for the start of the function; pcrel: minus its place */
	bool bad;
};

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
	struct cfi_bench *b = cfi_bench_new();
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
	cr_assert_eq(cfi_bench_open(b), 0);
	if (c->bad)
		CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE));
	else
		CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE), cfi_row_sp(0x1100, 8),
			   cfi_row_of(0x1140, ROW_NONE));
	cfi_bench_free(b);
}

struct cie_case {
	char name[40];
	uint8_t bytes[48]; /* after the id */
	uint8_t len;
	bool bad;
};

#define CIE_CASE(name, bad, ...)                                                                   \
	{                                                                                          \
		name, { __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }), bad               \
	}

ParameterizedTestParameters(cfi, cies)
{
	static struct cie_case cases[] = {
		CIE_CASE("version 1", false, 1, 'z', 'R', 0, CIE_HEAD, 1, PCREL4, CIE_RULES),
		CIE_CASE("version 3", false, 3, 'z', 'R', 0, CIE_HEAD, 1, PCREL4, CIE_RULES),
		CIE_CASE("version 3: wide return register", false, 3, 'z', 'R', 0, 1, 0x78, 0x90, 0,
			 1, PCREL4, CIE_RULES),
		CIE_CASE("version 4", false, 4, 'z', 'R', 0, 8, 0, CIE_HEAD, 1, PCREL4, CIE_RULES),
		CIE_CASE("version 4: 32-bit addresses", true, 4, 'z', 'R', 0, 4, 0, CIE_HEAD, 1,
			 PCREL4, CIE_RULES),
		CIE_CASE("version 4: segments", true, 4, 'z', 'R', 0, 8, 2, CIE_HEAD, 1, PCREL4,
			 CIE_RULES),
		CIE_CASE("version 2", true, 2, 'z', 'R', 0, CIE_HEAD, 1, PCREL4, CIE_RULES),
		CIE_CASE("version 5", true, 5, 'z', 'R', 0, CIE_HEAD, 1, PCREL4, CIE_RULES),
		CIE_CASE("C++: personality and LSDA", false, 1, 'z', 'P', 'L', 'R', 0, CIE_HEAD, 7,
			 DW_EH_PE_indirect | PCREL4, 1, 2, 3, 4, PCREL4, PCREL4, CIE_RULES),
		CIE_CASE("order of letters", false, 1, 'z', 'R', 'L', 'P', 0, CIE_HEAD, 7, PCREL4,
			 PCREL4, PCREL4, 1, 2, 3, 4, CIE_RULES),
		CIE_CASE("pointer authentication letters", false, 1, 'z', 'R', 'B', 'G', 0,
			 CIE_HEAD, 1, PCREL4, CIE_RULES),
		CIE_CASE("unknown letter after R", false, 1, 'z', 'R', 'Q', 0, CIE_HEAD, 3, PCREL4,
			 9, 9, CIE_RULES),
		CIE_CASE("augmentation without z", true, 1, 'R', 0, CIE_HEAD, PCREL4, CIE_RULES),
		CIE_CASE("augmentation without end", true, 1, 'z', 'R', 'R', 'R', 'R', 'R', 'R',
			 'R', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 0, CIE_HEAD, 1,
			 PCREL4, CIE_RULES),
		CIE_CASE("augmentation data too long", true, 1, 'z', 'R', 0, CIE_HEAD, 100, PCREL4,
			 CIE_RULES),
		CIE_CASE("augmentation data too short", true, 1, 'z', 'R', 0, CIE_HEAD, 0,
			 CIE_RULES),
		CIE_CASE("instruction unknown", true, 1, 'z', 'R', 0, CIE_HEAD, 1, PCREL4,
			 CIE_RULES, 0x3f),
		CIE_CASE("instruction of another machine", true, 1, 'z', 'R', 0, CIE_HEAD, 1,
			 PCREL4, CIE_RULES, DW_CFA_GNU_window_save),
		CIE_CASE("restore in the CIE", true, 1, 'z', 'R', 0, CIE_HEAD, 1, PCREL4, CIE_RULES,
			 DW_CFA_restore | 6),
		CIE_CASE("advance in the CIE", true, 1, 'z', 'R', 0, CIE_HEAD, 1, PCREL4, CIE_RULES,
			 DW_CFA_advance_loc | 1),
		CIE_CASE("instruction cut off", true, 1, 'z', 'R', 0, CIE_HEAD, 1, PCREL4,
			 CIE_RULES, DW_CFA_nop, DW_CFA_nop, DW_CFA_def_cfa, 7),
		CIE_CASE("expression over the end", true, 1, 'z', 'R', 0, CIE_HEAD, 1, PCREL4,
			 CIE_RULES, DW_CFA_def_cfa_expression, 100),
		CIE_CASE("LEB over the end", true, 1, 'z', 'R', 0, CIE_HEAD, 1, PCREL4,
			 DW_CFA_def_cfa, 0x87, 0x80, 0x80, 0x80),
		CIE_CASE("LEB of eleven bytes", true, 1, 'z', 'R', 0, CIE_HEAD, 1, PCREL4,
			 CIE_RULES, DW_CFA_def_cfa_offset, 0x88, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
			 0x80, 0x80, 0x80, 0),
		CIE_CASE("LEB with zeros", false, 1, 'z', 'R', 0, CIE_HEAD, 1, PCREL4, CIE_RULES,
			 DW_CFA_def_cfa_offset, 0x88, 0x80, 0x80, 0),
	};

	return cr_make_param_array(struct cie_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct cie_case *c, cfi, cies)
{
	for (int with_hdr = 0; with_hdr < 2; with_hdr++) {
		struct cfi_bench *b = cfi_bench_new();
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
		cr_assert_eq(cfi_bench_open(b), 0);
		if (c->bad && with_hdr) /* the table says that code is there */
			CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE), cfi_row_of(0x1100, ROW_RARE));
		else if (c->bad)
			CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE));
		else
			CHECK_ROWS(b, 0, cfi_row_of(0, ROW_NONE), cfi_row_sp(0x1100, 8),
				   cfi_row_of(0x1140, ROW_NONE));
		cfi_bench_free(b);
	}
}

struct program_case {
	char name[40];
	uint8_t bytes[64]; /* instructions, after which the function continues for 8 bytes */
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
	struct cfi_bench *b = cfi_bench_new();
	size_t cie = made_cie(&b->frame, PCREL4), fde;
	uint64_t want[4] = { cfi_row_of(0, ROW_NONE), cfi_row_sp(0x1100, 40), c->row | 0x1108,
			     cfi_row_of(0x1110, ROW_NONE) };
	int nr;

	fde = made_fde(&b->frame, cie, START, 16);
	MADE_OPS(&b->frame, DW_CFA_def_cfa_offset, 40, DW_CFA_advance_loc | 8,
		 DW_CFA_def_cfa_offset, 8);
	made_bytes(&b->frame, c->bytes, c->len);
	made_end(&b->frame, fde);
	cr_assert_eq(cfi_bench_open(b), 0);
	nr = cfi_build_page(b->cfi, 0, b->rows);
	for (int i = 0; i < 4; i++)
		if (b->rows[i] != want[i])
			cr_assert(0, "%s: row %d is %#lx, not %#lx", c->name, i, b->rows[i],
				  want[i]);
	cr_assert_eq(nr, 4);
	cfi_bench_free(b);
}
