/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_ELF_NAMES_H
#define BPFPROF_TESTS_ELF_NAMES_H

/* Names of addresses in ELF files that are compiled when a test runs. */

#include "elf/symbols.h"

#include "base/strtab.h"

extern struct strtab *elf_names;
int elf_names_resolve(const char *file, const struct elf_debug_paths *paths,
		      struct elf_symbol *syms, size_t nr);
/* The name of one address, "" if it has none. */
const char *elf_name_of(const char *file, const struct elf_debug_paths *paths, uint64_t rva);
uint64_t elf_section_va(const char *file, const char *section);
/* Offsets are written out so that expected names can be read off the source. */
extern const char elf_assembly[];
extern const char elf_two_functions[];

#endif
