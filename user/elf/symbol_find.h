/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_SYMBOL_FIND_H
#define BPFPROF_ELF_SYMBOL_FIND_H

/*
 * Symbols of one image by name. symbol_find_dynamic() is for asking of every file
 * that gets mapped: it looks up as the dynamic loader does, a few reads for each name.
 * symbol_find_all() goes over the strings and, only if a name is among them, the symbols.
 * Errors: -ENODATA no such table, -EBADMSG malformed, -E2BIG over the limits, -ENOMEM, errors
 * of reading. Reference: System V gABI 5 "Hash Table"; for .gnu.hash what
 * binutils writes and glibc's elf/dl-lookup.c reads.
 */

#include <stddef.h>
#include <stdint.h>

#define SYMBOL_FIND_MAX_NAMES 4096 /* places in a string table where a name was met */
/*
 * Where the first bytes of a name were met, or of several that begin alike: no more of them are
 * compared. the libnccl of CUDA 13.0 has 5,852 times "nccl".
 */
#define SYMBOL_FIND_MAX_LOOKS (1U << 20)

struct elf_image;

enum symbol_match {
	SYMBOL_EXACT,
	SYMBOL_PARTS, /* or with a '.' after it: NAME.cold, NAME.part.0 */
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
	uint32_t pattern; /* which of those asked for */
};

/*
 * found[i] is the definition of names[i]; its pattern is i, or UINT32_MAX if the image exports no
 * such name. On an error all of found is untouched.
 */
int symbol_find_dynamic(struct elf_image *img, const char *const *names, size_t nr,
			struct symbol_found *found);

/*
 * Definitions in the table of this section type (SHT_SYMTAB, SHT_DYNSYM) whose names match, in the
 * table's order; at most cap, the rest is left out. A name should match one pattern only.
 * -E2BIG if symbols and strings together have more than max_bytes.
 */
int symbol_find_all(struct elf_image *img, uint32_t type, uint64_t max_bytes,
		    const struct symbol_pattern *patterns, size_t nr_patterns,
		    struct symbol_found *found, size_t cap, size_t *ret_nr);

/*
 * The same in steps, for who has something else to do meanwhile: each reads some 64 KiB. Borrows
 * patterns and found. The file may be another one at each step: then what is found is wrong, no more.
 */
struct symbol_search;
int symbol_search_new(struct symbol_search **ret, struct elf_image *img, uint32_t type,
		      uint64_t max_bytes, const struct symbol_pattern *patterns, size_t nr_patterns,
		      struct symbol_found *found, size_t cap);
/* 0: all are found; -EAGAIN: there is more to be searched; errors as above: nothing more is to be had. */
int symbol_search_step(struct symbol_search *search, struct elf_image *img, size_t *ret_nr);
void symbol_search_free(struct symbol_search *search);

#endif
