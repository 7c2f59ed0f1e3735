/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_FUNCTION_STARTS_H
#define BPFPROF_ELF_FUNCTION_STARTS_H

/*
 * The starts of the functions of one image by its symbols (.symtab and .dynsym): borders for code that
 * has no unwind tables. 4 bytes for each function.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FUNCTION_STARTS_MAX (1U << 17) /* 512 KiB */

struct elf_image;

struct function_starts {
	uint64_t low, high; /* image-relative: starts in [low, high) were read */
	uint32_t *starts; /* relative to low, ascending */
	size_t nr;
	bool complete; /* there are no other functions: a table has local symbols, too */
};

/*
 * Reads the starts in [low, high), at most 4 GiB; if there are more than FUNCTION_STARTS_MAX, those in a
 * smaller part around rva. 0 also if there are none; -ENOMEM, errors of reading.
 */
int function_starts_load(struct function_starts *ret, struct elf_image *img, uint64_t low,
			 uint64_t high, uint64_t rva);
void function_starts_fini(struct function_starts *starts);

/* The last start at or before rva, and the first start after it; UINT64_MAX: not known. */
uint64_t function_starts_before(const struct function_starts *starts, uint64_t rva);
uint64_t function_starts_after(const struct function_starts *starts, uint64_t rva);

#endif
