// SPDX-License-Identifier: Apache-2.0
#include "unwind/eh_frame.h"

#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "base/vec.h"
#include "elf/image.h"
#include "arch.h"

#define INDEX_WORK (1 << 24) /* twice what EH_FRAME_MAX_INDEX FDEs need */
#define WORK_PER_RECORD 8
#define MAX_AUGMENTATION 16

void eh_pass_init(struct eh_pass *pass, const struct eh_frame *frame, int64_t work)
{
	frame_blocks_init(&pass->blocks, frame->img, work);
	pass->nr_cies = pass->next_cie = 0;
}

/* One record: the common head of CIEs and FDEs. */
struct eh_record {
	struct frame_cursor cur; /* after the id, up to the end of the record */
	bool is_cie;
	uint64_t cie_off; /* of an FDE: the place of its CIE; UINT64_MAX: none in the records */
};

/* .eh_frame: 0, or the distance of the CIE before the id; .debug_frame: all ones, or its offset. */
static int record_id(const struct eh_frame *frame, struct eh_record *rec, bool wide)
{
	struct frame_cursor *cur = &rec->cur, peek;
	uint64_t id_off = cur->off, id = cursor_uint(cur, frame->debug && wide ? 8 : 4);

	if (frame->debug) {
		rec->is_cie = id == (wide ? UINT64_MAX : UINT32_MAX);
		rec->cie_off = id < frame->end - frame->off ? frame->off + id : UINT64_MAX;
		return cur->error;
	}
	rec->is_cie = !id;
	rec->cie_off = id <= id_off - frame->off ? id_off - id : UINT64_MAX;
	/*
	 * LSB has 4 bytes of id also in the 64-bit form, other tools write 8: then the high half is 0
	 * in the place of a version or of the start of a function, which are not.
	 */
	peek = *cur;
	if (wide && !cursor_uint(&peek, 4) && !peek.error)
		*cur = peek;
	return cur->error;
}

/* -ENODATA at a terminator, after which *next is set too. */
static int record_open(const struct eh_frame *frame, struct eh_pass *pass, uint64_t off,
		       struct eh_record *rec, uint64_t *next)
{
	struct frame_cursor *cur = &rec->cur;
	uint64_t len;
	bool wide;

	if (frame_blocks_work(&pass->blocks, WORK_PER_RECORD))
		return -E2BIG;
	cursor_init(cur, &pass->blocks, off, frame->end, frame->va_delta);
	len = cursor_uint(cur, 4);
	wide = len == UINT32_MAX;
	if (wide)
		len = cursor_uint(cur, 8);
	if (cur->error)
		return cur->error;
	if (len > cur->end - cur->off)
		return -EBADMSG;
	cur->end = *next = cur->off + len;
	if (!len)
		return -ENODATA;
	return record_id(frame, rec, wide);
}

static int cie_parse_augmentation_data(struct frame_cursor *cur, const char *letters,
				       struct cfi_cie *cie)
{
	uint64_t len = cursor_uleb(cur), start = cur->off;
	uint8_t enc;

	cursor_block(cur, len);
	if (cur->error)
		return cur->error;
	struct frame_cursor data = *cur;

	data.off = start;
	data.end = cur->off;
	for (; *letters; letters++) {
		switch (*letters) {
		case 'R':
			cie->pointer_enc = cursor_u8(&data);
			break;
		case 'P':
			enc = cursor_u8(&data);
			cursor_pointer(&data, enc & ~DW_EH_PE_indirect, 0);
			break;
		case 'L':
			cursor_u8(&data);
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B': /* AArch64: return addresses signed with key B; memory tags */
		case 'G':
			break;
		default: /* the rest is not known, but its length is */
			return data.error;
		}
	}
	return data.error;
}

static int cie_parse(struct eh_pass *pass, struct eh_record *rec, struct cfi_cie *cie)
{
	struct frame_cursor *cur = &rec->cur;
	char letters[MAX_AUGMENTATION] = "";
	uint8_t version = cursor_u8(cur);
	size_t n = 0;
	int err;

	if (!rec->is_cie || (version != 1 && version != 3 && version != 4))
		return -EBADMSG;
	while ((letters[n] = (char)cursor_u8(cur)))
		if (++n == sizeof(letters))
			return -EBADMSG;
	if (version == 4 && (cursor_u8(cur) != 8 || cursor_u8(cur) != 0))
		return -EBADMSG; /* size of an address, of a segment selector */
	if (!strcmp(letters, "eh")) /* gcc 2: a pointer to its exception table */
		cursor_block(cur, 8);
	else if (letters[0] && letters[0] != 'z')
		return -EBADMSG;
	cie->code_align = cursor_uleb(cur);
	cie->data_align = cursor_sleb(cur);
	cie->ra_reg = version == 1 ? cursor_u8(cur) : cursor_uleb(cur);
	cie->pointer_enc = DW_EH_PE_absptr;
	cie->has_augmentation_data = letters[0] == 'z';
	cie->signal = false;
	if (cie->has_augmentation_data) {
		err = cie_parse_augmentation_data(cur, letters + 1, cie);
		if (err)
			return err;
	}
	if (cur->error)
		return cur->error;
	return cfi_program_run_cie(&pass->prog, cur, cie);
}

