// SPDX-License-Identifier: Apache-2.0
#include "unwind/cfi.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/function_starts.h"
#include "elf/go_table.h"
#include "elf/image.h"
#include "unwind/cfi_eval.h"
#include "unwind/cfi_expr.h"
#include "unwind/cfi_row.h"
#include "unwind/code_rules.h"
#include "unwind/eh_frame.h"
#include "unwind/go_rows.h"
#include "unwind/reader.h"
#include "unwind_native.h"

#define PAGE_BYTES (1ULL << BPFPROF_PAGE_SHIFT)
#define PAGE_WORK (1 << 20)
#define MAX_LEARNED 8192 /* beyond that all is forgotten, and learned anew where it is needed */
#define LEARN_AT_ONCE 512
#define UNKNOWN_BLOCK 16 /* code that nothing is learned of is left alone in blocks of this */
#define ENTRY_BYTES 128 /* of the code that a program begins in */
#define POINTER_REACH 4096 /* around a place code is looked through for pointers to before it */
#define MAX_POINTERS 16
#define RUN_BYTES 512 /* of code without a branch that is learned at once */
#define SIGNAL_MCONTEXT 40 /* of struct ucontext: uc_mcontext (asm/ucontext.h) */

/* Go's .debug_frame says less than its own table: nothing of rbp, of changes of stacks and of their ends. */
enum { TABLE_EH_FRAME, TABLE_GO, TABLE_DEBUG_FRAME, NR_TABLES };

struct cfi {
	struct elf_image *img;
	struct eh_frame frames[NR_TABLES]; /* what one does not cover is looked for in the next */
	struct go_table go; /* that of TABLE_GO */
	int errors[NR_TABLES]; /* of finding it and of making its index: neither is tried again */
	size_t nr_code;
	struct elf_segment code[ELF_IMAGE_MAX_SEGMENTS]; /* executable, by file offset */
	struct code_rule *learned; /* by offset */
	size_t nr_learned, cap_learned;
	struct function_starts starts; /* of symbols; empty until code is read */
};

static void code_add(struct cfi *cfi, const struct elf_segment *seg)
{
	size_t i = cfi->nr_code++;

	for (; i && cfi->code[i - 1].off > seg->off; i--)
		cfi->code[i] = cfi->code[i - 1];
	cfi->code[i] = *seg;
}

int cfi_new(struct cfi **ret, struct elf_image *img)
{
	const struct elf_segment *segs;
	struct cfi *cfi;
	size_t nr;
	int err, go_err;

	if (elf_image_machine(img) != EM_X86_64) /* registers and rows are those of the psABI */
		return -ENODATA;
	cfi = calloc(1, sizeof(*cfi));
	if (!cfi)
		return -ENOMEM;
	cfi->img = img;
	segs = elf_image_segments(img, &nr);
	for (size_t i = 0; i < nr && cfi->nr_code < ELF_IMAGE_MAX_SEGMENTS; i++)
		if (segs[i].type == PT_LOAD && segs[i].flags & PF_X && segs[i].file_bytes)
			code_add(cfi, &segs[i]);
	err = eh_frame_init(&cfi->frames[TABLE_EH_FRAME], img);
	cfi->errors[TABLE_EH_FRAME] = err;
	cfi->errors[TABLE_DEBUG_FRAME] = eh_frame_init_debug(&cfi->frames[TABLE_DEBUG_FRAME], img);
	go_err = go_table_find(&cfi->go, img);
	cfi->errors[TABLE_GO] = go_err;
	if (go_err && go_err != -ENODATA && go_err != -EBADMSG && (!err || err == -ENODATA))
		err = go_err;
	if ((err && err != -ENODATA) || !cfi->nr_code) {
		cfi_free(cfi);
		return err ? err : -ENODATA;
	}
	*ret = cfi;
	return 0;
}

void cfi_free(struct cfi *cfi)
{
	if (!cfi)
		return;
	for (int i = 0; i < NR_TABLES; i++)
		eh_frame_fini(&cfi->frames[i]);
	function_starts_fini(&cfi->starts);
	free(cfi->learned);
	free(cfi);
}

size_t cfi_bytes(const struct cfi *cfi)
{
	size_t bytes = sizeof(*cfi) + cfi->cap_learned * sizeof(*cfi->learned) +
		       cfi->starts.nr * sizeof(*cfi->starts.starts);

	for (int i = 0; i < NR_TABLES; i++)
		if (cfi->frames[i].index)
			bytes += cfi->frames[i].nr * sizeof(*cfi->frames[i].index);
	return bytes;
}

