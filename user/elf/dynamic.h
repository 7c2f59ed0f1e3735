/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_DYNAMIC_H
#define BPFPROF_ELF_DYNAMIC_H

/* The dynamic section of an image, which the loader reads (System V gABI 5, "Dynamic Section"). */

#include <elf.h>
#include <stdint.h>

struct elf_image;

/* Values as they are in the file; 0: there is no such entry. The last one of a tag counts. */
struct elf_dynamic {
	uint64_t tags[DT_NUM]; /* by DT_* */
	uint64_t gnu_hash; /* DT_GNU_HASH */
	uint64_t flags_1; /* DT_FLAGS_1 */
};

/* 0, -ENODATA without the segment, or the error of a read. At most 1024 entries are read. */
int elf_dynamic_read(struct elf_dynamic *ret, struct elf_image *img);

#endif