static int cie_get(const struct eh_frame *frame, struct eh_pass *pass, uint64_t off,
		   const struct cfi_cie **ret)
{
	struct cfi_cie *cie;
	struct eh_record rec;
	uint64_t next;
	int err;

	for (uint32_t i = 0; i < pass->nr_cies; i++) {
		if (pass->cies[i].off == off) {
			*ret = &pass->cies[i];
			return 0;
		}
	}
	cie = &pass->cies[pass->next_cie];
	cie->off = UINT64_MAX; /* incomplete: a search must not find it */
	err = record_open(frame, pass, off, &rec, &next);
	if (err)
		return err == -ENODATA ? -EBADMSG : err;
	err = cie_parse(pass, &rec, cie);
	if (err)
		return err;
	cie->off = off;
	pass->next_cie = (pass->next_cie + 1) % EH_FRAME_NR_CIES;
	if (pass->nr_cies < EH_FRAME_NR_CIES)
		pass->nr_cies++;
	*ret = cie;
	return 0;
}

static int pointer_follow(const struct eh_frame *frame, struct eh_pass *pass, uint64_t *va)
{
	struct frame_cursor cur;
	uint64_t off, value;

	if (elf_image_rva_to_off(frame->img, *va, &off))
		return -EBADMSG;
	cursor_init(&cur, &pass->blocks, off, elf_image_size(frame->img), 0);
	value = cursor_uint(&cur, 8);
	if (cur.error)
		return cur.error;
	*va = value;
	return 0;
}

static int fde_parse(const struct eh_frame *frame, struct eh_pass *pass, struct eh_record *rec,
		     struct eh_fde *fde)
{
	struct frame_cursor *cur = &rec->cur;
	uint64_t start, bytes;
	uint8_t enc;
	int err;

	if (rec->is_cie || rec->cie_off == UINT64_MAX)
		return -EBADMSG;
	err = cie_get(frame, pass, rec->cie_off, &fde->cie);
	if (err)
		return err;
	enc = fde->cie->pointer_enc;
	if ((enc & 0x70) ==
	    DW_EH_PE_datarel) /* relative to the GOT, which 64-bit CPUs do not use */
		return -EBADMSG;
	start = cursor_pointer(cur, enc & ~DW_EH_PE_indirect, 0);
	if (enc & DW_EH_PE_indirect && !cur->error) {
		err = pointer_follow(frame, pass, &start);
		if (err)
			return err;
	}
	bytes = cursor_pointer(cur, enc & 0x0f, 0);
	if (fde->cie->has_augmentation_data)
		cursor_block(cur, cursor_uleb(cur));
	if (cur->error)
		return cur->error;
	if (bytes > UINT64_MAX - start)
		return -EBADMSG;
	fde->start = start;
	fde->end = start + bytes;
	fde->program = *cur;
	return 0;
}

/* The record must be an FDE. */
static int fde_get(const struct eh_frame *frame, struct eh_pass *pass, uint64_t off,
		   struct eh_fde *fde)
{
	struct eh_record rec;
	uint64_t next;
	int err = record_open(frame, pass, off, &rec, &next);

	if (err)
		return err == -ENODATA ? -EBADMSG : err;
	return fde_parse(frame, pass, &rec, fde);
}

bool eh_frame_starts_here(const struct eh_frame *frame, struct eh_pass *pass)
{
	const struct cfi_cie *cie;
	struct eh_record rec;
	struct eh_fde fde;
	uint64_t next;

	pass->nr_cies = pass->next_cie = 0;
	return !cie_get(frame, pass, frame->off, &cie) && cie->data_align == -8 &&
	       cie->ra_reg == UNWIND_PC && !record_open(frame, pass, frame->off, &rec, &next) &&
	       !fde_get(frame, pass, next, &fde) && fde.cie->off == frame->off &&
	       elf_image_segment_at(frame->img, fde.start, PF_X);
}

void eh_frame_fini(struct eh_frame *frame)
{
	free(frame->index);
	frame->index = NULL;
}

static int index_add(struct eh_frame *frame, size_t *cap, const struct eh_fde *fde, uint64_t off)
{
	uint64_t start = fde->start - frame->code_va;
	int err;

	if (fde->end == fde->start || fde->start < frame->code_va ||
	    !elf_image_segment_at(frame->img, fde->start, PF_X))
		return 0; /* the linker dropped this code */
	if (start > UINT32_MAX || off - frame->off > UINT32_MAX)
		return -E2BIG;
	err = vec_grow(frame->index, frame->nr + 1, *cap, EH_FRAME_MAX_INDEX);
	if (!err)
		frame->index[frame->nr++] = start << 32 | (off - frame->off);
	return err;
}

