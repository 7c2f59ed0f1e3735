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

#define DYNAMIC_WORK (2 << 20) /* for exported symbols, where others take too much */

/* The tables of the image, the most trusted one first. */
struct sources {
	struct symtab tabs[4];
	size_t nr;
	int64_t work_left; /* see SYMTAB_MAX_WORK */
	struct elf_image *debug[2]; /* images opened for them */
	size_t nr_debug;
	int err; /* the first error other than -ENODATA */
};

static bool is_costly(const struct sources *s)
{
	return s->work_left < 0;
}

static void note(struct sources *s, int err)
{
	if (err && err != -ENODATA && !s->err)
		s->err = err;
}

static void ask_table(struct sources *s, struct elf_image *img, uint32_t type, bool partial,
		      struct strtab *names, struct elf_symbol *syms, size_t nr)
{
	struct symtab *tab = &s->tabs[s->nr];
	int err = symtab_open(tab, img, type);

	if (!err) {
		tab->partial = partial;
		tab->work_left = &s->work_left;
		s->nr++;
		err = symtab_resolve(tab, names, syms, nr);
	}
	note(s, elf_image_sections_error(img));
	note(s, err);
}

static void ask_debug_data(struct sources *s, struct elf_image *img, struct strtab *names,
			   struct elf_symbol *syms, size_t nr)
{
	int err = debug_data_open(&s->debug[s->nr_debug], img);

	note(s, err);
	if (!err) /* it has no symbols of .dynsym */
		ask_table(s, s->debug[s->nr_debug++], SHT_SYMTAB, true, names, syms, nr);
}

static void ask_debug_file(struct sources *s, struct elf_image *img,
			   const struct elf_debug_paths *paths, struct strtab *names,
			   struct elf_symbol *syms, size_t nr)
{
	if (paths && !debug_file_open(&s->debug[s->nr_debug], img, paths))
		ask_table(s, s->debug[s->nr_debug++], SHT_SYMTAB, false, names, syms, nr);
}

/* A complete .symtab holds at least the symbols of .dynsym, the next table. */
static void distrust_sparse(struct sources *s)
{
	if (s->nr >= 2 && s->tabs[0].img == s->tabs[1].img && s->tabs[0].nr < s->tabs[1].nr)
		s->tabs[0].partial = true;
}

/* Narrows the same answer to rva itself, unless a symbol with a size names it and all was read. */
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

/* The symbols take too much work: only exported functions get names. */
static void ask_exported(struct sources *s, struct elf_image *img, struct strtab *names,
			 struct elf_symbol *syms, size_t nr)
{
	s->nr = 0;
	s->work_left = DYNAMIC_WORK;
	ask_table(s, img, SHT_DYNSYM, true, names, syms, nr);
	s->work_left = -1;
}

int elf_symbols_resolve(struct elf_image *img, const struct elf_debug_paths *paths,
			const struct elf_starts *starts, struct strtab *names,
			struct elf_symbol *syms, size_t nr)
{
	struct sources s = { .work_left = SYMTAB_MAX_WORK };

	ask_table(&s, img, SHT_SYMTAB, false, names, syms, nr);
	if (is_costly(&s))
		ask_exported(&s, img, names, syms, nr);
	else if (!all_named(syms, nr))
		ask_table(&s, img, SHT_DYNSYM, true, names, syms, nr);
	if (!is_costly(&s) && !all_named(syms, nr))
		ask_debug_data(&s, img, names, syms, nr);
	note(&s, go_symbols_resolve(img, names, syms, nr)); /* also lines of entries with a name */
	if (!all_named(syms, nr))
		note(&s, plt_resolve(img, names, syms, nr));
	if (!is_costly(&s) && !all_named(syms, nr))
		ask_debug_file(&s, img, paths, names, syms, nr);
	if (!is_costly(&s) && !all_named(syms, nr)) {
		distrust_sparse(&s);
		if (starts)
			starts->find(starts->arg, syms, nr);
		note(&s, symtab_resolve_unsized(s.tabs, s.nr, names, syms, nr));
	}
	while (s.nr_debug)
		elf_image_free(s.debug[--s.nr_debug]);
	alone(syms, nr, s.err != 0);
	return s.err;
}
