/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_PROGRAM_ENTRY_H
#define BPFPROF_ELF_PROGRAM_ENTRY_H

/*
 * Is the entry point of an ELF file the first code of a program? Linkers write an entry point into
 * shared libraries, too: the address of an ordinary function.
 */

#include <stdbool.h>

struct elf_image;

/*
 * True for a program: ET_EXEC, or ET_DYN with PT_INTERP or DF_1_PIE. The dynamic loader has none of the
 * three: its headers look like those of a library.
 */
bool program_entry_is(struct elf_image *img);

#endif
