/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_EH_FRAME_H
#define BPFPROF_UNWIND_EH_FRAME_H

/*
 * Finds and reads the frame description entries (FDEs) of an image and their common parts (CIEs), in
 * .eh_frame or .debug_frame; the two differ in the way in which a record names its CIE. Entry numbers
 * count the FDEs by ascending address: those of the file's search table (.eh_frame_hdr), else those of
 * an index that the first eh_frame_prepare() makes by one pass over the records, 8 bytes per FDE.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi_program.h"
#include "unwind/frame_cursor.h"

struct elf_image;

#define EH_FRAME_MAX_INDEX (1U << 20) /* entries of an index: 8 MiB */
#define EH_FRAME_NR_CIES 16

struct eh_frame {
	struct elf_image *img;
	uint64_t off, end; /* of the records in the file */
	uint64_t va_delta; /* image-relative address minus file offset, there */
	bool to_terminator; /* end is only a bound: a record of length 0 ends the records before it */
	bool debug; /* records of .debug_frame (DWARF 5, 6.4.1) */
	uint64_t table_off, table_delta, table_va; /* search table; off 0: none */
	uint8_t table_enc;
	uint64_t *index; /* start - code_va in the high half, offset - off in the low one */
	uint64_t code_va;
	size_t nr;
};

/* Working memory of one operation; too large for the stack. */
struct eh_pass {
	struct frame_blocks blocks;
	struct cfi_program prog;
	uint32_t nr_cies, next_cie;
	struct cfi_cie cies[EH_FRAME_NR_CIES];
};

struct eh_fde {
	const struct cfi_cie *cie; /* valid until the next FDE is read in the same pass */
	uint64_t start, end; /* image-relative; equal if it is empty */
	struct frame_cursor program;
};

/* 0, -ENODATA without .eh_frame, -EBADMSG. Borrows img. */
int eh_frame_init(struct eh_frame *frame, struct elf_image *img);
/* The same for .debug_frame; -ENODATA also if it is compressed. */
int eh_frame_init_debug(struct eh_frame *frame, struct elf_image *img);
void eh_frame_fini(struct eh_frame *frame);

/* Numbers the entries; to be called before the functions below. 0, -E2BIG, -ENOMEM, read errors. */
int eh_frame_prepare(struct eh_frame *frame);

void eh_pass_init(struct eh_pass *pass, const struct eh_frame *frame, int64_t work);

/* The first entry for addresses from rva on: the first one with the greatest start <= rva, else 0. */
int eh_frame_find(const struct eh_frame *frame, struct eh_pass *pass, uint64_t rva, size_t *ret_nr);

/*
 * Reads entry *nr and moves *nr to the next one with another start, which is *ret_next (UINT64_MAX after
 * the last). A malformed FDE is -EBADMSG, but *ret_start and *ret_next are set; if they are equal, the
 * table itself is malformed from here on.
 */
int eh_frame_get(const struct eh_frame *frame, struct eh_pass *pass, size_t *nr, struct eh_fde *fde,
		 uint64_t *ret_start, uint64_t *ret_next);

/* Is there a CIE at frame->off, and an FDE for code of this image after it? */
bool eh_frame_starts_here(const struct eh_frame *frame, struct eh_pass *pass);

#endif
