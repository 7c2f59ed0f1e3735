// SPDX-License-Identifier: Apache-2.0
/* cfi_learn(): later pages contain the learned rules. */
#include <criterion/criterion.h>
#include <errno.h>

#include "unwind/cfi.h"
#include "unwind/insn_unwind.h"
#include "unwind/reader.h"
#include "unwind_native.h"
#include "code_bench.h"

Test(insn_rules, learned_in_page)
{
	struct code_bench b;
	uint64_t f, a, e, off;
	struct judge judge = PLEASED;
	bool next = false;

	code_bench_open(
		&b, "x: call g\n g: sub $24,%rsp\n a: call x\n c: nop\n d: add $24,%rsp\n e: ret\n"
		    ".p2align 8\n" TABLE "z: nop\n");
	f = code_place(&b, "g");
	a = code_place(&b, "a");
	e = code_place(&b, "e");
	cr_assert_eq(code_page_row(&b, f, NULL), row_none(0));
	cr_assert_eq(code_learn(&b, f, true, &judge), 0);
	cr_assert_eq(judge.row, code_row_sp(8));
	cr_assert_eq(code_page_row(&b, f, NULL), code_row_sp(8));
	cr_assert_eq(code_page_row(&b, a, NULL), code_row_sp(32));
	cr_assert_eq(code_page_row(&b, e, NULL), code_row_sp(8));
	/* The code around it is not explored yet, and does not look like the start of a stack. */
	for (off = f - 3; off < f; off++) {
		cr_assert_eq(code_page_row(&b, off, &next), row_none(UNWIND_NO_START));
		cr_assert(unwind_row_unexplored(row_none(UNWIND_NO_START)));
		cr_assert(!unwind_row_starts_stack(code_page_row(&b, off, NULL), 7, 8));
	}
	cr_assert(next);
	cr_assert_eq(code_page_row(&b, e + 1, NULL), row_none(0));
	/* Code before a function with tables does. */
	cr_assert(unwind_row_starts_stack(code_page_row(&b, code_place(&b, "t") - 1, NULL), 7, 8));
	cr_assert_eq(code_page_row(&b, code_place(&b, "t"), NULL), code_row_sp(8));
	/* Outside of the segment nothing can be found, and this is known then. */
	cr_assert_eq(code_learn(&b, 0x50000, true, &judge), 0);
	cr_assert_eq(code_page_row(&b, 0x50000, NULL), row_unproven(0));
	cr_assert_eq(code_page_row(&b, 0x50010, NULL), row_none(0));
	code_bench_close(&b);
}

Test(insn_rules, learned_by_return_address)
{
	struct code_bench b;
	uint64_t c, d;
	struct judge judge = PLEASED;

	code_bench_open(
		&b,
		"f: sub $24,%rsp\n call x\n c: nop\n d: add $24,%rsp\n e: ret\n x: ret\n" TABLE);
	c = code_place(&b, "c");
	d = code_place(&b, "d");
	cr_assert_eq(code_learn(&b, c - 1, false, &judge), 0);
	cr_assert_eq(judge.row, code_row_sp(32));
	cr_assert_eq(code_page_row(&b, c - 1, NULL), code_row_sp(32));
	cr_assert_eq(code_page_row(&b, c - 2, NULL), row_none(UNWIND_NO_START));
	cr_assert_eq(code_page_row(&b, d, NULL), code_row_sp(32));
	/* Learned again from an earlier start: both results agree, and no rule is there twice. */
	cr_assert_eq(code_learn(&b, code_place(&b, "f"), true, &judge), 0);
	cr_assert_eq(code_page_row(&b, code_place(&b, "f"), NULL), code_row_sp(8));
	cr_assert_eq(code_page_row(&b, c - 1, NULL), code_row_sp(32));
	cr_assert_eq(code_page_row(&b, c - 2, NULL), code_row_sp(32));
	code_bench_close(&b);
}

