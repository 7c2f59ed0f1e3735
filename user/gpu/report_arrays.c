// SPDX-License-Identifier: Apache-2.0
#include "gpu/report_arrays.h"

#include <stdlib.h>

#include "base/strtab.h"

struct gpu_arrays_block {
	struct gpu_arrays_block *next;
	_Alignas(16) char data[];
};

int gpu_arrays_init(struct gpu_arrays *arrays, size_t max_string_bytes)
{
	*arrays = (struct gpu_arrays){ 0 };
	return strtab_new(&arrays->strings, max_string_bytes);
}

void *gpu_arrays_add(struct gpu_arrays *arrays, size_t nr, size_t size)
{
	struct gpu_arrays_block *block = NULL;
	size_t bytes;

	if (!__builtin_mul_overflow(nr, size, &bytes) &&
	    !__builtin_add_overflow(bytes, sizeof(*block), &bytes))
		block = calloc(1, bytes);
	if (!block) {
		arrays->failed = true;
		return NULL;
	}
	block->next = arrays->blocks;
	arrays->blocks = block;
	return block->data;
}

const char *gpu_arrays_text(struct gpu_arrays *arrays, const char *text)
{
	return strtab_get(arrays->strings, strtab_add(arrays->strings, text));
}

void gpu_arrays_fini(struct gpu_arrays *arrays)
{
	struct gpu_arrays_block *block;

	while ((block = arrays->blocks)) {
		arrays->blocks = block->next;
		free(block);
	}
	strtab_free(arrays->strings);
}
