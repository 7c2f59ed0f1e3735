// SPDX-License-Identifier: Apache-2.0
#include "elf/usdt.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/image.h"
#include "test_elf_fixture.h"

#define MAX 16

TestSuite(usdt, .timeout = 60);

/* A library with probes as sys/sdt.h makes them. note: place, semaphore, provider, name, arguments. */
static const char assembly[] =
	"	.macro note place, semaphore, provider, name, arguments\n"
	"	.pushsection .note.stapsdt, \"\", @note\n"
	"	.balign 4\n"
	"	.long 8, 9f - 8f, 3\n"
	"	.asciz \"stapsdt\"\n"
	"8:	.quad \\place, _.stapsdt.base, \\semaphore\n"
	"	.asciz \"\\provider\"\n	.asciz \"\\name\"\n	.asciz \"\\arguments\"\n"
	"9:	.balign 4\n"
	"	.popsection\n"
	"	.endm\n"
	"	.section .stapsdt.base, \"aG\", @progbits, .stapsdt.base, comdat\n"
	"	.weak _.stapsdt.base\n	.hidden _.stapsdt.base\n"
	"_.stapsdt.base: .space 1\n"
	"	.section .probes, \"aw\", @progbits\n"
	"	.balign 2\n"
	"first_semaphore: .short 0\n"
	"second_semaphore: .short 0\n"
	"	.text\n"
	"	.globl first, second, third\n"
	"first:	nop\n	ret\n"
	"second: push %rbp\n	nop\n	pop %rbp\n	ret\n"
	"third:	nop\n	ret\n"
	"note first, first_semaphore, pytorch, malloc, \"-8@%rax -1@%dl -8@%r14 -8@-104(%rbp)\"\n"
	"note second + 1, second_semaphore, pytorch, free, \"-8@%rdi\"\n"
	"note third, 0, other, malloc, \"8@%rax\"\n"
	"note third, 0, pytorch, plain, \"\"\n"
	/*
	 * Impossible addresses: data as code, code as a semaphore, outside of the file, an odd
	 * address.
	 */
	"note first_semaphore, 0, pytorch, wrong, \"8@%rax\"\n"
	"note first, first, pytorch, wrong, \"8@%rax\"\n"
	"note first + 0x10000000, 0, pytorch, wrong, \"8@%rax\"\n"
	"note first, first_semaphore + 1, pytorch, wrong, \"8@%rax\"\n"
	"note third, 0, pytorch, a_name_that_is_much_longer_than_all_that_is_kept_of_it, \"\"\n"
	"	.section .note.GNU-stack, \"\", @progbits\n";

static const char library[] = "gcc -shared -nostdlib -Wl,-z,noseparate-code -o probes.so probes.S";

static int find(const char *file, const char *provider, struct usdt_probe probes[MAX], size_t *nr)
{
	struct elf_image *img = fixture_open(file);
	int err = usdt_find(img, provider, probes, MAX, nr);

	elf_image_free(img);
	return err;
}

Test(usdt, probes_of_a_provider)
{
	struct usdt_probe probes[MAX];
	size_t nr;

	fixture_write("probes.S", assembly);
	fixture_run(library);
	cr_assert_eq(find("probes.so", "pytorch", probes, &nr), 0);
	cr_assert_eq(nr, 3);
	cr_expect_str_eq(probes[0].name, "malloc");
	cr_expect_str_eq(probes[0].arguments, "-8@%rax -1@%dl -8@%r14 -8@-104(%rbp)");
	cr_expect_eq(probes[0].off, fixture_offset("probes.so", "first"));
	cr_expect_eq(probes[0].semaphore_off, fixture_offset("probes.so", "first_semaphore"));
	cr_expect_str_eq(probes[1].name, "free");
	cr_expect_eq(probes[1].off, fixture_offset("probes.so", "second") + 1);
	cr_expect_eq(probes[1].semaphore_off, fixture_offset("probes.so", "second_semaphore"));
	cr_expect_str_eq(probes[2].name, "plain");
	cr_expect_eq(probes[2].semaphore_off, 0);
	cr_assert_eq(find("probes.so", "other", probes, &nr), 0);
	cr_expect_eq(nr, 1);
	cr_expect_eq(probes[0].off, fixture_offset("probes.so", "third"));
	nr = 77;
	cr_expect_eq(find("probes.so", "nobody", probes, &nr), -ENODATA);
	cr_expect_eq(nr, 77);
}

Test(usdt, at_most_so_many)
{
	struct usdt_probe probes[MAX];
	struct elf_image *img;
	size_t nr;

	fixture_write("probes.S", assembly);
	fixture_run(library);
	img = fixture_open("probes.so");
	memset(probes, 0x5a, sizeof(probes));
	cr_assert_eq(usdt_find(img, "pytorch", probes, 2, &nr), 0);
	cr_expect_eq(nr, 2);
	cr_expect_eq(probes[2].name[0], 0x5a);
	elf_image_free(img);
}

