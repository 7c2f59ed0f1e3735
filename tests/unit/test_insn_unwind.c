// SPDX-License-Identifier: Apache-2.0
/*
 * Rules read out of code that is assembled here. What they must be is known from the
 * assembly; tests/hostbpf/test_code_rules.c compares them with the tables of installed libraries.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/image.h"
#include "unwind/cfi.h"
#include "unwind/reader.h"
#include "unwind/x86_64/insn_unwind.h"
#include "test_elf_fixture.h"
#include "unwind_native.h"

#define MAX_RULES 512
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

struct bench {
	struct elf_image *img;
	struct cfi *cfi; /* NULL without tables */
	struct nm_symbol *symbols;
	size_t nr_symbols;
	const struct elf_segment *seg; /* the code */
	struct insn_rule rules[MAX_RULES];
	int nr;
};

static uint64_t row_of(const struct wanted_row *want)
{
	return want->kind ? unwind_row_make(0, want->kind, want->reg, want->off / 8, want->bp,
					    want->bp_off / 8, want->second)
			  : 0;
}

/* cfa = rsp + off, nothing saved */
static uint64_t row_sp(int32_t off)
{
	return unwind_row_make(0, ROW_CFA, UNWIND_RSP, off / 8, BP_SAME, 0, 0);
}

static void bench_find_code(struct bench *b)
{
	const struct elf_segment *segs;
	size_t nr, i;

	segs = elf_image_segments(b->img, &nr);
	for (b->seg = NULL, i = 0; i < nr; i++)
		if (segs[i].type == 1 && segs[i].flags & 1)
			b->seg = &segs[i];
	cr_assert(b->seg);
}

static void bench_open(struct bench *b, const char *code)
{
	char *path = fixture_path("code");

	memset(b, 0, sizeof(*b));
	fixture_write("code.s", code);
	fixture_run("as -o code.o code.s");
	fixture_run("ld -o code -e 0 --eh-frame-hdr -z noseparate-code --no-warn-execstack code.o");
	b->img = fixture_open("code");
	b->symbols = fixture_nm("", path, &b->nr_symbols);
	bench_find_code(b);
	if (cfi_new(&b->cfi, b->img))
		b->cfi = NULL;
	free(path);
}

static void bench_close(struct bench *b)
{
	cfi_free(b->cfi);
	elf_image_free(b->img);
	free(b->symbols);
}

/* File offset of a label. */
static uint64_t place(const struct bench *b, const char *label)
{
	uint64_t off = 0;
	size_t i;

	for (i = 0; i < b->nr_symbols && strcmp(b->symbols[i].name, label); i++)
		;
	cr_assert(i < b->nr_symbols, "no label %s", label);
	off = b->symbols[i].value - b->seg->va + b->seg->off;
	return off;
}

static void find(struct bench *b, const char *from, size_t cap)
{
	struct code_area area = { .img = b->img,
				  .start = b->seg->off,
				  .end = b->seg->off + b->seg->file_bytes };
	int i;

	b->nr = insn_unwind_find(&area, place(b, from), b->rules, cap);
	for (i = 0; i < b->nr; i++) {
		cr_assert(b->rules[i].len && !(b->rules[i].row & 0xffff));
		cr_assert_geq(b->rules[i].off, area.start);
		cr_assert_leq(b->rules[i].off + b->rules[i].len, area.end);
		cr_assert(!i || b->rules[i - 1].off + b->rules[i - 1].len <= b->rules[i].off);
	}
}

static uint64_t row_at(const struct bench *b, uint64_t off)
{
	int i;

	for (i = 0; i < b->nr; i++)
		if (off >= b->rules[i].off && off - b->rules[i].off < b->rules[i].len)
			return b->rules[i].row;
	return 0;
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
	struct bench b;
	char source[1100];
	size_t i;

	snprintf(source, sizeof(source), "%s\n", c->code);
	bench_open(&b, source);
	find(&b, c->from, MAX_RULES);
	if (!c->want[0].label[0]) {
		cr_assert_eq(b.nr, -ENODATA, "%s: %d", c->name, b.nr);
	} else {
		cr_assert_gt(b.nr, 0, "%s: %d", c->name, b.nr);
		for (i = 0; i < MAX_WANTED && c->want[i].label[0]; i++)
			cr_assert_eq(row_at(&b, place(&b, c->want[i].label)),
				     row_of(&c->want[i].row), "%s: %s: %#lx, not %#lx", c->name,
				     c->want[i].label, row_at(&b, place(&b, c->want[i].label)),
				     row_of(&c->want[i].row));
	}
	bench_close(&b);
}

