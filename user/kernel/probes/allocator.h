/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PROBES_ALLOCATOR_H
#define BPFPROF_KERNEL_PROBES_ALLOCATOR_H

/* The functions of a memory allocator in a file, and the places of their probes (cuda/hook_place.h). */

#include <stddef.h>
#include <stdint.h>

#include "allocations.h"

struct elf_image;

struct allocator {
	uint64_t offsets[BPFPROF_MAX_ALLOC_FUNCTIONS]; /* of the probes in the file, each once */
	uint64_t cookies[BPFPROF_MAX_ALLOC_FUNCTIONS]; /* enum bpfprof_alloc_kind */
	uint64_t starts[BPFPROF_MAX_ALLOC_FUNCTIONS]; /* of the functions, in the file */
	uint64_t bytes[BPFPROF_MAX_ALLOC_FUNCTIONS]; /* of their code; 0: not known */
	size_t nr, nr_allocating; /* the first ones return blocks */
};

/*
 * 0; -ENODATA: the file does not define malloc and free for others; errors of symbol_find_dynamic().
 */
int allocator_read(struct allocator *ret, struct elf_image *img);
/* The same for a program with its own allocator, by all its symbols. */
int allocator_read_program(struct allocator *ret, struct elf_image *img);

#endif
