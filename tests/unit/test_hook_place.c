// SPDX-License-Identifier: Apache-2.0
#include "cuda/hook_place.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/code_values.h"
#include "elf/image.h"
#include "test_elf_fixture.h"

TestSuite(hook_place, .timeout = 120);

#define NR(array) (sizeof(array) / sizeof((array)[0]))
#define TRAMPOLINE "cmpl $0x321cba00, state(%rip); je 1f; jmp *table(%rip); 1: jmp *table(%rip)"
#define SWITCH "lea table(%rip), %rax; movslq (%rax,%rdi,4), %rdi; add %rdi, %rax; jmp *%rax"

struct function {
	const char *text;
	uint64_t place;
};

static const struct function functions[] = {
	/* The first byte. */
	{ "push %rbp; mov %rsp, %rbp; pop %rbp; ret", 0 },
	{ "push %r15; pop %r15; ret", 0 },
	{ "nop; ret", 0 },
	{ "jmp elsewhere", 0 },
	/* The driver's trampolines, and what is around them. */
	{ TRAMPOLINE, 10 },
	{ "endbr64; " TRAMPOLINE, 14 },
	{ "nopl 8(%rax); endbr64; " TRAMPOLINE, 18 },
	{ "cmpl $1, state(%rip); jne 1f; jmp *table(%rip); 1: jmp *table(%rip)", 7 },
	{ "cmpb $1, state(%rip); jne away; jmp *table(%rip)", 7 },
	{ "cmpb $1, state(%rip); jne elsewhere; jmp *table(%rip)", 0 }, /* a part of it? */
	{ "cmpq $0, state(%rip); {disp32} je 1f; jmp *table(%rip); 1: jmp *table(%rip)", 8 },
	{ "mov table(%rip), %rax; test %rax, %rax; je away; jmp *%rax", 10 },
	{ "mov table(%rip), %r11; jmp *%r11", 0 },
	/* Ways to begin. */
	{ "endbr64; push %rbx; pop %rbx; ret", 4 },
	{ "endbr64; jmp elsewhere", 4 },
	{ "mov %rdi, %rax; push %rbx; pop %rbx; ret", 3 },
	{ "mov %rdi, %rax; mov %esi, %r10d; lea 8(%rdx,%rcx,8), %r11; push %r12; pop %r12; ret",
	  11 },
	{ "xor %eax, %eax; mov %fs:0x28, %r10; nop; ret", 11 },
	{ "mov 8(%rsp), %rax; movzbl 16(%rsp), %r10d; test %rax, %rax; jne 1f; ret; 1: ret", 14 },
	{ "xchg %ax, %ax; nopw 8(%rax,%rax); push %rbx; pop %rbx; ret", 8 },
	{ "mov %edi, %eax; call elsewhere; ret", 2 },
	{ "xor %eax, %eax; add %rdi, %rax; sub %rsi, %rax; shl $3, %rax; or %rdx, %rax; push %rbx;"
	  "pop %rbx; ret",
	  15 },
	/* Instructions that the kernel refuses or does not emulate. */
	{ "mov %rdi, %rax; ret; nop", 0 },
	{ "mov %rdi, %rax; jmp *%rax; nop", 0 },
	{ "mov %rdi, %rax; push $1; pop %rax; ret", 0 },
	{ "mov %rdi, %rax; push (%rdi); pop %rax; ret", 0 },
	{ "mov %rdi, %rax; .byte 0x66; push %rbx", 0 },
	{ "mov %rdi, %rax; .byte 0x48; push %rbx; pop %rbx; ret", 0 },
	{ "mov %rdi, %rax; .byte 0x2e; je elsewhere; ret", 0 },
	{ "mov %rdi, %rax; bnd jmp elsewhere", 0 },
	{ "mov %rdi, %rax; jrcxz 1f; 1: ret", 0 },
	{ "mov %rdi, %rax; pause; nop; ret", 0 },
	{ "mov %rdi, %rax; xchg %r8, %rax; nop; ret", 0 },
	/*
	 * Code before the hook that changes what the hook reads: arguments, registers of the
	 * caller, the stack.
	 */
	{ "mov %rsi, %rdi; push %rbx; pop %rbx; ret", 0 },
	{ "xor %esi, %esi; push %rbx; pop %rbx; ret", 0 },
	{ "mov $1, %dl; push %rbx; pop %rbx; ret", 0 },
	{ "mov %rdi, %rcx; push %rbx; pop %rbx; ret", 0 },
	{ "lea 8(%r8), %r8; push %rbx; pop %rbx; ret", 0 },
	{ "mov %ax, %r9w; push %rbx; pop %rbx; ret", 0 },
	{ "mov %rsp, %rbp; push %rbx; pop %rbx; ret", 0 },
	{ "xor %ebx, %ebx; push %rbx; pop %rbx; ret", 0 },
	{ "mov %rdi, %r12; push %rbx; pop %rbx; ret", 0 },
	{ "sub $24, %rsp; call elsewhere; add $24, %rsp; ret", 0 },
	{ "lea -24(%rsp), %rsp; call elsewhere; add $24, %rsp; ret", 0 },
	{ "mov %rdi, -8(%rsp); push %rbx; pop %rbx; ret", 0 },
	{ "mov %rdi, 8(%rsp); push %rbx; pop %rbx; ret", 0 },
	{ "addl $1, state(%rip); push %rbx; pop %rbx; ret", 0 },
	{ "lock addl $1, state(%rip); push %rbx; pop %rbx; ret", 0 },
	{ "cltd; push %rbx; pop %rbx; ret", 0 },
	/* Instructions that may fault, or leave in another way. */
	{ "mov (%rdi), %rax; push %rbx; pop %rbx; ret", 0 },
	{ "mov 8(%rsp,%rdi), %rax; push %rbx; pop %rbx; ret", 0 },
	{ "mov 0x1000(%rsp), %rax; push %rbx; pop %rbx; ret", 0 },
	{ "mov -8(%rsp), %rax; push %rbx; pop %rbx; ret", 0 },
	{ "mov 0x1000, %eax; push %rbx; pop %rbx; ret", 0 },
	{ "mov %gs:8, %rax; push %rbx; pop %rbx; ret", 0 },
	{ "mov %fs:(%rax), %rax; push %rbx; pop %rbx; ret", 0 },
	{ "xor %eax, %eax; div %r10d; push %rbx; pop %rbx; ret", 0 },
	{ "mov $39, %eax; syscall; push %rbx; pop %rbx; ret", 0 },
	{ "mov %rdi, %rax; ud2; push %rbx", 0 },
	{ "mov %rdi, %rax; int3; nop; ret", 0 },
	{ "mov %rdi, %rax; .byte 0x06; nop; ret", 0 },
	/* The code jumps back to the place: a call would count with each round. */
	{ "xor %eax, %eax; 1: cmp %rdi, %rax; jne 1b; ret", 0 },
	{ "xor %eax, %eax; 1: cmp %rdi, %rax; je 2f; add $1, %rax; jmp 1b; 2: ret", 0 },
	{ "xor %eax, %eax; 1: je 2f; dec %edi; jmp 1b; 2: ret", 0 },
	{ "0: endbr64; 1: push %rbx; pop %rbx; test %edi, %edi; je 1b; ret", 0 },
	{ "0: mov %rdi, %rax; push %rbx; pop %rbx; call 0b + 3; ret", 0 },
	{ "0: mov %rdi, %rax; push %rbx; pop %rbx; .byte 0xeb, 0xfb", 0 }, /* jmp 0b + 4 */
	{ "xor %eax, %eax; back: cmp %rdi, %rax; je cold; ret", 0 },
	/* No code jumps back to it: a loop behind it, or a call of the function itself. */
	{ "0: xor %eax, %eax; cmp %rdi, %rax; je 1f; 2: dec %edi; jne 2b; 1: ret", 5 },
	{ "0: endbr64; push %rbx; pop %rbx; test %edi, %edi; je 0b; ret", 4 },
	{ "0: mov %rdi, %rax; push %rbx; call 0b; pop %rbx; ret", 3 },
	/* Switches: the targets are not known, except within a frame. */
	{ "xor %r10d, %r10d; cmp $5, %edi; ja away; " SWITCH, 0 },
	{ "xor %r10d, %r10d; cmp $5, %edi; ja away; jmp *table(,%rdi,8)", 0 },
	{ "xor %r10d, %r10d; push %rbx; cmp $5, %edi; ja away; " SWITCH, 3 },
	{ "xor %r10d, %r10d; push %rbx; cmp $5, %edi; ja away; jmp *table(,%rdi,8)", 3 },
	{ "xor %r10d, %r10d; push %rbx; pop %rbx; jmp *table(,%rdi,8)", 0 },
	{ "xor %r10d, %r10d; push %rbx; pop %rbx; mov (%rdi), %rax; jmp *8(%rax)", 3 },
	{ "xor %r10d, %r10d; push %rbp; mov %rsp, %rbp; leave; " SWITCH, 0 },
	/* More code than there is time for, or than can be read. */
	{ "xor %eax, %eax; push %rbx; .rept 1000\nmov (%rdi), %rdi\n.endr\npop %rbx; ret", 2 },
	{ "xor %eax, %eax; push %rbx; .rept 3000\nmov (%rdi), %rdi\n.endr\npop %rbx; ret", 0 },
	{ "xor %eax, %eax; push %rbx; .rept 300\nje . + 3; ret\n.endr\npop %rbx; ret", 0 },
	{ "xor %eax, %eax; push %rbx; .byte 0x06; pop %rbx; ret", 0 },
	{ ".rept 15\nmov %rdi, %rax\n.endr\npush %rbx; pop %rbx; ret", 45 },
	{ ".rept 16\nmov %rdi, %rax\n.endr\npush %rbx; pop %rbx; ret", 0 },
};

