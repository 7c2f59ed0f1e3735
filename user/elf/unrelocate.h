/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_UNRELOCATE_H
#define BPFPROF_ELF_UNRELOCATE_H

/*
 * Makes a loaded image look like its file where we need it: ld.so adds the load address to the pointers
 * of the dynamic section (elf/get-dynamic-info.h in glibc), and section headers are not loaded. A
 * malformed image stays as it is.
 */

#include <stddef.h>
#include <stdint.h>

struct elf_loaded {
	uint64_t bias; /* load address */
	uint64_t dynamic_off, dynamic_bytes; /* the dynamic section in the file; 0 bytes: none */
};

/*
 * head[0..len): the begin of the image, with its program headers; base: the address of file offset 0.
 * Removes the place of section headers.
 */
void elf_unrelocate_head(void *head, size_t len, uint64_t base, struct elf_loaded *ret);
void elf_unrelocate_dynamic(void *dynamic, size_t len, uint64_t bias);

#endif
