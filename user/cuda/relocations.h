/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_RELOCATIONS_H
#define BPFPROF_CUDA_RELOCATIONS_H

/*
 * The relocations of an image, one after the other, found by PT_DYNAMIC as the dynamic loader does
 * it, so that section headers are not needed. A word without a relocation has the content of the
 * file. Reference: System V gABI 5.
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

/* A relocation of one word. */
struct relocation {
	uint64_t rva; /* of the word */
	uint32_t symbol; /* 0: none */
	bool is_known; /* the word becomes the image-relative address `value`; it has no symbol */
	uint64_t value;
};

/* 0, also if there are none; -EBADMSG, -E2BIG, errors of reading. */
int relocations_init(struct relocations *ret, struct elf_image *img);

/* Reads up to nr relocations from number `first` on. Returns how many; 0 at the end; or -errno. */
int relocations_get(const struct relocations *relocs, struct elf_image *img, uint64_t first,
		    struct relocation *ret, uint32_t nr);

/* The address of a symbol of the image; -ENOENT: it is defined elsewhere. */
int relocations_symbol(const struct relocations *relocs, struct elf_image *img, uint32_t symbol,
		       uint64_t *ret_rva);
/* The name of a symbol, cut if it is longer. 0, -ENOENT, errors of reading. */
int relocations_symbol_name(const struct relocations *relocs, struct elf_image *img,
			    uint32_t symbol, char name[RELOCATIONS_NAME_BYTES]);

#endif
