// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=65536 */
#include "elf/image.h"

#include <stdlib.h>
#include <string.h>

#include "elf/unrelocate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As if the file were loaded, and its head copied from memory. */
static void unrelocate(const uint8_t *data, size_t size)
{
	struct elf_loaded loaded;
	uint8_t *copy = malloc(size);

	if (!copy)
		return;
	memcpy(copy, data, size);
	elf_unrelocate_head(copy, size, 0x7f0000000000, &loaded);
	elf_unrelocate_dynamic(copy, size, loaded.bias);
	free(copy);
}

/* Headers, sections, build id and the two translations, which must undo each other. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct elf_section *sec;
	const struct elf_segment *seg;
	uint8_t id[ELF_BUILD_ID_MAX], byte;
	struct elf_image *img = NULL;
	uint64_t rva, off;
	size_t nr, i;
	int len;

	unrelocate(data, size);
	if (elf_image_open_memory(&img, data, size)) {
		if (img)
			abort();
		return 0;
	}
	sec = elf_image_sections(img, &nr);
	if (nr > ELF_IMAGE_MAX_SECTIONS || (nr && elf_image_sections_error(img)))
		abort();
	for (i = 0; i < nr; i++) {
		elf_image_section_is(img, &sec[i], ".text");
		elf_image_read(img, sec[i].off, &byte, 1);
	}
	seg = elf_image_segments(img, &nr);
	if (nr > ELF_IMAGE_MAX_SEGMENTS)
		abort();
	for (i = 0; i < nr; i++) {
		if (!elf_image_off_to_rva(img, seg[i].off, &rva) &&
		    elf_image_rva_to_off(img, rva, &off))
			abort();
		if (!elf_image_rva_to_off(img, seg[i].va + seg[i].file_bytes - 1, &off) &&
		    elf_image_off_to_rva(img, off, &rva))
			abort();
	}
	len = elf_image_build_id(img, id);
	if (len > ELF_BUILD_ID_MAX || !len)
		abort();
	elf_image_section(img, ".text");
	elf_image_drop_cache(img);
	if (!elf_image_read(img, size - 1, &byte, 1) && byte != data[size - 1])
		abort();
	if (!elf_image_read(img, size, &byte, 1))
		abort();
	elf_image_free(img);
	return 0;
}
