/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_CFI_H
#define BPFPROF_UNWIND_CFI_H

/*
 * Room unwind: turns unwind tables and machine code into rules for one step of a stack walk.
 *
 * Call frame information of one image (.eh_frame; where that says nothing Go's function table, then
 * .debug_frame), turned into the rows of bpf/unwind_native.h one 64 KiB page at a time, on demand:
 * .eh_frame_hdr's search table finds the FDEs of a page without reading the others. Records
 * without that table (gcc -static, .debug_frame) are indexed once by a pass over them.
 * Everything read is bounded and checked: the file belongs to the target.
 * Reference: LSB 5.0 core, 10.6 (.eh_frame, .eh_frame_hdr); DWARF 5, 6.4; AMD64 psABI 3.6, 3.7.
 * Errors: -EBADMSG malformed, -ENODATA no code in the image, -E2BIG over our
 * limits, -ENOMEM, and those of elf_image_read(). Not thread-safe.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/x86_64/insn_unwind.h"

struct elf_image;
struct unwind_state;
struct unwind_reader;

#define CFI_PAGE_MAX_ROWS 16383

struct cfi;

/*
 * Borrows img. -ENODATA: there is no code, or it is of a machine other than x86-64. A malformed table of
 * Go is as none.
 */
int cfi_new(struct cfi **ret, struct elf_image *img);
void cfi_free(struct cfi *cfi);
size_t cfi_bytes(const struct cfi *cfi); /* memory that it holds at the moment */

/*
 * The rows of the file offsets [page << 16, (page + 1) << 16), sorted, the first one always at
 * offset 0 of the page, equal neighbours merged. Code without an FDE is ROW_NONE, or what
 * cfi_learn() found; code with a rule that no row can hold (or a malformed FDE) is ROW_RARE.
 * Number of rows (>= 1) or -errno. rows has room for CFI_PAGE_MAX_ROWS.
 */
int cfi_build_page(struct cfi *cfi, uint32_t page, uint64_t *rows);

/*
 * insn_unwind_find() in the segment of off, which knows the functions that have an FDE or a
 * symbol. -ENODATA also where CODE_FROM_START knows no start, and where what a call returns to
 * is another function's: then only CODE_FROM_START can have the rule. *function: where the function
 * begins, if that is known from elsewhere; NULL: from its symbol, or as the program's main().
 */
int cfi_insn_rules(struct cfi *cfi, enum code_way way, uint64_t off, bool after_call,
		   const uint64_t *function, struct insn_rule *rules, size_t cap);

/* What a process that stands in the code says of a rule. */
enum cfi_verdict {
	CFI_REFUSED = 0,
	CFI_PROVEN, /* it leads to behind a call */
	CFI_POSSIBLE, /* it leads to code that cannot be read */
	CFI_UNREAD, /* what there is of its stack is not enough to try the rule */
};

/* frame_pointer: the rule is only that rbp is a frame's, which nothing in the code says. */
typedef enum cfi_verdict (*cfi_check_fn)(void *arg, uint64_t row, bool frame_pointer);

/* The process that a rule is tried on. */
struct cfi_trial {
	cfi_check_fn check;
	/*
	 * Where the function may begin: where a call goes that has a return address on the
	 * stack, one after the other. From then on check refuses rules that lead to another
	 * return address, until this says -ENODATA. 0 with a file offset.
	 */
	int (*next_start)(void *arg, uint64_t *ret_off);
	/* A rule for this place alone, if nothing but the outermost frame is above it; else 0. */
	uint64_t (*outermost)(void *arg);
	void *arg;
};

/*
 * Reads the rules of the code around off, which no FDE covers, out of the code itself
 * (insn_unwind.h), for the pages built from now on; at most 8192 are kept. exact: off is an
 * instruction; else it lies in one, just before the one that is returned to. The rule found for
 * off must be proven by the trial, or be the one that all of the code agrees on and the trial cannot
 * refute; where there is none, the block of 16 bytes is ROW_UNPROVEN.
 * *ret_here: 0, or the row of this place for this process alone, which is in no page: the rule was found by
 * means of the stack, or the stack contradicts what the code says (then it may be ROW_UNPROVEN).
 * 0, -EAGAIN (nothing was learned: CFI_UNREAD), -ENOMEM, or errors of reading.
 */
int cfi_learn(struct cfi *cfi, uint64_t off, bool exact, const struct cfi_trial *trial,
	      uint64_t *ret_here);

/* What was read in vain in a page may be tried again. */
void cfi_forget_unproven(struct cfi *cfi, uint32_t page);

/*
 * One step up by the complete rules at file offset off (DWARF expressions included): all
 * registers that the rules give are restored and marked valid.
 * 0, or enum bpfprof_stop (COMPLETE at the outermost frame, NO_TABLE where no FDE covers off).
 */
int cfi_step(struct cfi *cfi, uint64_t off, struct unwind_state *state,
	     struct unwind_reader *reader);

/*
 * Where the function that has the image-relative address rva begins and ends, by the table. 0,
 * -ENODATA where none covers it, or why the table cannot be read.
 */
int cfi_function(struct cfi *cfi, uint64_t rva, uint64_t *ret_start, uint64_t *ret_end);

#endif
