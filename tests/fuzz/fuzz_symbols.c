// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=65536 */
#include "elf/symbols.h"

#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "elf/image.h"

#define NR 64

struct input {
	const uint8_t *data;
	size_t size;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every separate debug file is the image itself. */
static struct elf_image *open_same(void *arg, const char *path)
{
	const struct input *input = arg;
	struct elf_image *img;

	if (strstr(path, "/../"))
		abort();
	return elf_image_open_memory(&img, input->data, input->size) ? NULL : img;
}

static int compare_rva(const void *a, const void *b)
{
	const struct elf_symbol *x = a, *y = b;

	return x->rva < y->rva ? -1 : x->rva > y->rva;
}

/* Addresses in and around all that the file says of itself. */
static void choose(struct elf_image *img, struct elf_symbol *syms)
{
	const struct elf_section *sec;
	const struct elf_segment *seg;
	size_t nr_sections, nr_segments, i;

	sec = elf_image_sections(img, &nr_sections);
	seg = elf_image_segments(img, &nr_segments);
	for (i = 0; i < NR; i++) {
		syms[i] = (struct elf_symbol){ .rva = i * 16 };
		if (i % 2 && nr_sections)
			syms[i].rva = sec[i / 2 % nr_sections].va + i * 3;
		else if (nr_segments)
			syms[i].rva = seg[i / 2 % nr_segments].va + i * 16;
	}
	qsort(syms, NR, sizeof(*syms), compare_rva);
}

/* What covers an address covers it, whatever else is asked in the same call. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, size };
	struct elf_debug_paths paths = {
		.dir = "/d", .root = "/r", .open = open_same, .arg = &input
	};
	struct elf_symbol syms[NR], one;
	struct elf_image *img;
	struct strtab *names;
	int err;
	size_t i;

	if (elf_image_open_memory(&img, data, size))
		return 0;
	if (strtab_new(&names, 1 << 20))
		abort();
	choose(img, syms);
	err = elf_symbols_resolve(img, data[size - 1] & 1 ? &paths : NULL, NULL, names, syms, NR);
	for (i = 0; i < NR; i++) {
		if (!syms[i].name)
			continue;
		if (syms[i].rva < syms[i].value)
			abort();
		if (syms[i].bytes && syms[i].rva - syms[i].value >= syms[i].bytes)
			abort();
	}
	for (i = 0; i < NR && !err; i += 7) {
		one = (struct elf_symbol){ .rva = syms[i].rva };
		elf_symbols_resolve(img, data[size - 1] & 1 ? &paths : NULL, NULL, names, &one, 1);
		if (one.name != syms[i].name || one.value != syms[i].value)
			abort();
	}
	strtab_free(names);
	elf_image_free(img);
	return 0;
}
