/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_PLT_H
#define BPFPROF_ELF_PLT_H

/*
 * Names for code in the procedure linkage table. No symbol covers it, but each entry jumps
 * through a word that a relocation fills, and the relocation has the symbol: `name@plt`. An entry is
 * known by its instructions, not by its order, in every layout of ld, gold, lld and mold.
 */

#include <stddef.h>

struct elf_image;
struct elf_symbol;
struct strtab;

/*
 * Fills in the entries of syms[0..nr), in any order, that have no name yet and lie in a PLT. 0,
 * -EBADMSG, -E2BIG, -ENOMEM or the error of a read: the names found before stay.
 */
int plt_resolve(struct elf_image *img, struct strtab *names, struct elf_symbol *syms, size_t nr);

#endif
