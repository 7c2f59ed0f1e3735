// SPDX-License-Identifier: Apache-2.0
/*
 * Rules found in code that is assembled here. The assembly shows the right result;
 * tests/hostbpf/test_code_rules.c compares them with the tables of installed libraries.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/image.h"
#include "unwind/cfi.h"
#include "unwind/insn_unwind.h"
#include "unwind/reader.h"
#include "test_elf_fixture.h"
#include "unwind_native.h"
#include "code_bench.h"

#define MAX_WANTED 8
#define ASM_SOURCE "tests/system/targets/asm.S"

/* cfa = register + off; rbp saved at cfa + bp_off (if it is); rbx: 0 same, 1 lost, n at cfa + 8n */
#define ROW(reg, off, bp, bp_off, rbx)                                                             \
	{                                                                                          \
		ROW_CFA, reg, off, bp, bp_off, rbx                                                 \
	}
#define SP(off) ROW(UNWIND_RSP, off, BP_SAME, 0, 0)
#define DEREF(reg, off, second, bp, bp_off)                                                        \
	{                                                                                          \
		ROW_DEREF, reg, off, bp, bp_off, (second) / 8                                      \
	}
#define NOTHING                                                                                    \
	{                                                                                          \
		ROW_INVALID, 0, 0, 0, 0, 0                                                         \
	}
#define NO_RULES                                                                                   \
	{                                                                                          \
		{                                                                                  \
			"", NOTHING                                                                \
		}                                                                                  \
	}
#define RBP UNWIND_RBP
#define RSP UNWIND_RSP
#define R10 10

struct wanted_row {
	enum unwind_row_kind kind;
	uint32_t reg;
	int32_t off;
	enum unwind_bp_rule bp;
	int32_t bp_off, second;
};

struct wanted {
	char label[4];
	struct wanted_row row; /* ROW_INVALID: no rule */
};

struct code_case {
	char name[48];
	char from[4]; /* label to begin at */
	char code[1024];
	struct wanted want[MAX_WANTED]; /* NO_RULES: -ENODATA */
};

static uint64_t row_of(const struct wanted_row *want)
{
	return want->kind ? unwind_row_make(0, want->kind, want->reg, want->off / 8, want->bp,
					    want->bp_off / 8, want->second)
			  : 0;
}

static void find(struct code_bench *b, const char *from, size_t cap)
{
	struct code_area area = { .img = b->img,
				  .start = b->seg->off,
				  .end = b->seg->off + b->seg->file_bytes };
	int i;

	b->nr = insn_unwind_find(&area, code_place(b, from), b->rules, cap);
	for (i = 0; i < b->nr; i++) {
		cr_assert(b->rules[i].len && !(b->rules[i].row & 0xffff));
		cr_assert_geq(b->rules[i].off, area.start);
		cr_assert_leq(b->rules[i].off + b->rules[i].len, area.end);
		cr_assert(!i || b->rules[i - 1].off + b->rules[i - 1].len <= b->rules[i].off);
	}
}

