// SPDX-License-Identifier: Apache-2.0
#include "unwind/cfi_program.h"

#include <dwarf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

static int rule_set(struct cfi_state *state, uint64_t reg, uint32_t kind, int64_t value)
{
	if (reg < BPFPROF_NR_REGS) /* vector registers and the like do not matter here */
		state->regs[reg] = (struct cfi_rule){ .kind = kind, .value = value };
	return 0;
}

/* Offsets wrap, as in other readers: clang writes negative ones as unsigned numbers. */
static int64_t factored(const struct cfi_program *prog, uint64_t value)
{
	return (int64_t)(value * (uint64_t)prog->cie->data_align);
}

static int rule_set_register(struct cfi_program *prog, uint64_t reg, uint64_t from)
{
	return from > INT64_MAX ? -EBADMSG
				: rule_set(&prog->state, reg, RULE_REGISTER, (int64_t)from);
}

/* ret may be NULL: the expression is skipped. */
static int expression_read(struct cfi_program *prog, uint32_t kind, struct cfi_rule *ret)
{
	uint64_t len = cursor_uleb(&prog->cur);
	uint64_t off = cursor_block(&prog->cur, len);

	if (len > UINT32_MAX || off > INT64_MAX)
		return -EBADMSG;
	if (ret)
		*ret = (struct cfi_rule){ .kind = kind,
					  .len = (uint32_t)len,
					  .value = (int64_t)off };
	return 0;
}

static int rule_set_expression(struct cfi_program *prog, uint32_t kind)
{
	uint64_t reg = cursor_uleb(&prog->cur);

	return expression_read(prog, kind, reg < BPFPROF_NR_REGS ? &prog->state.regs[reg] : NULL);
}

/* A register, and an offset that is signed or not. */
static int rule_set_factored(struct cfi_program *prog, uint32_t kind, bool is_signed)
{
	uint64_t reg = cursor_uleb(&prog->cur);
	uint64_t off = is_signed ? (uint64_t)cursor_sleb(&prog->cur) : cursor_uleb(&prog->cur);

	return rule_set(&prog->state, reg, kind, factored(prog, off));
}

static int rule_restore(struct cfi_program *prog, uint64_t reg)
{
	if (prog->initial) /* there is no earlier rule */
		return -EBADMSG;
	if (reg < BPFPROF_NR_REGS)
		prog->state.regs[reg] = prog->cie->initial.regs[reg];
	return 0;
}

static int cfa_set(struct cfi_program *prog, uint64_t reg, int64_t off)
{
	prog->state.cfa.reg = reg;
	prog->state.cfa.rule = (struct cfi_rule){ .kind = RULE_REGISTER, .value = off };
	return 0;
}

static int state_remember(struct cfi_program *prog)
{
	if (prog->nr_remembered == CFI_MAX_REMEMBERED)
		return -EBADMSG;
	prog->remembered[prog->nr_remembered++] = prog->state;
	return 0;
}

static int state_restore(struct cfi_program *prog)
{
	if (!prog->nr_remembered)
		return -EBADMSG;
	prog->state = prog->remembered[--prog->nr_remembered];
	return 0;
}

static int location_set(struct cfi_program *prog, uint64_t next)
{
	if (prog->initial || next < prog->next)
		return -EBADMSG;
	prog->next = next;
	return 0;
}

static int location_advance(struct cfi_program *prog, uint64_t factored)
{
	uint64_t delta, next;

	if (__builtin_mul_overflow(factored, prog->cie->code_align, &delta) ||
	    __builtin_add_overflow(prog->next, delta, &next))
		return -EBADMSG;
	return location_set(prog, next);
}

/* The instructions that change the rule of the cfa or the place in the code. */
static int instruction_run_cfa(struct cfi_program *prog, uint8_t op)
{
	struct frame_cursor *cur = &prog->cur;
	uint64_t reg;

	switch (op) {
	case DW_CFA_set_loc:
		return location_set(prog, cursor_pointer(cur, prog->cie->pointer_enc, 0));
	case DW_CFA_advance_loc1:
		return location_advance(prog, cursor_u8(cur));
	case DW_CFA_advance_loc2:
		return location_advance(prog, cursor_uint(cur, 2));
	case DW_CFA_advance_loc4:
		return location_advance(prog, cursor_uint(cur, 4));
	case DW_CFA_def_cfa:
		reg = cursor_uleb(cur);
		return cfa_set(prog, reg, (int64_t)cursor_uleb(cur));
	case DW_CFA_def_cfa_sf:
		reg = cursor_uleb(cur);
		return cfa_set(prog, reg, factored(prog, (uint64_t)cursor_sleb(cur)));
	case DW_CFA_def_cfa_expression:
		return expression_read(prog, RULE_VAL_EXPRESSION, &prog->state.cfa.rule);
	}
	if (prog->state.cfa.rule.kind !=
	    RULE_REGISTER) /* the others change one part of such a rule */
		return -EBADMSG;
	switch (op) {
	case DW_CFA_def_cfa_register:
		return cfa_set(prog, cursor_uleb(cur), prog->state.cfa.rule.value);
	case DW_CFA_def_cfa_offset:
		return cfa_set(prog, prog->state.cfa.reg, (int64_t)cursor_uleb(cur));
	case DW_CFA_def_cfa_offset_sf:
		return cfa_set(prog, prog->state.cfa.reg,
			       factored(prog, (uint64_t)cursor_sleb(cur)));
	}
	return -EBADMSG;
}

