// SPDX-License-Identifier: Apache-2.0
/* Finds the records of an image: by .eh_frame_hdr, by section header, by a scan for their first bytes. */
#include "unwind/eh_frame.h"

#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/image.h"

#define MAX_SCAN_BYTES (64U << 20)
#define HDR_WORK (1 << 16)

/* Finds the records by an address in them. */
static int frame_set_va(struct eh_frame *frame, uint64_t va)
{
	const struct elf_segment *seg = elf_image_segment_at(frame->img, va, 0);

	if (!seg)
		return -EBADMSG;
	frame->off = seg->off + (va - seg->va);
	frame->end = seg->off + seg->file_bytes;
	frame->va_delta = seg->va - seg->off;
	frame->to_terminator = true;
	return 0;
}

/* .eh_frame_hdr: LSB 10.6.2. */
static int hdr_parse(struct eh_frame *frame, struct eh_pass *pass, const struct elf_segment *hdr)
{
	struct frame_cursor cur;
	uint8_t frame_enc, count_enc, table_enc;
	uint64_t va, count, entry_bytes;

	cursor_init(&cur, &pass->blocks, hdr->off, hdr->off + hdr->file_bytes, hdr->va - hdr->off);
	if (cursor_u8(&cur) != 1)
		return -EBADMSG;
	frame_enc = cursor_u8(&cur);
	count_enc = cursor_u8(&cur);
	table_enc = cursor_u8(&cur);
	if (frame_enc == DW_EH_PE_omit)
		return -EBADMSG;
	va = cursor_pointer(&cur, frame_enc, hdr->va);
	if (cur.error || frame_set_va(frame, va))
		return -EBADMSG;
	if (count_enc == DW_EH_PE_omit || table_enc == DW_EH_PE_omit)
		return 0;
	count = cursor_pointer(&cur, count_enc & 0x0f, 0);
	entry_bytes = 2 * frame_pointer_bytes(table_enc);
	if (cur.error || !count || !entry_bytes || table_enc & DW_EH_PE_indirect ||
	    table_enc == DW_EH_PE_aligned || count > (cur.end - cur.off) / entry_bytes)
		return 0; /* a table that cannot be searched is ignored */
	frame->table_off = cur.off;
	frame->table_delta = cur.va_delta;
	frame->table_va = hdr->va;
	frame->table_enc = table_enc;
	frame->nr = count;
	return 0;
}

static int frame_find_by_hdr(struct eh_frame *frame, struct eh_pass *pass)
{
	const struct elf_segment *hdr = elf_image_segment(frame->img, PT_GNU_EH_FRAME);

	return hdr && hdr->file_bytes ? hdr_parse(frame, pass, hdr) : -ENODATA;
}

static int frame_find_by_section(struct eh_frame *frame, const char *name)
{
	const struct elf_section *sec = elf_image_section(frame->img, name);

	if (!sec || sec->type == SHT_NOBITS || !sec->bytes || sec->flags & SHF_COMPRESSED ||
	    (!frame->debug && !(sec->flags & SHF_ALLOC)))
		return -ENODATA;
	if (sec->off > elf_image_size(frame->img) ||
	    sec->bytes > elf_image_size(frame->img) - sec->off)
		return -EBADMSG;
	frame->off = sec->off;
	frame->end = sec->off + sec->bytes;
	frame->va_delta = sec->va - sec->off;
	frame->to_terminator = false;
	return 0;
}

/*
 * For files without any headers of the records (gcc -static, then stripped of section headers): the
 * records begin with a CIE, which always looks alike: length, 0, version, "z".
 */
static int frame_scan_segment(struct eh_frame *frame, struct eh_pass *pass,
			      const struct elf_segment *seg, uint64_t *scan_left)
{
	uint8_t data[FRAME_BLOCK_BYTES];
	uint64_t end = seg->off + seg->file_bytes;
	uint32_t id, len, step;
	int err;

	frame->va_delta = seg->va - seg->off;
	frame->end = end;
	for (uint64_t off = seg->off & ~3ULL; off < end && end - off > 16; off += step) {
		len = end - off < sizeof(data) ? (uint32_t)(end - off) : sizeof(data);
		step = len > 32 ? (len - 12) & ~3U : len;
		if (*scan_left < len)
			return -ENODATA;
		*scan_left -= len;
		err = elf_image_read(frame->img, off, data, len);
		if (err)
			return err;
		for (uint32_t i = 0; i < step && i + 12 <= len; i += 4) {
			memcpy(&id, data + i + 4, sizeof(id));
			if (id || (data[i + 8] != 1 && data[i + 8] != 3) || data[i + 9] != 'z')
				continue;
			frame->off = off + i;
			if (eh_frame_starts_here(frame, pass))
				return 0;
		}
	}
	return -ENODATA;
}

static int frame_find_by_scan(struct eh_frame *frame, struct eh_pass *pass)
{
	uint64_t scan_left = MAX_SCAN_BYTES;
	size_t nr, nr_sections;
	const struct elf_segment *segs = elf_image_segments(frame->img, &nr);
	int err;

	elf_image_sections(frame->img, &nr_sections);
	if (nr_sections)
		return -ENODATA;
	frame->to_terminator = true;
	for (size_t i = 0; i < nr; i++) {
		if (segs[i].type != PT_LOAD || !(segs[i].flags & PF_R))
			continue;
		err = frame_scan_segment(frame, pass, &segs[i], &scan_left);
		if (err != -ENODATA)
			return err;
	}
	return -ENODATA;
}

static void frame_begin(struct eh_frame *frame, struct elf_image *img, bool debug)
{
	size_t nr;
	const struct elf_segment *segs = elf_image_segments(img, &nr);

	*frame = (struct eh_frame){ .img = img, .code_va = UINT64_MAX, .debug = debug };
	for (size_t i = 0; i < nr; i++)
		if (segs[i].type == PT_LOAD && segs[i].flags & PF_X && segs[i].va < frame->code_va)
			frame->code_va = segs[i].va;
}

int eh_frame_init_debug(struct eh_frame *frame, struct elf_image *img)
{
	frame_begin(frame, img, true);
	return frame_find_by_section(frame, ".debug_frame");
}

int eh_frame_init(struct eh_frame *frame, struct elf_image *img)
{
	struct eh_pass *pass = malloc(sizeof(*pass));
	int err;

	if (!pass)
		return -ENOMEM;
	frame_begin(frame, img, false);
	eh_pass_init(pass, frame, HDR_WORK);
	err = frame_find_by_hdr(frame, pass);
	if (err == -ENODATA || err == -EBADMSG) {
		int section_err = frame_find_by_section(frame, ".eh_frame");

		if (section_err == -ENODATA && err == -ENODATA)
			section_err = frame_find_by_scan(frame, pass);
		if (section_err != -ENODATA || err == -ENODATA)
			err = section_err;
	}
	free(pass);
	return err;
}
