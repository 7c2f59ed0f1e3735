/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_GO_ROWS_H
#define BPFPROF_UNWIND_GO_ROWS_H

/*
 * Unwind rules of Go code out of the function table of its program (elf/go_table.h), as rows of
 * bpf/unwind_native.h. The table says for each instruction how far the stack pointer is from the
 * return address; where rbp is saved, and what functions do that change stacks, is read in the code.
 */

#include <stdint.h>

struct go_table;

/* Addresses [start, end), image-relative, have this row; its low 16 bits are 0. */
typedef void (*go_row_fn)(void *arg, uint64_t start, uint64_t end, uint64_t row);

/* For work_left below: twice what 64 KiB of the smallest functions that Go's linker writes (16 bytes) need. */
#define GO_ROWS_PAGE_WORK (1 << 19)

/*
 * The rows of [start, end), in ascending order; what the table does not cover is left out. A frame that is
 * too large for a row, and code whose caller cannot be told, are ROW_RARE.
 * *work_left is what functions, their values and decoded instructions may still cost; it is reduced by that.
 * 0, -EBADMSG where the table is malformed, -E2BIG where the work is used up (what came before was handed out),
 * or an error of elf_image_read().
 */
int go_rows_make(const struct go_table *tab, uint64_t start, uint64_t end, int64_t *work_left,
		 go_row_fn add, void *arg);

#endif
