// SPDX-License-Identifier: Apache-2.0
#include "unwind/frame_cursor.h"

#include <dwarf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "elf/image.h"

#define WORK_PER_BLOCK 64

void frame_blocks_init(struct frame_blocks *blocks, struct elf_image *img, int64_t work)
{
	blocks->img = img;
	blocks->work_left = work;
	for (uint32_t i = 0; i < FRAME_NR_BLOCKS; i++)
		blocks->slots[i].len = 0;
}

int frame_blocks_work(struct frame_blocks *blocks, uint32_t amount)
{
	if (blocks->work_left < amount) {
		blocks->work_left = 0;
		return -E2BIG;
	}
	blocks->work_left -= amount;
	return 0;
}

static int block_fill(struct frame_blocks *blocks, struct frame_block *block, uint64_t nr)
{
	uint64_t off = nr << FRAME_BLOCK_SHIFT, size = elf_image_size(blocks->img);
	uint32_t len = FRAME_BLOCK_BYTES;
	int err;

	if (off >= size)
		return -EBADMSG;
	if (size - off < len)
		len = (uint32_t)(size - off);
	err = frame_blocks_work(blocks, WORK_PER_BLOCK);
	if (err)
		return err;
	block->len = 0;
	err = elf_image_read(blocks->img, off, block->data, len);
	if (err)
		return err;
	block->nr = nr;
	block->len = len;
	return 0;
}

/* Bytes from cur->off on that lie in one block and before the end, NULL after an error. */
static const uint8_t *cursor_peek(struct frame_cursor *cur, uint32_t *ret_len)
{
	uint64_t nr = cur->off >> FRAME_BLOCK_SHIFT;
	struct frame_block *block = &cur->blocks->slots[nr & (FRAME_NR_BLOCKS - 1)];
	uint32_t within = cur->off & (FRAME_BLOCK_BYTES - 1), len;

	if (cur->error)
		return NULL;
	if (cur->off >= cur->end) {
		cur->error = -EBADMSG;
		return NULL;
	}
	if (!block->len || block->nr != nr) {
		cur->error = block_fill(cur->blocks, block, nr);
		if (cur->error)
			return NULL;
	}
	if (within >= block->len) {
		cur->error = -EBADMSG;
		return NULL;
	}
	len = block->len - within;
	*ret_len = cur->end - cur->off < len ? (uint32_t)(cur->end - cur->off) : len;
	return block->data + within;
}

void cursor_init(struct frame_cursor *cur, struct frame_blocks *blocks, uint64_t off, uint64_t end,
		 uint64_t va_delta)
{
	*cur = (struct frame_cursor){
		.blocks = blocks, .off = off, .end = end, .va_delta = va_delta
	};
}

uint8_t cursor_u8(struct frame_cursor *cur)
{
	uint32_t len;
	const uint8_t *bytes = cursor_peek(cur, &len);

	if (!bytes)
		return 0;
	cur->off++;
	return *bytes;
}

uint64_t cursor_uint(struct frame_cursor *cur, uint32_t len)
{
	uint32_t room;
	const uint8_t *bytes = cursor_peek(cur, &room);
	uint64_t value = 0;

	if (bytes && room >= len) {
		memcpy(&value, bytes, len);
		cur->off += len;
		return value;
	}
	for (uint32_t i = 0; i < len; i++)
		value |= (uint64_t)cursor_u8(cur) << (8 * i);
	return cur->error ? 0 : value;
}

int64_t cursor_sint(struct frame_cursor *cur, uint32_t len)
{
	uint32_t shift = 64 - 8 * len;

	return (int64_t)(cursor_uint(cur, len) << shift) >> shift;
}

static uint64_t cursor_leb(struct frame_cursor *cur, uint32_t *ret_bits, uint8_t *ret_last)
{
	uint64_t value = 0;
	uint32_t bits = 0;
	uint8_t byte;

	do {
		if (bits >= 70) { /* ten bytes hold every 64-bit number */
			cur->error = cur->error ? cur->error : -EBADMSG;
			return 0;
		}
		byte = cursor_u8(cur);
		if (bits < 64)
			value |= (uint64_t)(byte & 0x7f) << bits;
		bits += 7;
	} while (byte & 0x80);
	*ret_bits = bits;
	*ret_last = byte;
	return value;
}

uint64_t cursor_uleb(struct frame_cursor *cur)
{
	uint32_t bits;
	uint8_t last;
	uint64_t value = cursor_leb(cur, &bits, &last);

	return cur->error ? 0 : value;
}

int64_t cursor_sleb(struct frame_cursor *cur)
{
	uint32_t bits = 0;
	uint8_t last = 0;
	uint64_t value = cursor_leb(cur, &bits, &last);

	if (cur->error)
		return 0;
	if (last & 0x40 && bits < 64)
		value |= ~0ULL << bits;
	return (int64_t)value;
}

uint64_t cursor_block(struct frame_cursor *cur, uint64_t len)
{
	uint64_t off = cur->off;

	if (cur->error)
		return 0;
	if (cur->off > cur->end || len > cur->end - cur->off) {
		cur->error = -EBADMSG;
		return 0;
	}
	cur->off += len;
	return off;
}

uint32_t frame_pointer_bytes(uint8_t enc)
{
	switch (enc & 0x0f) {
	case DW_EH_PE_udata2:
	case DW_EH_PE_sdata2:
		return 2;
	case DW_EH_PE_udata4:
	case DW_EH_PE_sdata4:
		return 4;
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return 8;
	}
	return 0;
}

uint64_t cursor_pointer(struct frame_cursor *cur, uint8_t enc, uint64_t data_va)
{
	uint64_t base, value;

	if (enc == DW_EH_PE_aligned) { /* an absolute pointer at the next multiple of 8 */
		cursor_block(cur, -(cur->off + cur->va_delta) & 7);
		enc = DW_EH_PE_absptr;
	}
	switch (enc & 0x70) {
	case DW_EH_PE_absptr:
		base = 0;
		break;
	case DW_EH_PE_pcrel:
		base = cur->off + cur->va_delta;
		break;
	case DW_EH_PE_datarel:
		base = data_va;
		break;
	default: /* textrel, funcrel: only in tables for exceptions */
		cur->error = cur->error ? cur->error : -EBADMSG;
		return 0;
	}
	switch (enc & 0x0f) {
	case DW_EH_PE_uleb128:
		value = cursor_uleb(cur);
		break;
	case DW_EH_PE_sleb128:
		value = (uint64_t)cursor_sleb(cur);
		break;
	case DW_EH_PE_sdata2:
	case DW_EH_PE_sdata4:
	case DW_EH_PE_sdata8:
		value = (uint64_t)cursor_sint(cur, frame_pointer_bytes(enc));
		break;
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata2:
	case DW_EH_PE_udata4:
	case DW_EH_PE_udata8:
		value = cursor_uint(cur, frame_pointer_bytes(enc));
		break;
	default:
		cur->error = cur->error ? cur->error : -EBADMSG;
		return 0;
	}
	return cur->error || !value ? 0 : base + value;
}
