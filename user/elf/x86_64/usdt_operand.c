// SPDX-License-Identifier: Apache-2.0
/* The operands of GNU as in AT&T syntax. */
#include "elf/usdt_operand.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "elf/usdt.h"
#include "elf/usdt_number.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* Ascending by their number in instructions. */
static const char *const registers[][4] = {
	{ "rax", "eax", "ax", "al" },	   { "rcx", "ecx", "cx", "cl" },
	{ "rdx", "edx", "dx", "dl" },	   { "rbx", "ebx", "bx", "bl" },
	{ "rsp", "esp", "sp", "spl" },	   { "rbp", "ebp", "bp", "bpl" },
	{ "rsi", "esi", "si", "sil" },	   { "rdi", "edi", "di", "dil" },
	{ "r8", "r8d", "r8w", "r8b" },	   { "r9", "r9d", "r9w", "r9b" },
	{ "r10", "r10d", "r10w", "r10b" }, { "r11", "r11d", "r11w", "r11b" },
	{ "r12", "r12d", "r12w", "r12b" }, { "r13", "r13d", "r13w", "r13b" },
	{ "r14", "r14d", "r14w", "r14b" }, { "r15", "r15d", "r15w", "r15b" },
};

/* The number of the register, by a name of any width or (wide) of 8 bytes only; -1: none. */
static int register_find(const char *name, size_t len, bool wide)
{
	size_t i, k;

	for (i = 0; i < ARRAY_SIZE(registers); i++)
		for (k = 0; k < (wide ? 1 : ARRAY_SIZE(registers[i])); k++)
			if (strlen(registers[i][k]) == len && !memcmp(registers[i][k], name, len))
				return (int)i;
	return -1;
}

/* "$2" or "$-1". */
static int constant_parse(const char *text, size_t len, struct usdt_argument *ret)
{
	const char *at = text + 1;
	int64_t value;

	if (len < 2 || (len == 2 && *at == '-') || !usdt_number_take(&at, INT64_MAX, &value) ||
	    at != text + len)
		return -ENOTSUP;
	ret->kind = USDT_CONSTANT;
	ret->off = value;
	return 0;
}

/* "%rax" or "-104(%rbp)". */
static int place_parse(const char *text, size_t len, struct usdt_argument *ret)
{
	const char *at = text, *end = text + len;
	bool memory = *at != '%';
	int64_t off = 0;
	int reg;

	if (memory && (!usdt_number_take(&at, INT32_MAX, &off) || at >= end || *at++ != '('))
		return -ENOTSUP;
	if (at >= end || *at++ != '%')
		return -ENOTSUP;
	if (memory && (end - at < 2 || *--end != ')'))
		return -ENOTSUP;
	reg = register_find(at, (size_t)(end - at), memory);
	if (reg < 0)
		return -ENOTSUP;
	ret->kind = memory ? USDT_MEMORY : USDT_REGISTER;
	ret->reg = (uint8_t)reg;
	ret->off = off;
	return 0;
}

int usdt_operand_parse(const char *text, size_t len, struct usdt_argument *ret)
{
	return *text == '$' ? constant_parse(text, len, ret) : place_parse(text, len, ret);
}

size_t usdt_operand_len(const char *text)
{
	return strcspn(text, " ");
}
