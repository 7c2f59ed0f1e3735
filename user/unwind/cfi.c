// SPDX-License-Identifier: Apache-2.0
#include "unwind/cfi.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/image.h"
#include "unwind/cfi_expr.h"
#include "unwind/eh_frame.h"
#include "unwind/reader.h"
#include "unwind_native.h"

#define PAGE_BYTES (1ULL << BPFPROF_PAGE_SHIFT)
#define PAGE_WORK (1 << 20)
#define ROW_OFF_MIN (-0x8000 * 8)
#define ROW_OFF_MAX (0x7fff * 8)
#define ROW_BP_OFF_MIN (-0x2000 * 8)
#define ROW_BP_OFF_MAX (0x1fff * 8)
#define ROW_SECOND_MIN (-0x80 * 8)
#define ROW_SECOND_MAX (0x7f * 8)

struct cfi {
	struct elf_image *img;
	struct eh_frame frame;
	int error; /* of making the index: it is not tried again */
	size_t nr_code;
	struct elf_segment code[ELF_IMAGE_MAX_SEGMENTS]; /* executable, by file offset */
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
	int err;

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
	free(cfi);
}

size_t cfi_bytes(const struct cfi *cfi)
{
	return sizeof(*cfi) + (cfi->frame.index ? cfi->frame.nr * sizeof(*cfi->frame.index) : 0);
}