static int instruction_run(struct cfi_program *prog)
{
	struct frame_cursor *cur = &prog->cur;
	struct cfi_state *state = &prog->state;
	uint8_t op = cursor_u8(cur), low = op & 0x3f;
	uint64_t reg;

	switch (op & 0xc0) {
	case DW_CFA_advance_loc:
		return location_advance(prog, low);
	case DW_CFA_offset:
		return rule_set(state, low, RULE_OFFSET, factored(prog, cursor_uleb(cur)));
	case DW_CFA_restore:
		return rule_restore(prog, low);
	}
	switch (op) {
	case DW_CFA_nop:
		return 0;
	case DW_CFA_offset_extended:
		return rule_set_factored(prog, RULE_OFFSET, false);
	case DW_CFA_offset_extended_sf:
		return rule_set_factored(prog, RULE_OFFSET, true);
	case DW_CFA_GNU_negative_offset_extended:
		reg = cursor_uleb(cur);
		return rule_set(state, reg, RULE_OFFSET, factored(prog, -cursor_uleb(cur)));
	case DW_CFA_val_offset:
		return rule_set_factored(prog, RULE_VAL_OFFSET, false);
	case DW_CFA_val_offset_sf:
		return rule_set_factored(prog, RULE_VAL_OFFSET, true);
	case DW_CFA_restore_extended:
		return rule_restore(prog, cursor_uleb(cur));
	case DW_CFA_undefined:
		return rule_set(state, cursor_uleb(cur), RULE_UNDEFINED, 0);
	case DW_CFA_same_value:
		return rule_set(state, cursor_uleb(cur), RULE_SAME, 0);
	case DW_CFA_register:
		reg = cursor_uleb(cur);
		return rule_set_register(prog, reg, cursor_uleb(cur));
	case DW_CFA_expression:
		return rule_set_expression(prog, RULE_EXPRESSION);
	case DW_CFA_val_expression:
		return rule_set_expression(prog, RULE_VAL_EXPRESSION);
	case DW_CFA_remember_state:
		return state_remember(prog);
	case DW_CFA_restore_state:
		return state_restore(prog);
	case DW_CFA_GNU_args_size: /* pushed arguments: only exceptions need them */
		cursor_uleb(cur);
		return 0;
	}
	return instruction_run_cfa(prog, op);
}

static int program_step(struct cfi_program *prog)
{
	int err = frame_blocks_work(prog->cur.blocks, 1);

	if (!err)
		err = instruction_run(prog);
	return prog->cur.error ? prog->cur.error : err;
}

int cfi_program_run_cie(struct cfi_program *prog, const struct frame_cursor *cur,
			struct cfi_cie *cie)
{
	int err = 0;

	prog->cur = *cur;
	prog->cie = cie;
	prog->initial = true;
	prog->nr_remembered = 0;
	memset(&prog->state, 0, sizeof(prog->state));
	prog->state.cfa.rule.kind = RULE_UNDEFINED;
	while (!err && prog->cur.off < prog->cur.end)
		err = program_step(prog);
	if (!err)
		cie->initial = prog->state;
	return err;
}

void cfi_program_init(struct cfi_program *prog, const struct frame_cursor *cur,
		      const struct cfi_cie *cie, uint64_t start, uint64_t limit)
{
	prog->cur = *cur;
	prog->cie = cie;
	prog->start = prog->end = prog->next = start;
	prog->limit = limit;
	prog->initial = false;
	prog->nr_remembered = 0;
	prog->state = cie->initial;
}

int cfi_program_next(struct cfi_program *prog)
{
	int err;

	if (prog->end >= prog->limit)
		return 0;
	prog->start = prog->end;
	while (prog->next == prog->start && prog->cur.off < prog->cur.end) {
		err = program_step(prog);
		if (err)
			return err;
	}
	prog->end = prog->next > prog->start && prog->next < prog->limit ? prog->next : prog->limit;
	return 1;
}

struct frame_cursor cfi_program_expr(const struct cfi_program *prog, const struct cfi_rule *rule)
{
	struct frame_cursor cur;
	uint64_t off = (uint64_t)rule->value;

	cursor_init(&cur, prog->cur.blocks, off, off + rule->len, prog->cur.va_delta);
	return cur;
}

bool cfi_cfa_is_entry(const struct cfi_cfa *cfa)
{
	return cfa->rule.kind == RULE_REGISTER && cfa->reg == UNWIND_SP &&
	       cfa->rule.value == CALL_PUSHES;
}