Test(insn_rules, refused)
{
	struct code_bench b;
	uint64_t f;
	struct judge judge = PLEASED, no = { .verdict = CFI_REFUSED };
	bool next;

	code_bench_open(&b,
			".p2align 4\n .skip 12,0x90\n f: jmp f; nop; nop\n g: nop; pop %rax; ret\n"
			".p2align 6\n .skip 14,0x90\n h: hlt; hlt\n .p2align 6\n" TABLE);
	f = code_place(&b, "f");
	cr_assert_eq(code_learn(&b, f, true, &no), 0);
	cr_assert_eq(no.here, 0);
	/* Nothing is learned up to the end of the block. */
	cr_assert_eq(code_page_row(&b, f, NULL), row_unproven(0));
	cr_assert_eq(code_page_row(&b, f + 3, &next), row_unproven(0));
	cr_assert(next);
	cr_assert_eq(code_page_row(&b, f + 4, NULL), row_none(0));
	/* The code has a rule; only the process whose stack contradicts it has none. */
	no.row = 0;
	cr_assert_eq(code_learn(&b, f + 4, true, &no), 0);
	cr_assert_eq(no.row, code_row_sp(16));
	cr_assert_eq(no.here, row_unproven(0));
	cr_assert_eq(code_page_row(&b, f + 4, NULL), row_none(0));
	/* The code learned behind it is not the start of a stack either. */
	cr_assert_eq(code_learn(&b, f + 4, true, &judge), 0);
	cr_assert_eq(code_page_row(&b, f + 3, &next), row_unproven(0));
	cr_assert(next);
	/* Code without a way to a ret: the table that follows rules its own code. */
	cr_assert_eq(code_learn(&b, code_place(&b, "h"), true, &judge), 0);
	cr_assert_eq(code_page_row(&b, code_place(&b, "h"), &next), row_unproven(0));
	cr_assert_eq(code_page_row(&b, code_place(&b, "t"), NULL), code_row_sp(8));
	cr_assert(unwind_row_starts_stack(code_page_row(&b, code_place(&b, "t") - 1, NULL), 7, 8));
	code_bench_close(&b);
}

Test(insn_rules, learned_across_pages)
{
	struct code_bench b;
	uint64_t f;
	struct judge judge = PLEASED;

	code_bench_open(&b,
			TABLE ".skip 0x1ff00-(.-t),0xcc\n f: push %rax; .rept 0x200; nop; .endr\n"
			      "pop %rax\n e: ret\n");
	f = code_place(&b, "f");
	cr_assert_neq(f >> 16, code_place(&b, "e") >> 16);
	cr_assert_eq(code_learn(&b, code_place(&b, "e") - 8, true, &judge), 0);
	cr_assert_eq(code_page_row(&b, code_place(&b, "e"), NULL), code_row_sp(8));
	cr_assert_eq(code_learn(&b, f, true, &judge), 0);
	cr_assert_eq(code_page_row(&b, f, NULL), code_row_sp(8));
	cr_assert_eq(code_page_row(&b, f | 0xffff, NULL), code_row_sp(16));
	cr_assert_eq(code_page_row(&b, (f | 0xffff) + 1, NULL), code_row_sp(16));
	code_bench_close(&b);
}

/* There is more than fits: everything is forgotten, and the last request is known. */
Test(insn_rules, learned_overflow)
{
	struct code_bench b;
	uint64_t f;
	struct judge judge = PLEASED;
	size_t most = 0;
	int i;

	/* Functions with seven rows each. */
	code_bench_open(&b, TABLE ".p2align 6\n f: .rept 1300\n push %rax; push %rax; push %rax\n"
				  "pop %rax; pop %rax; pop %rax; ret\n .p2align 4\n .endr\n");
	f = code_place(&b, "f");
	for (i = 0; i < 1300; i++) {
		cr_assert_eq(code_learn(&b, f + 16 * (uint64_t)i, true, &judge), 0);
		if (!i)
			cr_assert_eq(code_page_row(&b, f, NULL), code_row_sp(8));
		most = cfi_bytes(b.cfi) > most ? cfi_bytes(b.cfi) : most;
	}
	cr_assert_leq(most, 8192 * sizeof(struct insn_rule) + 8192);
	cr_assert_eq(code_page_row(&b, f, NULL), row_none(UNWIND_NO_START));
	cr_assert_eq(code_page_row(&b, f + 16 * 1299 + 6, NULL), code_row_sp(8));
	code_bench_close(&b);
}

#define NEIGHBOURS                                                                                 \
	".globl f\n .hidden x\n .type f,@function\n f: push %rbp; mov %rsp,%rbp; sub %rdi,%rsp\n"  \
	"test %rdi,%rdi; jne n; leave; ret\n n: call x\n .p2align 4\n"                             \
	"g: push %rbx; mov %rdi,%rbx; call x\n h: add %rbx,%rax; pop %rbx; ret\n"                  \
	".p2align 4\n x: ret\n"