/* Where there is no room for all rules those around the start are kept. */
Test(insn_rules, little_room)
{
	struct bench b;
	size_t cap;

	bench_open(&b, "f: push %rax; push %rax; push %rax; push %rax\n a: push %rax; pop %rax\n"
		       "pop %rax; pop %rax; pop %rax; pop %rax; ret\n");
	find(&b, "a", MAX_RULES);
	cr_assert_eq(b.nr, 7);
	for (cap = 0; cap < 9; cap++) {
		find(&b, "a", cap);
		cr_assert_eq(b.nr, (int)(cap < 7 ? cap : 7));
	}
	bench_close(&b);
	bench_open(&b, "f: push %rax; jmp b\n a: push %rax; pop %rax; jmp c\n"
		       "b: push %rax; pop %rax; jmp a\n c: pop %rax; ret\n");
	for (cap = 1; cap < 8; cap++) {
		find(&b, "b", cap);
		cr_assert_neq(row_at(&b, place(&b, "b")), 0, "%zu", cap);
	}
	bench_close(&b);
}

Test(insn_rules, starts_out_of_the_segment)
{
	struct bench b;
	struct code_area area;
	struct insn_rule rule;

	bench_open(&b, "f: ret\n");
	area = (struct code_area){ .img = b.img,
				   .start = place(&b, "f"),
				   .end = place(&b, "f") + 1 };
	cr_assert_eq(insn_unwind_find(&area, area.start, &rule, 1), 1);
	cr_assert_eq(insn_unwind_find(&area, area.start - 1, &rule, 1), -ENODATA);
	cr_assert_eq(insn_unwind_find(&area, area.end, &rule, 1), -ENODATA);
	cr_assert_eq(insn_unwind_find(&area, UINT64_MAX, &rule, 1), -ENODATA);
	/* Nothing is read past the end of the file. */
	area.end = UINT64_MAX;
	cr_assert_eq(insn_unwind_find(&area, elf_image_size(b.img), &rule, 1), -ENODATA);
	cr_assert_eq(insn_unwind_find(&area, UINT64_MAX - 1, &rule, 1), -ENODATA);
	bench_close(&b);
}