/* Ends at the terminator or at a record without a valid length. */
static int index_fill(struct eh_frame *frame, struct eh_pass *pass)
{
	uint64_t off = frame->off, next;
	struct eh_record rec;
	struct eh_fde fde;
	size_t cap = 0;
	int err;

	for (; off < frame->end; off = next) {
		err = record_open(frame, pass, off, &rec, &next);
		if (err == -EBADMSG || (err == -ENODATA && frame->to_terminator))
			break;
		if (err == -ENODATA || (!err && rec.is_cie))
			continue;
		if (!err)
			err = fde_parse(frame, pass, &rec, &fde);
		if (err == -EBADMSG)
			continue;
		if (!err)
			err = index_add(frame, &cap, &fde, off);
		if (err)
			return err;
	}
	return 0;
}

int eh_frame_prepare(struct eh_frame *frame)
{
	struct eh_pass *pass;
	int err;

	if (frame->table_off || frame->index)
		return 0;
	pass = malloc(sizeof(*pass));
	if (!pass)
		return -ENOMEM;
	eh_pass_init(pass, frame, INDEX_WORK);
	err = index_fill(frame, pass);
	free(pass);
	if (!err && !frame->nr)
		err = -ENODATA;
	if (err) {
		eh_frame_fini(frame);
		frame->nr = 0;
		return err;
	}
	(void)vec_fit(frame->index, frame->nr);
	qsort(frame->index, frame->nr, sizeof(*frame->index), sorted_by_u64);
	return 0;
}

static int entry_get(const struct eh_frame *frame, struct eh_pass *pass, size_t nr,
		     uint64_t *ret_start, uint64_t *ret_off)
{
	uint32_t bytes = 2 * frame_pointer_bytes(frame->table_enc);
	struct frame_cursor cur;
	uint64_t off;

	if (frame->index) {
		*ret_start = frame->code_va + (frame->index[nr] >> 32);
		*ret_off = frame->off + (uint32_t)frame->index[nr];
		return 0;
	}
	off = frame->table_off + nr * bytes;
	cursor_init(&cur, &pass->blocks, off, off + bytes, frame->table_delta);
	*ret_start = cursor_pointer(&cur, frame->table_enc, frame->table_va);
	*ret_off = cursor_pointer(&cur, frame->table_enc, frame->table_va) - frame->va_delta;
	return cur.error;
}

int eh_frame_find(const struct eh_frame *frame, struct eh_pass *pass, uint64_t rva, size_t *ret_nr)
{
	size_t low = 0, high = frame->nr, mid;
	uint64_t start, off, found;
	int err;

	while (low < high) {
		mid = low + (high - low) / 2;
		err = entry_get(frame, pass, mid, &start, &off);
		if (err)
			return err;
		if (start <= rva)
			low = mid + 1;
		else
			high = mid;
	}
	if (low) {
		err = entry_get(frame, pass, --low, &found, &off);
		while (!err && low) {
			err = frame_blocks_work(&pass->blocks, WORK_PER_RECORD);
			if (!err)
				err = entry_get(frame, pass, low - 1, &start, &off);
			if (err || start != found)
				break;
			low--;
		}
		if (err)
			return err;
	}
	*ret_nr = low;
	return 0;
}

int eh_frame_get(const struct eh_frame *frame, struct eh_pass *pass, size_t *nr, struct eh_fde *fde,
		 uint64_t *ret_start, uint64_t *ret_next)
{
	uint64_t first, start, off;
	bool found = false;
	int err, verdict = 0;
	size_t i = *nr;

	*ret_start = *ret_next = 0;
	err = entry_get(frame, pass, i, &first, &off);
	if (err)
		return err;
	*fde = (struct eh_fde){ .start = first, .end = first };
	*ret_start = *ret_next = start = first;
	while (start == first) {
		if (!found) { /* of the FDEs with one start all but one are empty */
			err = off < frame->off || off >= frame->end
				      ? -EBADMSG
				      : fde_get(frame, pass, off, fde);
			if (!err && fde->start != start)
				err = -EBADMSG;
			if (err && err != -EBADMSG)
				return err;
			found = !err && fde->end > fde->start;
			verdict = found ? 0 : err ? err : verdict;
		}
		start = UINT64_MAX;
		if (++i == frame->nr)
			break;
		err = frame_blocks_work(&pass->blocks, WORK_PER_RECORD);
		if (!err)
			err = entry_get(frame, pass, i, &start, &off);
		if (err)
			return err;
		if (start < first) /* not sorted */
			return -EBADMSG;
	}
	*nr = i;
	*ret_next = start;
	return verdict;
}