Test(insn_rules, neighbour_without_a_name)
{
	struct judge judge = PLEASED;
	struct code_bench b;
	uint64_t h, g;

	code_bench_open(&b, NEIGHBOURS);
	code_bench_link(&b, "-shared");
	h = code_place(&b, "h");
	g = code_place(&b, "g");
	b.nr = cfi_insn_rules(b.cfi, CODE_FROM_START, h, true, NULL, b.rules, MAX_RULES);
	cr_expect_eq(code_row_at(&b, h - 1), 0, "%lx", code_row_at(&b, h - 1));
	/* The code after the last call belongs to another function. */
	b.nr = cfi_insn_rules(b.cfi, CODE_TO_RETURN, code_place(&b, "n") + 5, true, NULL, b.rules,
			      MAX_RULES);
	cr_expect_eq(b.nr, -ENODATA);
	cr_assert_eq(code_learn(&b, h - 1, false, &judge), 0);
	cr_assert_eq(code_page_row(&b, h - 1, NULL),
		     unwind_row_make(0, ROW_CFA, UNWIND_RSP, 2, BP_SAME, 0, -2));
	cr_assert_eq(code_learn(&b, g, true, &judge), 0);
	cr_assert_eq(code_page_row(&b, g, NULL), code_row_sp(8));
	code_bench_close(&b);
}

/*
 * A jump of the named function may lead to it through a table. No known jump leads to the code
 * behind its end.
 */
Test(insn_rules, jumps_of_a_neighbour)
{
	struct code_bench b;

	code_bench_open(&b,
			".globl f\n .type f,@function\n f: sub $24,%rsp; jmp *%rdi\n .p2align 4\n"
			"g: push %rbx\n a: nop; jmp a\n");
	code_bench_link(&b, "-shared");
	b.nr = cfi_insn_rules(b.cfi, CODE_FROM_START, code_place(&b, "a"), false, NULL, b.rules,
			      MAX_RULES);
	cr_assert_eq(code_row_at(&b, code_place(&b, "a")), 0, "%lx",
		     code_row_at(&b, code_place(&b, "a")));
	code_bench_close(&b);
}

/* The stack of one process must not set rules for other processes with the same file. */
Test(insn_rules, stack_against_code)
{
	struct judge hostile = { .verdict = CFI_PROVEN, .frame_pointer = true }, judge = PLEASED;
	uint64_t right = unwind_row_make(0, ROW_CFA, UNWIND_RSP, 2, BP_SAME, 0, -2);
	struct code_bench b;
	uint64_t h;

	code_bench_open(&b, NEIGHBOURS);
	code_bench_link(&b, "-shared");
	h = code_place(&b, "h");
	hostile.refused = right;
	cr_assert_eq(code_learn(&b, h - 1, false, &hostile), 0);
	cr_assert_eq(hostile.here, row_unproven(0));
	cr_assert_eq(code_page_row(&b, h - 1, NULL), row_none(0));
	cr_assert_eq(code_learn(&b, h - 1, false, &judge), 0);
	cr_assert_eq(judge.here, 0);
	cr_assert_eq(code_page_row(&b, h - 1, NULL), right);
	code_bench_close(&b);
	/*
	 * This code does not show where it returns: a frame pointer that leads on is used for its
	 * process.
	 */
	code_bench_open(&b, ".globl f\n f: ret\n .p2align 4\n a: inc %rax; jmp a\n");
	code_bench_link(&b, "-shared");
	hostile = (struct judge){ .verdict = CFI_REFUSED, .frame_pointer = true };
	cr_assert_eq(code_learn(&b, code_place(&b, "a"), true, &hostile), 0);
	cr_assert_eq(hostile.here, unwind_row_make(0, ROW_CFA, UNWIND_RBP, 2, BP_AT_CFA, -2, 1));
	cr_assert_eq(code_page_row(&b, code_place(&b, "a"), NULL), row_none(0));
	code_bench_close(&b);
}

/* Is the entry point the first code of a program? Linkers write one into libraries, too. */
Test(insn_rules, entry_points)
{
	static const struct {
		char options[24], entry[16];
		bool begins;
	} cases[] = {
		{ "-shared -e f", "f", false },
		{ "-pie -e f", "f", true },
		{ "-static -e f", "f", true },
		/* The dynamic loader is a library by its headers. */
		{ "-shared -e loader", "loader", true },
	};
	uint64_t row, end = unwind_row_make(0, ROW_END, 0, 0, 0, 0, 0);
	struct judge judge;
	struct code_bench b;

	code_bench_open(&b, ".globl f,loader\n f: nop; ret\n .p2align 4\n"
			    "loader: xor %rbp,%rbp; mov %rsp,%rdi; call f\n hlt\n");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		judge = (struct judge)PLEASED;
		code_bench_link(&b, cases[i].options);
		cr_assert_eq(code_learn(&b, code_place(&b, cases[i].entry), true, &judge), 0);
		row = code_page_row(&b, code_place(&b, cases[i].entry), NULL);
		cr_expect_eq(row == end, cases[i].begins, "%s: %lx", cases[i].options, row);
	}
	code_bench_close(&b);
}