/* The notes themselves cut short, or of an absurd length. */
Test(usdt, broken)
{
	struct usdt_probe probes[MAX];
	size_t nr;

	fixture_write("probes.S", assembly);
	fixture_run(library);
	fixture_run("head -c 30 /dev/zero | tr '\\0' '\\377' > wild\n"
		    "objcopy --update-section .note.stapsdt=wild probes.so wild.so\n"
		    "printf '\\10\\0\\0\\0' > short\n"
		    "objcopy --update-section .note.stapsdt=short probes.so short.so\n"
		    "head -c 2000000 /dev/zero > long\n"
		    "objcopy --update-section .note.stapsdt=long probes.so long.so\n"
		    "objcopy --remove-section .note.stapsdt probes.so none.so\n");
	cr_expect_eq(find("wild.so", "pytorch", probes, &nr), -EBADMSG);
	cr_expect_eq(find("short.so", "pytorch", probes, &nr), -EBADMSG);
	cr_expect_eq(find("long.so", "pytorch", probes, &nr), -E2BIG);
	cr_expect_eq(find("none.so", "pytorch", probes, &nr), -ENODATA);
}

Test(usdt, arguments)
{
	static const char text[] =
		"-8@%rax -1@%dl  4@%r14d 8@-104(%rbp) 2@16(%r9) -4@(%rsp) 8@%rsi";
	static const struct usdt_argument wanted[] = {
		{ USDT_REGISTER, 8, 0, 0 },  { USDT_REGISTER, 1, 2, 0 },
		{ USDT_REGISTER, 4, 14, 0 }, { USDT_MEMORY, 8, 5, -104 },
		{ USDT_MEMORY, 2, 9, 16 },   { USDT_MEMORY, 4, 4, 0 },
		{ USDT_REGISTER, 8, 6, 0 },
	};
	struct usdt_argument found;
	unsigned int i;

	for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		cr_assert_eq(usdt_argument(text, i + 1, &found), 0, "%u", i);
		cr_expect(found.kind == wanted[i].kind && found.bytes == wanted[i].bytes &&
				  found.reg == wanted[i].reg && found.off == wanted[i].off,
			  "%u: %d %u %u %" PRId64, i, found.kind, found.bytes, found.reg,
			  found.off);
	}
	cr_expect_eq(usdt_argument(text, i + 1, &found), -ENOENT);
	cr_expect_eq(usdt_argument(text, 0, &found), -ENOENT);
	cr_expect_eq(usdt_argument("", 1, &found), -ENOENT);
}

/* A constant has the size and the sign of its type. */
Test(usdt, constants)
{
	static const struct {
		const char *text;
		int64_t value;
		uint8_t bytes;
	} cases[] = {
		{ "-4@$2", 2, 4 },
		{ "-4@$-1", -1, 4 },
		{ "4@$-1", 0xffffffff, 4 },
		{ "-4@$4294967295", -1, 4 },
		{ "4@$4294967295", 0xffffffff, 4 },
		{ "-1@$255", -1, 1 },
		{ "1@$-1", 255, 1 },
		{ "-2@$32768", -32768, 2 },
		{ "-1@$127", 127, 1 },
		{ "8@$0", 0, 8 },
		{ "-8@$9223372036854775807", INT64_MAX, 8 },
		{ "8@$-9223372036854775807", -INT64_MAX, 8 },
	};
	struct usdt_argument found;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(usdt_argument(cases[i].text, 1, &found), 0, "%s", cases[i].text);
		cr_expect(found.kind == USDT_CONSTANT && found.bytes == cases[i].bytes &&
				  found.off == cases[i].value,
			  "%s: %d %u %" PRId64, cases[i].text, found.kind, found.bytes, found.off);
	}
	cr_assert_eq(usdt_argument("-8@%rax 4@$7 -8@%rdi", 2, &found), 0);
	cr_expect(found.kind == USDT_CONSTANT && found.off == 7);
}

Test(usdt, arguments_not_understood)
{
	static const char *const texts[] = {
		"8@$",
		"8@$-",
		"8@$x",
		"8@$5x",
		"8@$0x10",
		"8@$$5",
		"8@$9223372036854775808",
		"8@5",
		"3@$5",
		"8@x(%rip)",
		"8@8(%rax,%rbx,4)",
		"8@%ah",
		"3@%rax",
		"8%rax",
		"@%rax",
		"8@",
		"-8@%",
		"8@(%eax)",
		"8@2147483648(%rax)",
		"8@99999999999999999999(%rax)",
		"8@(%rax",
		"8@()",
		"8@%raxx",
		"88@%rax",
		"-@%rax",
		"-",
		"8@%xmm0",
		"8@-(rax)",
	};
	struct usdt_argument found = { .bytes = 77 };
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_expect_eq(usdt_argument(texts[i], 1, &found), -ENOTSUP, "%s", texts[i]);
	cr_expect_eq(found.bytes, 77);
}
