// SPDX-License-Identifier: Apache-2.0
#include "gpu/library.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "elf/image.h"
#include "elf/symbol_find.h"
#include "gpu/code_values.h"
#include "gpu/comm_layout.h"
#include "gpu/functions.h"
#include "gpu/hook_place.h"

enum { COMM_RANK, COMM_COUNT, COMM_DEVICE, NR_COMM };

/* What is executable from a symbol on, at most so much as the symbol says that it has. */
struct code {
	uint64_t off;
	uint64_t bytes;
};

static bool code_find(struct elf_image *img, const struct symbol_found *sym, struct code *ret)
{
	const struct elf_segment *seg;
	uint64_t off, left;
	size_t nr, i;

	if (sym->type != STT_FUNC || elf_image_rva_to_off(img, sym->value, &off) ||
	    off >= elf_image_size(img))
		return false;
	seg = elf_image_segments(img, &nr);
	for (i = 0; i < nr; i++) {
		if (seg[i].type != PT_LOAD || !(seg[i].flags & PF_X) || sym->value < seg[i].va ||
		    sym->value - seg[i].va >= seg[i].file_bytes ||
		    seg[i].off + (sym->value - seg[i].va) != off)
			continue;
		left = seg[i].file_bytes - (sym->value - seg[i].va);
		if (left > elf_image_size(img) - off)
			left = elf_image_size(img) - off;
		ret->off = off;
		ret->bytes = sym->bytes && sym->bytes < left ? sym->bytes : left;
		return true;
	}
	return false;
}

static bool is_hooked(const struct gpu_library *lib, uint64_t off)
{
	size_t i;

	for (i = 0; i < lib->nr; i++)
		if (lib->hooks[i].off == off)
			return true;
	return false;
}

static void hook_add(struct gpu_library *lib, struct code_reader *reader, uint32_t *budget,
		     uint32_t function, const struct symbol_found *sym)
{
	struct code code;
	uint64_t off;
	size_t nr;

	if (!code_find(reader->img, sym, &code)) {
		lib->nr_bad++;
		return;
	}
	off = code.off + hook_place(reader, sym->value, code.bytes, budget);
	if (is_hooked(lib, off))
		return;
	lib->hooks[lib->nr++] = (struct gpu_hook){ .function = function, .off = off };
	lib->layers |= 1U << gpu_functions(&nr)[function].wire.layer;
}

static uint32_t comm_rank_read(struct elf_image *img, const struct symbol_found found[NR_COMM])
{
	uint8_t bytes[COMM_LAYOUT_CODE_BYTES];
	uint32_t fields[NR_COMM];
	struct code code;
	size_t len;
	int i;

	for (i = 0; i < NR_COMM; i++) {
		if (found[i].pattern == UINT32_MAX || !code_find(img, &found[i], &code))
			return 0;
		len = code.bytes < sizeof(bytes) ? (size_t)code.bytes : sizeof(bytes);
		if (elf_image_read(img, code.off, bytes, len))
			return 0;
		fields[i] = comm_layout_field(bytes, len);
	}
	return comm_layout_rank(fields[COMM_RANK], fields[COMM_COUNT], fields[COMM_DEVICE]);
}

/* Almost every file that is mapped has none of these. */
static int is_of_interest(struct elf_image *img)
{
	static const char *const names[] = { "cuLaunchKernel", "cuMemAlloc_v2", "ncclAllReduce",
					     "ncclSend" };
	struct symbol_found found[sizeof(names) / sizeof(names[0])];
	size_t i;
	int err;

	if (elf_image_machine(img) != EM_X86_64)
		return -ENODATA;
	err = symbol_find_dynamic(img, names, sizeof(names) / sizeof(names[0]), found);
	for (i = 0; !err && i < sizeof(names) / sizeof(names[0]); i++)
		if (found[i].pattern != UINT32_MAX)
			return 0;
	return err ? err : -ENODATA;
}

static const char *const comm_names[NR_COMM] = { [COMM_RANK] = "ncclCommUserRank",
						 [COMM_COUNT] = "ncclCommCount",
						 [COMM_DEVICE] = "ncclCommCuDevice" };

uint32_t gpu_library_comm_rank(struct elf_image *img)
{
	struct symbol_found comm[NR_COMM];

	if (elf_image_machine(img) != EM_X86_64 ||
	    symbol_find_dynamic(img, comm_names, NR_COMM, comm))
		return 0;
	return comm_rank_read(img, comm);
}

int gpu_library_read(struct gpu_library *ret, struct elf_image *img)
{
	struct symbol_found found[BPFPROF_GPU_MAX_FUNCTIONS], comm[NR_COMM];
	const char *names[BPFPROF_GPU_MAX_FUNCTIONS];
	const struct gpu_function *functions;
	uint32_t budget = HOOK_PLACE_LIBRARY_INSTRUCTIONS;
	struct gpu_library lib = { .nr = 0 };
	struct code_reader reader;
	size_t nr, i;
	int err;

	err = is_of_interest(img);
	if (!err)
		err = code_reader_init(&reader, img);
	if (err)
		return err;
	functions = gpu_functions(&nr);
	for (i = 1; i < nr; i++)
		names[i] = functions[i].name;
	err = symbol_find_dynamic(img, names + 1, nr - 1, found + 1);
	if (err)
		return err;
	for (i = 1; i < nr; i++)
		if (found[i].pattern != UINT32_MAX && !gpu_is_site(&functions[i]))
			hook_add(&lib, &reader, &budget, (uint32_t)i, &found[i]);
	if (!lib.nr)
		return -EBADMSG;
	if (lib.layers & 1U << GPU_LAYER_NCCL) {
		err = symbol_find_dynamic(img, comm_names, NR_COMM, comm);
		if (err)
			return err;
		lib.comm_rank = comm_rank_read(img, comm);
	}
	*ret = lib;
	return 0;
}
