/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_WALK_ROWS_H
#define BPFPROF_KERNEL_WALK_ROWS_H

/* Pages of unwind rows: built when a stack walks through them, resident in the kernel from then on. */

#include <stdbool.h>
#include <stdint.h>

struct image;
struct process_mapping;
struct walker;

/*
 * Builds the rows of a page, in walker->row_buffer, and makes them resident; what cannot be read becomes a
 * row that says so. How many.
 */
int rows_build(struct walker *walker, struct image *image, uint32_t page, uint64_t now_ns);
/* Small programs are made resident at once: their few pages cost less than their first misses. */
void rows_prefetch(struct walker *walker, struct image *image, const struct process_mapping *m,
		   uint64_t now_ns);
/* The row of file offset off, or 0 if it would have to be built and there is no time for that. */
uint64_t rows_look_up(struct walker *walker, struct image *image, uint64_t off, bool exact,
		      uint64_t now_ns);
/* That of an offset within a page, of its rows[0..nr). */
uint64_t rows_find(const uint64_t *rows, uint32_t nr, uint32_t low, bool exact);

#endif
