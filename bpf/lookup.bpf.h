/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_LOOKUP_BPF_H
#define BPFPROF_BPF_LOOKUP_BPF_H

/*
 * Finds the unwind rule of a pc: its mapping, the page of its file, the row. A cache of pcs comes
 * first.
 */
#include "reader.bpf.h"
#include "python/proof.bpf.h"

/*
 * Arena of unwind rows; a slice starts with its generation. Writer: user space. Size set at load.
 */
MMAPABLE_MAP(rows, 1 << 21, __u64);

/* (image, 64 KiB of its file) -> slice of rows. Writer: user space. */
HASH_MAP(pages, 32768, struct bpfprof_page_key, struct bpfprof_page);

/* Rules outside of rows, see struct bpfprof_code_block. Writer: user space. */
HASH_MAP(code_blocks, 4096, struct bpfprof_code_block, __u64);

/*
 * The row that covers low, the low 16 bits of a file offset; *ret_next_low: start of the next row,
 * 0: none.
 */
static __always_inline int row_find(const struct bpfprof_page *page, __u32 low, __u64 *ret_row,
				    __u32 *ret_next_low)
{
	__u32 lo = page->first + 1, hi = lo + page->nr, end = hi, mid, i;
	__u64 *row;

	for (i = 0; i < 15 && lo < hi; i++) {
		mid = lo + (hi - lo) / 2;
		row = bpf_map_lookup_elem(&rows, &mid);
		if (!row)
			return -1;
		if (unwind_row_low(*row) <= low)
			lo = mid + 1;
		else
			hi = mid;
	}
	*ret_next_low = 0; /* the first row of the next page is not known */
	if (lo < end) {
		row = bpf_map_lookup_elem(&rows, &lo);
		if (row)
			*ret_next_low = unwind_row_low(*row);
	}
	lo--;
	row = bpf_map_lookup_elem(&rows, &lo);
	if (!row || lo <= page->first)
		return -1;
	*ret_row = *row;
	return 0;
}

static __always_inline bool slice_is(__u32 first, __u64 generation)
{
	__u64 *header = bpf_map_lookup_elem(&rows, &first);

	return header && *(volatile __u64 *)header == generation;
}

/* Finds the row of (image, off): 0, or a stop. */
static __always_inline int page_look_up(struct unwind_reader *r, __u32 image, __u64 off)
{
	struct bpfprof_page_key key = { .image = image, .page = off >> BPFPROF_PAGE_SHIFT };
	struct bpfprof_page *found = bpf_map_lookup_elem(&pages, &key), page;
	__u32 next_low = 0;
	__u64 row = 0;

	if (!found)
		return BPFPROF_STOP_NO_PAGE;
	r->last_flags = eval_flags(image, off);
	page = *found;
	if (!page.nr) {
		r->last_row = unwind_row_make(0, ROW_NONE, 0, 0, 0, 0, UNWIND_LOOKED_AT);
		return 0;
	}
	if (!slice_is(page.first, page.generation))
		return BPFPROF_STOP_STALE;
	if (row_find(&page, off & 0xffff, &row, &next_low))
		return BPFPROF_STOP_STALE;
	if (!slice_is(page.first, page.generation))
		return BPFPROF_STOP_STALE;
	if (!r->state.exact && unwind_row_starts_stack(row, off & 0xffff, next_low))
		row = unwind_row_make(0, ROW_END, 0, 0, 0, 0, 0);
	r->last_row = row;
	return 0;
}

/*
 * Code in no file: takes the rule that user space made from its instructions, or else the frame
 * pointer.
 */
static __always_inline int code_block_look_up(struct unwind_reader *r, __u64 pc)
{
	struct bpfprof_code_block key = { .block = pc >> BPFPROF_CODE_BLOCK_SHIFT,
					  .asid = r->asid };
	__u64 *row = bpf_map_lookup_elem(&code_blocks, &key);

	if (!row) {
		key.block = pc | BPFPROF_CODE_BLOCK_PC;
		row = bpf_map_lookup_elem(&code_blocks, &key);
	}
	r->last_row = row ? *row : unwind_row_make(0, ROW_NONE, 0, 0, 0, 0, 0);
	r->last_frame =
		(__u64)BPFPROF_FRAME_NATIVE_VA << BPFPROF_FRAME_SHIFT | (pc & BPFPROF_FRAME_MASK);
	return 0;
}

