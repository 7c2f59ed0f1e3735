/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_PLT_ENTRY_H
#define BPFPROF_ELF_PLT_ENTRY_H

/*
 * The instructions of one entry in a procedure linkage table. The linkers write a few forms of them for
 * each CPU, and the folder of the CPU knows them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLT_ENTRY_MAX_BYTES 32

struct elf_section;

/* The size of the entries in a section: at most PLT_ENTRY_MAX_BYTES. */
uint32_t plt_entry_bytes(const struct elf_section *sec);

/*
 * The address of the word that the entry at rva jumps through. An entry in the lazy half of a split PLT
 * has the index of its relocation instead: then *ret_is_index. False for the header of the PLT and
 * anything else.
 */
bool plt_entry_decode(const uint8_t *code, size_t len, uint64_t rva, uint64_t *ret,
		      bool *ret_is_index);

#endif
