// SPDX-License-Identifier: Apache-2.0
#include "elf/plt_entry.h"

#include <string.h>

#include "base/bytes.h"
#include "elf/image.h"

/* 6 byte entries padded to 8 (.plt.got; ld's static PLT has no entry size) or larger ones to 16. */
uint32_t plt_entry_bytes(const struct elf_section *sec)
{
	return sec->entry_bytes == 8 || (!sec->entry_bytes && sec->align == 8) ? 8 : 16;
}

/*
 * [endbr64] [mov $index,%r11d] [bnd] jmp *disp(%rip); in the lazy half of a split PLT
 * [endbr64] push $index.
 */
bool plt_entry_decode(const uint8_t *code, size_t len, uint64_t rva, uint64_t *ret,
		      bool *ret_is_index)
{
	size_t i = 0;

	if (i + 4 <= len && !memcmp(code + i, "\xf3\x0f\x1e\xfa", 4))
		i += 4;
	*ret_is_index = false;
	if (i + 5 <= len && code[i] == 0x68) {
		*ret_is_index = true;
		*ret = bytes_u32(code + i + 1);
		return true;
	}
	if (i + 6 <= len && code[i] == 0x41 && code[i + 1] == 0xbb)
		i += 6;
	if (i < len && code[i] == 0xf2)
		i++;
	if (i + 6 > len || code[i] != 0xff || code[i + 1] != 0x25)
		return false;
	*ret = rva + i + 6 + (uint64_t)(int64_t)(int32_t)bytes_u32(code + i + 2);
	return true;
}
