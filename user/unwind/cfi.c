// SPDX-License-Identifier: Apache-2.0
#include "unwind/cfi.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "unwind/cfi_eval.h"
#include "unwind/cfi_expr.h"
#include "unwind/cfi_row.h"
#include "unwind/cfi_state.h"
#include "unwind/go_rows.h"
#include "unwind/reader.h"
#include "unwind_native.h"

#define PAGE_BYTES (1ULL << BPFPROF_PAGE_SHIFT)
#define PAGE_WORK (1 << 20)
#define GO_STEP_WORK (1 << 15) /* real functions need some thousands */

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

	if (!elf_image_is_native(img)) /* registers and rows are those of the psABI */
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

/* Makes a table ready for searches. -ENODATA: it is empty. */
static int table_prepare(struct cfi *cfi, int table)
{
	if (!cfi->errors[table] && table != TABLE_GO)
		cfi->errors[table] = eh_frame_prepare(&cfi->frames[table]);
	return cfi->errors[table];
}

/* The next table after this one (-1: the first) that is not empty, or NR_TABLES. */
static int table_after(struct cfi *cfi, int table)
{
	while (++table < NR_TABLES && table_prepare(cfi, table))
		;
	return table;
}

int cfi_frame_after(struct cfi *cfi, int table)
{
	table = table_after(cfi, table);
	return table == TABLE_GO ? table_after(cfi, table) : table;
}

int cfi_pass_new(struct cfi *cfi, struct eh_pass **ret)
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
	uint64_t end; /* of the part of a segment, or of the gap between FDEs, that is filled now */
	uint64_t va_delta; /* image-relative address minus file offset in that segment */
	int64_t go_work; /* left for Go's table */
	int err; /* of filling the gaps in Go's table */
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

size_t cfi_learned_after(const struct cfi *cfi, uint64_t off)
{
	const struct insn_rule *rule = cfi->learned;

	return sorted_count(cfi->nr_learned, i, rule[i].off + rule[i].len <= off);
}

/*
 * No FDE covers the code up to end: it has the learned rules, or none. Only code that a table covers
 * behind such a gap may be the start of a stack.
 */
static void page_append_gap(struct page_build *b, uint64_t end)
{
	const struct cfi *cfi = b->cfi;
	const struct insn_rule *rule = cfi->learned, *last = cfi->learned;
	uint64_t rule_end;

	if (cfi->nr_learned) {
		rule += cfi_learned_after(cfi, b->pos);
		last += cfi->nr_learned;
	}
	for (; rule < last && rule->off < end; rule++) {
		page_append(b, rule->off, row_none(UNWIND_NO_START));
		rule_end = rule->off + rule->len < end ? rule->off + rule->len : end;
		if (unwind_row_kind(rule->row) != ROW_NONE)
			page_append(b, rule_end, rule->row);
		else
			page_append(b, rule_end,
				    row_none(UNWIND_LOOKED_AT |
					     (rule_end < end ? UNWIND_NO_START : 0)));
	}
	page_append(b, end, row_none(0));
}

/* Addresses [start, end) have this row; the skipped ones before have none. */
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

/* Rows of the FDEs of a table up to b->end; the tables after it fill the gaps. */
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
			i = at; /* the other table used the pass: read this FDE again */
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

/* Rows of Go's table up to b->end; the tables after it fill the gaps. */
static int page_add_gos(struct page_build *b)
{
	int err = go_rows_make(&b->cfi->go, b->pos + b->va_delta, b->end + b->va_delta, &b->go_work,
			       page_add_go, b);

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
				.go_work = GO_ROWS_PAGE_WORK,
				.pos = (uint64_t)page << BPFPROF_PAGE_SHIFT };
	uint64_t page_end = b.pos + PAGE_BYTES;
	int err;

	err = cfi_pass_new(cfi, &b.pass);
	if (err)
		return err;
	for (size_t i = 0; !err && i < cfi->nr_code; i++)
		err = page_add_segment(&b, &cfi->code[i], page_end);
	page_append_gap(&b, page_end);
	free(b.pass);
	return err ? err : b.nr;
}

