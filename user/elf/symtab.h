/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_SYMTAB_H
#define BPFPROF_ELF_SYMTAB_H

/*
 * Streams one symbol table of an ELF image (.symtab, .dynsym) for symbols.h. At most SYMTAB_MAX_SYMBOLS
 * of a table are read; a name of SYMTAB_MAX_NAME - 1 bytes or more is cut in its middle
 * (base/name_cut.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYMTAB_MAX_SYMBOLS (8U << 20)
#define SYMTAB_MAX_NAME 16384
/*
 * Work for the names of one file: a symbol that is read, or an address that a symbol may cover, costs 1,
 * some 10 ns. A table of 8 million symbols can be read twice; ordinary ones are read three times.
 */
#define SYMTAB_MAX_WORK (20 << 20)

struct elf_image;
struct elf_symbol;
struct strtab;

struct symtab {
	struct elf_image *img; /* borrowed */
	uint64_t off; /* of the symbols in the file */
	uint64_t nr;
	uint64_t strings_off;
	uint64_t strings_bytes;
	int64_t *work_left; /* borrowed, for all tables of a file; NULL: there is no limit */
	bool partial; /* as .dynsym is: functions without a name may follow any symbol */
};

/* Finds the table of this section type (SHT_SYMTAB, SHT_DYNSYM). 0, -ENODATA, -EBADMSG, -E2BIG. */
int symtab_open(struct symtab *ret, struct elf_image *img, uint32_t type);

/*
 * Names every entry of syms[0..nr), sorted by rva, that has no name yet and lies in a symbol with a
 * size. 0; -EBADMSG or the error of a read: the names found before stay; -E2BIG: no work is left, and
 * none has a name, since a better one may have followed; -ENOMEM.
 */
int symtab_resolve(const struct symtab *tab, struct strtab *names, struct elf_symbol *syms,
		   size_t nr);

/*
 * The same by symbols without a size, for addresses that no table names otherwise. Needs all tables of
 * one image: a symbol of one table may lie between a symbol of another and the address.
 */
int symtab_resolve_unsized(const struct symtab *tabs, size_t nr_tabs, struct strtab *names,
			   struct elf_symbol *syms, size_t nr);

/*
 * The name at off of the table's strings, without the `@VERSION` that linkers append. Length (>= 0; 0
 * also if off is outside) or -errno.
 */
int symtab_name(const struct symtab *tab, uint32_t off, char name[SYMTAB_MAX_NAME]);

#endif
