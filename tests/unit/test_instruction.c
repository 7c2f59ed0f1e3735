// SPDX-License-Identifier: Apache-2.0
#include "elf/instruction.h"

#include <criterion/criterion.h>

TestSuite(instruction, .timeout = 120);

#define AT 0x1000
#define CODE(text) text, sizeof(text) - 1

static const struct {
	const char *text;
	const char *code;
	size_t len;
	enum instruction_kind kind;
	uint64_t target; /* 0: none */
	bool loads, index, ends;
} instructions[] = {
	{ "call rel32", CODE("\xe8\x10\0\0\0"), INSTRUCTION_CALL, AT + 5 + 0x10, 0, 0, 0 },
	{ "jmp rel8", CODE("\xeb\xf0"), INSTRUCTION_JUMP, AT + 2 - 0x10, 0, 0, 1 },
	{ "jne rel8", CODE("\x75\x10"), INSTRUCTION_BRANCH, AT + 2 + 0x10, 0, 0, 0 },
	{ "jmp *rax", CODE("\xff\xe0"), INSTRUCTION_JUMP, 0, 0, 0, 1 },
	{ "jmp *8(rax)", CODE("\xff\x60\x08"), INSTRUCTION_JUMP, 0, 1, 0, 1 },
	{ "jmp *table(,rax,8)", CODE("\xff\x24\xc5\0\x10\0\0"), INSTRUCTION_JUMP, 0, 1, 1, 1 },
	{ "call *(rip)", CODE("\xff\x15\0\0\0\0"), INSTRUCTION_CALL, 0, 1, 0, 0 },
	{ "ret", CODE("\xc3"), INSTRUCTION_RETURN, 0, 0, 0, 1 },
	{ "nop", CODE("\x66\x90"), INSTRUCTION_NOP, 0, 0, 0, 0 },
	{ "ud2", CODE("\x0f\x0b"), INSTRUCTION_STOP, 0, 0, 0, 1 },
	{ "hlt", CODE("\xf4"), INSTRUCTION_STOP, 0, 0, 0, 1 },
	{ "int3", CODE("\xcc"), INSTRUCTION_STOP, 0, 0, 0, 1 },
	{ "mov (rax,rcx),edx", CODE("\x8b\x14\x08"), INSTRUCTION_OTHER, 0, 0, 1, 0 },
	{ "mov (rax),edx", CODE("\x8b\x10"), INSTRUCTION_OTHER, 0, 0, 0, 0 },
};

Test(instruction, kinds)
{
	struct instruction in;
	uint64_t target;
	size_t i;

	for (i = 0; i < sizeof(instructions) / sizeof(instructions[0]); i++) {
		const char *text = instructions[i].text;

		cr_assert(instruction_decode((const uint8_t *)instructions[i].code,
					     instructions[i].len, &in),
			  "%s", text);
		cr_assert_eq(in.bytes, instructions[i].len, "%s", text);
		cr_assert_eq(in.kind, instructions[i].kind, "%s", text);
		if (!instruction_target(&in, AT, &target))
			target = 0;
		cr_assert_eq(target, instructions[i].target, "%s: %#lx", text, target);
		if (in.kind == INSTRUCTION_JUMP || in.kind == INSTRUCTION_CALL)
			cr_assert_eq(instruction_loads_target(&in), instructions[i].loads, "%s",
				     text);
		cr_assert_eq(instruction_has_index(&in), instructions[i].index, "%s", text);
		cr_assert_eq(instruction_ends_block(&in), instructions[i].ends, "%s", text);
	}
}

Test(instruction, none)
{
	struct instruction in;

	cr_assert_not(instruction_decode((const uint8_t *)"\x06", 1, &in)); /* not in 64-bit code */
	cr_assert_not(instruction_decode((const uint8_t *)"\xe8\0", 2, &in)); /* cut */
	cr_assert_not(instruction_decode((const uint8_t *)"", 0, &in));
}
