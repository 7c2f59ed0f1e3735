// SPDX-License-Identifier: Apache-2.0
#include "kernel/probes/allocator.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strtab.h"
#include "cuda/code_values.h"
#include "cuda/hook_place.h"
#include "elf/image.h"
#include "elf/plt.h"
#include "elf/symbol_find.h"
#include "elf/symbols.h"

#define MAX_SYMBOL_BYTES (64U << 20)
#define MAX_FOUND (4 * ALLOCATOR_MAX_FUNCTIONS)
#define MAX_BEFORE_JUMP 8 /* instructions */
#define MAX_NAMES_BYTES 65536
#define PLT_SUFFIX "@plt"

struct function {
	const char *name;
	enum bpfprof_alloc_kind kind;
};

/*
 * Those that return blocks come first. The first one and the last one must be there. reallocarray is not
 * among them, since that of the C library jumps to realloc. operator new and operator delete matter in the
 * file of malloc alone: those of the C++ library call malloc and free, those of other allocators do not.
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
	/* C++: w is of one object, a of an array */
	{ "_Znwm", ALLOC_MALLOC },
	{ "_ZnwmRKSt9nothrow_t", ALLOC_MALLOC },
	{ "_ZnwmSt11align_val_t", ALLOC_MALLOC },
	{ "_ZnwmSt11align_val_tRKSt9nothrow_t", ALLOC_MALLOC },
	{ "_Znam", ALLOC_MALLOC },
	{ "_ZnamRKSt9nothrow_t", ALLOC_MALLOC },
	{ "_ZnamSt11align_val_t", ALLOC_MALLOC },
	{ "_ZnamSt11align_val_tRKSt9nothrow_t", ALLOC_MALLOC },
	/* jemalloc */
	{ "mallocx", ALLOC_MALLOC },
	{ "rallocx", ALLOC_REALLOC },
	{ "dallocx", ALLOC_FREE },
	{ "sdallocx", ALLOC_FREE },
	/* C++ */
	{ "_ZdlPv", ALLOC_FREE },
	{ "_ZdlPvm", ALLOC_FREE },
	{ "_ZdlPvRKSt9nothrow_t", ALLOC_FREE },
	{ "_ZdlPvSt11align_val_t", ALLOC_FREE },
	{ "_ZdlPvmSt11align_val_t", ALLOC_FREE },
	{ "_ZdlPvSt11align_val_tRKSt9nothrow_t", ALLOC_FREE },
	{ "_ZdaPv", ALLOC_FREE },
	{ "_ZdaPvm", ALLOC_FREE },
	{ "_ZdaPvRKSt9nothrow_t", ALLOC_FREE },
	{ "_ZdaPvSt11align_val_t", ALLOC_FREE },
	{ "_ZdaPvmSt11align_val_t", ALLOC_FREE },
	{ "_ZdaPvSt11align_val_tRKSt9nothrow_t", ALLOC_FREE },
	{ "free", ALLOC_FREE },
};
_Static_assert(sizeof(heap) / sizeof(heap[0]) <= ALLOCATOR_MAX_FUNCTIONS, "no room");

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

static bool kind_allocates(enum bpfprof_alloc_kind kind)
{
	return kind != ALLOC_FREE && kind != ALLOC_MUNMAP;
}

/* The target of the jump that the code at rva comes to before any call or branch, or 0. */
static uint64_t jump_target(struct code_reader *reader, uint64_t rva)
{
	struct code_instruction in;
	uint64_t target;
	int i;

	for (i = 0; i < MAX_BEFORE_JUMP && !code_reader_get(reader, rva, &in); i++) {
		if (in.insn.kind == INSTRUCTION_JUMP)
			return instruction_target(&in.insn, rva, &target) ? target : 0;
		if (in.insn.kind != INSTRUCTION_OTHER && in.insn.kind != INSTRUCTION_NOP)
			return 0;
		rva += in.insn.bytes;
	}
	return 0;
}

/* Entries of the PLT become the functions of this file that they lead to. 0 or -ENOMEM. */
static int behind_plt(struct elf_image *img, struct elf_symbol *targets, size_t nr)
{
	__cleanup(strtab_free) struct strtab *names = NULL;
	struct symbol_found found[ALLOCATOR_MAX_FUNCTIONS];
	const char *wanted[ALLOCATOR_MAX_FUNCTIONS];
	size_t i, len;

	if (strtab_new(&names, MAX_NAMES_BYTES))
		return -ENOMEM;
	if (plt_resolve(img, names, targets, nr))
		return 0;
	for (i = 0; i < nr; i++) {
		wanted[i] = strtab_get(names, targets[i].name);
		len = strlen(wanted[i]);
		if (len > strlen(PLT_SUFFIX))
			wanted[i] = strtab_get(
				names, strtab_add_len(names, wanted[i], len - strlen(PLT_SUFFIX)));
	}
	if (symbol_find_dynamic(img, wanted, nr, found))
		return 0;
	for (i = 0; i < nr; i++)
		if (targets[i].name && found[i].pattern != UINT32_MAX)
			targets[i].rva = found[i].value;
	return 0;
}