/* Makes a table ready to be looked up. -ENODATA: there is nothing in it. */
static int table_prepare(struct cfi *cfi, int table)
{
	if (!cfi->errors[table] && table != TABLE_GO)
		cfi->errors[table] = eh_frame_prepare(&cfi->frames[table]);
	return cfi->errors[table];
}

/* The next table after this one that there is anything in, or NR_TABLES. */
static int table_after(struct cfi *cfi, int table)
{
	while (++table < NR_TABLES && table_prepare(cfi, table))
		;
	return table;
}

/* The same, of those that have FDEs. */
static int frame_after(struct cfi *cfi, int table)
{
	table = table_after(cfi, table);
	return table == TABLE_GO ? table_after(cfi, table) : table;
}

/* Working memory for one call. The FDEs of .eh_frame must not be missing for a mere error. */
static int pass_new(struct cfi *cfi, struct eh_pass **ret)
{
	int err = table_prepare(cfi, TABLE_EH_FRAME);
	struct eh_pass *pass;

	if (err && err != -ENODATA)
		return err;
	pass = malloc(sizeof(*pass));
	if (!pass)
		return -ENOMEM;
	eh_pass_init(pass, &cfi->frames[0], PAGE_WORK);
	*ret = pass;
	return 0;
}

static uint64_t row_rare(void)
{
	return unwind_row_make(0, ROW_RARE, 0, 0, 0, 0, 0);
}

/* flags: UNWIND_LOOKED_AT, UNWIND_NO_START */
static uint64_t row_none(int32_t flags)
{
	return unwind_row_make(0, ROW_NONE, 0, 0, 0, 0, flags);
}

struct page_build {
	struct cfi *cfi;
	struct eh_pass *pass;
	uint64_t *rows;
	int nr;
	uint64_t pos; /* file offset up to which the rows reach */
	uint64_t end; /* of what is filled now: a part of a segment, or a gap between FDEs in it */
	uint64_t va_delta; /* image-relative address minus file offset in that segment */
	int err; /* of filling what Go's table passed over */
};

static void page_append(struct page_build *b, uint64_t end, uint64_t row)
{
	if (end <= b->pos)
		return;
	if (!b->nr || (b->rows[b->nr - 1] ^ row) >> 16) {
		if (b->nr == CFI_PAGE_MAX_ROWS) /* the tail goes to user space */
			b->rows[b->nr - 1] = row_rare() | unwind_row_low(b->rows[b->nr - 1]);
		else
			b->rows[b->nr++] = row | (b->pos & 0xffff);
	}
	b->pos = end;
}

