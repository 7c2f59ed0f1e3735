/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_CFI_H
#define BPFPROF_UNWIND_CFI_H

/*
 * Call frame information of one image (.eh_frame; for Go code the function table), turned into the rows of
 * bpf/unwind_native.h one 64 KiB page at a time, on demand: .eh_frame_hdr's
 * search table finds the FDEs of a page without reading the others. Files
 * without that table (gcc -static) are indexed once by a pass over .eh_frame.
 * Everything read is bounded and checked: the file belongs to the target.
 * Reference: LSB 5.0 core, 10.6 (.eh_frame, .eh_frame_hdr); DWARF 5, 6.4; AMD64 psABI 3.6, 3.7.
 * Errors: -EBADMSG malformed, -ENODATA no table in the image, -E2BIG over our
 * limits, -ENOMEM, and those of elf_image_read(). Not thread-safe.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_rule;
struct elf_image;
struct unwind_state;
struct unwind_reader;

#define CFI_PAGE_MAX_ROWS 16383

struct cfi;

/* Borrows img. -ENODATA also for machines other than x86-64. A malformed table of Go is as none. */
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

/* code_rules_find() in the segment of off, which knows the functions that have an FDE. */
int cfi_code_rules(struct cfi *cfi, uint64_t off, struct code_rule *rules, size_t cap);

/*
 * Reads the rules of the code around off, which no FDE covers, out of the code itself
 * (code_rules.h), for the pages built from now on; at most 8192 are kept. exact: off is an
 * instruction; else it lies in one, just before the one that is returned to. The rule found for
 * off must please check, which has the process to try it on; where none does, the block of 16
 * bytes is marked UNWIND_LOOKED_AT. 0, -ENOMEM, or errors of reading.
 */
typedef bool (*cfi_check_fn)(void *arg, uint64_t row);
int cfi_learn(struct cfi *cfi, uint64_t off, bool exact, cfi_check_fn check, void *arg);

/*
 * One step up by the complete rules at file offset off (DWARF expressions included): all
 * registers that the rules give are restored and marked valid.
 * 0, or enum bpfprof_stop (COMPLETE at the outermost frame, NO_TABLE where no FDE covers off).
 */
int cfi_step(struct cfi *cfi, uint64_t off, struct unwind_state *state,
	     struct unwind_reader *reader);

#endif
