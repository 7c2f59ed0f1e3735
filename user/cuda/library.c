// SPDX-License-Identifier: Apache-2.0
#include "cuda/library.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cuda/code_values.h"
#include "cuda/comm_layout.h"
#include "cuda/functions.h"
#include "cuda/hook_place.h"
#include "elf/image.h"
#include "elf/symbol_find.h"

#define MAX_HIDDEN 1024 /* symbols of the names asked for */
/*
 * Limit of symbols and strings that are searched: libtorch_cuda 2.15 has 76 MiB, libtorch_cpu
 * 87.
 */
#define MAX_HIDDEN_BYTES (256U << 20)

enum { COMM_RANK, COMM_COUNT, COMM_DEVICE, NR_COMM };

static void nothing_found(struct symbol_found *found, size_t nr)
{
	while (nr-- > 0)
		found[nr].pattern = UINT32_MAX;
}

/* The executable bytes from a symbol on, at most the size of the symbol. */
struct code {
	uint64_t off;
	uint64_t bytes;
};

static bool code_find(struct elf_image *img, const struct symbol_found *sym, struct code *ret)
{
	const struct elf_segment *seg = elf_image_segment_at(img, sym->value, PF_X);
	uint64_t off, left;

	if (sym->type != STT_FUNC || !seg || elf_image_rva_to_off(img, sym->value, &off) ||
	    off >= elf_image_size(img) || seg->off + (sym->value - seg->va) != off)
		return false;
	left = seg->file_bytes - (sym->value - seg->va);
	if (left > elf_image_size(img) - off)
		left = elf_image_size(img) - off;
	ret->off = off;
	ret->bytes = sym->bytes && sym->bytes < left ? sym->bytes : left;
	return true;
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

	if (!code_find(reader->img, sym, &code)) {
		lib->nr_bad++;
		return;
	}
	off = code.off + hook_place(reader, sym->value, code.bytes, budget);
	if (is_hooked(lib, off))
		return;
	lib->hooks[lib->nr++] = (struct gpu_hook){ .function = function, .off = off };
	lib->layers |= 1U << gpu_function(function)->wire.layer;
}

/* Code for a GPU, such as NCCL's kernels, is in the file that it was linked into. */
static bool has_device_code(struct elf_image *img)
{
	return elf_image_section(img, ".nv_fatbin") || elf_image_section(img, ".hip_fatbin");
}

static const char *const comm_names[NR_COMM] = { [COMM_RANK] = "ncclCommUserRank",
						 [COMM_COUNT] = "ncclCommCount",
						 [COMM_DEVICE] = "ncclCommCuDevice" };

/* The symbols that are searched in a library, as symbol_find_dynamic() finds them. */
struct names_found {
	struct symbol_found
		functions[BPFPROF_GPU_MAX_FUNCTIONS]; /* as gpu_functions(), from 1 on */
	struct symbol_found comm[NR_COMM];
};

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

uint32_t gpu_library_comm_rank(struct elf_image *img)
{
	struct symbol_found found[NR_COMM];

	if (!elf_image_is_native(img) || symbol_find_dynamic(img, comm_names, NR_COMM, found))
		return 0;
	return comm_rank_read(img, found);
}

static const char *const names_of_interest[] = { "cuLaunchKernel", "cuMemAlloc_v2", "ncclAllReduce",
						 "ncclSend" };

#define NR_OF_INTEREST (sizeof(names_of_interest) / sizeof(names_of_interest[0]))

/* Almost no mapped file exports one of these names. */
static int is_of_interest(struct elf_image *img)
{
	struct symbol_found found[NR_OF_INTEREST];
	size_t i;
	int err;

	err = symbol_find_dynamic(img, names_of_interest, NR_OF_INTEREST, found);
	for (i = 0; !err && i < NR_OF_INTEREST; i++)
		if (found[i].pattern != UINT32_MAX)
			return 0;
	return err ? err : -ENODATA;
}