/* The first learned rule that ends after off. */
static size_t learned_after(const struct cfi *cfi, uint64_t off)
{
	size_t lo = 0, hi = cfi->nr_learned, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (cfi->learned[mid].off + cfi->learned[mid].len <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Nothing is known up to end; learned: something is after it, which need not be a start. */
static void page_append_none(struct page_build *b, uint64_t end, int32_t flags, bool learned)
{
	if (end <= b->pos)
		return;
	if (learned) {
		page_append(b, end - 1, row_none(flags));
		flags |= UNWIND_NO_START;
	}
	page_append(b, end, row_none(flags));
}

/* Up to end no FDE says anything: what was learned, or nothing. */
static void page_append_gap(struct page_build *b, uint64_t end)
{
	const struct cfi *cfi = b->cfi;
	const struct code_rule *rule = cfi->learned, *last = cfi->learned;
	uint64_t rule_end;
	bool is_rule, next_is_rule;

	if (cfi->nr_learned) {
		rule += learned_after(cfi, b->pos);
		last += cfi->nr_learned;
	}
	for (; rule < last && rule->off < end; rule++) {
		is_rule = unwind_row_kind(rule->row) != ROW_NONE;
		page_append_none(b, rule->off, 0, is_rule);
		rule_end = rule->off + rule->len < end ? rule->off + rule->len : end;
		next_is_rule = rule_end < end && rule + 1 < last && rule[1].off == rule_end &&
			       unwind_row_kind(rule[1].row) != ROW_NONE;
		if (is_rule)
			page_append(b, rule_end, rule->row);
		else
			page_append_none(b, rule_end, UNWIND_LOOKED_AT, next_is_rule);
	}
	page_append(b, end, row_none(0));
}

/* Addresses [start, end) have this row; what was passed over has none. */
static void page_add(struct page_build *b, uint64_t start, uint64_t end, uint64_t row)
{
	uint64_t first = b->pos + b->va_delta, limit = b->end + b->va_delta;

	start = start < first ? first : start < limit ? start : limit;
	end = end < start ? start : end < limit ? end : limit;
	page_append_gap(b, start - b->va_delta);
	page_append(b, end - b->va_delta, row);
}

static int page_add_fde(struct page_build *b, const struct eh_fde *fde, uint64_t end)
{
	struct cfi_program *prog = &b->pass->prog;
	uint64_t from = b->pos + b->va_delta, row;
	int err;

	cfi_program_init(prog, &fde->program, fde->cie, fde->start, end);
	while (b->pos < b->end) {
		err = cfi_program_next(prog);
		if (err == -EBADMSG) {
			page_add(b, prog->start, end, row_rare());
			return 0;
		}
		if (err <= 0)
			return err;
		if (prog->end <= from)
			continue;
		err = cfi_row_make(prog, &row);
		if (err && err != -EBADMSG)
			return err;
		page_add(b, prog->start, prog->end, row);
	}
	return 0;
}

static int page_fill(struct page_build *b, uint64_t end, int table);

/* Rows of the FDEs of a table up to b->end, and in the gaps between them of the tables after it. */
static int page_add_fdes(struct page_build *b, int table)
{
	struct eh_frame *frame = &b->cfi->frames[table];
	uint64_t start, next, end = b->end + b->va_delta;
	int err, next_table = table_after(b->cfi, table);
	struct eh_fde fde;
	size_t i, at;

	err = eh_frame_find(frame, b->pass, b->pos + b->va_delta, &i);
	while (!err && b->pos < b->end && i < frame->nr) {
		at = i;
		err = eh_frame_get(frame, b->pass, &i, &fde, &start, &next);
		if ((!err || err == -EBADMSG) && start >= end)
			return 0;
		if ((!err || err == -EBADMSG) && next_table < NR_TABLES &&
		    start > b->pos + b->va_delta) {
			err = page_fill(b, start - b->va_delta, next_table);
			i = at; /* the other table had the pass: read this FDE again */
			continue;
		}
		if (err == -EBADMSG && next > start) { /* not all of it is lost */
			page_add(b, start, next, row_rare());
			err = 0;
		} else if (!err && fde.end > fde.start) {
			err = page_add_fde(b, &fde, fde.end < next ? fde.end : next);
		}
	}
	return err;
}

static void page_add_go(void *arg, uint64_t start, uint64_t end, uint64_t row)
{
	struct page_build *b = arg;
	int err = page_fill(b, start - b->va_delta, table_after(b->cfi, TABLE_GO));

	if (err && !b->err)
		b->err = err;
	page_append(b, end - b->va_delta, row);
}

/* Rows of Go's table up to b->end, and in its gaps of the tables after it. */
static int page_add_gos(struct page_build *b)
{
	int err = go_rows_make(&b->cfi->go, b->pos + b->va_delta, b->end + b->va_delta, page_add_go,
			       b);

	return err && err != -EBADMSG ? err : b->err;
}

/* Rows up to end, from this table and those after it. */
static int page_fill(struct page_build *b, uint64_t end, int table)
{
	uint64_t outer_end = b->end;
	int err;

	if (end <= b->pos)
		return 0;
	if (table == NR_TABLES) {
		page_append_gap(b, end);
		return 0;
	}
	b->end = end;
	err = table == TABLE_GO ? page_add_gos(b) : page_add_fdes(b, table);
	if (err == -EBADMSG || err == -E2BIG) { /* the table is broken from here on */
		page_append(b, end, row_rare());
		err = 0;
	}
	if (!err)
		err = page_fill(b, end, table_after(b->cfi, table));
	b->end = outer_end;
	return err;
}

/* The part of the page that a segment covers. */
static int page_add_segment(struct page_build *b, const struct elf_segment *seg, uint64_t page_end)
{
	uint64_t end = seg->off + seg->file_bytes;

	if (end <= b->pos || seg->off >= page_end)
		return 0;
	page_append_gap(b, seg->off);
	b->va_delta = seg->va - seg->off;
	return page_fill(b, end < page_end ? end : page_end, table_after(b->cfi, -1));
}

int cfi_build_page(struct cfi *cfi, uint32_t page, uint64_t *rows)
{
	struct page_build b = { .cfi = cfi,
				.rows = rows,
				.pos = (uint64_t)page << BPFPROF_PAGE_SHIFT };
	uint64_t page_end = b.pos + PAGE_BYTES;
	int err;

	err = pass_new(cfi, &b.pass);
	if (err)
		return err;
	for (size_t i = 0; !err && i < cfi->nr_code; i++)
		err = page_add_segment(&b, &cfi->code[i], page_end);
	page_append_gap(&b, page_end);
	free(b.pass);
	return err ? err : b.nr;
}

static const struct elf_segment *segment_of(const struct cfi *cfi, uint64_t off)
{
	size_t i;

	for (i = 0; i < cfi->nr_code; i++)
		if (off >= cfi->code[i].off && off - cfi->code[i].off < cfi->code[i].file_bytes)
			return &cfi->code[i];
	return NULL;
}

static uint64_t learned_row(const struct cfi *cfi, uint64_t off)
{
	size_t i = learned_after(cfi, off);

	return i < cfi->nr_learned && cfi->learned[i].off <= off ? cfi->learned[i].row : 0;
}

/* Takes as much of rule as nothing was learned of yet. */
static void learned_add(struct cfi *cfi, const struct code_rule *rule)
{
	uint64_t off = rule->off, end = rule->off + rule->len, limit;
	size_t i = learned_after(cfi, off);

	while (off < end) {
		if (i < cfi->nr_learned && cfi->learned[i].off <= off) {
			off = cfi->learned[i].off + cfi->learned[i].len;
			i++;
			continue;
		}
		limit = i < cfi->nr_learned && cfi->learned[i].off < end ? cfi->learned[i].off
									 : end;
		if (cfi->nr_learned == cfi->cap_learned)
			return;
		memmove(cfi->learned + i + 1, cfi->learned + i,
			(cfi->nr_learned++ - i) * sizeof(*cfi->learned));
		cfi->learned[i++] = (struct code_rule){ .off = off,
							.len = (uint32_t)(limit - off),
							.row = rule->row };
		off = limit;
	}
}

/* Room for nr rules more, each perhaps in two parts. */
static int learned_grow(struct cfi *cfi, size_t nr)
{
	size_t cap = cfi->cap_learned ? cfi->cap_learned : 64;
	struct code_rule *tmp;

	if (cfi->nr_learned + 2 * nr > MAX_LEARNED)
		cfi->nr_learned = 0;
	while (cap < cfi->nr_learned + 2 * nr)
		cap *= 2;
	if (cap == cfi->cap_learned)
		return 0;
	tmp = realloc(cfi->learned, cap * sizeof(*tmp));
	if (!tmp)
		return -ENOMEM;
	cfi->learned = tmp;
	cfi->cap_learned = cap;
	return 0;
}

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
	while ((table = frame_after(cfi, table)) < NR_TABLES) {
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

/* The symbols around rva. Errors only mean that fewer borders are known. */
static void starts_need(struct cfi *cfi, const struct elf_segment *seg, uint64_t rva)
{
	struct function_starts *starts = &cfi->starts;

	if (rva >= starts->low && rva < starts->high)
		return;
	function_starts_fini(starts);
	function_starts_load(starts, cfi->img, seg->va, seg->va + seg->file_bytes, rva);
}

/* At most len bytes of the code at off: how many, or -errno. */
static int code_read(struct cfi *cfi, uint64_t off, uint8_t *code, size_t len)
{
	const struct elf_segment *seg = segment_of(cfi, off);
	uint64_t left = seg ? seg->off + seg->file_bytes - off : 0;
	int err;

	if (len > left)
		len = left;
	err = len ? elf_image_read(cfi->img, off, code, len) : 0;
	return err ? err : (int)len;
}

/* The code that a program begins with: how many bytes, 0 if this is no program, or -errno. */
static int entry_read(struct cfi *cfi, uint64_t *ret_off, uint8_t code[ENTRY_BYTES])
{
	uint64_t rva = elf_image_entry(cfi->img);

	if (!rva || elf_image_rva_to_off(cfi->img, rva, ret_off))
		return 0;
	return code_read(cfi, *ret_off, code, ENTRY_BYTES);
}

/*
 * The function nearest before rva whose address the first instructions of the program load, or the
 * functions that they lead to: they pass main() to the C library, and musl's jumps to its second stage.
 */
static uint64_t entry_function_before(struct cfi *cfi, uint64_t rva)
{
	uint64_t off, at = elf_image_entry(cfi->img), va, best = UINT64_MAX;
	uint8_t code[ENTRY_BYTES];
	int len = entry_read(cfi, &off, code), calls;
	size_t pos, end;

	for (calls = 0; calls < 3 && len > 0; calls++) {
		for (pos = 0; !code_address_next(code, (size_t)len, at, &pos, &va);)
			if (va <= rva && (best == UINT64_MAX || va > best))
				best = va;
		end = code_straight(code, (size_t)len);
		if (code_leads_to(code, end, at + end, &at) ||
		    elf_image_rva_to_off(cfi->img, at, &off))
			break;
		len = code_read(cfi, off, code, sizeof(code));
	}
	return best;
}

/* Narrows area to the function that has rva, as far as it is known where that begins and ends. */
static int area_of_function(const struct start_search *search, uint64_t rva,
			    const uint64_t *function, struct code_area *area)
{
	const struct elf_segment *seg = search->seg;
	uint64_t start = function_starts_before(&search->cfi->starts, rva), next;

	if (function) {
		area->function = *function;
		area->whole = true; /* where that is wrong, the return address is elsewhere */
		return 0;
	}
	area->whole = start != UINT64_MAX;
	if (!area->whole)
		start = entry_function_before(search->cfi, rva);
	if (start < seg->va || start - seg->va >= seg->file_bytes)
		return -ENODATA;
	next = function_starts_after(&search->cfi->starts, rva);
	area->start = area->function = start - seg->va + seg->off;
	if (next - seg->va < seg->file_bytes)
		area->end = next - seg->va + seg->off;
	return 0;
}

int cfi_code_rules(struct cfi *cfi, enum code_way way, uint64_t off, bool after_call,
		   const uint64_t *function, struct code_rule *rules, size_t cap)
{
	struct start_search search = { .cfi = cfi, .seg = segment_of(cfi, off - after_call) };
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
	nr = pass_new(cfi, &search.pass);
	if (nr)
		return nr;
	if (way == CODE_FROM_START)
		nr = area_of_function(&search, rva, function, &area);
	else if (after_call && function_starts(&search, off))
		nr = -ENODATA;
	if (!nr)
		nr = code_rules_find(&area, off, rules, cap);
	free(search.pass);
	return nr;
}

/* Is off in the first instructions of the program, which nothing calls? */
static bool is_entry(struct cfi *cfi, uint64_t off)
{
	uint8_t code[ENTRY_BYTES];
	uint64_t entry;
	int len = entry_read(cfi, &entry, code);

	return len > 0 && off >= entry && off - entry < code_straight(code, (size_t)len);
}

/* What is known of code at sight; 0: nothing. */
static uint64_t row_at_sight(struct cfi *cfi, uint64_t off, uint64_t from)
{
	uint8_t code[CODE_LOOK_BYTES];
	int len = code_read(cfi, from, code, sizeof(code));

	if (is_entry(cfi, off))
		return unwind_row_make(0, ROW_END, 0, 0, 0, 0, 0);
	if (len > 0 && code_returns_from_signal(code, (size_t)len))
		return unwind_row_make(0, ROW_SIGNAL, UNWIND_RSP, SIGNAL_MCONTEXT / 8, BP_SAME, 0,
				       0);
	return 0;
}

static uint64_t row_unproven(struct cfi *cfi, uint64_t from, bool exact)
{
	uint8_t code[CODE_LOOK_BYTES];
	int len = code_read(cfi, from, code, sizeof(code));

	return unwind_row_make(0, ROW_UNPROVEN, 0, 0, 0, 0,
			       !exact && len > 0 && code_halts(code, (size_t)len) ? UNWIND_HALTS
										  : 0);
}

/* One place in code that no table covers. */
struct lesson {
	struct cfi *cfi;
	uint64_t from; /* an instruction, or what a call returns to */
	bool exact; /* the former */
	const struct cfi_trial *trial;
	struct code_rule *rules; /* LEARN_AT_ONCE of them */
	int at; /* the rule of the place */
	uint64_t function; /* what the way began at, if that was where a call goes; UINT64_MAX */
	bool unread;
};

/* What one way says of the place: rules. How many, 0 if there is none of it, -errno. */
static int rules_find(struct lesson *l, enum code_way way, const uint64_t *function)
{
	int nr = cfi_code_rules(l->cfi, way, l->from, !l->exact, function, l->rules, LEARN_AT_ONCE);
	uint64_t off = way == CODE_FROM_START ? l->from - !l->exact : l->from;

	l->function = function ? *function : UINT64_MAX;
	if (nr < 0)
		return nr == -ENODATA ? 0 : nr;
	for (l->at = 0; l->at < nr; l->at++)
		if (off >= l->rules[l->at].off && off - l->rules[l->at].off < l->rules[l->at].len)
			return nr;
	return 0;
}

/* The same, and *ret is what the process says of it. */
static int rules_try(struct lesson *l, enum code_way way, const uint64_t *function,
		     enum cfi_verdict *ret)
{
	int nr = rules_find(l, way, function);

	*ret = CFI_REFUSED;
	if (nr > 0)
		*ret = l->trial->check(l->trial->arg, l->rules[l->at].row,
				       way == CODE_FRAME_POINTER);
	l->unread |= *ret == CFI_UNREAD;
	return nr;
}

/* From where calls go whose return addresses lie on the stack. */
static int rules_by_callers(struct lesson *l)
{
	enum cfi_verdict verdict;
	bool found = false;
	uint64_t function;
	int nr = 0;

	/* The trial is asked to the end, or it refuses what comes after. */
	while (!l->trial->next_start(l->trial->arg, &function)) {
		if (nr < 0 || found)
			continue;
		nr = rules_try(l, CODE_FROM_START, &function, &verdict);
		found = verdict == CFI_PROVEN;
	}
	return nr < 0 || found ? nr : 0;
}

/* The pointers nearest before an address, in descending order. */
struct pointers {
	uint64_t va[MAX_POINTERS];
	size_t nr;
};

static void pointer_add(struct pointers *p, uint64_t va)
{
	size_t i, at;

	for (at = 0; at < p->nr && p->va[at] > va; at++)
		;
	if (at == MAX_POINTERS || (at < p->nr && p->va[at] == va))
		return;
	p->nr += p->nr < MAX_POINTERS;
	for (i = p->nr - 1; i > at; i--)
		p->va[i] = p->va[i - 1];
	p->va[at] = va;
}

/* The addresses up to rva that code around it loads. Decoding falls into step wherever it begins. */
static int pointers_find(struct lesson *l, const struct elf_segment *seg, uint64_t rva,
			 struct pointers *ret)
{
	uint64_t low = rva - seg->va > POINTER_REACH ? rva - POINTER_REACH : seg->va, va;
	uint8_t *code = malloc(2 * POINTER_REACH);
	size_t pos = 0;
	int len;

	ret->nr = 0;
	if (!code)
		return -ENOMEM;
	len = code_read(l->cfi, low - seg->va + seg->off, code, 2 * POINTER_REACH);
	while (len > 0 && pos < (size_t)len) {
		if (code_address_next(code, (size_t)len, low, &pos, &va))
			pos++; /* not an instruction */
		else if (va <= rva && rva - va < POINTER_REACH && va >= seg->va)
			pointer_add(ret, va);
	}
	free(code);
	return len < 0 ? len : 0;
}

/*
 * From where pointers lead that code around the place loads: a function that is only called through one (of
 * a thread, a callback, musl's libc_start_main_stage2()) mostly stands near the one that takes its address.
 */
static int rules_by_pointers(struct lesson *l)
{
	const struct elf_segment *seg = segment_of(l->cfi, l->from - !l->exact);
	enum cfi_verdict verdict;
	struct pointers pointers;
	uint64_t rva, function;
	size_t i;
	int nr;

	if (!seg)
		return 0;
	rva = l->from - !l->exact - seg->off + seg->va;
	nr = pointers_find(l, seg, rva, &pointers);
	for (i = 0; !nr && i < pointers.nr; i++) {
		function = pointers.va[i] - seg->va + seg->off;
		nr = rules_try(l, CODE_FROM_START, &function, &verdict);
		nr = nr > 0 && verdict != CFI_PROVEN ? 0 : nr;
	}
	return nr;
}

/*
 * The rules of the first way that is proven, else of the first one that cannot be refuted and is no
 * mere guess. How many, 0 if there are none, -EAGAIN or -errno.
 */
static int rules_choose(struct lesson *l)
{
	static const enum code_way ways[] = { CODE_FROM_START, CODE_TO_RETURN, CODE_TO_NEAR_RETURN,
					      CODE_FRAME_POINTER };
	enum code_way possible = CODE_FRAME_POINTER; /* none */
	enum cfi_verdict verdict;
	size_t i;
	int nr;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		nr = ways[i] == CODE_TO_NEAR_RETURN ? rules_by_callers(l) : 0;
		if (!nr && ways[i] == CODE_TO_NEAR_RETURN)
			nr = rules_by_pointers(l);
		if (nr)
			return nr;
		nr = rules_try(l, ways[i], NULL, &verdict);
		if (nr < 0 || verdict == CFI_PROVEN)
			return nr;
		if (verdict == CFI_POSSIBLE && ways[i] < CODE_GUESSES &&
		    possible == CODE_FRAME_POINTER)
			possible = ways[i];
	}
	if (possible != CODE_FRAME_POINTER)
		return rules_find(l, possible, NULL);
	return l->unread ? -EAGAIN : 0;
}

/*
 * Where it is not known where functions end, the way may have gone on into the next one, behind a
 * call that does not return: what surely belongs to the same one as the place is kept.
 */
static int rules_clip(struct lesson *l, uint64_t off, int nr)
{
	uint64_t low = l->function != UINT64_MAX ? l->function : off, high;
	struct code_rule *from = l->rules, *to = l->rules, *end = from + nr;
	uint8_t code[RUN_BYTES];
	int len = code_read(l->cfi, off, code, sizeof(code));

	/* Before what is returned to lies a call, of which off is the last byte. */
	high = l->exact && len > 0 ? off + code_run(code, (size_t)len) : off + 1;
	for (; from < end; from++) {
		uint64_t first = from->off > low ? from->off : low;
		uint64_t last = from->off + from->len < high ? from->off + from->len : high;

		if (first < last)
			*to++ = (struct code_rule){ .off = first,
						    .row = from->row,
						    .len = (uint32_t)(last - first) };
	}
	return (int)(to - l->rules);
}

static void learn_row(struct lesson *l, uint64_t off, uint64_t row, uint32_t len)
{
	l->rules[0] = (struct code_rule){ .off = off, .row = row, .len = len };
}

static int learn(struct lesson *l, uint64_t off)
{
	uint64_t row = row_at_sight(l->cfi, off, l->from);
	int nr = row ? 0 : rules_choose(l), i, err;

	if (nr < 0)
		return nr;
	if (!row && !nr)
		row = l->trial->outermost(l->trial->arg);
	if (row) {
		learn_row(l, off, row, 1);
	} else if (!nr) {
		learn_row(l, off, row_unproven(l->cfi, l->from, l->exact),
			  UNKNOWN_BLOCK - (off & (UNKNOWN_BLOCK - 1)));
	} else if (!l->exact && l->rules[l->at].off == l->from) {
		l->rules[l->at].off--;
		l->rules[l->at].len++;
	}
	if (nr && !l->cfi->starts.complete)
		nr = rules_clip(l, off, nr);
	nr = nr ? nr : 1;
	err = learned_grow(l->cfi, (size_t)nr);
	for (i = 0; !err && i < nr; i++)
		learned_add(l->cfi, &l->rules[i]);
	return err;
}

int cfi_learn(struct cfi *cfi, uint64_t off, bool exact, const struct cfi_trial *trial)
{
	struct lesson l = {
		.cfi = cfi, .from = exact ? off : off + 1, .exact = exact, .trial = trial
	};
	int err;

	l.rules = malloc(LEARN_AT_ONCE * sizeof(*l.rules));
	if (!l.rules)
		return -ENOMEM;
	err = learn(&l, off);
	free(l.rules);
	return err;
}

void cfi_forget_unproven(struct cfi *cfi, uint32_t page)
{
	const struct code_rule *from = cfi->learned, *end = from + cfi->nr_learned;
	struct code_rule *to = cfi->learned;

	for (; from < end; from++)
		if (from->off >> BPFPROF_PAGE_SHIFT != page ||
		    unwind_row_kind(from->row) != ROW_UNPROVEN)
			*to++ = *from;
	cfi->nr_learned = (size_t)(to - cfi->learned);
}

/* The program of the function that has rva, run up to there. 0, or enum bpfprof_stop. */
static int program_find(const struct eh_frame *frame, struct eh_pass *pass, uint64_t rva)
{
	struct cfi_program *prog = &pass->prog;
	uint64_t start, next;
	struct eh_fde fde;
	size_t i;
	int err;

	if (eh_frame_find(frame, pass, rva, &i))
		return BPFPROF_STOP_BAD_CFI;
	if (i >= frame->nr)
		return BPFPROF_STOP_NO_TABLE;
	err = eh_frame_get(frame, pass, &i, &fde, &start, &next);
	if (err && err != -EBADMSG)
		return BPFPROF_STOP_BAD_CFI;
	if (start > rva)
		return BPFPROF_STOP_NO_TABLE;
	if (err)
		return BPFPROF_STOP_BAD_CFI;
	if (rva >= fde.end || rva >= next)
		return BPFPROF_STOP_NO_TABLE;
	cfi_program_init(prog, &fde.program, fde.cie, fde.start, fde.end);
	do {
		err = cfi_program_next(prog);
		if (err <= 0)
			return BPFPROF_STOP_BAD_CFI;
	} while (rva >= prog->end);
	return 0;
}

static void row_keep(void *arg, uint64_t start, uint64_t end, uint64_t row)
{
	(void)start;
	(void)end;
	*(uint64_t *)arg = row;
}

/* What Go's table says of rva, 0 if that is nothing. */
static uint64_t row_of_go(const struct cfi *cfi, uint64_t rva)
{
	uint64_t row = 0;

	if (!cfi->errors[TABLE_GO])
		go_rows_make(&cfi->go, rva, rva + 1, row_keep, &row);
	return row;
}

int cfi_step(struct cfi *cfi, uint64_t off, struct unwind_state *state,
	     struct unwind_reader *reader)
{
	struct unwind_state old = *state;
	struct cfi_expr_env env = { .state = &old, .reader = reader };
	const struct elf_segment *seg = segment_of(cfi, off);
	int err, table = -1;
	struct eh_pass *pass;
	uint64_t rva, row;

	if (!seg)
		return BPFPROF_STOP_NO_TABLE;
	rva = off - seg->off + seg->va;
	if (pass_new(cfi, &pass))
		return BPFPROF_STOP_MISS_FILE;
	unwind_settle(&old, reader);
	env.bias = unwind_lookup_pc(state) - rva;
	err = BPFPROF_STOP_NO_TABLE;
	while (err == BPFPROF_STOP_NO_TABLE && (table = frame_after(cfi, table)) < NR_TABLES) {
		if (table == TABLE_DEBUG_FRAME && row_of_go(cfi, rva))
			break;
		err = program_find(&cfi->frames[table], pass, rva);
	}
	if (!err)
		err = cfi_eval_caller(&pass->prog, &env, state);
	free(pass);
	row = err == BPFPROF_STOP_NO_TABLE ? row_of_go(cfi, rva) : 0;
	if (err == BPFPROF_STOP_NO_TABLE && !row)
		row = learned_row(cfi, off);
	return row && unwind_row_kind(row) != ROW_RARE ? unwind_step(state, row, reader) : err;
}

static int function_find(const struct eh_frame *frame, struct eh_pass *pass, uint64_t rva,
			 uint64_t *ret_start, uint64_t *ret_end)
{
	uint64_t start, next;
	struct eh_fde fde;
	size_t i;
	int err;

	err = eh_frame_find(frame, pass, rva, &i);
	if (err || i >= frame->nr)
		return err ? err : -ENODATA;
	err = eh_frame_get(frame, pass, &i, &fde, &start, &next);
	if (err)
		return err;
	if (rva < fde.start || rva >= fde.end || rva >= next)
		return -ENODATA;
	*ret_start = fde.start;
	*ret_end = fde.end < next ? fde.end : next;
	return 0;
}

int cfi_function(struct cfi *cfi, uint64_t rva, uint64_t *ret_start, uint64_t *ret_end)
{
	struct eh_pass *pass;
	int err = pass_new(cfi, &pass), table = -1;

	if (err)
		return err;
	err = -ENODATA;
	while (err == -ENODATA && (table = frame_after(cfi, table)) < NR_TABLES)
		err = function_find(&cfi->frames[table], pass, rva, ret_start, ret_end);
	free(pass);
	return err;
}
