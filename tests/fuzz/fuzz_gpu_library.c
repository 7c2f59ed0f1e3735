// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=16384 */
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/comm_layout.h"
#include "cuda/functions.h"
#include "cuda/library.h"
#include "elf/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_executable(const struct elf_image *img, uint64_t off)
{
	const struct elf_segment *seg;
	size_t nr, i;

	seg = elf_image_segments(img, &nr);
	for (i = 0; i < nr; i++)
		if (seg[i].type == PT_LOAD && seg[i].flags & PF_X && off >= seg[i].off &&
		    off - seg[i].off < seg[i].file_bytes)
			return true;
	return false;
}

static void check(const struct gpu_library *lib, const struct elf_image *img)
{
	const struct gpu_function *functions;
	uint32_t layers = 0;
	size_t nr, i, k;

	functions = gpu_functions(&nr);
	if (!lib->nr || lib->nr + lib->nr_bad >= nr)
		abort();
	for (i = 0; i < lib->nr; i++) {
		if (!lib->hooks[i].function || lib->hooks[i].function >= nr ||
		    lib->hooks[i].off >= elf_image_size(img) ||
		    !is_executable(img, lib->hooks[i].off))
			abort();
		for (k = 0; k < i; k++)
			if (lib->hooks[k].off == lib->hooks[i].off ||
			    lib->hooks[k].function == lib->hooks[i].function)
				abort();
		layers |= 1U << functions[lib->hooks[i].function].wire.layer;
	}
	if (lib->layers != layers || lib->comm_rank >= COMM_LAYOUT_MAX_OFFSET ||
	    (lib->comm_rank && !(layers & 1U << GPU_LAYER_NCCL)))
		abort();
}

static int library_read(struct gpu_library *lib, struct elf_image *img)
{
	struct gpu_hidden *hidden;
	int err = gpu_library_read(lib, img);

	if (err != -EAGAIN)
		return err;
	err = gpu_hidden_new(&hidden, img);
	if (err)
		return err;
	do
		err = gpu_hidden_step(hidden, lib, img);
	while (err == -EAGAIN);
	gpu_hidden_free(hidden);
	return err;
}

/* A library, or only code. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gpu_library lib, before;
	struct elf_image *img;
	uint32_t field;

	if (elf_image_open_memory(&img, data, size)) {
		field = comm_layout_field(data, size);
		if (field && (field < 64 || field >= COMM_LAYOUT_MAX_OFFSET))
			abort();
		return 0;
	}
	memset(&lib, 0x5a, sizeof(lib));
	before = lib;
	if (!library_read(&lib, img))
		check(&lib, img);
	else if (memcmp(&lib, &before, sizeof(lib)))
		abort();
	elf_image_free(img);
	return 0;
}
