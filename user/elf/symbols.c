// SPDX-License-Identifier: Apache-2.0
#include "elf/symbols.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>

#include "elf/debug_file.h"
#include "elf/go_symbols.h"
#include "elf/image.h"
#include "elf/plt.h"
#include "elf/symtab.h"

static bool all_named(const struct elf_symbol *syms, size_t nr)
{
	size_t i;

	for (i = 0; i < nr && syms[i].name; i++)
		;
	return i == nr;
}

/* 0, -ENODATA without such a table, or what went wrong in it. */
static int resolve_table(struct elf_image *img, uint32_t type, struct strtab *names,
			 struct elf_symbol *syms, size_t nr)
{
	struct symtab tab;
	int err = symtab_open(&tab, img, type);

	return err ? err : symtab_resolve(&tab, img, names, syms, nr);
}

static int resolve_debug_data(struct elf_image *img, struct strtab *names, struct elf_symbol *syms,
			      size_t nr)
{
	struct elf_image *debug;
	struct symtab tab;
	int err = debug_data_open(&debug, img);

	if (err)
		return err;
	err = symtab_open(&tab, debug, SHT_SYMTAB);
	if (!err) {
		tab.partial = true; /* without what .dynsym has */
		err = symtab_resolve(&tab, debug, names, syms, nr);
	}
	elf_image_free(debug);
	return err;
}

static int resolve_debug_file(struct elf_image *img, const struct elf_debug_paths *paths,
			      struct strtab *names, struct elf_symbol *syms, size_t nr)
{
	struct elf_image *debug;
	int err;

	if (!paths || debug_file_open(&debug, img, paths))
		return 0;
	err = resolve_table(debug, SHT_SYMTAB, names, syms, nr);
	elf_image_free(debug);
	return err;
}

/* What has no name from a symbol with a size, or not all was seen of, is alone with its answer. */
static void alone(struct elf_symbol *syms, size_t nr, bool all)
{
	size_t i;

	for (i = 0; i < nr; i++) {
		if (!syms[i].same_end || (!all && syms[i].name && syms[i].bytes))
			continue;
		syms[i].same_start = syms[i].rva;
		syms[i].same_end = syms[i].rva + 1;
	}
}

/* Each source is asked for what those before it left unnamed; the first error is kept. */
int elf_symbols_resolve(struct elf_image *img, const struct elf_debug_paths *paths,
			struct strtab *names, struct elf_symbol *syms, size_t nr)
{
	int errs[6] = { 0 }, err = 0;
	size_t i;

	errs[0] = resolve_table(img, SHT_SYMTAB, names, syms, nr);
	if (errs[0] && !all_named(syms, nr)) {
		errs[1] = resolve_table(img, SHT_DYNSYM, names, syms, nr);
		errs[2] = all_named(syms, nr) ? 0 : resolve_debug_data(img, names, syms, nr);
	}
	errs[3] = go_symbols_resolve(img, names, syms, nr);
	errs[4] = all_named(syms, nr) ? 0 : plt_resolve(img, names, syms, nr);
	errs[5] = all_named(syms, nr) ? 0 : resolve_debug_file(img, paths, names, syms, nr);
	for (i = 0; i < sizeof(errs) / sizeof(errs[0]) && !err; i++)
		err = errs[i] != -ENODATA ? errs[i] : 0;
	alone(syms, nr, err != 0);
	return err;
}