/* The tables of hand-written code against what is read out of it, from each function's start. */
Test(insn_rules, tables_of_assembly)
{
	static uint64_t rows[CFI_PAGE_MAX_ROWS];
	char *source = realpath(ASM_SOURCE, NULL), script[512];
	int same = 0, other = 0;
	uint64_t row, off;
	struct bench b;
	size_t i;
	int nr, j;

	bench_open(&b, "f: ret\n");
	bench_close(&b);
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
		for (off = place(&b, b.symbols[i].name);
		     off < place(&b, b.symbols[i].name) + b.symbols[i].bytes; off++) {
			for (j = 0; j + 1 < nr && unwind_row_low(rows[j + 1]) <= off; j++)
				;
			row = row_at(&b, off);
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
	bench_close(&b);
}

/* A call right before a function that has tables does not return. */
Test(insn_rules, calls_that_do_not_return)
{
	static const char code[] =
		"f: test %edi,%edi; je 1f; ret\n 1: sub $24,%rsp\n a: call x; .p2align 4\n"
		".type g,@function\n g: .cfi_startproc\n push %rax; .cfi_adjust_cfa_offset 8\n pop "
		"%rax\n"
		".cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc\n x: hlt\n";
	struct bench b;

	bench_open(&b, code);
	cr_assert(b.cfi);
	b.nr = insn_unwind_find(&(struct code_area){ .img = b.img,
						     .start = b.seg->off,
						     .end = b.seg->off + b.seg->file_bytes },
				place(&b, "f"), b.rules, MAX_RULES);
	cr_assert_eq(b.nr, -ENODATA);
	b.nr = cfi_insn_rules(b.cfi, CODE_TO_RETURN, place(&b, "f"), false, NULL, b.rules,
			      MAX_RULES);
	cr_assert_gt(b.nr, 0);
	cr_assert_eq(row_at(&b, place(&b, "f")), row_sp(8));
	cr_assert_eq(row_at(&b, place(&b, "a")), row_sp(32));
	cr_assert_eq(row_at(&b, place(&b, "g")), 0);
	bench_close(&b);
}

/* The same code as a library of which only dynamic symbols are left, or linked otherwise. */
static void bench_link(struct bench *b, const char *options)
{
	char command[256];

	cfi_free(b->cfi);
	elf_image_free(b->img);
	snprintf(command, sizeof(command),
		 "ld %s -o code --eh-frame-hdr -z noseparate-code --no-warn-execstack code.o",
		 options);
	fixture_run(command);
	free(b->symbols);
	fixture_run("cp code code.full && strip -s code");
	b->img = fixture_open("code");
	b->symbols = fixture_nm("", "code.full", &b->nr_symbols);
	bench_find_code(b);
	cr_assert_eq(cfi_new(&b->cfi, b->img), 0);
}

/* cfi_learn(): what is learned is in the pages built from then on. */

/* What a process says of the rules that are found in the code that it stands in. */
struct judge {
	enum cfi_verdict verdict;
	uint64_t row; /* the first one that it was asked about */
	uint64_t start; /* where a call went whose return address lies on its stack */
	bool has_start;
	uint64_t outermost;
	uint64_t refused; /* a row that it contradicts in any case */
	bool frame_pointer; /* its rbp is a frame's */
	uint64_t here; /* out: the row for this process alone */
};

static enum cfi_verdict judge_check(void *arg, uint64_t row, bool frame_pointer)
{
	struct judge *judge = arg;

	if (!judge->row)
		judge->row = row;
	if (row == judge->refused)
		return CFI_REFUSED;
	if (frame_pointer)
		return judge->frame_pointer ? CFI_PROVEN : CFI_REFUSED;
	return judge->verdict;
}

static int judge_start(void *arg, uint64_t *ret_off)
{
	struct judge *judge = arg;

	if (!judge->has_start)
		return -ENODATA;
	judge->has_start = false;
	*ret_off = judge->start;
	return 0;
}

static uint64_t judge_outermost(void *arg)
{
	return ((struct judge *)arg)->outermost;
}

static int learn(struct bench *b, uint64_t off, bool exact, struct judge *judge)
{
	struct cfi_trial trial = { judge_check, judge_start, judge_outermost, judge };

	return cfi_learn(b->cfi, off, exact, &trial, &judge->here);
}

#define PLEASED                                                                                    \
	{                                                                                          \
		.verdict = CFI_PROVEN                                                              \
	}

/* The row of off in its page, and of the byte after it whether a row begins there. */
static uint64_t page_row(struct bench *b, uint64_t off, bool *ret_next)
{
	static uint64_t rows[CFI_PAGE_MAX_ROWS];
	int nr = cfi_build_page(b->cfi, (uint32_t)(off >> 16), rows), i;

	cr_assert_gt(nr, 0);
	for (i = 0; i + 1 < nr && unwind_row_low(rows[i + 1]) <= (off & 0xffff); i++)
		;
	if (ret_next)
		*ret_next = i + 1 < nr && unwind_row_low(rows[i + 1]) == (off & 0xffff) + 1;
	return rows[i] & ~0xffffULL;
}

static uint64_t none(int flags)
{
	return unwind_row_make(0, ROW_NONE, 0, 0, 0, 0, flags);
}

static uint64_t unproven(int flags)
{
	return unwind_row_make(0, ROW_UNPROVEN, 0, 0, 0, 0, flags);
}

#define TABLE "t: .cfi_startproc\n ret\n .cfi_endproc\n"

Test(insn_rules, learned_in_page)
{
	struct bench b;
	uint64_t f, a, e, off;
	struct judge judge = PLEASED;
	bool next = false;

	bench_open(&b,
		   "x: call g\n g: sub $24,%rsp\n a: call x\n c: nop\n d: add $24,%rsp\n e: ret\n"
		   ".p2align 8\n" TABLE "z: nop\n");
	f = place(&b, "g");
	a = place(&b, "a");
	e = place(&b, "e");
	cr_assert_eq(page_row(&b, f, NULL), none(0));
	cr_assert_eq(learn(&b, f, true, &judge), 0);
	cr_assert_eq(judge.row, row_sp(8));
	cr_assert_eq(page_row(&b, f, NULL), row_sp(8));
	cr_assert_eq(page_row(&b, a, NULL), row_sp(32));
	cr_assert_eq(page_row(&b, e, NULL), row_sp(8));
	/* The code around it is still to be explored, and does not look like the start of a stack. */
	for (off = f - 3; off < f; off++) {
		cr_assert_eq(page_row(&b, off, &next), none(UNWIND_NO_START));
		cr_assert(unwind_row_unexplored(none(UNWIND_NO_START)));
		cr_assert(!unwind_row_starts_stack(page_row(&b, off, NULL), 7, 8));
	}
	cr_assert(next);
	cr_assert_eq(page_row(&b, e + 1, NULL), none(0));
	/* What is before a function with tables does. */
	cr_assert(unwind_row_starts_stack(page_row(&b, place(&b, "t") - 1, NULL), 7, 8));
	cr_assert_eq(page_row(&b, place(&b, "t"), NULL), row_sp(8));
	/* Out of the segment there is nothing to be found, and that is known then. */
	cr_assert_eq(learn(&b, 0x50000, true, &judge), 0);
	cr_assert_eq(page_row(&b, 0x50000, NULL), unproven(0));
	cr_assert_eq(page_row(&b, 0x50010, NULL), none(0));
	bench_close(&b);
}

Test(insn_rules, learned_by_return_address)
{
	struct bench b;
	uint64_t c, d;
	struct judge judge = PLEASED;

	bench_open(&b,
		   "f: sub $24,%rsp\n call x\n c: nop\n d: add $24,%rsp\n e: ret\n x: ret\n" TABLE);
	c = place(&b, "c");
	d = place(&b, "d");
	cr_assert_eq(learn(&b, c - 1, false, &judge), 0);
	cr_assert_eq(judge.row, row_sp(32));
	cr_assert_eq(page_row(&b, c - 1, NULL), row_sp(32));
	cr_assert_eq(page_row(&b, c - 2, NULL), none(UNWIND_NO_START));
	cr_assert_eq(page_row(&b, d, NULL), row_sp(32));
	/* Learned again from before: both agree, nothing is there twice. */
	cr_assert_eq(learn(&b, place(&b, "f"), true, &judge), 0);
	cr_assert_eq(page_row(&b, place(&b, "f"), NULL), row_sp(8));
	cr_assert_eq(page_row(&b, c - 1, NULL), row_sp(32));
	cr_assert_eq(page_row(&b, c - 2, NULL), row_sp(32));
	bench_close(&b);
}

Test(insn_rules, refused)
{
	struct bench b;
	uint64_t f;
	struct judge judge = PLEASED, no = { .verdict = CFI_REFUSED };
	bool next;

	bench_open(&b, ".p2align 4\n .skip 12,0x90\n f: jmp f; nop; nop\n g: nop; pop %rax; ret\n"
		       ".p2align 6\n .skip 14,0x90\n h: hlt; hlt\n .p2align 6\n" TABLE);
	f = place(&b, "f");
	cr_assert_eq(learn(&b, f, true, &no), 0);
	cr_assert_eq(no.here, 0);
	/* Up to the end of the block nothing is to be learned. */
	cr_assert_eq(page_row(&b, f, NULL), unproven(0));
	cr_assert_eq(page_row(&b, f + 3, &next), unproven(0));
	cr_assert(next);
	cr_assert_eq(page_row(&b, f + 4, NULL), none(0));
	/* Where the code has a rule, only the process that contradicts it is without. */
	no.row = 0;
	cr_assert_eq(learn(&b, f + 4, true, &no), 0);
	cr_assert_eq(no.row, row_sp(16));
	cr_assert_eq(no.here, unproven(0));
	cr_assert_eq(page_row(&b, f + 4, NULL), none(0));
	/* What is learned behind it is not the start of a stack either. */
	cr_assert_eq(learn(&b, f + 4, true, &judge), 0);
	cr_assert_eq(page_row(&b, f + 3, &next), unproven(0));
	cr_assert(next);
	/* Code without a way to a ret: the table that follows rules its own code. */
	cr_assert_eq(learn(&b, place(&b, "h"), true, &judge), 0);
	cr_assert_eq(page_row(&b, place(&b, "h"), &next), unproven(0));
	cr_assert_eq(page_row(&b, place(&b, "t"), NULL), row_sp(8));
	cr_assert(unwind_row_starts_stack(page_row(&b, place(&b, "t") - 1, NULL), 7, 8));
	bench_close(&b);
}

Test(insn_rules, learned_across_pages)
{
	struct bench b;
	uint64_t f;
	struct judge judge = PLEASED;

	bench_open(&b, TABLE ".skip 0x1ff00-(.-t),0xcc\n f: push %rax; .rept 0x200; nop; .endr\n"
			     "pop %rax\n e: ret\n");
	f = place(&b, "f");
	cr_assert_neq(f >> 16, place(&b, "e") >> 16);
	cr_assert_eq(learn(&b, place(&b, "e") - 8, true, &judge), 0);
	cr_assert_eq(page_row(&b, place(&b, "e"), NULL), row_sp(8));
	cr_assert_eq(learn(&b, f, true, &judge), 0);
	cr_assert_eq(page_row(&b, f, NULL), row_sp(8));
	cr_assert_eq(page_row(&b, f | 0xffff, NULL), row_sp(16));
	cr_assert_eq(page_row(&b, (f | 0xffff) + 1, NULL), row_sp(16));
	bench_close(&b);
}

/* More than can be kept: all is forgotten, what is asked for last is known. */
Test(insn_rules, learned_overflow)
{
	struct bench b;
	uint64_t f;
	struct judge judge = PLEASED;
	size_t most = 0;
	int i;

	bench_open(&b, TABLE ".p2align 6\n f: .skip 16*9000,0xf4\n");
	f = place(&b, "f");
	for (i = 0; i < 9000; i++) {
		cr_assert_eq(learn(&b, f + 16 * (uint64_t)i, true, &judge), 0);
		most = cfi_bytes(b.cfi) > most ? cfi_bytes(b.cfi) : most;
	}
	cr_assert_leq(most, 8192 * sizeof(struct insn_rule) + 8192);
	cr_assert_eq(page_row(&b, f, NULL), none(0));
	cr_assert_eq(page_row(&b, f + 16 * 8999, NULL), unproven(0));
	bench_close(&b);
}

/* CODE_FROM_START: what has no ret in sight is ruled by how the function began. */
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
	struct bench b;
	uint64_t off;

	bench_open(&b, code);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		off = place(&b, cases[i].place);
		b.nr = cfi_insn_rules(b.cfi, CODE_FROM_START, off, cases[i].after_call, NULL,
				      b.rules, MAX_RULES);
		cr_expect_eq(row_at(&b, off - cases[i].after_call), row_of(&cases[i].row),
			     "%s: %lx", cases[i].place, row_at(&b, off - cases[i].after_call));
	}
	/* To a ret there is no way, and none that begins in another function. */
	cr_assert_eq(cfi_insn_rules(b.cfi, CODE_TO_RETURN, place(&b, "b"), false, NULL, b.rules,
				    MAX_RULES),
		     -ENODATA);
	cr_assert_eq(cfi_insn_rules(b.cfi, CODE_TO_RETURN, place(&b, "g"), true, NULL, b.rules,
				    MAX_RULES),
		     -ENODATA);
	bench_close(&b);
}