/* Another function, in which a switch is; one without; a part that was split off. */
static const char others[] = "	.text\n"
			     "elsewhere: mov (%rdi,%rsi,8), %rax\n	jmp *table(,%rsi,8)\n"
			     "away: ret\n"
			     "	.weak back\ncold: pause\n	jmp back\n";

static struct elf_image *assemble(const struct function *rows, size_t nr)
{
	char *text;
	size_t len, i;
	FILE *f = open_memstream(&text, &len);

	cr_assert(f);
	fputs(others, f);
	for (i = 0; i < nr; i++)
		fprintf(f, "	.globl f%zu\nf%zu: %s\n	.size f%zu, . - f%zu\n", i, i, rows[i].text,
			i, i);
	fputs("	.data\nstate: .quad 0\ntable: .quad 0\n"
	      "	.section .note.GNU-stack, \"\", @progbits\n",
	      f);
	fclose(f);
	fixture_write("f.S", text);
	free(text);
	fixture_run("gcc -nostdlib -static -Wl,-Ttext-segment=0x10000,-e0 -o f f.S");
	return fixture_open("f");
}

static struct nm_symbol symbol_of(const struct nm_symbol *symbols, size_t nr, size_t row)
{
	char name[16];
	size_t i;

	snprintf(name, sizeof(name), "f%zu", row);
	for (i = 0; i < nr && strcmp(symbols[i].name, name); i++)
		;
	cr_assert_lt(i, nr, "no %s", name);
	return symbols[i];
}

