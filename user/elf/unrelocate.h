/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_UNRELOCATE_H
#define BPFPROF_ELF_UNRELOCATE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Makes a copy of a loaded image look like its file where we need it: ld.so adds the load address to
 * the pointers of the dynamic section (elf/get-dynamic-info.h in glibc), and section headers are not
 * loaded. base is the address of file offset 0. A malformed image stays as it is.
 */
void elf_unrelocate(void *image, size_t len, uint64_t base);

#endif