/*
 * A library names only what it exports. The nearest function that has a name, with a frame of a size not known, ends
 * in a call that does not return; behind it stands one that has no name.
 */
#define NEIGHBOURS                                                                                 \
	".globl f\n .hidden x\n .type f,@function\n f: push %rbp; mov %rsp,%rbp; sub %rdi,%rsp\n"  \
	"test %rdi,%rdi; jne n; leave; ret\n n: call x\n .p2align 4\n"                             \
	"g: push %rbx; mov %rdi,%rbx; call x\n h: add %rbx,%rax; pop %rbx; ret\n"                  \
	".p2align 4\n x: ret\n"

Test(insn_rules, neighbour_without_a_name)
{
	struct judge judge = PLEASED;
	struct bench b;
	uint64_t h, g;

	bench_open(&b, NEIGHBOURS);
	bench_link(&b, "-shared");
	h = place(&b, "h");
	g = place(&b, "g");
	b.nr = cfi_insn_rules(b.cfi, CODE_FROM_START, h, true, NULL, b.rules, MAX_RULES);
	cr_expect_eq(row_at(&b, h - 1), 0, "%lx", row_at(&b, h - 1));
	/* What the last call returns to belongs to another function. */
	b.nr = cfi_insn_rules(b.cfi, CODE_TO_RETURN, place(&b, "n") + 5, true, NULL, b.rules,
			      MAX_RULES);
	cr_expect_eq(b.nr, -ENODATA);
	cr_assert_eq(learn(&b, h - 1, false, &judge), 0);
	cr_assert_eq(page_row(&b, h - 1, NULL),
		     unwind_row_make(0, ROW_CFA, UNWIND_RSP, 2, BP_SAME, 0, -2));
	cr_assert_eq(learn(&b, g, true, &judge), 0);
	cr_assert_eq(page_row(&b, g, NULL), row_sp(8));
	bench_close(&b);
}

