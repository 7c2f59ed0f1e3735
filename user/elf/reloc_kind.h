/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_RELOC_KIND_H
#define BPFPROF_ELF_RELOC_KIND_H

/* The meaning of a dynamic relocation. The types are those of the CPU, and its folder knows them. */

#include <stdint.h>

enum reloc_kind {
	RELOC_OTHER = 0,
	RELOC_RELATIVE, /* the word becomes the image-relative address in the addend */
	RELOC_ABSOLUTE, /* the address of the symbol + the addend */
	RELOC_SYMBOL, /* the address of the symbol; the addend does not count */
	RELOC_RESOLVER, /* the result of the function (an ifunc) at the addend */
};

enum reloc_kind reloc_kind(uint32_t type);

#endif
