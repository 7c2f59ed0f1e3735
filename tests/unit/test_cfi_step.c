// SPDX-License-Identifier: Apache-2.0
/* cfi_step(): expressions, and rules of every kind applied to registers. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dwarf.h>
#include <errno.h>
#include <string.h>

#include "unwind/cfi.h"
#include "unwind/reader.h"
#include "made_frame.h"
#include "unwind_native.h"
#include "cfi_bench.h"

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

/*
 * An expression as the rule of a register, where a failure leaves the register unknown, and as the
 * cfa, where it stops the walk.
 */
ParameterizedTest(struct expr_case *c, cfi, expressions)
{
	struct made_stack array;
	struct unwind_state s, before;

	made_stack_init(&array);
	for (int as_cfa = 0; as_cfa < 2; as_cfa++) {
		struct cfi_bench *b = cfi_bench_new();
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
		cr_assert_eq(cfi_bench_open(b), 0);
		s = made_stack_state(0x7000 + START);
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
		cfi_bench_free(b);
	}
}

/* Every kind of rule at once. */
Test(cfi, step_restores_registers)
{
	struct cfi_bench *b = cfi_bench_new();
	size_t cie = made_cie(&b->frame, PCREL4), fde;
	struct made_stack array;
	struct unwind_state s, before;

	fde = made_fde(&b->frame, cie, START, 16);
	MADE_OPS(&b->frame, DW_CFA_def_cfa_offset, 64, DW_CFA_offset | 6, 2, DW_CFA_offset | 12, 3,
		 DW_CFA_register, 13, 0, DW_CFA_val_offset, 14, 4, DW_CFA_expression, 15, 2,
		 DW_OP_breg7, 8, DW_CFA_undefined, 3, DW_CFA_same_value, 9);
	made_end(&b->frame, fde);
	cr_assert_eq(cfi_bench_open(b), 0);
	made_stack_init(&array);
	s = before = made_stack_state(START);
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
	cfi_bench_free(b);
}

/* vfork keeps its return address in a register; rbx is read only when it is needed. */
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
		struct cfi_bench *b = cfi_bench_new();
		size_t cie = made_cie(&b->frame, PCREL4), fde;
		struct made_stack array;
		struct unwind_state s = made_stack_state(START);

		fde = made_fde(&b->frame, cie, START, 16);
		made_bytes(&b->frame, cases[i].bytes, cases[i].len);
		made_end(&b->frame, fde);
		cr_assert_eq(cfi_bench_open(b), 0);
		made_stack_init(&array);
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
		cfi_bench_free(b);
	}
}
