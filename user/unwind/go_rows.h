/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_GO_ROWS_H
#define BPFPROF_UNWIND_GO_ROWS_H

/*
 * Unwind rules of Go code from the function table of the program (elf/go_table.h), as rows of
 * bpf/unwind_native.h. The table has the distance from the stack pointer to the return address for each
 * instruction. The code itself shows where the frame pointer is saved and how functions change stacks.
 */

#include <stdint.h>

struct go_table;

/* Addresses [start, end), image-relative, have this row; its low 16 bits are 0. */
typedef void (*go_row_fn)(void *arg, uint64_t start, uint64_t end, uint64_t row);

/* For work_left below: twice the work for 64 KiB of the smallest functions of Go's linker (16 bytes). */
#define GO_ROWS_PAGE_WORK (1 << 19)

/*
 * Passes the rows of [start, end) to add() in ascending order; addresses that the table does not cover
 * are left out. A frame that is too large for a row, and code whose caller is not known, are ROW_RARE.
 * *work_left is the allowance of work for functions, their values and decoded instructions, and is
 * reduced. 0, -EBADMSG if the table is malformed, -E2BIG when the work is used up (add() has got the rows
 * before that), or an error of elf_image_read().
 */
int go_rows_make(const struct go_table *tab, uint64_t start, uint64_t end, int64_t *work_left,
		 go_row_fn add, void *arg);

#endif
