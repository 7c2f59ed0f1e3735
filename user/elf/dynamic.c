// SPDX-License-Identifier: Apache-2.0
#include "elf/dynamic.h"

#include <errno.h>

#include "elf/image.h"

#define MAX_DYNAMIC 1024 /* entries */

int elf_dynamic_read(struct elf_dynamic *ret, struct elf_image *img)
{
	const struct elf_segment *seg = elf_image_segment(img, PT_DYNAMIC);
	Elf64_Dyn entry;
	uint64_t i;
	int err;

	*ret = (struct elf_dynamic){ 0 };
	if (!seg)
		return -ENODATA;
	for (i = 0; i < seg->file_bytes / sizeof(entry) && i < MAX_DYNAMIC; i++) {
		err = elf_image_read(img, seg->off + i * sizeof(entry), &entry, sizeof(entry));
		if (err)
			return err;
		if (entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag > 0 && entry.d_tag < DT_NUM)
			ret->tags[entry.d_tag] = entry.d_un.d_val;
		else if (entry.d_tag == DT_GNU_HASH)
			ret->gnu_hash = entry.d_un.d_ptr;
		else if (entry.d_tag == DT_FLAGS_1)
			ret->flags_1 = entry.d_un.d_val;
	}
	return 0;
}
