/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_GO_SYMBOLS_H
#define BPFPROF_ELF_GO_SYMBOLS_H

/* What symbols.h needs from the function table of a Go program (go_table.h). */

#include <stddef.h>

struct elf_image;
struct elf_symbol;
struct strtab;

/*
 * Fills in file and lines of every entry of syms[0..nr) that is Go code, and the name of those
 * that have none. 0, -ENODATA without such a table; -EBADMSG or the error of a read after filling in what was found
 * until then; -ENOMEM.
 */
int go_symbols_resolve(struct elf_image *img, struct strtab *names, struct elf_symbol *syms,
		       size_t nr);

#endif
