/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_CFI_H
#define BPFPROF_UNWIND_CFI_H

/*
 * Room unwind: turns unwind tables and machine code into rules for one step of a stack walk.
 *
 * Turns the call frame information of one image into rows of bpf/unwind_native.h, one 64 KiB page at a
 * time, on demand. The sources are .eh_frame, for code that it does not cover Go's function table, then
 * .debug_frame. The search table of .eh_frame_hdr finds the FDEs of a page without reading the others;
 * records without that table (gcc -static, .debug_frame) are indexed once by a pass over them.
 * Everything read is bounded and checked: the file belongs to the target.
 * Reference: LSB 5.0 core, 10.6 (.eh_frame, .eh_frame_hdr); DWARF 5, 6.4; AMD64 psABI 3.6, 3.7.
 * Errors: -EBADMSG malformed, -ENODATA no code in the image, -E2BIG over our
 * limits, -ENOMEM, and those of elf_image_read(). Not thread-safe.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/insn_unwind.h"

struct elf_image;
struct unwind_state;
struct unwind_reader;

#define CFI_PAGE_MAX_ROWS 16383

struct cfi;

/*
 * Borrows img. -ENODATA: there is no code, or it is for another CPU. A malformed table of Go is ignored.
 */
int cfi_new(struct cfi **ret, struct elf_image *img);
void cfi_free(struct cfi *cfi);
size_t cfi_bytes(const struct cfi *cfi); /* memory that it holds now */

/*
 * The rows of the file offsets [page << 16, (page + 1) << 16), sorted, the first one always at offset 0
 * of the page, equal neighbours merged. Code without an FDE is ROW_NONE or has the rule that cfi_learn()
 * found; code with a rule that no row can hold, or with a malformed FDE, is ROW_RARE. Returns the number
 * of rows (>= 1) or -errno. rows has room for CFI_PAGE_MAX_ROWS.
 */
int cfi_build_page(struct cfi *cfi, uint32_t page, uint64_t *rows);

/*
 * insn_unwind_find() in the segment of off, with the functions that have an FDE or a symbol. -ENODATA
 * also if CODE_FROM_START knows no start, and if the return address off begins another function: then
 * only CODE_FROM_START can find the rule. *function is the start of the function if the caller knows it;
 * NULL: it comes from its symbol, or the function is the program's main().
 */
int cfi_insn_rules(struct cfi *cfi, enum code_way way, uint64_t off, bool after_call,
		   const uint64_t *function, struct insn_rule *rules, size_t cap);

/* The result of trying a rule on a process that stands in the code. */
enum cfi_verdict {
	CFI_REFUSED = 0,
	CFI_PROVEN, /* the rule leads to code behind a call */
	CFI_POSSIBLE, /* the rule leads to code that cannot be read */
	CFI_UNREAD, /* too little of the stack is known to try the rule */
};

/* frame_pointer: the rule assumes that the frame pointer is one; the code does not show it. */
typedef enum cfi_verdict (*cfi_check_fn)(void *arg, uint64_t row, bool frame_pointer);

/* The process that a rule is tried on. */
struct cfi_trial {
	cfi_check_fn check;
	/*
	 * The next possible start of the function: the target of a call whose return address is on
	 * the stack. From then on check refuses rules that lead to another return address, until
	 * next_start returns -ENODATA. 0 with a file offset.
	 */
	int (*next_start)(void *arg, uint64_t *ret_off);
	/* A rule for this place only, if just the outermost frame is above it; else 0. */
	uint64_t (*outermost)(void *arg);
	void *arg;
};

/*
 * Learns the rules of the code around off, which no FDE covers, from its instructions (insn_unwind.h).
 * Pages built from now on have them; at most 8192 are kept. exact: off is an instruction; else it lies
 * in a call, just before the return address. The rule for off must be proven by the trial, or all of the
 * code must agree on it and the trial must not refute it; without such a rule the block of 16 bytes is
 * ROW_UNPROVEN.
 * *ret_here is 0, or the row of this place for this process only, which is in no page: the rule comes
 * from the stack, or the stack contradicts the code (then it may be ROW_UNPROVEN).
 * 0, -EAGAIN (nothing was learned: CFI_UNREAD), -ENOMEM, or errors of reading.
 */
int cfi_learn(struct cfi *cfi, uint64_t off, bool exact, const struct cfi_trial *trial,
	      uint64_t *ret_here);

/* Forgets the code of a page that was read in vain, so that it is tried again. */
void cfi_forget_unproven(struct cfi *cfi, uint32_t page);

/*
 * One step up by the complete rules at file offset off (DWARF expressions included): restores all
 * registers that have a rule and marks them valid. 0, or enum bpfprof_stop (COMPLETE at the outermost
 * frame, NO_TABLE if no FDE covers off).
 */
int cfi_step(struct cfi *cfi, uint64_t off, struct unwind_state *state,
	     struct unwind_reader *reader);

/*
 * The start and the end of the function that has the image-relative address rva, by the table. 0,
 * -ENODATA if no function covers it, or the error of reading the table.
 */
int cfi_function(struct cfi *cfi, uint64_t rva, uint64_t *ret_start, uint64_t *ret_end);

#endif
