// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=65536 */
#include "python/layout.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/image.h"
#include "elf/symbol_find.h"
#include "python/debug_offsets.h"

#define NR_FOUND 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_ranges(const struct python_image *python, const struct elf_image *img)
{
	const struct python_range *range;
	uint64_t end = 0, off;
	size_t i;

	if (python->nr_ranges > PYTHON_MAX_EVAL_RANGES || (python->nr_ranges && !python->ranges))
		abort();
	for (i = 0; i < python->nr_ranges; i++) {
		range = &python->ranges[i];
		if (!range->bytes || range->rva < end || range->rva + range->bytes < range->rva)
			abort();
		if (elf_image_rva_to_off(img, range->rva, &off))
			abort();
		end = range->rva + range->bytes;
	}
}

/* The whole probe: what it gives is within bounds, and what fails leaves its result alone. */
static void fuzz_image(struct elf_image *img)
{
	struct python_image python, before;
	int err;

	memset(&before, 0x5a, sizeof(before));
	python = before;
	err = python_image_probe(&python, img);
	if (err && err != -ENOTSUP && memcmp(&python, &before, sizeof(before)))
		abort();
	if (!err && (python_layout_check(&python.layout) || !python.runtime_rva))
		abort();
	if (!err)
		check_ranges(&python, img);
	if (!err || err == -ENOTSUP)
		python_image_fini(&python);
}

/* What is in a table is found in it, by either way. */
static void fuzz_symbols(struct elf_image *img)
{
	static const char *const names[] = { "_PyRuntime", "_PyEval_EvalFrameDefault" };
	static const struct symbol_pattern patterns[] = { { "_PyRuntime", SYMBOL_EXACT },
							  { "_Py", SYMBOL_PREFIX } };
	struct symbol_found found[NR_FOUND];
	size_t nr = 0, i;

	if (!symbol_find_dynamic(img, names, 2, found))
		for (i = 0; i < 2; i++)
			if (found[i].pattern != i && found[i].pattern != UINT32_MAX)
				abort();
	if (!symbol_find_all(img, SHT_SYMTAB, 1 << 20, patterns, 2, found, NR_FOUND, &nr)) {
		if (nr > NR_FOUND)
			abort();
		for (i = 0; i < nr; i++)
			if (found[i].pattern > 1)
				abort();
	}
}

static void fuzz_offsets(const uint8_t *data, size_t size)
{
	static const uint32_t versions[] = { 0x030d00f0, 0x030e00f0, 0x030f00f0, 0x031000f0 };
	struct bpfprof_python_layout layout;
	uint8_t copy[PYTHON_DEBUG_OFFSETS_MAX];
	size_t i;

	/* With the cookie and the version in place there is more to see. */
	size = size < sizeof(copy) ? size : sizeof(copy);
	memcpy(copy, data, size);
	for (i = 0; i < 4; i++) {
		if (size >= 24) {
			memcpy(copy, "xdebugpy", 8);
			memcpy(copy + 8, &(uint64_t){ versions[i] }, 8);
			memset(copy + 17, 0, 7);
			copy[16] &= 1;
		}
		if (!python_debug_offsets_parse(&layout, copy, size, versions[i], 0) &&
		    (layout.version != versions[i] >> 16 || i == 3))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_image *img;

	fuzz_offsets(data, size);
	if (elf_image_open_memory(&img, data, size))
		return 0;
	fuzz_image(img);
	fuzz_symbols(img);
	elf_image_free(img);
	return 0;
}