static int functions_hook(struct gpu_library *ret, struct elf_image *img,
			  const struct names_found *found)
{
	const struct gpu_function *functions;
	uint32_t budget = HOOK_PLACE_LIBRARY_INSTRUCTIONS;
	struct gpu_library lib = { .nr = 0 };
	struct code_reader reader;
	size_t nr, i;
	int err;

	err = code_reader_init(&reader, img);
	if (err)
		return err;
	functions = gpu_functions(&nr);
	for (i = 1; i < nr; i++)
		if (found->functions[i].pattern != UINT32_MAX && !gpu_is_site(&functions[i]))
			hook_add(&lib, &reader, &budget, (uint32_t)i, &found->functions[i]);
	if (!lib.nr)
		return -EBADMSG;
	if (lib.layers & 1U << GPU_LAYER_NCCL)
		lib.comm_rank = comm_rank_read(img, found->comm);
	*ret = lib;
	return 0;
}

int gpu_library_read(struct gpu_library *ret, struct elf_image *img)
{
	const char *names[BPFPROF_GPU_MAX_FUNCTIONS];
	const struct gpu_function *functions;
	struct names_found found;
	size_t nr, i;
	int err;

	if (!elf_image_is_native(img))
		return -ENODATA;
	err = is_of_interest(img);
	if (err)
		return err == -ENODATA && has_device_code(img) ? -EAGAIN : err;
	functions = gpu_functions(&nr);
	for (i = 1; i < nr; i++)
		names[i] = functions[i].name;
	err = symbol_find_dynamic(img, names + 1, nr - 1, found.functions + 1);
	if (err)
		return err;
	if (symbol_find_dynamic(img, comm_names, NR_COMM, found.comm))
		nothing_found(found.comm, NR_COMM);
	return functions_hook(ret, img, &found);
}

struct gpu_hidden {
	struct symbol_pattern patterns[BPFPROF_GPU_MAX_FUNCTIONS + NR_COMM];
	struct symbol_found
		*places[BPFPROF_GPU_MAX_FUNCTIONS + NR_COMM]; /* of each pattern in names */
	size_t nr_patterns;
	struct names_found names;
	struct symbol_found found[MAX_HIDDEN];
	struct symbol_search *search;
};

static void name_ask(struct gpu_hidden *hidden, const char *name, struct symbol_found *place)
{
	hidden->places[hidden->nr_patterns] = place;
	hidden->patterns[hidden->nr_patterns++] = (struct symbol_pattern){ name, SYMBOL_EXACT };
}

/* The driver is never linked into another file. */
int gpu_hidden_new(struct gpu_hidden **ret, struct elf_image *img)
{
	struct gpu_hidden *hidden = calloc(1, sizeof(*hidden));
	const struct gpu_function *functions;
	size_t nr, i;
	int err;

	if (!hidden)
		return -ENOMEM;
	functions = gpu_functions(&nr);
	for (i = 1; i < nr; i++)
		if (!strncmp(functions[i].name, "nccl", 4))
			name_ask(hidden, functions[i].name, &hidden->names.functions[i]);
	for (i = 0; i < NR_COMM; i++)
		name_ask(hidden, comm_names[i], &hidden->names.comm[i]);
	nothing_found(hidden->names.functions, BPFPROF_GPU_MAX_FUNCTIONS);
	nothing_found(hidden->names.comm, NR_COMM);
	err = symbol_search_new(&hidden->search, img, SHT_SYMTAB, MAX_HIDDEN_BYTES,
				hidden->patterns, hidden->nr_patterns, hidden->found, MAX_HIDDEN);
	if (err)
		gpu_hidden_free(hidden);
	else
		*ret = hidden;
	return err;
}

/* As is_of_interest(), by the found symbols. */
static bool is_nccl(const struct gpu_hidden *hidden)
{
	size_t i, k;

	for (i = 0; i < hidden->nr_patterns; i++)
		for (k = 0; k < NR_OF_INTEREST; k++)
			if (hidden->places[i]->pattern != UINT32_MAX &&
			    !strcmp(hidden->patterns[i].name, names_of_interest[k]))
				return true;
	return false;
}

int gpu_hidden_step(struct gpu_hidden *hidden, struct gpu_library *ret, struct elf_image *img)
{
	size_t nr;
	int err;

	err = symbol_search_step(hidden->search, img, &nr);
	if (err)
		return err;
	while (nr-- > 0) /* the first symbol of a name counts */
		*hidden->places[hidden->found[nr].pattern] = hidden->found[nr];
	return is_nccl(hidden) ? functions_hook(ret, img, &hidden->names) : -ENODATA;
}

void gpu_hidden_free(struct gpu_hidden *hidden)
{
	if (!hidden)
		return;
	symbol_search_free(hidden->search);
	free(hidden);
}
