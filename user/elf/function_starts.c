// SPDX-License-Identifier: Apache-2.0
#include "elf/function_starts.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "base/background.h"
#include "base/cleanup.h"
#include "base/sorted.h"
#include "base/vec.h"
#include "elf/image.h"
#include "elf/symtab.h"

#define CHUNK_SYMBOLS 1024
#define MAX_SYMBOLS (4U << 20) /* 20 ms */
#define MIN_REACH (1ULL << 19) /* bytes of text on each side, for any number of functions */

static bool is_function(const Elf64_Sym *sym)
{
	unsigned int type = ELF64_ST_TYPE(sym->st_info);

	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS || sym->st_shndx == SHN_COMMON)
		return false;
	/* Local labels of assembly are places inside of functions, too. */
	return type == STT_FUNC || type == STT_GNU_IFUNC ||
	       (type == STT_NOTYPE && ELF64_ST_BIND(sym->st_info) != STB_LOCAL);
}

/* As in symtab.c: only a table with local symbols names functions that are not exported. */
static bool is_local(const Elf64_Sym *sym)
{
	unsigned int type = ELF64_ST_TYPE(sym->st_info);

	return ELF64_ST_BIND(sym->st_info) == STB_LOCAL && sym->st_name && type != STT_SECTION &&
	       type != STT_FILE;
}

/* -E2BIG: there is no room for all of them. */
static int table_add(struct function_starts *ret, struct elf_image *img, uint32_t type)
{
	__cleanup(free_mem) Elf64_Sym *chunk = malloc(CHUNK_SYMBOLS * sizeof(*chunk));
	uint64_t i, k, nr;
	struct symtab tab;
	int err;

	if (!chunk)
		return -ENOMEM;
	err = symtab_open(&tab, img, type);
	if (err) /* a malformed table has no borders */
		return err == -ENODATA || err == -EBADMSG || err == -E2BIG ? 0 : err;
	if (tab.nr > MAX_SYMBOLS)
		return 0;
	for (i = 0; i < tab.nr; i += nr) {
		nr = tab.nr - i < CHUNK_SYMBOLS ? tab.nr - i : CHUNK_SYMBOLS;
		err = elf_image_read(img, tab.off + i * sizeof(*chunk), chunk, nr * sizeof(*chunk));
		if (err)
			return err;
		for (k = 0; k < nr; k++) {
			ret->complete |= is_local(&chunk[k]);
			if (!is_function(&chunk[k]) || chunk[k].st_value < ret->low ||
			    chunk[k].st_value >= ret->high)
				continue;
			if (ret->nr == FUNCTION_STARTS_MAX)
				return -E2BIG;
			ret->starts[ret->nr++] = (uint32_t)(chunk[k].st_value - ret->low);
		}
		background_give_way();
	}
	return 0;
}

static int load(struct function_starts *ret, struct elf_image *img)
{
	int err;

	ret->nr = 0;
	err = table_add(ret, img, SHT_SYMTAB);
	return err ? err : table_add(ret, img, SHT_DYNSYM);
}

int function_starts_load(struct function_starts *ret, struct elf_image *img, uint64_t low,
			 uint64_t high, uint64_t rva)
{
	struct function_starts starts = { .low = low,
					  .high = high - low > UINT32_MAX ? low + UINT32_MAX
									  : high };
	int err;

	starts.starts = malloc(FUNCTION_STARTS_MAX * sizeof(*starts.starts));
	if (!starts.starts)
		return -ENOMEM;
	err = load(&starts, img);
	if (err == -E2BIG) {
		starts.low = rva - low > MIN_REACH ? rva - MIN_REACH : low;
		starts.high = high - rva > MIN_REACH ? rva + MIN_REACH : high;
		err = load(&starts, img);
	}
	if (err == -E2BIG) /* functions do not begin every 8 bytes */
		err = 0;
	if (err) {
		free(starts.starts);
		return err;
	}
	qsort(starts.starts, starts.nr, sizeof(*starts.starts), sorted_by_u32);
	(void)vec_fit(starts.starts, starts.nr + 1);
	*ret = starts;
	return 0;
}

void function_starts_fini(struct function_starts *starts)
{
	free(starts->starts);
	*starts = (struct function_starts){ 0 };
}

/* The number of starts at or before rva, which is in [low, high). */
static size_t upper_bound(const struct function_starts *starts, uint64_t rva)
{
	return sorted_count(starts->nr, i, starts->starts[i] <= rva - starts->low);
}

uint64_t function_starts_before(const struct function_starts *starts, uint64_t rva)
{
	size_t at;

	if (rva < starts->low || rva >= starts->high)
		return UINT64_MAX;
	at = upper_bound(starts, rva);
	return at ? starts->low + starts->starts[at - 1] : UINT64_MAX;
}

uint64_t function_starts_after(const struct function_starts *starts, uint64_t rva)
{
	size_t at;

	if (rva < starts->low || rva >= starts->high)
		return UINT64_MAX;
	at = upper_bound(starts, rva);
	return at < starts->nr ? starts->low + starts->starts[at] : UINT64_MAX;
}
