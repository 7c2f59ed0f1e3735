// SPDX-License-Identifier: Apache-2.0
#include "cuda/comm_layout.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test_elf_fixture.h"

TestSuite(comm_layout, .timeout = 120);

struct code {
	const char *text;
	uint32_t wanted;
};

static const struct code codes[] = {
	{ "mov 0x1044d0(%rdi),%eax; mov %eax,(%rsi); xor %eax,%eax; ret", 0x1044d0 },
	{ "mov 0x40(%rdi),%eax; mov %eax,(%rsi)", 0x40 },
	{ "mov 0xfffffc(%r12),%r15d; mov %r15d,(%r14)", 0xfffffc },
	/* These two have a displacement of 8 bits, 0, as there is no other way to write them. */
	{ "mov 0x1000(%r13),%ecx; mov %ecx,(%r13)", 0x1000 },
	{ "mov 0x1000(%rbx),%ecx; mov %ecx,(%rbp)", 0x1000 },
	{ "mov 0x1000(%rdi),%eax; mov $0,%ebx; push %rdx; mov %eax,(%rsi)", 0x1000 },
	{ "mov 0x1000(%rax),%edx; mov -8(%rbp),%rax; mov %edx,(%rax)", 0x1000 },
	{ "mov 0x1000(%rax),%eax; mov %eax,(%rsi)", 0x1000 },
	/* The last pair counts, even behind the exit. */
	{ "mov 0x1000(%rdi),%eax; mov %eax,(%rsi); mov 0x2000(%rdi),%eax; mov %eax,(%rsi)",
	  0x2000 },
	{ "ret; mov 0x1000(%rdi),%eax; mov %eax,(%rsi)", 0x1000 },
	{ "mov 0x1000(%rdi),%eax; mov %eax,(%rsi); .byte 0x06; mov 0x2000(%rdi),%eax;"
	  "mov %eax,(%rsi)",
	  0x1000 },
	/* A load is no store. */
	{ "mov 0x1000(%rdi),%eax; mov %ebx,(%rsi)", 0 },
	{ "mov 0x1000(%rdi),%eax; xor %eax,%eax; mov %eax,(%rsi)", 0 },
	{ "mov 0x1000(%rdi),%eax; mov $1,%al; mov %eax,(%rsi)", 0 },
	{ "mov 0x1000(%rdi),%edx; imul %rbx; mov %edx,(%rsi)", 0 },
	{ "mov 0x1000(%rdi),%eax; mov 8(%rdi),%rax; mov %eax,(%rsi)", 0 },
	{ "mov 0x1000(%rdi),%eax; call 1f; 1: mov %eax,(%rsi)", 0 },
	{ "mov 0x1000(%rdi),%eax; jne 1f; 1: mov %eax,(%rsi)", 0 },
	{ "mov 0x1000(%rdi),%eax; ret; mov %eax,(%rsi)", 0 },
	/* Not 32 bits, no pointer in a register, no offset of a field. */
	{ "mov 0x1000(%rdi),%rax; mov %eax,(%rsi)", 0 },
	{ "movzwl 0x1000(%rdi),%eax; mov %eax,(%rsi)", 0 },
	{ "mov 0x1000(%rdi),%eax; mov %rax,(%rsi)", 0 },
	{ "mov 0x1000(%rdi),%eax; mov %eax,4(%rsi)", 0 },
	{ "mov 0x1000(%rdi),%eax; mov %eax,(%rsi,%rcx)", 0 },
	{ "mov 0x1000(%rdi),%eax; mov %eax,(%rsp)", 0 },
	{ "mov 0x1000(%rdi),%eax; mov %eax,%fs:(%rsi)", 0 },
	{ "mov 0x1000(%rdi),%eax; add %eax,(%rsi)", 0 },
	{ "mov 0x1000(%rsp),%eax; mov %eax,(%rsi)", 0 },
	{ "mov 0x1000(%rip),%eax; mov %eax,(%rsi)", 0 },
	{ "mov 0x1000(%rdi,%rcx,4),%eax; mov %eax,(%rsi)", 0 },
	{ "mov 0x1000(%edi),%eax; mov %eax,(%rsi)", 0 },
	{ "mov 0x3f(%rdi),%eax; mov %eax,(%rsi)", 0 },
	{ "mov -0x1000(%rdi),%eax; mov %eax,(%rsi)", 0 },
	{ "mov 0x1000000(%rdi),%eax; mov %eax,(%rsi)", 0 },
	{ "mov (%rdi),%eax; mov %eax,(%rsi)", 0 },
};

static uint8_t *assemble(const char *text, size_t *ret_len)
{
	char source[256];

	snprintf(source, sizeof(source), "%s\n", text);
	fixture_write("c.s", source);
	fixture_run("as -o c.o c.s && objcopy -O binary -j .text c.o c.bin");
	return (uint8_t *)fixture_read("c.bin", ret_len);
}

Test(comm_layout, field)
{
	uint8_t *code;
	size_t len, i;

	for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		code = assemble(codes[i].text, &len);
		cr_expect_eq(comm_layout_field(code, len), codes[i].wanted, "%s: %#x",
			     codes[i].text, comm_layout_field(code, len));
		free(code);
	}
}

/* Code may be cut off anywhere; reads stay in its memory. */
Test(comm_layout, cut)
{
	uint8_t *code, *part;
	size_t len, i;

	code = assemble("mov 0x1000(%rdi),%eax; mov %eax,(%rsi)", &len);
	cr_assert_eq(len, 8);
	for (i = 0; i <= len; i++) {
		part = malloc(i ? i : 1);
		cr_assert(part);
		memcpy(part, code, i);
		cr_assert_eq(comm_layout_field(part, i), i == len ? 0x1000 : 0);
		free(part);
	}
	free(code);
}

Test(comm_layout, rank)
{
	cr_assert_eq(comm_layout_rank(1000, 1004, 1008), 1000);
	cr_assert_eq(comm_layout_rank(0, 4, 8), 0);
	cr_assert_eq(comm_layout_rank(0, 0, 0), 0);
	cr_assert_eq(comm_layout_rank(1000, 1000, 1000), 0);
	cr_assert_eq(comm_layout_rank(1000, 1008, 1004), 0);
	cr_assert_eq(comm_layout_rank(1000, 1004, 0), 0);
	cr_assert_eq(comm_layout_rank(1000, 0, 1008), 0);
	/* The hash before it would not be aligned. */
	cr_assert_eq(comm_layout_rank(1004, 1008, 1012), 0);
	cr_assert_eq(comm_layout_rank(UINT32_MAX - 7, UINT32_MAX - 3, 0), 0);
}
