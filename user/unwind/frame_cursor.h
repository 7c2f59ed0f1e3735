/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_FRAME_CURSOR_H
#define BPFPROF_UNWIND_FRAME_CURSOR_H

/*
 * Reads the numbers in .eh_frame by file offset, through a small cache of blocks. Errors stick: after an
 * error a cursor returns zeros, so that a parser checks once. All cursors over one struct frame_blocks
 * share an allowance of work, which ends every loop that a hostile file can cause.
 */

#include <stdint.h>

struct elf_image;

#define FRAME_BLOCK_SHIFT 12
#define FRAME_BLOCK_BYTES (1U << FRAME_BLOCK_SHIFT)
#define FRAME_NR_BLOCKS 8 /* a power of two; direct-mapped */

struct frame_block {
	uint64_t nr; /* file offset >> FRAME_BLOCK_SHIFT */
	uint32_t len; /* 0: nothing read yet */
	uint8_t data[FRAME_BLOCK_BYTES];
};

struct frame_blocks {
	struct elf_image *img;
	int64_t work_left;
	struct frame_block slots[FRAME_NR_BLOCKS];
};

struct frame_cursor {
	struct frame_blocks *blocks;
	uint64_t off;
	uint64_t end; /* first offset that must not be read */
	uint64_t va_delta; /* image-relative address minus file offset */
	int error; /* 0, -EBADMSG, -E2BIG (work used up), or of elf_image_read() */
};

void frame_blocks_init(struct frame_blocks *blocks, struct elf_image *img, int64_t work);
/* Takes from the allowance: 0, or -E2BIG when it is used up. */
int frame_blocks_work(struct frame_blocks *blocks, uint32_t amount);

void cursor_init(struct frame_cursor *cur, struct frame_blocks *blocks, uint64_t off, uint64_t end,
		 uint64_t va_delta);
uint8_t cursor_u8(struct frame_cursor *cur);
uint64_t cursor_uint(struct frame_cursor *cur, uint32_t len); /* 1, 2, 4 or 8 bytes */
int64_t cursor_sint(struct frame_cursor *cur, uint32_t len);
uint64_t cursor_uleb(struct frame_cursor *cur);
int64_t cursor_sleb(struct frame_cursor *cur);
/* Skips a block of len bytes. Its offset. */
uint64_t cursor_block(struct frame_cursor *cur, uint64_t len);

/*
 * Reads a pointer in encoding enc (DW_EH_PE_*); data_va is the base of datarel. A stored 0 is 0 in every
 * encoding. DW_EH_PE_indirect is not followed: the result is the address of the pointer. -EBADMSG for
 * encodings that .eh_frame does not use.
 */
uint64_t cursor_pointer(struct frame_cursor *cur, uint8_t enc, uint64_t data_va);
/* Bytes of a pointer in this encoding; 0 if they vary or the encoding is bad. */
uint32_t frame_pointer_bytes(uint8_t enc);

#endif
