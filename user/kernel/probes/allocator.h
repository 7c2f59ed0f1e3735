/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PROBES_ALLOCATOR_H
#define BPFPROF_KERNEL_PROBES_ALLOCATOR_H

/* The functions of a memory allocator in a file, and the places of their probes (cuda/hook_place.h). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocations.h"

#define ALLOCATOR_MAX_FUNCTIONS 33 /* with probes in a file */

struct elf_image;

struct allocator {
	uint64_t offsets[ALLOCATOR_MAX_FUNCTIONS]; /* of the probes in the file, each once */
	uint64_t cookies[ALLOCATOR_MAX_FUNCTIONS]; /* enum bpfprof_alloc_kind */
	size_t nr, nr_allocating; /* the first ones return blocks */
	/* Of those that return blocks. */
	uint64_t starts[BPFPROF_MAX_ALLOC_FUNCTIONS]; /* in the file */
	uint64_t bytes[BPFPROF_MAX_ALLOC_FUNCTIONS]; /* of their code; 0: not known */
};

enum allocator_part {
	ALLOCATOR_HEAP, /* malloc and free, and what there is of their kin */
	ALLOCATOR_MAPS, /* mmap and munmap */
	ALLOCATOR_NR_PARTS,
};

/*
 * program: the file is a program, all of whose symbols are searched if it exports none. 0; -ENODATA: it
 * does not define them; errors of symbol_find_dynamic() and symbol_find_all().
 */
int allocator_read(struct allocator *ret, struct elf_image *img, enum allocator_part part,
		   bool program);

#endif