/*
 * A jump of the function that has a name leads to it through a table, perhaps; to what stands behind its end none does,
 * as far as is known.
 */
Test(insn_rules, jumps_of_a_neighbour)
{
	struct bench b;

	bench_open(&b, ".globl f\n .type f,@function\n f: sub $24,%rsp; jmp *%rdi\n .p2align 4\n"
		       "g: push %rbx\n a: nop; jmp a\n");
	bench_link(&b, "-shared");
	b.nr = cfi_insn_rules(b.cfi, CODE_FROM_START, place(&b, "a"), false, NULL, b.rules,
			      MAX_RULES);
	cr_assert_eq(row_at(&b, place(&b, "a")), 0, "%lx", row_at(&b, place(&b, "a")));
	bench_close(&b);
}

/* What one process says with its stack must not rule others that have the file mapped. */
Test(insn_rules, stack_against_code)
{
	struct judge hostile = { .verdict = CFI_PROVEN, .frame_pointer = true }, judge = PLEASED;
	uint64_t right = unwind_row_make(0, ROW_CFA, UNWIND_RSP, 2, BP_SAME, 0, -2);
	struct bench b;
	uint64_t h;

	bench_open(&b, NEIGHBOURS);
	bench_link(&b, "-shared");
	h = place(&b, "h");
	hostile.refused = right;
	cr_assert_eq(learn(&b, h - 1, false, &hostile), 0);
	cr_assert_eq(hostile.here, unproven(0));
	cr_assert_eq(page_row(&b, h - 1, NULL), none(0));
	cr_assert_eq(learn(&b, h - 1, false, &judge), 0);
	cr_assert_eq(judge.here, 0);
	cr_assert_eq(page_row(&b, h - 1, NULL), right);
	bench_close(&b);
	/* Nothing in this code says where it returns to: a frame pointer that leads on serves its process. */
	bench_open(&b, ".globl f\n f: ret\n .p2align 4\n a: inc %rax; jmp a\n");
	bench_link(&b, "-shared");
	hostile = (struct judge){ .verdict = CFI_REFUSED, .frame_pointer = true };
	cr_assert_eq(learn(&b, place(&b, "a"), true, &hostile), 0);
	cr_assert_eq(hostile.here, unwind_row_make(0, ROW_CFA, UNWIND_RBP, 2, BP_AT_CFA, -2, 1));
	cr_assert_eq(page_row(&b, place(&b, "a"), NULL), none(0));
	bench_close(&b);
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
	struct bench b;

	bench_open(&b, ".globl f,loader\n f: nop; ret\n .p2align 4\n"
		       "loader: xor %rbp,%rbp; mov %rsp,%rdi; call f\n hlt\n");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		judge = (struct judge)PLEASED;
		bench_link(&b, cases[i].options);
		cr_assert_eq(learn(&b, place(&b, cases[i].entry), true, &judge), 0);
		row = page_row(&b, place(&b, cases[i].entry), NULL);
		cr_expect_eq(row == end, cases[i].begins, "%s: %lx", cases[i].options, row);
	}
	bench_close(&b);
}

