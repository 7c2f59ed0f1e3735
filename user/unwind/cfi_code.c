// SPDX-License-Identifier: Apache-2.0
/* Rules of code without tables, and the starts of its functions. */
#include <errno.h>
#include <stdlib.h>

#include "elf/program_entry.h"
#include "unwind/cfi.h"
#include "unwind/cfi_state.h"
#include "unwind/code_look.h"

struct start_search {
	struct cfi *cfi;
	const struct elf_segment *seg;
	struct eh_pass *pass;
};

static bool table_starts(const struct start_search *search, uint64_t rva)
{
	struct cfi *cfi = search->cfi;
	struct go_function function;
	uint64_t start, next, index;
	struct eh_frame *frame;
	struct eh_fde fde;
	int table = -1;
	size_t i;

	if (!cfi->errors[TABLE_GO] && !go_table_function(&cfi->go, rva, &function, &index) &&
	    function.start == rva)
		return true;
	while ((table = cfi_frame_after(cfi, table)) < NR_TABLES) {
		frame = &cfi->frames[table];
		if (!eh_frame_find(frame, search->pass, rva, &i) && i < frame->nr &&
		    !eh_frame_get(frame, search->pass, &i, &fde, &start, &next) && start == rva)
			return true;
	}
	return false;
}

static bool function_starts(void *arg, uint64_t off)
{
	const struct start_search *search = arg;
	uint64_t rva = off - search->seg->off + search->seg->va;

	return function_starts_before(&search->cfi->starts, rva) == rva ||
	       table_starts(search, rva);
}

/* Loads the symbols around rva. After an error fewer borders are known. */
static void starts_need(struct cfi *cfi, const struct elf_segment *seg, uint64_t rva)
{
	struct function_starts *starts = &cfi->starts;

	if (rva >= starts->low && rva < starts->high)
		return;
	function_starts_fini(starts);
	function_starts_load(starts, cfi->img, seg->va, seg->va + seg->file_bytes, rva);
}

bool cfi_starts_complete(struct cfi *cfi, uint64_t off)
{
	const struct elf_segment *seg = cfi_segment_of(cfi, off);

	if (!seg)
		return false;
	starts_need(cfi, seg, off - seg->off + seg->va);
	return cfi->starts.complete;
}

int cfi_code_read(struct cfi *cfi, uint64_t off, uint8_t *code, size_t len)
{
	const struct elf_segment *seg = cfi_segment_of(cfi, off);
	uint64_t left = seg ? seg->off + seg->file_bytes - off : 0;
	int err;

	if (len > left)
		len = left;
	err = len ? elf_image_read(cfi->img, off, code, len) : 0;
	return err ? err : (int)len;
}

int cfi_entry_read(struct cfi *cfi, uint64_t *ret_off, uint8_t code[CFI_ENTRY_BYTES])
{
	uint64_t rva = elf_image_entry(cfi->img);
	int len;

	if (!rva || elf_image_rva_to_off(cfi->img, rva, ret_off))
		return 0;
	len = cfi_code_read(cfi, *ret_off, code, CFI_ENTRY_BYTES);
	if (len > 0 && !program_entry_is(cfi->img) && !code_begins_process(code, (size_t)len))
		return 0;
	return len;
}

/*
 * The nearest function before rva whose address the first code of the program loads, or the functions
 * that it leads to. Such code passes main() to the C library; that of musl jumps to a second stage.
 */
static uint64_t entry_function_before(struct cfi *cfi, uint64_t rva)
{
	uint64_t off, at = elf_image_entry(cfi->img), va, best = UINT64_MAX;
	uint8_t code[CFI_ENTRY_BYTES];
	int len = cfi_entry_read(cfi, &off, code), calls;
	size_t pos, end;

	for (calls = 0; calls < 3 && len > 0; calls++) {
		for (pos = 0; !code_address_next(code, (size_t)len, at, &pos, &va);)
			if (va <= rva && (best == UINT64_MAX || va > best))
				best = va;
		end = code_straight(code, (size_t)len);
		if (code_leads_to(code, end, at + end, &at) ||
		    elf_image_rva_to_off(cfi->img, at, &off))
			break;
		len = cfi_code_read(cfi, off, code, sizeof(code));
	}
	return best;
}

/* Narrows area to the function that has rva, as far as its start and end are known. */
static int area_of_function(const struct start_search *search, uint64_t rva,
			    const uint64_t *function, struct code_area *area)
{
	const struct elf_segment *seg = search->seg;
	uint64_t start = function_starts_before(&search->cfi->starts, rva), next;

	if (function) {
		area->function = *function;
		area->whole = true; /* if that is wrong, the trial finds no return address */
		return 0;
	}
	area->whole = start != UINT64_MAX && search->cfi->starts.complete;
	if (start == UINT64_MAX)
		start = entry_function_before(search->cfi, rva);
	if (start < seg->va || start - seg->va >= seg->file_bytes)
		return -ENODATA;
	next = function_starts_after(&search->cfi->starts, rva);
	area->start = area->function = start - seg->va + seg->off;
	if (next - seg->va < seg->file_bytes)
		area->end = next - seg->va + seg->off;
	return 0;
}

int cfi_insn_rules(struct cfi *cfi, enum code_way way, uint64_t off, bool after_call,
		   const uint64_t *function, struct insn_rule *rules, size_t cap)
{
	struct start_search search = { .cfi = cfi, .seg = cfi_segment_of(cfi, off - after_call) };
	struct code_area area = { .img = cfi->img,
				  .way = way,
				  .after_call = after_call,
				  .function_starts = function_starts,
				  .arg = &search };
	uint64_t rva;
	int nr;

	if (!search.seg)
		return -ENODATA;
	rva = off - after_call - search.seg->off + search.seg->va;
	area.start = search.seg->off;
	area.end = search.seg->off + search.seg->file_bytes;
	starts_need(cfi, search.seg, rva);
	area.starts_unknown = !cfi->starts.complete;
	nr = cfi_pass_new(cfi, &search.pass);
	if (nr)
		return nr;
	if (way == CODE_FROM_START)
		nr = area_of_function(&search, rva, function, &area);
	else if (after_call && function_starts(&search, off))
		nr = -ENODATA;
	if (!nr)
		nr = insn_unwind_find(&area, off, rules, cap);
	free(search.pass);
	return nr;
}
