/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_SYMBOL_FIND_H
#define BPFPROF_ELF_SYMBOL_FIND_H

/*
 * Finds symbols of one image by name. symbol_find_dynamic() is cheap enough for every file that gets
 * mapped: it searches as the dynamic loader does, with a few reads for each name. symbol_find_all()
 * scans the strings and, only if a name is among them, the symbols.
 * Errors: -ENODATA no such table, -EBADMSG malformed, -E2BIG over the limits, -ENOMEM, errors of
 * reading. Reference: System V gABI 5 "Hash Table"; .gnu.hash is as binutils writes it and as glibc's
 * elf/dl-lookup.c reads it.
 */

#include <stddef.h>
#include <stdint.h>

#define SYMBOL_FIND_MAX_NAMES 4096 /* places of matching names in a string table */
/*
 * Places that have the first bytes of a name, or of several names that begin alike. The libnccl of
 * CUDA 13.0 has "nccl" 5,852 times.
 */
#define SYMBOL_FIND_MAX_LOOKS (1U << 20)

struct elf_image;

enum symbol_match {
	SYMBOL_EXACT,
	SYMBOL_PARTS, /* NAME, and parts with a '.' after it: NAME.cold, NAME.part.0 */
	SYMBOL_PREFIX,
};

struct symbol_pattern {
	const char *name;
	enum symbol_match match;
};

struct symbol_found {
	uint64_t value; /* image-relative address */
	uint64_t bytes;
	uint32_t type; /* STT_* */
	uint32_t pattern; /* number of the name or pattern that matched */
};

/*
 * found[i] is the definition of names[i]; its pattern is i, or UINT32_MAX if the image does not export
 * the name. On an error all of found is untouched.
 */
int symbol_find_dynamic(struct elf_image *img, const char *const *names, size_t nr,
			struct symbol_found *found);

/*
 * Definitions with matching names in the table of this section type (SHT_SYMTAB, SHT_DYNSYM), in the
 * table's order; the first cap of them. A name should match one pattern only. -E2BIG if symbols and
 * strings together have more than max_bytes.
 */
int symbol_find_all(struct elf_image *img, uint32_t type, uint64_t max_bytes,
		    const struct symbol_pattern *patterns, size_t nr_patterns,
		    struct symbol_found *found, size_t cap, size_t *ret_nr);

/*
 * The same in steps of some 64 KiB, for a caller with other work in between. Borrows patterns and found.
 * If the file changes between steps the result is wrong, but nothing worse happens.
 */
struct symbol_search;
int symbol_search_new(struct symbol_search **ret, struct elf_image *img, uint32_t type,
		      uint64_t max_bytes, const struct symbol_pattern *patterns, size_t nr_patterns,
		      struct symbol_found *found, size_t cap);
/* 0: the search is complete; -EAGAIN: it is not yet; errors as above: it has failed. */
int symbol_search_step(struct symbol_search *search, struct elf_image *img, size_t *ret_nr);
void symbol_search_free(struct symbol_search *search);

#endif