/* The same program without symbols, and with an entry point. */
static void bench_strip(struct bench *b)
{
	cfi_free(b->cfi);
	elf_image_free(b->img);
	fixture_run("ld -s -o code -e _start --eh-frame-hdr -z noseparate-code --no-warn-execstack "
		    "code.o");
	b->img = fixture_open("code");
	bench_find_code(b);
	cr_assert_eq(cfi_new(&b->cfi, b->img), 0);
}

#define PROGRAM                                                                                    \
	".globl _start\n _start: xor %ebp,%ebp; lea m(%rip),%rdi; call l\n o: hlt\n"               \
	".p2align 4\n l: jmp *%rdi\n .p2align 4\n f: sub $24,%rsp\n a: inc %rax; jmp a\n"          \
	".p2align 4\n m: sub $40,%rsp\n n: inc %rax; jmp n\n"                                      \
	".p2align 4\n s: call l\n r: nop; mov $15,%rax; syscall\n .p2align 4\n"                    \
	"h: sub $8,%rsp; call *%rdi\n i: mov $60,%eax; syscall; hlt\n"

/* Stripped: where a function begins is known by a call to it, or as main(), or not at all. */
Test(insn_rules, starts_without_symbols)
{
	struct judge judge = PLEASED;
	struct bench b;
	uint64_t a;

	bench_open(&b, PROGRAM);
	bench_strip(&b);
	a = place(&b, "a");
	cr_assert_eq(learn(&b, a, true, &judge), 0);
	cr_assert_eq(page_row(&b, a, NULL), unproven(0));
	/* That may be tried again. */
	cfi_forget_unproven(b.cfi, (uint32_t)(a >> 16));
	cr_assert_eq(page_row(&b, a, NULL), none(0));
	judge.has_start = true;
	judge.start = place(&b, "f");
	cr_assert_eq(learn(&b, a, true, &judge), 0);
	/* The call lies on the stack of this process. */
	cr_assert_eq(judge.here, row_sp(32));
	cr_assert_eq(page_row(&b, a, NULL), none(0));
	cr_assert_eq(learn(&b, place(&b, "n"), true, &judge), 0);
	cr_assert_eq(page_row(&b, place(&b, "n"), NULL), row_sp(48));
	bench_close(&b);
}