const struct elf_segment *cfi_segment_of(const struct cfi *cfi, uint64_t off)
{
	size_t i;

	for (i = 0; i < cfi->nr_code; i++)
		if (off >= cfi->code[i].off && off - cfi->code[i].off < cfi->code[i].file_bytes)
			return &cfi->code[i];
	return NULL;
}

static uint64_t learned_row(const struct cfi *cfi, uint64_t off)
{
	size_t i = cfi_learned_after(cfi, off);

	return i < cfi->nr_learned && cfi->learned[i].off <= off ? cfi->learned[i].row : 0;
}

/* The FDE that covers rva, and its end. -ENODATA: there is none. */
static int fde_find(const struct eh_frame *frame, struct eh_pass *pass, uint64_t rva,
		    struct eh_fde *ret, uint64_t *ret_end)
{
	uint64_t start, next;
	size_t i;
	int err;

	err = eh_frame_find(frame, pass, rva, &i);
	if (err || i >= frame->nr)
		return err ? err : -ENODATA;
	err = eh_frame_get(frame, pass, &i, ret, &start, &next);
	if ((!err || err == -EBADMSG) && start > rva)
		return -ENODATA;
	if (err)
		return err;
	*ret_end = ret->end < next ? ret->end : next;
	return rva < *ret_end ? 0 : -ENODATA;
}

/* The program of the function that has rva, run up to there. 0, or enum bpfprof_stop. */
static int program_find(const struct eh_frame *frame, struct eh_pass *pass, uint64_t rva)
{
	struct cfi_program *prog = &pass->prog;
	struct eh_fde fde;
	uint64_t end;
	int err = fde_find(frame, pass, rva, &fde, &end);

	if (err)
		return err == -ENODATA ? BPFPROF_STOP_NO_TABLE : BPFPROF_STOP_BAD_CFI;
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

/* The row of rva by Go's table, 0 if it has none. */
static uint64_t row_of_go(const struct cfi *cfi, uint64_t rva)
{
	int64_t work = GO_STEP_WORK;
	uint64_t row = 0;

	if (!cfi->errors[TABLE_GO] &&
	    go_rows_make(&cfi->go, rva, rva + 1, &work, row_keep, &row) == -E2BIG)
		row = row_rare();
	return row;
}

int cfi_step(struct cfi *cfi, uint64_t off, struct unwind_state *state,
	     struct unwind_reader *reader)
{
	struct unwind_state old = *state;
	struct cfi_expr_env env = { .state = &old, .reader = reader };
	const struct elf_segment *seg = cfi_segment_of(cfi, off);
	int err, table = -1;
	struct eh_pass *pass;
	uint64_t rva, row;

	if (!seg)
		return BPFPROF_STOP_NO_TABLE;
	rva = off - seg->off + seg->va;
	if (cfi_pass_new(cfi, &pass))
		return BPFPROF_STOP_MISS_FILE;
	unwind_settle(&old, reader);
	env.bias = unwind_lookup_pc(state) - rva;
	err = BPFPROF_STOP_NO_TABLE;
	while (err == BPFPROF_STOP_NO_TABLE && (table = cfi_frame_after(cfi, table)) < NR_TABLES) {
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

int cfi_function(struct cfi *cfi, uint64_t rva, uint64_t *ret_start, uint64_t *ret_end)
{
	struct eh_pass *pass;
	struct eh_fde fde;
	uint64_t end;
	int err = cfi_pass_new(cfi, &pass), table = -1;

	if (err)
		return err;
	err = -ENODATA;
	while (err == -ENODATA && (table = cfi_frame_after(cfi, table)) < NR_TABLES)
		err = fde_find(&cfi->frames[table], pass, rva, &fde, &end);
	free(pass);
	if (!err) {
		*ret_start = fde.start;
		*ret_end = end;
	}
	return err;
}
