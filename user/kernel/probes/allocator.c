// SPDX-License-Identifier: Apache-2.0
#include "kernel/probes/allocator.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>

#include "cuda/code_values.h"
#include "cuda/hook_place.h"
#include "elf/image.h"
#include "elf/symbol_find.h"

#define MAX_SYMBOL_BYTES (64U << 20)
#define MAX_FOUND (4 * BPFPROF_MAX_ALLOC_FUNCTIONS)

struct function {
	const char *name;
	enum bpfprof_alloc_kind kind;
};

/*
 * Those that return blocks come first. The first one and the last one must be there. reallocarray is not
 * among them, since that of the C library jumps to realloc.
 */
static const struct function heap[] = {
	{ "malloc", ALLOC_MALLOC },
	{ "calloc", ALLOC_CALLOC },
	{ "realloc", ALLOC_REALLOC },
	{ "memalign", ALLOC_ALIGNED },
	{ "aligned_alloc", ALLOC_ALIGNED },
	{ "valloc", ALLOC_MALLOC },
	{ "pvalloc", ALLOC_MALLOC },
	{ "posix_memalign", ALLOC_POSIX },
	{ "free", ALLOC_FREE },
};

static const struct function maps[] = {
	{ "mmap", ALLOC_MMAP },
	{ "mmap64", ALLOC_MMAP },
	{ "munmap", ALLOC_MUNMAP },
};

static const struct part {
	const struct function *functions;
	size_t nr;
} parts[ALLOCATOR_NR_PARTS] = {
	[ALLOCATOR_HEAP] = { heap, sizeof(heap) / sizeof(heap[0]) },
	[ALLOCATOR_MAPS] = { maps, sizeof(maps) / sizeof(maps[0]) },
};

static bool is_hooked(const struct allocator *allocator, uint64_t off)
{
	size_t i;

	for (i = 0; i < allocator->nr; i++)
		if (allocator->offsets[i] == off)
			return true;
	return false;
}

static int hook_add(struct allocator *to, struct code_reader *reader, uint32_t *budget,
		    const struct symbol_found *symbol, enum bpfprof_alloc_kind kind)
{
	const struct elf_segment *segment = elf_image_segment_at(reader->img, symbol->value, PF_X);
	uint64_t off, bytes;

	if (symbol->type != STT_FUNC || !segment)
		return -EBADMSG;
	bytes = segment->file_bytes - (symbol->value - segment->va);
	if (symbol->bytes && symbol->bytes < bytes)
		bytes = symbol->bytes;
	off = segment->off + (symbol->value - segment->va) +
	      hook_place(reader, symbol->value, bytes, budget);
	if (is_hooked(to, off))
		return 0;
	to->starts[to->nr] = segment->off + (symbol->value - segment->va);
	to->bytes[to->nr] = symbol->bytes ? bytes : 0;
	to->offsets[to->nr] = off;
	to->cookies[to->nr++] = kind;
	to->nr_allocating += kind != ALLOC_FREE && kind != ALLOC_MUNMAP;
	return 0;
}

static int functions_hook(struct allocator *ret, struct elf_image *img, const struct part *part,
			  const struct symbol_found *found)
{
	uint32_t budget = HOOK_PLACE_LIBRARY_INSTRUCTIONS;
	struct code_reader reader;
	int err;
	size_t i;

	if (found[0].pattern == UINT32_MAX || found[part->nr - 1].pattern == UINT32_MAX)
		return -ENODATA;
	*ret = (struct allocator){ 0 };
	err = code_reader_init(&reader, img);
	for (i = 0; i < part->nr && !err; i++)
		if (found[i].pattern != UINT32_MAX)
			err = hook_add(ret, &reader, &budget, &found[i], part->functions[i].kind);
	return err;
}

static int all_read(struct allocator *ret, struct elf_image *img, const struct part *part)
{
	struct symbol_pattern patterns[BPFPROF_MAX_ALLOC_FUNCTIONS];
	struct symbol_found all[MAX_FOUND], found[BPFPROF_MAX_ALLOC_FUNCTIONS];
	size_t i, nr;
	int err;

	for (i = 0; i < part->nr; i++) {
		patterns[i] = (struct symbol_pattern){ part->functions[i].name, SYMBOL_EXACT };
		found[i].pattern = UINT32_MAX;
	}
	err = symbol_find_all(img, SHT_SYMTAB, MAX_SYMBOL_BYTES, patterns, part->nr, all, MAX_FOUND,
			      &nr);
	for (i = 0; !err && i < nr; i++)
		if (all[i].type == STT_FUNC)
			found[all[i].pattern] = all[i];
	return err ? err : functions_hook(ret, img, part, found);
}

int allocator_read(struct allocator *ret, struct elf_image *img, enum allocator_part nr,
		   bool program)
{
	const struct part *part = &parts[nr];
	struct symbol_found found[BPFPROF_MAX_ALLOC_FUNCTIONS];
	const char *names[BPFPROF_MAX_ALLOC_FUNCTIONS];
	size_t i;
	int err;

	if (!elf_image_is_native(img))
		return -ENODATA;
	for (i = 0; i < part->nr; i++)
		names[i] = part->functions[i].name;
	err = symbol_find_dynamic(img, names, part->nr, found);
	if (!err)
		err = functions_hook(ret, img, part, found);
	return err && program ? all_read(ret, img, part) : err;
}
