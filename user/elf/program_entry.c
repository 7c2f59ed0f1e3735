// SPDX-License-Identifier: Apache-2.0
#include "elf/program_entry.h"

#include <elf.h>
#include <stddef.h>

#include "elf/image.h"

#define MAX_DYNAMIC 256 /* entries of PT_DYNAMIC */

static bool is_pie(struct elf_image *img, const struct elf_segment *dynamic)
{
	Elf64_Dyn entry;
	uint64_t i;

	for (i = 0; i < dynamic->file_bytes / sizeof(entry) && i < MAX_DYNAMIC; i++) {
		if (elf_image_read(img, dynamic->off + i * sizeof(entry), &entry, sizeof(entry)) ||
		    entry.d_tag == DT_NULL)
			return false;
		if (entry.d_tag == DT_FLAGS_1)
			return entry.d_un.d_val & DF_1_PIE;
	}
	return false;
}

bool program_entry_is(struct elf_image *img)
{
	const struct elf_segment *segs;
	size_t nr, i;

	if (elf_image_type(img) == ET_EXEC)
		return true;
	segs = elf_image_segments(img, &nr);
	for (i = 0; i < nr; i++)
		if (segs[i].type == PT_INTERP ||
		    (segs[i].type == PT_DYNAMIC && is_pie(img, &segs[i])))
			return true;
	return false;
}