ParameterizedTestParameters(insn_rules, rows)
{
	static struct code_case cases[] = {
		{ "a plain leaf",
		  "f",
		  "f: mov %rdi,%rax; add %rsi,%rax\n e: ret",
		  { { "f", SP(8) }, { "e", SP(8) } } },
		{ "push and pop",
		  "f",
		  "f: push %rbp\n a: push %rbx\n b: mov %rdi,%rbp; mov %rsi,%rbx\n c: nop; pop "
		  "%rbx\n"
		  "d: pop %rbp\n e: ret",
		  { { "f", SP(8) },
		    { "a", SP(16) },
		    { "b", SP(24) },
		    { "c", ROW(RSP, 24, BP_AT_CFA, -16, -3) },
		    { "d", ROW(RSP, 16, BP_AT_CFA, -16, 0) },
		    { "e", SP(8) } } },
		{ "push and pop, from the middle",
		  "c",
		  "f: push %rbp; push %rbx; mov %rdi,%rbp; mov %rsi,%rbx\n c: nop; pop %rbx\n"
		  "d: pop %rbp\n e: ret",
		  { { "f", NOTHING },
		    { "c", ROW(RSP, 24, BP_AT_CFA, -16, -3) },
		    { "d", ROW(RSP, 16, BP_AT_CFA, -16, 0) },
		    { "e", SP(8) } } },
		{ "sub and add",
		  "f",
		  "f: sub $40,%rsp\n a: add $1,%rax; add $40,%rsp\n e: ret",
		  { { "f", SP(8) }, { "a", SP(48) }, { "e", SP(8) } } },
		{ "a big frame",
		  "f",
		  "f: sub $0x1000,%rsp\n a: sub $-4096,%rsp\n e: ret",
		  { { "a", SP(0x1008) }, { "e", SP(8) } } },
		{ "lea moves the stack pointer",
		  "f",
		  "f: lea -64(%rsp),%rsp\n a: nop; lea 64(%rsp),%rsp\n e: ret",
		  { { "a", SP(72) }, { "e", SP(8) } } },
		{ "rbp saved by mov, used as a counter",
		  "f",
		  "f: sub $24,%rsp; mov %rbp,8(%rsp)\n a: mov $3,%ebp\n b: call x; dec %rbp; jnz "
		  "b\n"
		  "mov 8(%rsp),%rbp\n c: add $24,%rsp\n e: ret\n x: ret",
		  { { "a", SP(32) },
		    { "b", ROW(RSP, 32, BP_AT_CFA, -24, 0) },
		    { "c", SP(32) },
		    { "e", SP(8) },
		    { "x", NOTHING } } },
		{ "leave",
		  "f",
		  "f: push %rbp; mov %rsp,%rbp; sub $32,%rsp\n b: nop; leave\n e: ret",
		  { { "b", ROW(RSP, 48, BP_AT_CFA, -16, 0) }, { "e", SP(8) } } },
		{ "leave, from the middle",
		  "b",
		  "f: push %rbp; mov %rsp,%rbp; sub $32,%rsp\n b: nop; leave\n e: ret",
		  { { "b", ROW(RBP, 16, BP_AT_CFA, -16, 0) }, { "e", SP(8) } } },
		{ "a frame of a size not known",
		  "f",
		  "f: push %rbp; mov %rsp,%rbp; sub %rdi,%rsp\n b: nop; leave\n e: ret",
		  { { "b", ROW(RBP, 16, BP_AT_CFA, -16, 0) }, { "e", SP(8) } } },
		{ "realigned, rbp",
		  "f",
		  "f: push %rbp; mov %rsp,%rbp; push %rbx; and $-32,%rsp\n b: mov %rdi,%rbx\n c: "
		  "nop\n"
		  "mov -8(%rbp),%rbx\n d: leave\n e: ret",
		  { { "b", ROW(RBP, 16, BP_AT_CFA, -16, 0) },
		    { "c", ROW(RBP, 16, BP_AT_CFA, -16, -3) },
		    { "d", ROW(RBP, 16, BP_AT_CFA, -16, 0) },
		    { "e", SP(8) } } },
		{ "realigned, r10",
		  "f",
		  "f: lea 8(%rsp),%r10\n a: and $-32,%rsp; push -8(%r10); push %rbp\n b: mov "
		  "%rsp,%rbp\n"
		  "push %r10; xor %r10d,%r10d\n c: nop; mov -8(%rbp),%r10\n d: leave\n"
		  "lea -8(%r10),%rsp\n e: ret",
		  { { "a", SP(8) },
		    { "b", ROW(R10, 0, BP_SAME, 0, 0) },
		    { "c", DEREF(RSP, 0, 0, BP_AT_BP, 0) },
		    { "d", ROW(R10, 0, BP_AT_BP, 0, 0) },
		    { "e", SP(8) } } },
		{ "realigned, r10, from the middle",
		  "c",
		  "f: lea 8(%rsp),%r10; and $-32,%rsp; push -8(%r10); push %rbp; mov %rsp,%rbp\n"
		  "push %r10; xor %r10d,%r10d\n c: nop; mov -8(%rbp),%r10\n d: leave\n"
		  "lea -8(%r10),%rsp\n e: ret",
		  { { "c", DEREF(RBP, -8, 0, BP_AT_BP, 0) }, { "e", SP(8) } } },
		{ "realigned, rsp kept in memory",
		  "f",
		  "f: mov %rsp,%rax; push %rbx; push %rbp; sub $256,%rsp; and $-64,%rsp\n"
		  "mov %rax,152(%rsp)\n b: mov $90,%ebp; call x\n c: mov 152(%rsp),%rax\n"
		  "d: mov -16(%rax),%rbp; mov -8(%rax),%rbx; mov %rax,%rsp\n e: ret\n x: ret",
		  { { "b", ROW(0, 8, BP_SAME, 0, 0) },
		    { "c", DEREF(RSP, 152, 8, BP_AT_CFA, -24) },
		    { "d", ROW(0, 8, BP_AT_CFA, -24, 0) },
		    { "e", SP(8) } } },
		{ "realigned, rsp kept in memory, from the middle",
		  "c",
		  "f: mov %rsp,%rax; push %rbx; push %rbp; sub $256,%rsp; and $-64,%rsp\n"
		  "mov %rax,152(%rsp); mov $90,%ebp; call x\n c: mov 152(%rsp),%rax\n"
		  "d: mov -16(%rax),%rbp; mov -8(%rax),%rbx; mov %rax,%rsp\n e: ret\n x: ret",
		  { { "c", DEREF(RSP, 152, 8, BP_AT_CFA, -24) }, { "e", SP(8) } } },
		{ "a pointer to data is rounded beside the stack",
		  "f",
		  "f: mov %rsp,%r8; sub $64,%rsp; and $-32,%rsp; mov %r8,8(%rsp); lea "
		  "40(%r8),%rax\n"
		  "and $-64,%rax; movq $0,8(%rax); xor %r8d,%r8d\n c: mov 8(%rsp),%rsp\n e: ret",
		  { { "c", DEREF(RSP, 8, 8, BP_SAME, 0) }, { "e", SP(8) } } },
		{ "ret that takes arguments off",
		  "f",
		  "f: push %rax\n a: pop %rax\n e: ret $16",
		  { { "a", SP(16) }, { "e", SP(8) } } },
		{ "several rets",
		  "f",
		  "f: test %edi,%edi; je 1f; push %rbx\n a: xor %ebx,%ebx\n b: pop %rbx\n c: ret\n"
		  "1: sub $8,%rsp\n d: add $8,%rsp\n e: ret",
		  { { "a", SP(16) },
		    { "b", ROW(RSP, 16, BP_SAME, 0, -2) },
		    { "c", SP(8) },
		    { "d", SP(16) },
		    { "e", SP(8) } } },
		{ "a loop that pushes and pops",
		  "f",
		  "f: push %rbx; mov %rdi,%rbx\n a: push %r12; push %rbx\n b: pop %rcx; pop %r12\n"
		  "dec %rbx; jnz a; pop %rbx\n e: ret",
		  { { "a", ROW(RSP, 16, BP_SAME, 0, -2) },
		    { "b", ROW(RSP, 32, BP_SAME, 0, -2) },
		    { "e", SP(8) } } },
		{ "a tail jump",
		  "f",
		  "f: sub $8,%rsp\n a: add $8,%rsp\n b: jmp g\n x: nop\n g: push %rax\n c: pop "
		  "%rax; ret",
		  { { "a", SP(16) },
		    { "b", SP(8) },
		    { "x", NOTHING },
		    { "g", SP(8) },
		    { "c", SP(16) } } },
		{ "a jump table beside another way",
		  "f",
		  "f: cmp $3,%edi; ja 1f\n a: jmp *0x400000(,%rdi,8)\n x: nop; ret\n 1: push %rax\n"
		  "b: pop %rax\n e: ret",
		  { { "a", SP(8) }, { "x", NOTHING }, { "b", SP(16) }, { "e", SP(8) } } },
		{ "a jump table only", "f", "f: jmp *0x400000(,%rdi,8)\n x: ret", NO_RULES },
		{ "a call spoils r11", "f",
		  "f: mov %rsp,%r11; and $-32,%rsp; call x; mov %r11,%rsp; ret\n x: ret",
		  NO_RULES },
		{ "a call preserves r12",
		  "f",
		  "f: push %r12; mov %rsp,%r12; and $-32,%rsp\n a: call x\n b: mov %r12,%rsp; pop "
		  "%r12\n"
		  "e: ret\n x: ret",
		  { { "a", ROW(12, 16, BP_SAME, 0, 0) },
		    { "b", ROW(12, 16, BP_SAME, 0, 0) },
		    { "e", SP(8) } } },
		{ "a system call spoils rax and r11", "f",
		  "f: mov %rsp,%rax; and $-32,%rsp; syscall; mov %rax,%rsp; ret", NO_RULES },
		{ "a call to learn where one is",
		  "f",
		  "f: call a\n a: nop\n b: pop %rax\n e: ret",
		  { { "f", SP(8) }, { "a", SP(16) }, { "b", SP(16) }, { "e", SP(8) } } },
		{ "never returns: hlt", "f", "f: push %rax; hlt; ret", NO_RULES },
		{ "never returns: ud2", "f", "f: push %rax; ud2; ret", NO_RULES },
		{ "never returns: a loop", "f", "f: push %rax\n a: jmp a; ret", NO_RULES },
		{ "never returns: int3", "f", "f: int3; ret", NO_RULES },
		{ "not a plain return: far", "f", "f: lretq", NO_RULES },
		{ "not a plain return: from an interrupt", "f", "f: iretq", NO_RULES },
		{ "ways with different stacks meet", "f", "f: je 1f; push %rax\n 1: ret",
		  NO_RULES },
		{ "rets with different stacks", "f", "f: je 1f; ret\n 1: push %rax; ret",
		  NO_RULES },
		{ "the stack pointer is exchanged", "f", "f: xchg %rax,%rsp; ret", NO_RULES },
		{ "half a word is pushed", "f", "f: pushw %ax; ret", NO_RULES },
		{ "no code", "f", "f: push %rax; .byte 0x06; pop %rax; ret", NO_RULES },
		{ "the segment ends", "f", "f: ret\n g: push %rax; pop %rax", { { "f", SP(8) } } },
		{ "the segment ends: nothing found", "g", "f: ret\n g: push %rax; pop %rax",
		  NO_RULES },
		{ "the segment ends in an instruction", "g",
		  "f: ret\n g: push %rax; .byte 0x48, 0xb8, 1", NO_RULES },
		{ "out of the segment", "f", "f: jmp 0x500000\n ret", NO_RULES },
		{ "one way out of the segment",
		  "f",
		  "f: jne 0x500000\n e: ret",
		  { { "e", SP(8) } } },
		{ "instructions over one another",
		  "f",
		  "f: .byte 0x74, 1\n a: .byte 0xb8\n b: nop; nop; nop; nop\n e: ret",
		  { { "f", SP(8) }, { "a", SP(8) }, { "e", SP(8) } } },
		{ "a saved rbp is written over",
		  "f",
		  "f: sub $24,%rsp; mov %rbp,8(%rsp); movl $0,12(%rsp); mov 8(%rsp),%rbp\n"
		  "a: add $24,%rsp\n e: ret",
		  { { "a", ROW(RSP, 32, BP_LOST, 0, 0) }, { "e", ROW(RSP, 8, BP_LOST, 0, 0) } } },
		{ "rbp is saved on one way only",
		  "f",
		  "f: je 1f; mov %rbp,-16(%rsp)\n 1: xor %ebp,%ebp; mov -16(%rsp),%rbp\n e: ret",
		  { { "e", ROW(RSP, 8, BP_LOST, 0, 0) } } },
		{ "cmov",
		  "f",
		  "f: cmovz %rax,%rbp\n e: ret",
		  { { "e", ROW(RSP, 8, BP_LOST, 0, 0) } } },
		{ "addresses of 32 bits",
		  "f",
		  "f: mov -16(%esp),%rbp\n e: ret",
		  { { "e", ROW(RSP, 8, BP_LOST, 0, 0) } } },
		{ "thread-local memory",
		  "f",
		  "f: mov %rbp,-16(%rsp); mov %fs:-16(%rsp),%rbp\n e: ret",
		  { { "e", ROW(RSP, 8, BP_LOST, 0, 0) } } },
		{ "pop to memory",
		  "f",
		  "f: push %rbp; xor %ebp,%ebp; pop -24(%rsp)\n a: mov -24(%rsp),%rbp\n e: ret",
		  { { "a", ROW(RSP, 8, BP_AT_CFA, -16, 0) }, { "e", SP(8) } } },
		{ "much is spilled",
		  "f",
		  "f: sub $256,%rsp; mov %rbp,240(%rsp); .set o,0; .rept 20; mov %rax,o(%rsp); "
		  ".set o,o+8\n"
		  ".endr; mov %rbx,200(%rsp); xor %ebp,%ebp; xor %ebx,%ebx\n b: nop; mov "
		  "240(%rsp),%rbp\n"
		  "mov 200(%rsp),%rbx; add $256,%rsp\n e: ret",
		  { { "b", ROW(RSP, 264, BP_AT_CFA, -24, -8) }, { "e", SP(8) } } },
		{ "more is saved than is remembered",
		  "f",
		  "f: sub $256,%rsp; .set o,0; .rept 13; mov %rbp,o(%rsp); .set o,o+8; .endr\n"
		  "xor %ebp,%ebp; mov 96(%rsp),%rbp; add $256,%rsp\n e: ret",
		  { { "e", ROW(RSP, 8, BP_LOST, 0, 0) } } },
		{ "begun between rax and the pushes",
		  "a",
		  "f: mov %rsp,%rax\n a: push %rbx; push %rbp\n b: xor %ebp,%ebp; xor %ebx,%ebx\n"
		  "c: mov -16(%rax),%rbp; mov -8(%rax),%rbx; mov %rax,%rsp\n e: ret",
		  { { "a", ROW(0, 8, BP_LOST, 0, 1) }, { "c", ROW(0, 8, BP_LOST, 0, 1) } } },
		{ "a loop of string instructions",
		  "f",
		  "f: push %rdi; mov $100,%ecx\n a: rep stosq\n b: pop %rdi\n e: ret",
		  { { "a", SP(16) }, { "b", SP(16) }, { "e", SP(8) } } },
		{ "8192 instructions",
		  "f",
		  "f: .rept 8191; nop; .endr\n e: ret",
		  { { "e", SP(8) } } },
		{ "8193 instructions", "f", "f: .rept 8192; nop; .endr\n e: ret", NO_RULES },
		{ "64 blocks of code",
		  "f",
		  "f: .rept 63; jmp .+4096; .skip 4091, 0xcc; .endr\n e: ret",
		  { { "e", SP(8) } } },
		{ "66 blocks of code", "f",
		  "f: .rept 65; jmp .+4096; .skip 4091, 0xcc; .endr\n e: ret", NO_RULES },
		{ "a frame too big for a row",
		  "f",
		  "f: sub $0x80000,%rsp\n a: add $0x80000,%rsp\n e: ret",
		  { { "f", SP(8) }, { "a", NOTHING }, { "e", SP(8) } } },
		{ "a frame too big to be followed", "f",
		  "f: sub $0x7fffffff,%rsp; add $0x7fffffff,%rsp; ret", NO_RULES },
	};

	return cr_make_param_array(struct code_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct code_case *c, insn_rules, rows)
{
	struct code_bench b;
	char source[1100];
	size_t i;

	snprintf(source, sizeof(source), "%s\n", c->code);
	code_bench_open(&b, source);
	find(&b, c->from, MAX_RULES);
	if (!c->want[0].label[0]) {
		cr_assert_eq(b.nr, -ENODATA, "%s: %d", c->name, b.nr);
	} else {
		cr_assert_gt(b.nr, 0, "%s: %d", c->name, b.nr);
		for (i = 0; i < MAX_WANTED && c->want[i].label[0]; i++)
			cr_assert_eq(code_row_at(&b, code_place(&b, c->want[i].label)),
				     row_of(&c->want[i].row), "%s: %s: %#lx, not %#lx", c->name,
				     c->want[i].label,
				     code_row_at(&b, code_place(&b, c->want[i].label)),
				     row_of(&c->want[i].row));
	}
	code_bench_close(&b);
}

/* If there is no room for all rules, those around the start stay. */
Test(insn_rules, little_room)
{
	struct code_bench b;
	size_t cap;

	code_bench_open(&b,
			"f: push %rax; push %rax; push %rax; push %rax\n a: push %rax; pop %rax\n"
			"pop %rax; pop %rax; pop %rax; pop %rax; ret\n");
	find(&b, "a", MAX_RULES);
	cr_assert_eq(b.nr, 7);
	for (cap = 0; cap < 9; cap++) {
		find(&b, "a", cap);
		cr_assert_eq(b.nr, (int)(cap < 7 ? cap : 7));
	}
	code_bench_close(&b);
	code_bench_open(&b, "f: push %rax; jmp b\n a: push %rax; pop %rax; jmp c\n"
			    "b: push %rax; pop %rax; jmp a\n c: pop %rax; ret\n");
	for (cap = 1; cap < 8; cap++) {
		find(&b, "b", cap);
		cr_assert_neq(code_row_at(&b, code_place(&b, "b")), 0, "%zu", cap);
	}
	code_bench_close(&b);
}

Test(insn_rules, starts_out_of_the_segment)
{
	struct code_bench b;
	struct code_area area;
	struct insn_rule rule;

	code_bench_open(&b, "f: ret\n");
	area = (struct code_area){ .img = b.img,
				   .start = code_place(&b, "f"),
				   .end = code_place(&b, "f") + 1 };
	cr_assert_eq(insn_unwind_find(&area, area.start, &rule, 1), 1);
	cr_assert_eq(insn_unwind_find(&area, area.start - 1, &rule, 1), -ENODATA);
	cr_assert_eq(insn_unwind_find(&area, area.end, &rule, 1), -ENODATA);
	cr_assert_eq(insn_unwind_find(&area, UINT64_MAX, &rule, 1), -ENODATA);
	/* Nothing is read past the end of the file. */
	area.end = UINT64_MAX;
	cr_assert_eq(insn_unwind_find(&area, elf_image_size(b.img), &rule, 1), -ENODATA);
	cr_assert_eq(insn_unwind_find(&area, UINT64_MAX - 1, &rule, 1), -ENODATA);
	code_bench_close(&b);
}

/*
 * Compares the tables of hand-written code with the rules found in it, from each function's start.
 */
Test(insn_rules, tables_of_assembly)
{
	static uint64_t rows[CFI_PAGE_MAX_ROWS];
	char *source = realpath(ASM_SOURCE, NULL), script[512];
	int same = 0, other = 0;
	uint64_t row, off;
	struct code_bench b;
	size_t i;
	int nr, j;

	code_bench_open(&b, "f: ret\n");
	code_bench_close(&b);
	cr_assert(source);
	snprintf(script, sizeof(script),
		 "gcc -c -o code.o '%s' && ld -o code -e 0 --eh-frame-hdr -z noseparate-code "
		 "--defsym asm_callback=0x400000 code.o",
		 source);
	free(source);
	fixture_run(script);
	b.img = fixture_open("code");
	b.seg = elf_image_segments(b.img, &i);
	cr_assert(i && b.seg->flags & 1);
	cr_assert_eq(cfi_new(&b.cfi, b.img), 0);
	source = fixture_path("code");
	b.symbols = fixture_nm("", source, &b.nr_symbols);
	free(source);
	nr = cfi_build_page(b.cfi, 0, rows);
	for (i = 0; i < b.nr_symbols; i++) {
		if (b.symbols[i].type != 'T' || !b.symbols[i].bytes)
			continue;
		find(&b, b.symbols[i].name, MAX_RULES);
		cr_assert_gt(b.nr, 0, "%s", b.symbols[i].name);
		for (off = code_place(&b, b.symbols[i].name);
		     off < code_place(&b, b.symbols[i].name) + b.symbols[i].bytes; off++) {
			for (j = 0; j + 1 < nr && unwind_row_low(rows[j + 1]) <= off; j++)
				;
			row = code_row_at(&b, off);
			cr_assert_neq(row, 0, "%s: %#lx", b.symbols[i].name, off);
			if (unwind_row_kind(row) != unwind_row_kind(rows[j]) ||
			    unwind_row_reg(row) != unwind_row_reg(rows[j])) {
				other++; /* the same place by another register */
				continue;
			}
			same++;
			cr_assert_eq(unwind_row_off(row), unwind_row_off(rows[j]), "%s: %#lx",
				     b.symbols[i].name, off);
			if (unwind_row_bp_rule(row) == BP_AT_CFA)
				cr_assert_eq(row >> 40 & 0xffff, rows[j] >> 40 & 0xffff, "%s: %#lx",
					     b.symbols[i].name, off);
		}
	}
	cr_assert(same > 100 && other < 60, "%d same, %d by other registers", same, other);
	code_bench_close(&b);
}

/* A call right before a function that has tables does not return. */
Test(insn_rules, calls_that_do_not_return)
{
	static const char code[] =
		"f: test %edi,%edi; je 1f; ret\n 1: sub $24,%rsp\n a: call x; .p2align 4\n"
		".type g,@function\n g: .cfi_startproc\n push %rax; .cfi_adjust_cfa_offset 8\n pop "
		"%rax\n"
		".cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc\n x: hlt\n";
	struct code_bench b;

	code_bench_open(&b, code);
	cr_assert(b.cfi);
	b.nr = insn_unwind_find(&(struct code_area){ .img = b.img,
						     .start = b.seg->off,
						     .end = b.seg->off + b.seg->file_bytes },
				code_place(&b, "f"), b.rules, MAX_RULES);
	cr_assert_eq(b.nr, -ENODATA);
	b.nr = cfi_insn_rules(b.cfi, CODE_TO_RETURN, code_place(&b, "f"), false, NULL, b.rules,
			      MAX_RULES);
	cr_assert_gt(b.nr, 0);
	cr_assert_eq(code_row_at(&b, code_place(&b, "f")), code_row_sp(8));
	cr_assert_eq(code_row_at(&b, code_place(&b, "a")), code_row_sp(32));
	cr_assert_eq(code_row_at(&b, code_place(&b, "g")), 0);
	code_bench_close(&b);
}

/* CODE_FROM_START: code without a near ret has the rule of the function's begin. */
Test(insn_rules, from_the_start)
{
	static const char code[] =
		".type f,@function\n .type g,@function\n .globl g\n x: ret\n"
		"f: push %rbx; sub $32,%rsp; lea t(%rip),%rdx\n a: movslq (%rdx,%rax,4),%rax; add "
		"%rdx,%rax; jmp *%rax\n"
		"b: inc %rbx; jmp a\n c: dec %rbx; call x\n d: jmp a\n e: call x\n"
		"g: push %rbp; mov %rsp,%rbp\n h: jmp h\n" TABLE;
	static const struct {
		char place[4];
		bool after_call;
		struct wanted_row row;
	} cases[] = {
		{ "a", false, SP(48) },
		{ "b", false, SP(48) }, /* only the jump leads to it */
		{ "c", false, SP(48) },
		{ "d", true, ROW(RSP, 48, BP_SAME, 0, -2) },
		/* The call is the last instruction: what it returns to is another function's. */
		{ "g", true, SP(48) },
		{ "g", false, SP(8) },
		{ "h", false, ROW(RSP, 16, BP_AT_CFA, -16, 0) },
	};
	struct code_bench b;
	uint64_t off;

	code_bench_open(&b, code);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		off = code_place(&b, cases[i].place);
		b.nr = cfi_insn_rules(b.cfi, CODE_FROM_START, off, cases[i].after_call, NULL,
				      b.rules, MAX_RULES);
		cr_expect_eq(code_row_at(&b, off - cases[i].after_call), row_of(&cases[i].row),
			     "%s: %lx", cases[i].place, code_row_at(&b, off - cases[i].after_call));
	}
	/* No path leads to a ret, and none begins in another function. */
	cr_assert_eq(cfi_insn_rules(b.cfi, CODE_TO_RETURN, code_place(&b, "b"), false, NULL,
				    b.rules, MAX_RULES),
		     -ENODATA);
	cr_assert_eq(cfi_insn_rules(b.cfi, CODE_TO_RETURN, code_place(&b, "g"), true, NULL, b.rules,
				    MAX_RULES),
		     -ENODATA);
	code_bench_close(&b);
}

