// SPDX-License-Identifier: Apache-2.0
#include "elf/reloc_kind.h"

#include <elf.h>

/* psABI 4.4.1. */
enum reloc_kind reloc_kind(uint32_t type)
{
	switch (type) {
	case R_X86_64_RELATIVE:
		return RELOC_RELATIVE;
	case R_X86_64_64:
		return RELOC_ABSOLUTE;
	case R_X86_64_GLOB_DAT:
	case R_X86_64_JUMP_SLOT:
		return RELOC_SYMBOL;
	case R_X86_64_IRELATIVE:
		return RELOC_RESOLVER;
	default:
		return RELOC_OTHER;
	}
}