/* A function that is only called through a pointer begins where code near it has that pointer from. */
#define BEGIN ".globl _start\n _start: jmp _start\n .p2align 4\n"

Test(insn_rules, starts_by_pointers)
{
	struct judge judge = PLEASED;
	struct bench b;

	/* The bytes before t are no instructions; a pointer to behind the place does not count. */
	bench_open(&b,
		   BEGIN "f: sub $24,%rsp\n a: inc %rax; jmp a\n .p2align 4\n g: ret\n .p2align 4\n"
			 ".byte 0x06,0x06\n t: lea f(%rip),%rdi; lea g(%rip),%rsi; ud2\n");
	bench_strip(&b);
	cr_assert_eq(learn(&b, place(&b, "a"), true, &judge), 0);
	cr_assert_eq(judge.here, row_sp(32));
	bench_close(&b);

	judge = (struct judge)PLEASED;
	bench_open(&b,
		   BEGIN "f: sub $24,%rsp\n a: inc %rax; jmp a\n .p2align 4\n g: ret\n .p2align 4\n"
			 "t: lea g(%rip),%rsi; ud2\n");
	bench_strip(&b);
	cr_assert_eq(learn(&b, place(&b, "a"), true, &judge), 0);
	cr_assert_eq(page_row(&b, place(&b, "a"), NULL), unproven(0));
	bench_close(&b);
}

