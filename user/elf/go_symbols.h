/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_GO_SYMBOLS_H
#define BPFPROF_ELF_GO_SYMBOLS_H

/* Symbols of Go code from the function table of the program (go_table.h), for symbols.h. */

#include <stddef.h>

struct elf_image;
struct elf_symbol;
struct strtab;

/*
 * Fills in file and lines of every entry of syms[0..nr) in Go code, and the name if it has none. 0,
 * -ENODATA without such a table; -EBADMSG or the error of a read: the entries found before stay;
 * -ENOMEM.
 */
int go_symbols_resolve(struct elf_image *img, struct strtab *names, struct elf_symbol *syms,
		       size_t nr);

#endif
