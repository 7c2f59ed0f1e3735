// SPDX-License-Identifier: Apache-2.0
/* Begins of functions in stripped programs, and code that is known at sight. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "elf/image.h"
#include "unwind/cfi.h"
#include "unwind/reader.h"
#include "test_elf_fixture.h"
#include "unwind_native.h"
#include "code_bench.h"

/* The same program without symbols, and with an entry point. */
static void bench_strip(struct code_bench *b)
{
	cfi_free(b->cfi);
	elf_image_free(b->img);
	fixture_run("ld -s -o code -e _start --eh-frame-hdr -z noseparate-code --no-warn-execstack "
		    "code.o");
	b->img = fixture_open("code");
	code_bench_find_code(b);
	cr_assert_eq(cfi_new(&b->cfi, b->img), 0);
}

#define PROGRAM                                                                                    \
	".globl _start\n _start: xor %ebp,%ebp; lea m(%rip),%rdi; call l\n o: hlt\n"               \
	".p2align 4\n l: jmp *%rdi\n .p2align 4\n f: sub $24,%rsp\n a: inc %rax; jmp a\n"          \
	".p2align 4\n m: sub $40,%rsp\n n: inc %rax; jmp n\n"                                      \
	".p2align 4\n s: call l\n r: nop; mov $15,%rax; syscall\n .p2align 4\n"                    \
	"h: sub $8,%rsp; call *%rdi\n i: mov $60,%eax; syscall; hlt\n"

/*
 * In a stripped program a function's begin is known by a call to it, or as main(), or not at all.
 */
Test(insn_rules, starts_without_symbols)
{
	struct judge judge = PLEASED;
	struct code_bench b;
	uint64_t a;

	code_bench_open(&b, PROGRAM);
	bench_strip(&b);
	a = code_place(&b, "a");
	cr_assert_eq(code_learn(&b, a, true, &judge), 0);
	cr_assert_eq(code_page_row(&b, a, NULL), row_unproven(0));
	/* That may be tried again. */
	cfi_forget_unproven(b.cfi, (uint32_t)(a >> 16));
	cr_assert_eq(code_page_row(&b, a, NULL), row_none(0));
	judge.has_start = true;
	judge.start = code_place(&b, "f");
	cr_assert_eq(code_learn(&b, a, true, &judge), 0);
	/* The call lies on the stack of this process. */
	cr_assert_eq(judge.here, code_row_sp(32));
	cr_assert_eq(code_page_row(&b, a, NULL), row_none(0));
	cr_assert_eq(code_learn(&b, code_place(&b, "n"), true, &judge), 0);
	cr_assert_eq(code_page_row(&b, code_place(&b, "n"), NULL), code_row_sp(48));
	code_bench_close(&b);
}

/* A function that is only called through a pointer begins where code near it has that pointer from. */
#define BEGIN ".globl _start\n _start: jmp _start\n .p2align 4\n"

Test(insn_rules, starts_by_pointers)
{
	struct judge judge = PLEASED;
	struct code_bench b;

	/* The bytes before t are no instructions; a pointer to behind the place does not count. */
	code_bench_open(&b, BEGIN
			"f: sub $24,%rsp\n a: inc %rax; jmp a\n .p2align 4\n g: ret\n .p2align 4\n"
			".byte 0x06,0x06\n t: lea f(%rip),%rdi; lea g(%rip),%rsi; ud2\n");
	bench_strip(&b);
	cr_assert_eq(code_learn(&b, code_place(&b, "a"), true, &judge), 0);
	cr_assert_eq(judge.here, code_row_sp(32));
	code_bench_close(&b);

	judge = (struct judge)PLEASED;
	code_bench_open(&b, BEGIN
			"f: sub $24,%rsp\n a: inc %rax; jmp a\n .p2align 4\n g: ret\n .p2align 4\n"
			"t: lea g(%rip),%rsi; ud2\n");
	bench_strip(&b);
	cr_assert_eq(code_learn(&b, code_place(&b, "a"), true, &judge), 0);
	cr_assert_eq(code_page_row(&b, code_place(&b, "a"), NULL), row_unproven(0));
	code_bench_close(&b);
}

