// SPDX-License-Identifier: Apache-2.0
#include "elf/reloc_kind.h"

#include <criterion/criterion.h>
#include <elf.h>

TestSuite(reloc_kind, .timeout = 120);

Test(reloc_kind, each_type)
{
	cr_assert_eq(reloc_kind(R_X86_64_RELATIVE), RELOC_RELATIVE);
	cr_assert_eq(reloc_kind(R_X86_64_64), RELOC_ABSOLUTE);
	cr_assert_eq(reloc_kind(R_X86_64_GLOB_DAT), RELOC_SYMBOL);
	cr_assert_eq(reloc_kind(R_X86_64_JUMP_SLOT), RELOC_SYMBOL);
	cr_assert_eq(reloc_kind(R_X86_64_IRELATIVE), RELOC_RESOLVER);
	cr_assert_eq(reloc_kind(R_X86_64_NONE), RELOC_OTHER);
	cr_assert_eq(reloc_kind(R_X86_64_DTPMOD64), RELOC_OTHER);
	cr_assert_eq(reloc_kind(UINT32_MAX), RELOC_OTHER);
}