/* Working memory for one call, with the FDEs ready to be looked up. */
static int pass_new(struct cfi *cfi, struct eh_pass **ret)
{
	struct eh_pass *pass;

	if (!cfi->error)
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

static struct frame_cursor expr_cursor(const struct cfi_program *prog, const struct cfi_rule *rule)
{
	struct frame_cursor cur;
	uint64_t off = (uint64_t)rule->value;

	cursor_init(&cur, prog->cur.blocks, off, off + rule->len, prog->cur.va_delta);
	return cur;
}

static int expr_shape(const struct cfi_program *prog, const struct cfi_rule *rule,
		      struct cfi_expr_shape *ret)
{
	return cfi_expr_classify(expr_cursor(prog, rule), ret);
}

static bool fits(int64_t off, int64_t min, int64_t max)
{
	return !(off & 7) && off >= min && off <= max;
}

static uint64_t row_rare(void)
{
	return unwind_row_make(0, ROW_RARE, 0, 0, 0, 0, 0);
}

static uint64_t row_none(void)
{
	return unwind_row_make(0, ROW_NONE, 0, 0, 0, 0, 0);
}

/*
 * A signal frame describes every register as saved in the ucontext that rsp points near to.
 * All of them must lie as in struct sigcontext, and the cfa must be the saved rsp.
 */
static int row_make_signal(const struct cfi_program *prog, uint64_t *row)
{
	static const uint8_t order[] = { 8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16 };
	const struct cfi_state *state = &prog->state;
	struct cfi_expr_shape shape;
	int64_t base = 0;
	int err;

	*row = row_rare();
	for (size_t i = 0; i < sizeof(order); i++) {
		const struct cfi_rule *rule = &state->regs[order[i]];

		if (rule->kind != RULE_EXPRESSION)
			return 0;
		err = expr_shape(prog, rule, &shape);
		if (err)
			return err;
		if (!i)
			base = shape.off;
		if (shape.kind != EXPR_REG || shape.reg != UNWIND_RSP ||
		    !fits(base, ROW_OFF_MIN, ROW_OFF_MAX) || shape.off != base + (int64_t)i * 8)
			return 0;
	}
	if (state->cfa.rule.kind != RULE_VAL_EXPRESSION)
		return 0;
	err = expr_shape(prog, &state->cfa.rule, &shape);
	if (err)
		return err;
	if (shape.kind == EXPR_DEREF && shape.reg == UNWIND_RSP && shape.off == base + 15 * 8 &&
	    !shape.second)
		*row = unwind_row_make(0, ROW_SIGNAL, UNWIND_RSP, (int32_t)(base / 8), BP_SAME, 0,
				       0);
	return 0;
}

/* How the cfa is computed. A program that never defines it is malformed. */
static int cfa_shape(const struct cfi_program *prog, struct cfi_expr_shape *shape)
{
	const struct cfi_cfa *cfa = &prog->state.cfa;

	switch (cfa->rule.kind) {
	case RULE_REGISTER:
		*shape = (struct cfi_expr_shape){ .kind = EXPR_REG,
						  .reg = cfa->reg,
						  .off = cfa->rule.value };
		return 0;
	case RULE_VAL_EXPRESSION:
		return expr_shape(prog, &cfa->rule, shape);
	}
	return -EBADMSG;
}

/* The rule of rbp as a row has it: 0 with *ret_rule and *ret_off, 1 if none fits, or -errno. */
static int bp_rule(const struct cfi_program *prog, const struct cfi_expr_shape *cfa,
		   enum unwind_bp_rule *ret_rule, int64_t *ret_off)
{
	const struct cfi_rule *rule = &prog->state.regs[UNWIND_RBP];
	struct cfi_expr_shape shape;
	int err;

	*ret_off = 0;
	switch (rule->kind) {
	case RULE_UNSPECIFIED:
	case RULE_SAME:
		*ret_rule = BP_SAME;
		return 0;
	case RULE_UNDEFINED:
		*ret_rule = BP_LOST;
		return 0;
	case RULE_OFFSET:
		*ret_rule = BP_AT_CFA;
		*ret_off = rule->value;
		break;
	case RULE_REGISTER:
		*ret_rule = BP_SAME;
		return rule->value != UNWIND_RBP;
	case RULE_EXPRESSION:
		err = expr_shape(prog, rule, &shape);
		if (err)
			return err;
		if (shape.kind != EXPR_REG)
			return 1;
		if (shape.reg == UNWIND_RBP) {
			*ret_rule = BP_AT_BP;
			*ret_off = shape.off;
		} else if (cfa->kind == EXPR_REG && shape.reg == cfa->reg) {
			*ret_rule = BP_AT_CFA;
			if (__builtin_sub_overflow(shape.off, cfa->off, ret_off))
				return 1;
		} else {
			return 1;
		}
		break;
	default:
		return 1;
	}
	return !fits(*ret_off, ROW_BP_OFF_MIN, ROW_BP_OFF_MAX);
}

/* The rule of rbx as ROW_CFA has it in its second number. */
static int64_t bx_rule(const struct cfi_state *state)
{
	const struct cfi_rule *rule = &state->regs[UNWIND_RBX];

	if (rule->kind == RULE_UNSPECIFIED || rule->kind == RULE_SAME)
		return 0;
	if (rule->kind == RULE_OFFSET && fits(rule->value, ROW_SECOND_MIN, -8))
		return rule->value / 8;
	return 1;
}

/* Is the caller's rsp the cfa, as nearly everywhere? */
static bool sp_is_cfa(const struct cfi_state *state)
{
	const struct cfi_rule *rule = &state->regs[UNWIND_RSP];

	return rule->kind == RULE_UNSPECIFIED || (rule->kind == RULE_VAL_OFFSET && !rule->value);
}

/* The row for prog->state with 0 as its address, ROW_RARE also after errors of reading. */
static int row_make(const struct cfi_program *prog, uint64_t *row)
{
	const struct cfi_state *state = &prog->state;
	const struct cfi_rule *ra = &state->regs[UNWIND_RIP];
	enum unwind_bp_rule rule;
	struct cfi_expr_shape cfa;
	enum unwind_row_kind kind;
	int64_t bp_off, second = 0;
	int err;

	*row = row_rare();
	if (prog->cie->ra_reg != UNWIND_RIP)
		return 0;
	if (ra->kind == RULE_UNDEFINED) {
		*row = unwind_row_make(0, ROW_END, 0, 0, 0, 0, 0);
		return 0;
	}
	if (prog->cie->signal)
		return row_make_signal(prog, row);
	if (ra->kind != RULE_OFFSET || ra->value != -8 || !sp_is_cfa(state))
		return 0;
	err = cfa_shape(prog, &cfa);
	if (err)
		return err;
	err = bp_rule(prog, &cfa, &rule, &bp_off);
	if (err)
		return err < 0 ? err : 0;
	if (cfa.reg >= UNWIND_RIP || !fits(cfa.off, ROW_OFF_MIN, ROW_OFF_MAX))
		return 0;
	switch (cfa.kind) {
	case EXPR_REG:
		kind = ROW_CFA;
		second = bx_rule(state);
		break;
	case EXPR_DEREF:
	case EXPR_INDEX:
		if (!fits(cfa.second, ROW_SECOND_MIN, ROW_SECOND_MAX))
			return 0;
		kind = cfa.kind == EXPR_DEREF ? ROW_DEREF : ROW_INDEX;
		second = cfa.second / 8;
		break;
	case EXPR_PLT:
		kind = ROW_PLT;
		second = cfa.second;
		break;
	default:
		return 0;
	}
	*row = unwind_row_make(0, kind, (uint32_t)cfa.reg, (int32_t)(cfa.off / 8), rule,
			       (int32_t)(bp_off / 8), (int32_t)second);
	return 0;
}

struct page_build {
	struct cfi *cfi;
	struct eh_pass *pass;
	uint64_t *rows;
	int nr;
	uint64_t pos; /* file offset up to which the rows reach */
	uint64_t end; /* of the page, or of the part of a segment in it */
	uint64_t va_delta; /* image-relative address minus file offset in that part */
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

/* Addresses [start, end) have this row; what was passed over has none. */
static void page_add(struct page_build *b, uint64_t start, uint64_t end, uint64_t row)
{
	uint64_t first = b->pos + b->va_delta, limit = b->end + b->va_delta;

	start = start < first ? first : start < limit ? start : limit;
	end = end < start ? start : end < limit ? end : limit;
	page_append(b, start - b->va_delta, row_none());
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
		err = row_make(prog, &row);
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
	page_append(b, seg->off, row_none());
	b->end = end < page_end ? end : page_end;
	b->va_delta = seg->va - seg->off;
	err = page_add_fdes(b);
	if (err == -EBADMSG || err == -E2BIG) { /* the table is broken from here on */
		page_append(b, b->end, row_rare());
		err = 0;
	}
	if (!err)
		page_append(b, b->end, row_none());
	return err;
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
	page_append(&b, page_end, row_none());
	free(b.pass);
	return err ? err : b.nr;
}

/* The program of the function that has rva, run up to there. 0, or enum bpfprof_stop. */
static int program_find(struct cfi *cfi, struct eh_pass *pass, uint64_t rva)
{
	struct cfi_program *prog = &pass->prog;
	uint64_t start, next;
	struct eh_fde fde;
	size_t i;
	int err;

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

struct cfi_eval {
	const struct cfi_program *prog;
	struct cfi_expr_env env;
	uint64_t cfa;
};

static int cfa_eval(struct cfi_eval *eval)
{
	const struct cfi_cfa *cfa = &eval->prog->state.cfa;

	switch (cfa->rule.kind) {
	case RULE_REGISTER:
		if (cfa->reg >= BPFPROF_NR_REGS)
			return BPFPROF_STOP_BAD_CFI;
		if (!(eval->env.state->valid & 1U << cfa->reg))
			return BPFPROF_STOP_REG_LOST;
		eval->cfa = eval->env.state->regs[cfa->reg] + (uint64_t)cfa->rule.value;
		return 0;
	case RULE_VAL_EXPRESSION:
		return cfi_expr_eval(expr_cursor(eval->prog, &cfa->rule), &eval->env, NULL,
				     &eval->cfa);
	}
	return BPFPROF_STOP_BAD_CFI;
}

/* Registers that a function gives back as they were: rbx rbp rsp r12-r15 (psABI 3.2.1). */
static bool reg_is_preserved(uint32_t reg)
{
	return reg == UNWIND_RBX || reg == UNWIND_RBP || (reg >= 12 && reg <= 15);
}

static int saved_read(const struct cfi_eval *eval, uint64_t va, uint64_t *ret)
{
	__u64 value;

	if (unwind_read_u64(eval->env.reader, va, &value))
		return BPFPROF_STOP_READ_FAULT;
	*ret = value;
	return 0;
}

/* The caller's value of one register: 0, or why it is not known. */
static int reg_eval(const struct cfi_eval *eval, uint32_t reg, uint64_t *ret)
{
	const struct cfi_rule *rule = &eval->prog->state.regs[reg];
	const struct unwind_state *state = eval->env.state;
	uint64_t from = reg, va;
	int stop;

	switch (rule->kind) {
	case RULE_UNSPECIFIED:
		if (reg == UNWIND_RSP) {
			*ret = eval->cfa;
			return 0;
		}
		if (!reg_is_preserved(reg) && !eval->prog->cie->signal)
			return BPFPROF_STOP_REG_LOST;
		break;
	case RULE_UNDEFINED:
		return BPFPROF_STOP_REG_LOST;
	case RULE_REGISTER:
		from = (uint64_t)rule->value;
		break;
	case RULE_OFFSET:
		va = eval->cfa + (uint64_t)rule->value;
		return saved_read(eval, va, ret);
	case RULE_VAL_OFFSET:
		*ret = eval->cfa + (uint64_t)rule->value;
		return 0;
	case RULE_EXPRESSION:
	case RULE_VAL_EXPRESSION:
		stop = cfi_expr_eval(expr_cursor(eval->prog, rule), &eval->env, &eval->cfa, &va);
		if (stop)
			return stop;
		if (rule->kind == RULE_EXPRESSION)
			return saved_read(eval, va, ret);
		*ret = va;
		return 0;
	}
	if (from >= BPFPROF_NR_REGS || !(state->valid & 1U << from))
		return BPFPROF_STOP_REG_LOST;
	*ret = state->regs[from];
	return 0;
}

static int state_eval(struct cfi_eval *eval, struct unwind_state *ret)
{
	const struct cfi_cie *cie = eval->prog->cie;
	struct unwind_state up = { 0 };
	uint64_t value, ra = 0;
	int stop;

	if (cie->ra_reg >= CFI_NR_RULES)
		return BPFPROF_STOP_BAD_CFI;
	switch (eval->prog->state.regs[cie->ra_reg].kind) {
	case RULE_UNDEFINED:
		return BPFPROF_STOP_COMPLETE;
	case RULE_UNSPECIFIED:
		return BPFPROF_STOP_BAD_CFI;
	}
	stop = cfa_eval(eval);
	if (stop)
		return stop;
	for (uint32_t i = 0; i < BPFPROF_NR_REGS; i++) {
		stop = reg_eval(eval, i, &value);
		if (!stop) {
			up.regs[i] = value;
			up.valid |= 1U << i;
		}
		if (stop && (i == cie->ra_reg || i == UNWIND_RSP))
			return stop;
		if (i == cie->ra_reg)
			ra = value;
	}
	up.regs[UNWIND_RIP] = ra;
	up.valid |= 1U << UNWIND_RIP;
	up.exact = cie->signal;
	/* Only where the return address is in a register (vfork) need nothing have been popped. */
	if (!cie->signal && up.regs[UNWIND_RSP] <= eval->env.state->regs[UNWIND_RSP] &&
	    (up.regs[UNWIND_RSP] < eval->env.state->regs[UNWIND_RSP] ||
	     eval->prog->state.regs[cie->ra_reg].kind != RULE_REGISTER))
		return BPFPROF_STOP_BAD_FRAME;
	*ret = up;
	return ra ? 0 : BPFPROF_STOP_COMPLETE;
}

int cfi_step(struct cfi *cfi, uint64_t off, struct unwind_state *state,
	     struct unwind_reader *reader)
{
	struct unwind_state old = *state;
	struct cfi_eval eval = { .env = { .state = &old, .reader = reader } };
	const struct elf_segment *seg = cfi->code;
	struct eh_pass *pass;
	uint64_t rva;
	size_t i;
	int err;

	for (i = 0; i < cfi->nr_code; i++, seg++)
		if (off >= seg->off && off - seg->off < seg->file_bytes)
			break;
	if (i == cfi->nr_code)
		return BPFPROF_STOP_NO_TABLE;
	rva = off - seg->off + seg->va;
	err = pass_new(cfi, &pass);
	if (err)
		return err == -ENODATA ? BPFPROF_STOP_NO_TABLE : BPFPROF_STOP_MISS_FILE;
	unwind_settle(&old, reader);
	eval.prog = &pass->prog;
	eval.env.bias = unwind_lookup_pc(state) - rva;
	err = program_find(cfi, pass, rva);
	if (!err)
		err = state_eval(&eval, state);
	free(pass);
	return err;
}
