// SPDX-License-Identifier: Apache-2.0
#include "gpu/library.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "elf/image.h"
#include "elf/symbol_find.h"
#include "gpu/code_values.h"
#include "gpu/comm_layout.h"
#include "gpu/functions.h"
#include "gpu/hook_place.h"

#define MAX_HIDDEN 1024 /* symbols of the names asked for: of a name the first one counts */
#define MAX_HIDDEN_BYTES (256U << 20) /* symbols and strings that are searched for them */

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

/* As symbol_find_dynamic() does. */
typedef int (*find_symbols)(struct elf_image *img, const char *const *names, size_t nr,
			    struct symbol_found *found);

/*
 * Those of NCCL that are linked into something else and not exported: looked for in .symtab, all of
 * which is read for that. Nobody does so with the driver.
 */
static int hidden_find(struct elf_image *img, const char *const *names, size_t nr,
		       struct symbol_found *found)
{
	struct symbol_pattern patterns[BPFPROF_GPU_MAX_FUNCTIONS] = { 0 };
	size_t places[BPFPROF_GPU_MAX_FUNCTIONS], nr_patterns = 0, nr_hidden, i;
	__cleanup(free_mem) struct symbol_found *hidden = calloc(MAX_HIDDEN, sizeof(*hidden));
	int err;

	if (!hidden)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		if (strncmp(names[i], "nccl", 4) != 0)
			continue;
		places[nr_patterns] = i;
		patterns[nr_patterns++] = (struct symbol_pattern){ names[i], SYMBOL_EXACT };
	}
	err = symbol_find_all(img, SHT_SYMTAB, MAX_HIDDEN_BYTES, patterns, nr_patterns, hidden,
			      MAX_HIDDEN, &nr_hidden);
	if (err)
		return err;
	for (i = 0; i < nr; i++)
		found[i].pattern = UINT32_MAX;
	for (i = nr_hidden; i-- > 0;) {
		found[places[hidden[i].pattern]] = hidden[i];
		found[places[hidden[i].pattern]].pattern = (uint32_t)places[hidden[i].pattern];
	}
	return 0;
}

/* What was compiled for a GPU, as NCCL's kernels are, is in the file that they were linked into. */
static bool has_device_code(struct elf_image *img)
{
	return elf_image_section(img, ".nv_fatbin") || elf_image_section(img, ".hip_fatbin");
}

static const char *const comm_names[NR_COMM] = { [COMM_RANK] = "ncclCommUserRank",
						 [COMM_COUNT] = "ncclCommCount",
						 [COMM_DEVICE] = "ncclCommCuDevice" };

static uint32_t comm_rank_read(struct elf_image *img, find_symbols find)
{
	struct symbol_found found[NR_COMM];
	uint8_t bytes[COMM_LAYOUT_CODE_BYTES];
	uint32_t fields[NR_COMM];
	struct code code;
	size_t len;
	int i;

	if (find(img, comm_names, NR_COMM, found))
		return 0;
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

uint32_t gpu_library_comm_rank(struct elf_image *img)
{
	return elf_image_machine(img) == EM_X86_64 ? comm_rank_read(img, symbol_find_dynamic) : 0;
}

/* Almost every file that is mapped has none of these. */
static int is_of_interest(struct elf_image *img, find_symbols find)
{
	static const char *const names[] = { "cuLaunchKernel", "cuMemAlloc_v2", "ncclAllReduce",
					     "ncclSend" };
	struct symbol_found found[sizeof(names) / sizeof(names[0])];
	size_t i;
	int err;

	err = find(img, names, sizeof(names) / sizeof(names[0]), found);
	for (i = 0; !err && i < sizeof(names) / sizeof(names[0]); i++)
		if (found[i].pattern != UINT32_MAX)
			return 0;
	return err ? err : -ENODATA;
}

static int functions_hook(struct gpu_library *ret, struct elf_image *img, find_symbols find)
{
	struct symbol_found found[BPFPROF_GPU_MAX_FUNCTIONS];
	const char *names[BPFPROF_GPU_MAX_FUNCTIONS];
	const struct gpu_function *functions;
	uint32_t budget = HOOK_PLACE_LIBRARY_INSTRUCTIONS;
	struct gpu_library lib = { .nr = 0 };
	struct code_reader reader;
	size_t nr, i;
	int err;

	functions = gpu_functions(&nr);
	for (i = 1; i < nr; i++)
		names[i] = functions[i].name;
	err = find(img, names + 1, nr - 1, found + 1);
	if (!err)
		err = code_reader_init(&reader, img);
	if (err)
		return err;
	for (i = 1; i < nr; i++)
		if (found[i].pattern != UINT32_MAX && !gpu_is_site(&functions[i]))
			hook_add(&lib, &reader, &budget, (uint32_t)i, &found[i]);
	if (!lib.nr)
		return -EBADMSG;
	if (lib.layers & 1U << GPU_LAYER_NCCL)
		lib.comm_rank = comm_rank_read(img, find);
	*ret = lib;
	return 0;
}

int gpu_library_read(struct gpu_library *ret, struct elf_image *img)
{
	find_symbols find = symbol_find_dynamic;
	int err;

	if (elf_image_machine(img) != EM_X86_64)
		return -ENODATA;
	err = is_of_interest(img, find);
	if (err == -ENODATA && has_device_code(img)) {
		find = hidden_find;
		err = is_of_interest(img, find);
	}
	return err ? err : functions_hook(ret, img, find);
}