Test(hook_place, functions)
{
	struct elf_image *img = assemble(functions, NR(functions));
	struct nm_symbol *symbols, symbol;
	struct code_reader reader;
	uint32_t budget, left;
	uint64_t place;
	size_t nr, i;

	symbols = fixture_nm("-S", "f", &nr);
	cr_assert_eq(code_reader_init(&reader, img), 0);
	for (i = 0; i < NR(functions); i++) {
		symbol = symbol_of(symbols, nr, i);
		budget = HOOK_PLACE_LIBRARY_INSTRUCTIONS;
		place = hook_place(&reader, symbol.value, symbol.bytes, &budget);
		cr_expect_eq(place, functions[i].place, "%s: %lu", functions[i].text, place);
		left = HOOK_PLACE_LIBRARY_INSTRUCTIONS - budget;
		cr_expect_leq(left, HOOK_PLACE_MAX_INSTRUCTIONS, "%s", functions[i].text);
		if (place)
			cr_expect_gt(left, 0, "%s", functions[i].text);
	}
	free(symbols);
	elf_image_free(img);
}

/* A symbol ends before the instruction does; the library's time is over. */
Test(hook_place, ends)
{
	static const struct function rows[] = { { "endbr64; " TRAMPOLINE, 14 } };
	struct elf_image *img = assemble(rows, 1);
	struct code_reader reader;
	uint64_t start, bytes;
	uint32_t budget;
	char *path = fixture_path("f");

	start = fixture_value(path, "f0");
	cr_assert_eq(code_reader_init(&reader, img), 0);
	for (bytes = 0; bytes < 40; bytes++) {
		budget = 100;
		cr_expect_eq(hook_place(&reader, start, bytes, &budget), bytes < 16 ? 0 : 14,
			     "%lu bytes", bytes);
	}
	for (budget = 0; budget < 3; budget++) {
		uint32_t left = budget;

		cr_expect_eq(hook_place(&reader, start, 40, &left), 0, "of %u", budget);
		cr_expect_eq(left, 0, "of %u", budget);
	}
	budget = 3; /* je, jmp, jmp */
	cr_expect_eq(hook_place(&reader, start, 40, &budget), 14);
	cr_expect_eq(budget, 0);
	free(path);
	elf_image_free(img);
}
