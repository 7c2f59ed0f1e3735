// SPDX-License-Identifier: Apache-2.0
#include "unwind/cfi.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

struct cfi {
	struct elf_image *img;
	struct eh_frame frame;
	bool has_frame; /* else there is no .eh_frame */
	struct go_table go; /* img NULL: there is none, or it is malformed */
	int error; /* of making the index: it is not tried again */
	size_t nr_code;
	struct elf_segment code[ELF_IMAGE_MAX_SEGMENTS]; /* executable, by file offset */
	struct code_rule *learned; /* by offset */
	size_t nr_learned, cap_learned;
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
	int err, go_err;
	size_t nr;

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
	err = eh_frame_init(&cfi->frame, img);
	cfi->has_frame = !err;
	if (!err || err == -ENODATA) {
		go_err = go_table_find(&cfi->go, img);
		if (!go_err || (go_err != -ENODATA && go_err != -EBADMSG))
			err = go_err;
	}
	if (err) {
		cfi_free(cfi);
		return err;
	}
	*ret = cfi;
	return 0;
}

void cfi_free(struct cfi *cfi)
{
	if (!cfi)
		return;
	eh_frame_fini(&cfi->frame);
	free(cfi->learned);
	free(cfi);
}

size_t cfi_bytes(const struct cfi *cfi)
{
	return sizeof(*cfi) + cfi->cap_learned * sizeof(*cfi->learned) +
	       (cfi->frame.index ? cfi->frame.nr * sizeof(*cfi->frame.index) : 0);
}