/* Code that is known at sight: the entry point, the return from a signal, the end of a thread. */
/*
 * The return from a signal is found before, at and in its system call; no call leads to its first
 * byte.
 */
Test(insn_rules, signal_return)
{
	static const struct {
		int behind; /* of the first byte of mov $15,%rax; syscall */
		bool exact;
	} places[] = { { -1, false }, { 0, true }, { 7, true }, { 8, false } };
	const uint64_t want = unwind_row_make(0, ROW_SIGNAL, UNWIND_RSP, 5, 0, 0, 0);
	struct judge judge = PLEASED;
	struct code_bench b;
	uint64_t first;
	size_t i;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		code_bench_open(&b, PROGRAM);
		bench_strip(&b);
		first = code_place(&b, "r") + 1;
		cr_assert_eq(
			code_learn(&b, first + (uint64_t)places[i].behind, places[i].exact, &judge),
			0);
		cr_assert_eq(code_page_row(&b, first, NULL), want, "%zu", i);
		cr_assert_eq(code_page_row(&b, first + 8, NULL), want, "%zu", i);
		cr_assert_eq(code_page_row(&b, first - 1, NULL) == want, places[i].behind < 0,
			     "%zu", i);
		cr_assert_neq(code_page_row(&b, first + 9, NULL), want, "%zu", i);
		code_bench_close(&b);
	}
	/* The code behind it is another function's. */
	code_bench_open(&b, PROGRAM);
	bench_strip(&b);
	judge.verdict = CFI_REFUSED;
	first = code_place(&b, "r") + 1;
	cr_assert_eq(code_learn(&b, first + 9, true, &judge), 0);
	cr_assert_neq(code_page_row(&b, first + 9, NULL), want);
	code_bench_close(&b);
}

Test(insn_rules, at_sight)
{
	struct judge judge = PLEASED;
	struct code_bench b;

	code_bench_open(&b, PROGRAM);
	bench_strip(&b);
	cr_assert_eq(code_learn(&b, code_place(&b, "_start"), true, &judge), 0);
	cr_assert_eq(code_page_row(&b, code_place(&b, "_start"), NULL),
		     unwind_row_make(0, ROW_END, 0, 0, 0, 0, 0));
	cr_assert_eq(code_learn(&b, code_place(&b, "o") - 1, false, &judge), 0);
	cr_assert_eq(code_page_row(&b, code_place(&b, "o") - 1, NULL),
		     unwind_row_make(0, ROW_END, 0, 0, 0, 0, 0));
	cr_assert_eq(code_learn(&b, code_place(&b, "r"), false, &judge), 0);
	cr_assert_eq(code_page_row(&b, code_place(&b, "r"), NULL),
		     unwind_row_make(0, ROW_SIGNAL, UNWIND_RSP, 5, 0, 0, 0));
	cr_assert_eq(code_learn(&b, code_place(&b, "i") - 1, false, &judge), 0);
	cr_assert_eq(code_page_row(&b, code_place(&b, "i") - 1, NULL), row_unproven(UNWIND_HALTS));
	/* No other code may be above a frame. */
	judge.outermost = code_row_sp(64);
	cr_assert_eq(code_learn(&b, code_place(&b, "a"), true, &judge), 0);
	cr_assert_eq(judge.here, code_row_sp(64));
	code_bench_close(&b);
}

/* If no symbol ends a function, the code behind a call may belong to another function. */
Test(insn_rules, only_what_belongs_together)
{
	struct judge judge = PLEASED;
	struct code_bench b;

	code_bench_open(&b, "x: ret\n f: sub $24,%rsp\n a: nop; call x\n g: add $24,%rsp; ret\n");
	bench_strip(&b);
	cr_assert_eq(code_learn(&b, code_place(&b, "f"), true, &judge), 0);
	cr_assert_eq(judge.row, code_row_sp(8));
	cr_assert_eq(code_page_row(&b, code_place(&b, "f"), NULL), code_row_sp(8));
	cr_assert_eq(code_page_row(&b, code_place(&b, "a"), NULL), code_row_sp(32));
	cr_assert_eq(code_page_row(&b, code_place(&b, "g"), NULL), row_none(0));
	code_bench_close(&b);
}