/*
 * Leaves out those that only pass their call on to another one of them: the probes of both would draw the
 * sample for one call.
 */
static int passing_leave_out(struct code_reader *reader, struct symbol_found *functions, size_t nr)
{
	__cleanup(free_mem) struct elf_symbol *targets = calloc(nr, sizeof(*targets));
	bool passes[ALLOCATOR_MAX_FUNCTIONS] = { false };
	size_t i, k;
	int err;

	if (!targets)
		return -ENOMEM;
	for (i = 0; i < nr; i++)
		if (functions[i].pattern != UINT32_MAX)
			targets[i].rva = jump_target(reader, functions[i].value);
	err = behind_plt(reader->img, targets, nr);
	for (i = 0; i < nr; i++)
		for (k = 0; k < nr; k++)
			passes[i] |= targets[i].rva && functions[k].pattern != UINT32_MAX &&
				     functions[k].value == targets[i].rva &&
				     functions[k].value != functions[i].value;
	for (i = 0; i < nr; i++)
		if (passes[i])
			functions[i].pattern = UINT32_MAX;
	return err;
}

/* Does the code of a function jump to another one, at any place, on a condition or not? */
static bool jumps_to(struct code_reader *reader, const struct symbol_found *from, uint64_t to)
{
	__cleanup(free_mem) struct elf_symbol *targets =
		calloc(ALLOCATOR_MAX_FUNCTIONS, sizeof(*targets));
	uint64_t rva = from->value, end = rva + from->bytes, target;
	struct code_instruction in;
	size_t nr = 0, i;
	int read;

	for (read = 0; targets && read < HOOK_PLACE_MAX_INSTRUCTIONS && rva < end; read++) {
		if (nr == ALLOCATOR_MAX_FUNCTIONS || code_reader_get(reader, rva, &in))
			break;
		if ((in.insn.kind == INSTRUCTION_JUMP || in.insn.kind == INSTRUCTION_BRANCH) &&
		    instruction_target(&in.insn, rva, &target) &&
		    (target < from->value || target >= end))
			targets[nr++].rva = target;
		rva += in.insn.bytes;
	}
	if (!nr || behind_plt(reader->img, targets, nr))
		return false;
	for (i = 0; i < nr; i++)
		if (targets[i].rva == to)
			return true;
	return false;
}

static enum bpfprof_alloc_kind kind_of(struct code_reader *reader, const struct part *part,
				       const struct symbol_found *found, size_t nr)
{
	enum bpfprof_alloc_kind kind = part->functions[nr].kind;

	if (kind == ALLOC_REALLOC && jumps_to(reader, &found[nr], found[0].value))
		return ALLOC_REALLOC_PASSING;
	return kind;
}

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
	if (kind_allocates(kind)) {
		if (to->nr_allocating == BPFPROF_MAX_ALLOC_FUNCTIONS)
			return -E2BIG;
		to->starts[to->nr_allocating] = segment->off + (symbol->value - segment->va);
		to->bytes[to->nr_allocating++] = symbol->bytes ? bytes : 0;
	}
	to->offsets[to->nr] = off;
	to->cookies[to->nr++] = kind;
	return 0;
}

static int functions_hook(struct allocator *ret, struct elf_image *img, const struct part *part,
			  struct symbol_found *found)
{
	uint32_t budget = HOOK_PLACE_LIBRARY_INSTRUCTIONS;
	struct code_reader reader;
	int err;
	size_t i;

	if (found[0].pattern == UINT32_MAX || found[part->nr - 1].pattern == UINT32_MAX)
		return -ENODATA;
	*ret = (struct allocator){ 0 };
	err = code_reader_init(&reader, img);
	if (!err)
		err = passing_leave_out(&reader, found, part->nr);
	for (i = 0; i < part->nr && !err; i++)
		if (found[i].pattern != UINT32_MAX)
			err = hook_add(ret, &reader, &budget, &found[i],
				       kind_of(&reader, part, found, i));
	return err;
}

static int all_read(struct allocator *ret, struct elf_image *img, const struct part *part)
{
	__cleanup(free_mem) struct symbol_found *all = calloc(MAX_FOUND, sizeof(*all));
	struct symbol_pattern patterns[ALLOCATOR_MAX_FUNCTIONS];
	struct symbol_found found[ALLOCATOR_MAX_FUNCTIONS];
	size_t i, nr;
	int err;

	if (!all)
		return -ENOMEM;
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
	struct symbol_found found[ALLOCATOR_MAX_FUNCTIONS];
	const char *names[ALLOCATOR_MAX_FUNCTIONS];
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