/* Working memory for one call, with the FDEs ready to be looked up. */
static int pass_new(struct cfi *cfi, struct eh_pass **ret)
{
	struct eh_pass *pass;

	if (!cfi->error && cfi->has_frame)
		cfi->error = eh_frame_prepare(&cfi->frame);
	if (cfi->error)
		return cfi->error;
	pass = malloc(sizeof(*pass));
	if (!pass)
		return -ENOMEM;
	eh_pass_init(pass, &cfi->frame, PAGE_WORK);
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
	uint64_t end; /* of the page, or of the part of a segment in it */
	uint64_t va_delta; /* image-relative address minus file offset in that part */
	bool in_segment;
	int err; /* of reading Go's table */
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

/* Up to end no table says anything: what was learned, or nothing. */
static void page_append_learned(struct page_build *b, uint64_t end)
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

static void page_add_go(void *arg, uint64_t start, uint64_t end, uint64_t row)
{
	struct page_build *b = arg;

	page_append_learned(b, start - b->va_delta);
	page_append(b, end - b->va_delta, row);
}

/* Up to end no FDE says anything: what Go's table says, or was learned. */
static void page_append_gap(struct page_build *b, uint64_t end)
{
	int err;

	if (b->in_segment && b->cfi->go.img && end > b->pos) {
		err = go_rows_make(&b->cfi->go, b->pos + b->va_delta, end + b->va_delta,
				   page_add_go, b);
		if (err && err != -EBADMSG)
			b->err = err;
	}
	page_append_learned(b, end);
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

static int page_add_fdes(struct page_build *b)
{
	struct eh_frame *frame = &b->cfi->frame;
	uint64_t start, next, end = b->end + b->va_delta;
	struct eh_fde fde;
	size_t i;
	int err;

	if (!b->cfi->has_frame)
		return 0;
	err = eh_frame_find(frame, b->pass, b->pos + b->va_delta, &i);
	while (!err && b->pos < b->end && i < frame->nr) {
		err = eh_frame_get(frame, b->pass, &i, &fde, &start, &next);
		if ((!err || err == -EBADMSG) && start >= end)
			return 0;
		if (err == -EBADMSG && next > start) { /* not all of it is lost */
			page_add(b, start, next, row_rare());
			err = 0;
		} else if (!err && fde.end > fde.start) {
			err = page_add_fde(b, &fde, fde.end < next ? fde.end : next);
		}
	}
	return err;
}

/* The part of the page that a segment covers. */
static int page_add_segment(struct page_build *b, const struct elf_segment *seg, uint64_t page_end)
{
	uint64_t end = seg->off + seg->file_bytes;
	int err;

	if (end <= b->pos || seg->off >= page_end)
		return 0;
	page_append_gap(b, seg->off);
	b->end = end < page_end ? end : page_end;
	b->va_delta = seg->va - seg->off;
	b->in_segment = true;
	err = page_add_fdes(b);
	if (err == -EBADMSG || err == -E2BIG) { /* the table is broken from here on */
		page_append(b, b->end, row_rare());
		err = 0;
	}
	if (!err)
		page_append_gap(b, b->end);
	b->in_segment = false;
	return err ? err : b->err;
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

struct fde_search {
	struct cfi *cfi;
	const struct elf_segment *seg;
	struct eh_pass *pass;
};

static bool fde_starts(void *arg, uint64_t off)
{
	struct fde_search *search = arg;
	uint64_t rva = off - search->seg->off + search->seg->va, start, next;
	struct eh_frame *frame = &search->cfi->frame;
	struct eh_fde fde;
	size_t i;

	return search->cfi->has_frame && !eh_frame_find(frame, search->pass, rva, &i) &&
	       i < frame->nr && !eh_frame_get(frame, search->pass, &i, &fde, &start, &next) &&
	       start == rva;
}

int cfi_code_rules(struct cfi *cfi, uint64_t off, struct code_rule *rules, size_t cap)
{
	struct fde_search search = { .cfi = cfi, .seg = segment_of(cfi, off) };
	struct code_area area = { .img = cfi->img, .function_starts = fde_starts, .arg = &search };
	int nr;

	if (!search.seg)
		return -ENODATA;
	area.start = search.seg->off;
	area.end = search.seg->off + search.seg->file_bytes;
	if (pass_new(cfi, &search.pass))
		area.function_starts = NULL;
	nr = code_rules_find(&area, off, rules, cap);
	free(search.pass);
	return nr;
}

static int learn(struct cfi *cfi, uint64_t off, bool exact, struct code_rule *rules,
		 cfi_check_fn check, void *arg)
{
	uint64_t from = exact ? off : off + 1;
	int nr = cfi_code_rules(cfi, from, rules, LEARN_AT_ONCE), i, err;

	if (nr < 0 && nr != -ENODATA)
		return nr;
	for (i = 0; i < nr; i++)
		if (from >= rules[i].off && from - rules[i].off < rules[i].len)
			break;
	if (nr < 0 || i == nr || !check(arg, rules[i].row)) {
		rules[0] = (struct code_rule){
			.off = off,
			.len = UNKNOWN_BLOCK - (off & (UNKNOWN_BLOCK - 1)),
			.row = row_none(UNWIND_LOOKED_AT),
		};
		nr = 1;
	} else if (!exact && rules[i].off == from) {
		rules[i].off--;
		rules[i].len++;
	}
	err = learned_grow(cfi, (size_t)nr);
	for (i = 0; !err && i < nr; i++)
		learned_add(cfi, &rules[i]);
	return err;
}

int cfi_learn(struct cfi *cfi, uint64_t off, bool exact, cfi_check_fn check, void *arg)
{
	struct code_rule *rules;
	int err;

	rules = malloc(LEARN_AT_ONCE * sizeof(*rules));
	if (!rules)
		return -ENOMEM;
	err = learn(cfi, off, exact, rules, check, arg);
	free(rules);
	return err;
}

/* The program of the function that has rva, run up to there. 0, or enum bpfprof_stop. */
static int program_find(struct cfi *cfi, struct eh_pass *pass, uint64_t rva)
{
	struct cfi_program *prog = &pass->prog;
	uint64_t start, next;
	struct eh_fde fde;
	size_t i;
	int err;

	if (!cfi->has_frame)
		return BPFPROF_STOP_NO_TABLE;
	if (eh_frame_find(&cfi->frame, pass, rva, &i))
		return BPFPROF_STOP_BAD_CFI;
	if (i >= cfi->frame.nr)
		return BPFPROF_STOP_NO_TABLE;
	err = eh_frame_get(&cfi->frame, pass, &i, &fde, &start, &next);
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

/* The row of code that no FDE covers, 0 if nothing is known of it. */
static uint64_t row_without_fde(const struct cfi *cfi, uint64_t off, uint64_t rva)
{
	uint64_t row = 0;

	if (cfi->go.img)
		go_rows_make(&cfi->go, rva, rva + 1, row_keep, &row);
	return row ? row : learned_row(cfi, off);
}

int cfi_step(struct cfi *cfi, uint64_t off, struct unwind_state *state,
	     struct unwind_reader *reader)
{
	struct unwind_state old = *state;
	struct cfi_expr_env env = { .state = &old, .reader = reader };
	const struct elf_segment *seg = segment_of(cfi, off);
	struct eh_pass *pass;
	uint64_t rva, row;
	int err;

	if (!seg)
		return BPFPROF_STOP_NO_TABLE;
	rva = off - seg->off + seg->va;
	err = pass_new(cfi, &pass);
	if (err)
		return err == -ENODATA ? BPFPROF_STOP_NO_TABLE : BPFPROF_STOP_MISS_FILE;
	unwind_settle(&old, reader);
	env.bias = unwind_lookup_pc(state) - rva;
	err = program_find(cfi, pass, rva);
	if (!err)
		err = cfi_eval_caller(&pass->prog, &env, state);
	free(pass);
	row = err == BPFPROF_STOP_NO_TABLE ? row_without_fde(cfi, off, rva) : 0;
	return row && unwind_row_kind(row) != ROW_RARE ? unwind_step(state, row, reader) : err;
}