/*
 * A library names only what it exports. The nearest function that has a name, with a frame of a size not known, ends
 * in a call that does not return; behind it stands one that has no name.
 */

struct words {
	struct unwind_reader reader; /* first */
	uint64_t at[16]; /* from 0x10000 on */
};

static int words_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	struct words *words = (struct words *)reader;

	if (va < 0x10000 || va - 0x10000 > sizeof(words->at) - len)
		return -EFAULT;
	memcpy(dst, (char *)words->at + (va - 0x10000), len);
	return 0;
}

Test(insn_rules, step_in_learned_code)
{
	struct words words = { .reader.read = words_read, .at = { [4] = 0xabc } };
	struct unwind_state s = { .valid = UNWIND_ALL_REGS, .exact = 1 }, before;
	struct code_bench b;
	struct judge judge = PLEASED;

	s.regs[UNWIND_RSP] = 0x10008;
	before = s;
	code_bench_open(&b, "f: sub $24,%rsp\n a: add $24,%rsp; ret\n" TABLE);
	cr_assert_eq(cfi_step(b.cfi, code_place(&b, "a"), &s, &words.reader),
		     BPFPROF_STOP_NO_TABLE);
	cr_assert_eq(code_learn(&b, code_place(&b, "a"), true, &judge), 0);
	s = before;
	cr_assert_eq(cfi_step(b.cfi, code_place(&b, "a"), &s, &words.reader), 0);
	cr_assert_eq(s.regs[UNWIND_RIP], 0xabc);
	cr_assert_eq(s.regs[UNWIND_RSP], 0x10028);
	code_bench_close(&b);
}

