/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_RELOCATIONS_H
#define BPFPROF_CUDA_RELOCATIONS_H

/*
 * The relocations of an image, one after the other, as the dynamic loader finds them: by
 * PT_DYNAMIC, so that stripped section headers do not matter. A word that no relocation
 * fills holds what the file has there. Reference: System V gABI 5, x86-64 psABI 4.4.
 */

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

#define RELOCATIONS_MAX (16U << 20)
#define RELOCATIONS_NAME_BYTES 40

struct elf_image;

struct relocations {
	uint64_t init_va, init_bytes; /* addresses of functions to run at the start; 0: none */
	struct {
		uint64_t off, nr;
	} tables[2];
	uint64_t symbols_va, strings_va, strings_bytes; /* 0: none */
};

/* What fills one word. */
struct relocation {
	uint64_t rva; /* of the word */
	uint32_t symbol; /* 0: none */
	bool is_known; /* the word will be the image-relative address value, if there is no symbol */
	uint64_t value;
};

/* 0, also if there are none; -EBADMSG, -E2BIG, errors of reading. */
int relocations_init(struct relocations *ret, struct elf_image *img);

uint64_t relocations_count(const struct relocations *relocs);
/* Up to nr relocations from the first-th on: how many, 0 at the end, or -errno. */
int relocations_get(const struct relocations *relocs, struct elf_image *img, uint64_t first,
		    struct relocation *ret, uint32_t nr);

/* Where the symbol is defined in the image; -ENOENT: elsewhere. */
int relocations_symbol(const struct relocations *relocs, struct elf_image *img, uint32_t symbol,
		       uint64_t *ret_rva);
/* Its name, cut where it is longer. 0, -ENOENT, errors of reading. */
int relocations_symbol_name(const struct relocations *relocs, struct elf_image *img,
			    uint32_t symbol, char name[RELOCATIONS_NAME_BYTES]);

#endif