/* Code in a file without rows for it: takes the rule that holds for this process alone. */
static __always_inline void code_place_look_up(struct unwind_reader *r)
{
	struct bpfprof_code_block key = { .block = r->last_frame, .asid = r->asid };
	__u64 *row = bpf_map_lookup_elem(&code_blocks, &key);

	if (row)
		r->last_row = *row;
}

/*
 * Sets r->last_* to the rule, frame and flags of pc, by the maps mappings, pages and rows. 0, or a
 * stop. A global function, so that the verifier checks the searches once and not for each path of a
 * step.
 */
__weak __noinline int look_up_slow(struct unwind_reader *r, __u64 pc)
{
	struct bpfprof_mapping *m, *header;
	__u32 first, at, image, asid;
	__u64 start, off;
	int stop;

	if (!r)
		return BPFPROF_STOP_NO_MAPPING;
	first = r->first;
	asid = r->asid;
	r->last_flags = 0;
	at = mapping_upper(first, r->nr, pc) - 1;
	if (at <= first)
		return BPFPROF_STOP_NO_MAPPING;
	m = bpf_map_lookup_elem(&mappings, &at);
	if (!m)
		return BPFPROF_STOP_NO_MAPPING;
	start = m->start;
	off = pc - start;
	image = m->image;
	if (off >> 12 >= m->nr_pages)
		return BPFPROF_STOP_NO_MAPPING;
	off += m->off;
	header = bpf_map_lookup_elem(&mappings, &first);
	if (!header || *(volatile __u32 *)&header->image != asid) {
		count_add(BPFPROF_COUNT_STALE, 1);
		return BPFPROF_STOP_STALE;
	}
	if (image == BPFPROF_IMAGE_NONE)
		return code_block_look_up(r, pc);
	r->last_frame = (__u64)BPFPROF_FRAME_NATIVE << BPFPROF_FRAME_SHIFT |
			(__u64)image << BPFPROF_OFF_BITS | (off & BPFPROF_OFF_MASK);
	stop = page_look_up(r, image, off);
	if (stop == BPFPROF_STOP_STALE)
		count_add(BPFPROF_COUNT_STALE, 1);
	if (!stop && unwind_row_unexplored(r->last_row))
		code_place_look_up(r);
	return stop;
}

static __always_inline bool cache_hit(struct unwind_reader *r, const struct bpfprof_cached_pc *c,
				      __u64 pc)
{
	if (c->pc != pc || c->asid != r->asid)
		return false;
	r->last_row = c->row;
	r->last_frame = c->frame;
	r->last_flags = c->flags;
	return true;
}

/*
 * A hash has two slots, the newer one first. With one, two colliding frames of one stack would
 * evict each other in every sample.
 */
static __always_inline int look_up(struct unwind_reader *r, __u64 pc)
{
	__u64 hash = (pc ^ (__u64)r->asid << 32) * 0x9e3779b97f4a7c15ULL;
	struct bpfprof_cached_pc *c = &r->cache[(hash >> 40) & (CACHE_SLOTS - 2)];
	int stop;

	if (cache_hit(r, &c[0], pc) || cache_hit(r, &c[1], pc))
		return 0;
	stop = look_up_slow(r, pc);
	/* The file may become readable. */
	if (stop || unwind_row_kind(r->last_row) == ROW_UNREADABLE)
		return stop;
	if (unwind_row_kind(r->last_row) == ROW_SIGNAL)
		r->last_flags |= BPFPROF_CACHED_SIGNAL;
	if (r->last_frame >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_NATIVE_VA)
		return 0; /* such code may change */
	if (unwind_row_unexplored(r->last_row))
		return BPFPROF_STOP_RARE_RULE;
	c[1] = c[0];
	c->pc = pc;
	c->asid = r->asid;
	c->row = r->last_row;
	c->frame = r->last_frame;
	c->flags = r->last_flags;
	return 0;
}

#endif
