/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_CLASSES_H
#define BPFPROF_MEMORY_CLASSES_H

/*
 * Allocated bytes by the size of their block, and freed bytes by the time from the allocation to the free, or to the moment
 * when a block was found gone whose free was not seen.
 */

#include <stddef.h>
#include <stdint.h>

#define NR_SIZE_CLASSES 5
#define NR_LIFE_CLASSES 6

struct buf;

struct block_classes {
	double sizes[NR_SIZE_CLASSES]; /* the sum is what was allocated */
	double lives[NR_LIFE_CLASSES]; /* the sum is what of it was freed */
};

/* bytes: that the block stands for. */
void block_classes_allocate(struct block_classes *classes, uint64_t block_bytes, uint64_t bytes);
void block_classes_free(struct block_classes *classes, uint64_t life_ns, uint64_t bytes);
void block_classes_add(struct block_classes *dst, const struct block_classes *src);
/* The columns of a table, in percent of what was allocated; the last one is what was not freed. */
void block_classes_head(struct buf *dst);
void block_classes_write(struct buf *dst, const struct block_classes *classes);

#endif