/* What is known at sight: the entry point, the return from a signal, the end of a thread. */
/* What handlers return to is met before, at and in its system call; its first byte was never called. */
Test(insn_rules, signal_return)
{
	static const struct {
		int behind; /* of the first byte of mov $15,%rax; syscall */
		bool exact;
	} places[] = { { -1, false }, { 0, true }, { 7, true }, { 8, false } };
	const uint64_t want = unwind_row_make(0, ROW_SIGNAL, RSP, 5, 0, 0, 0);
	struct judge judge = PLEASED;
	struct bench b;
	uint64_t first;
	size_t i;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		bench_open(&b, PROGRAM);
		bench_strip(&b);
		first = place(&b, "r") + 1;
		cr_assert_eq(learn(&b, first + (uint64_t)places[i].behind, places[i].exact, &judge),
			     0);
		cr_assert_eq(page_row(&b, first, NULL), want, "%zu", i);
		cr_assert_eq(page_row(&b, first + 8, NULL), want, "%zu", i);
		cr_assert_eq(page_row(&b, first - 1, NULL) == want, places[i].behind < 0, "%zu", i);
		cr_assert_neq(page_row(&b, first + 9, NULL), want, "%zu", i);
		bench_close(&b);
	}
	/* The code behind it is another function's. */
	bench_open(&b, PROGRAM);
	bench_strip(&b);
	judge.verdict = CFI_REFUSED;
	first = place(&b, "r") + 1;
	cr_assert_eq(learn(&b, first + 9, true, &judge), 0);
	cr_assert_neq(page_row(&b, first + 9, NULL), want);
	bench_close(&b);
}

Test(insn_rules, at_sight)
{
	struct judge judge = PLEASED;
	struct bench b;

	bench_open(&b, PROGRAM);
	bench_strip(&b);
	cr_assert_eq(learn(&b, place(&b, "_start"), true, &judge), 0);
	cr_assert_eq(page_row(&b, place(&b, "_start"), NULL),
		     unwind_row_make(0, ROW_END, 0, 0, 0, 0, 0));
	cr_assert_eq(learn(&b, place(&b, "o") - 1, false, &judge), 0);
	cr_assert_eq(page_row(&b, place(&b, "o") - 1, NULL),
		     unwind_row_make(0, ROW_END, 0, 0, 0, 0, 0));
	cr_assert_eq(learn(&b, place(&b, "r"), false, &judge), 0);
	cr_assert_eq(page_row(&b, place(&b, "r"), NULL),
		     unwind_row_make(0, ROW_SIGNAL, RSP, 5, 0, 0, 0));
	cr_assert_eq(learn(&b, place(&b, "i") - 1, false, &judge), 0);
	cr_assert_eq(page_row(&b, place(&b, "i") - 1, NULL), unproven(UNWIND_HALTS));
	/* Nothing else may be above a frame. */
	judge.outermost = row_sp(64);
	cr_assert_eq(learn(&b, place(&b, "a"), true, &judge), 0);
	cr_assert_eq(judge.here, row_sp(64));
	bench_close(&b);
}

/* Where no symbol says where functions end, what is behind a call may be another one's. */
Test(insn_rules, only_what_belongs_together)
{
	struct judge judge = PLEASED;
	struct bench b;

	bench_open(&b, "x: ret\n f: sub $24,%rsp\n a: nop; call x\n g: add $24,%rsp; ret\n");
	bench_strip(&b);
	cr_assert_eq(learn(&b, place(&b, "f"), true, &judge), 0);
	cr_assert_eq(judge.row, row_sp(8));
	cr_assert_eq(page_row(&b, place(&b, "f"), NULL), row_sp(8));
	cr_assert_eq(page_row(&b, place(&b, "a"), NULL), row_sp(32));
	cr_assert_eq(page_row(&b, place(&b, "g"), NULL), none(0));
	bench_close(&b);
}

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
	struct bench b;
	struct judge judge = PLEASED;

	s.regs[UNWIND_RSP] = 0x10008;
	before = s;
	bench_open(&b, "f: sub $24,%rsp\n a: add $24,%rsp; ret\n" TABLE);
	cr_assert_eq(cfi_step(b.cfi, place(&b, "a"), &s, &words.reader), BPFPROF_STOP_NO_TABLE);
	cr_assert_eq(learn(&b, place(&b, "a"), true, &judge), 0);
	s = before;
	cr_assert_eq(cfi_step(b.cfi, place(&b, "a"), &s, &words.reader), 0);
	cr_assert_eq(s.regs[UNWIND_RIP], 0xabc);
	cr_assert_eq(s.regs[UNWIND_RSP], 0x10028);
	bench_close(&b);
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
