// SPDX-License-Identifier: Apache-2.0
#include "elf/program_entry.h"

#include "elf/dynamic.h"
#include "elf/image.h"

bool program_entry_is(struct elf_image *img)
{
	struct elf_dynamic dynamic;

	return elf_image_type(img) == ET_EXEC || elf_image_segment(img, PT_INTERP) ||
	       (!elf_dynamic_read(&dynamic, img) && dynamic.flags_1 & DF_1_PIE);
}
