/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_IMAGE_SYMBOLS_H
#define BPFPROF_PROFILE_IMAGE_SYMBOLS_H

/* The symbols of an open image, with those of its separate debug file and its unwind table. */

#include <stddef.h>

struct elf_symbol;
struct image;
struct images;
struct strtab;

/* As elf_symbols_resolve(). */
int image_symbols_resolve(struct images *images, struct image *image, struct strtab *names,
			  struct elf_symbol *symbols, size_t nr);

#endif