/* .debug_frame says what .eh_frame says of the same code, in every form that compilers write. */
Test(insn_rules, debug_frame)
{
	static const char code[] =
		"#define LOCAL __attribute__((noinline, visibility(\"hidden\")))\n"
		"LOCAL long g(long *a, long n) { return a[n]; }\n"
		"LOCAL void h(volatile long *a, long n) { a[n] = n; }\n"
		"long f(long n) { long a[40]; h(a, n); return g(a, n) + a[3]; }\n"
		"long k(long n) { long a[n]; h(a, n); return n > 3 ? g(a, n) : f(n); }\n";
	static const char *const forms[] = { "-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5",
					     "-gdwarf-5 -gdwarf64" };
	static uint64_t eh[CFI_PAGE_MAX_ROWS], debug[CFI_PAGE_MAX_ROWS];
	struct elf_image *img;
	struct cfi *cfi;
	char command[512];
	int nr_eh, nr;

	fixture_write("d.c", code);
	fixture_run("gcc -O2 -g -fvisibility=hidden -fPIC -shared -nostdlib -o eh.so d.c");
	img = fixture_open("eh.so");
	cr_assert_eq(cfi_new(&cfi, img), 0);
	nr_eh = cfi_build_page(cfi, 0, eh);
	cr_assert_gt(nr_eh, 10);
	cfi_free(cfi);
	elf_image_free(img);
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		snprintf(command, sizeof(command),
			 "gcc -O2 %s -fno-asynchronous-unwind-tables -fvisibility=hidden -fPIC "
			 "-shared -nostdlib -Wl,--no-ld-generated-unwind-info -o "
			 "debug.so d.c && ! readelf -SW debug.so | grep -q 'eh_frame '",
			 forms[i]);
		fixture_run(command);
		img = fixture_open("debug.so");
		cr_assert_eq(cfi_new(&cfi, img), 0);
		nr = cfi_build_page(cfi, 0, debug);
		cr_assert_eq(nr, nr_eh, "%s: %d rows, %d in .eh_frame", forms[i], nr, nr_eh);
		cr_assert(!memcmp(eh, debug, sizeof(*eh) * (size_t)nr), "%s", forms[i]);
		cfi_free(cfi);
		elf_image_free(img);
	}
}
