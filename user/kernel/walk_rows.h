/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_WALK_ROWS_H
#define BPFPROF_KERNEL_WALK_ROWS_H

/*
 * Pages of unwind rows: built when a walk needs them, and resident in the kernel from then on; and
 * steps by the complete rules, for rules that no row can hold. Both have a limited share of the
 * time, because targets own the files and can make them expensive.
 */

#include <stdbool.h>
#include <stdint.h>

struct image;
struct process_mapping;
struct unwind_reader;
struct unwind_state;
struct walker;

/*
 * Builds the rows of a page in walker->row_buffer and makes them resident; unreadable code gets a
 * row for that. Returns their number.
 */
int rows_build(struct walker *walker, struct image *image, uint32_t page, uint64_t now_ns);
/* Makes small programs resident at once: their few pages cost less than their first misses. */
void rows_prefetch(struct walker *walker, struct image *image, const struct process_mapping *m,
		   uint64_t now_ns);
/* The row of file offset off, or 0 if it would have to be built and there is no time. */
uint64_t rows_look_up(struct walker *walker, struct image *image, uint64_t off, bool exact,
		      uint64_t now_ns);
/* The row of an offset within a page, from its rows[0..nr). */
uint64_t rows_find(const uint64_t *rows, uint32_t nr, uint32_t low, bool exact);

/* Is there time for rules_step()? */
bool rules_allowed(struct walker *walker);
/* cfi_step() in image: 0 or enum bpfprof_stop; MISS_RATE: there is no time for it. */
uint32_t rules_step(struct walker *walker, struct image *image, uint64_t off,
		    struct unwind_state *state, struct unwind_reader *reader, uint64_t now_ns);

#endif
