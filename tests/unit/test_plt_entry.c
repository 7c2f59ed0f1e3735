// SPDX-License-Identifier: Apache-2.0
#include "elf/plt_entry.h"

#include <criterion/criterion.h>
#include <string.h>

#include "elf/image.h"

TestSuite(plt_entry, .timeout = 120);

#define RVA 0x1000
#define ENTRY(text) text, sizeof(text) - 1

static const struct {
	const char *what;
	const char *code;
	size_t len;
	bool known, is_index;
	uint64_t value;
} entries[] = {
	{ "jmp", ENTRY("\xff\x25\x10\0\0\0\x66\x90"), true, false, RVA + 6 + 0x10 },
	{ "jmp to a lower address", ENTRY("\xff\x25\xf0\xff\xff\xff"), true, false,
	  RVA + 6 - 0x10 },
	{ "endbr64, bnd jmp", ENTRY("\xf3\x0f\x1e\xfa\xf2\xff\x25\x10\0\0\0"), true, false,
	  RVA + 11 + 0x10 },
	{ "endbr64, mov to r11d, jmp",
	  ENTRY("\xf3\x0f\x1e\xfa\x41\xbb\x01\0\0\0\xff\x25\x10\0\0\0"), true, false,
	  RVA + 16 + 0x10 },
	{ "endbr64, push", ENTRY("\xf3\x0f\x1e\xfa\x68\x07\0\0\0\xf2\xe9"), true, true, 7 },
	{ "header", ENTRY("\xff\x35\x10\0\0\0\xff\x25\x18\0\0\0"), false, false, 0 },
	{ "jmp to a register", ENTRY("\xff\xe0\x90\x90\x90\x90\x90\x90"), false, false, 0 },
	{ "cut", ENTRY("\xff\x25\x10\0\0"), false, false, 0 },
	{ "nothing", "", 0, false, false, 0 },
};

Test(plt_entry, forms)
{
	uint64_t value;
	bool is_index;
	size_t i;

	for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		cr_assert_eq(plt_entry_decode((const uint8_t *)entries[i].code, entries[i].len, RVA,
					      &value, &is_index),
			     entries[i].known, "%s", entries[i].what);
		if (!entries[i].known)
			continue;
		cr_assert_eq(is_index, entries[i].is_index, "%s", entries[i].what);
		cr_assert_eq(value, entries[i].value, "%s: %#lx", entries[i].what, value);
	}
}

Test(plt_entry, sizes)
{
	cr_assert_eq(plt_entry_bytes(&(struct elf_section){ .entry_bytes = 8, .align = 8 }), 8);
	cr_assert_eq(plt_entry_bytes(&(struct elf_section){ .entry_bytes = 16, .align = 16 }), 16);
	cr_assert_eq(plt_entry_bytes(&(struct elf_section){ .align = 8 }), 8);
	cr_assert_eq(plt_entry_bytes(&(struct elf_section){ .align = 16 }), 16);
	cr_assert_eq(plt_entry_bytes(&(struct elf_section){ .entry_bytes = UINT32_MAX }), 16);
}
