/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_FUNCTION_STARTS_H
#define BPFPROF_ELF_FUNCTION_STARTS_H

/*
 * Where the functions of one image begin, as its symbols (.symtab and .dynsym) have it: borders
 * for code that has no unwind tables. 4 bytes a function.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FUNCTION_STARTS_MAX (1U << 17) /* 512 KiB */

struct elf_image;

struct function_starts {
	uint64_t low, high; /* image-relative: those of [low, high) are in it */
	uint32_t *starts; /* ascending, less low */
	size_t nr;
	bool complete; /* a table has local symbols, too: there are no other functions */
};

/*
 * Reads those around rva: of [low, high), which is at most 4 GiB, or, where they are more than
 * FUNCTION_STARTS_MAX, of a smaller part around rva. 0 also if there are none; -ENOMEM, errors of reading.
 */
int function_starts_load(struct function_starts *ret, struct elf_image *img, uint64_t low,
			 uint64_t high, uint64_t rva);
void function_starts_fini(struct function_starts *starts);

/* The last start at or before rva, and the first one after it; UINT64_MAX if it is not known. */
uint64_t function_starts_before(const struct function_starts *starts, uint64_t rva);
uint64_t function_starts_after(const struct function_starts *starts, uint64_t rva);

#endif
