// SPDX-License-Identifier: Apache-2.0
#include "unwind/cfi_row.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "unwind/cfi_expr.h"
#include "unwind/cfi_program.h"
#include "unwind/reader.h"
#include "unwind_native.h"

#define SIGNAL_SP 15 /* number of the stack pointer among the words of uc_mcontext */
#define ROW_OFF_MIN (-0x8000 * 8)
#define ROW_OFF_MAX (0x7fff * 8)
#define ROW_BP_OFF_MIN (-0x2000 * 8)
#define ROW_BP_OFF_MAX (0x1fff * 8)
#define ROW_SECOND_MIN (-0x80 * 8)
#define ROW_SECOND_MAX (0x7f * 8)

static int expr_shape(const struct cfi_program *prog, const struct cfi_rule *rule,
		      struct cfi_expr_shape *ret)
{
	return cfi_expr_classify(cfi_program_expr(prog, rule), ret);
}

static bool fits(int64_t off, int64_t min, int64_t max)
{
	return !(off & 7) && off >= min && off <= max;
}

static uint64_t row_rare(void)
{
	return unwind_row_make(0, ROW_RARE, 0, 0, 0, 0, 0);
}

/*
 * A signal frame describes every register as saved in the ucontext near the stack pointer. All of
 * them must lie as in struct sigcontext, and the cfa must be the saved stack pointer.
 */
static int row_make_signal(const struct cfi_program *prog, uint64_t *row)
{
	static const uint8_t order[] = UNWIND_SIGNAL_ORDER;
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
		if (shape.kind != EXPR_REG || shape.reg != UNWIND_SP ||
		    !fits(base, ROW_OFF_MIN, ROW_OFF_MAX) || shape.off != base + (int64_t)i * 8)
			return 0;
	}
	if (state->cfa.rule.kind != RULE_VAL_EXPRESSION)
		return 0;
	err = expr_shape(prog, &state->cfa.rule, &shape);
	if (err)
		return err;
	if (shape.kind == EXPR_DEREF && shape.reg == UNWIND_SP &&
	    shape.off == base + SIGNAL_SP * 8 && !shape.second)
		*row = unwind_row_make(0, ROW_SIGNAL, UNWIND_SP, (int32_t)(base / 8), BP_SAME, 0,
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

/* The rule of the frame pointer in a row: 0 with *ret_rule and *ret_off, 1 if none fits, or -errno. */
static int bp_rule(const struct cfi_program *prog, const struct cfi_expr_shape *cfa,
		   enum unwind_bp_rule *ret_rule, int64_t *ret_off)
{
	const struct cfi_rule *rule = &prog->state.regs[UNWIND_FP];
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
		return rule->value != UNWIND_FP;
	case RULE_EXPRESSION:
		err = expr_shape(prog, rule, &shape);
		if (err)
			return err;
		if (shape.kind != EXPR_REG)
			return 1;
		if (shape.reg == UNWIND_FP) {
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

/* The rule of the base register: the second number of a ROW_CFA. */
static int64_t bx_rule(const struct cfi_state *state)
{
	const struct cfi_rule *rule = &state->regs[UNWIND_BASE];

	if (rule->kind == RULE_UNSPECIFIED || rule->kind == RULE_SAME)
		return 0;
	if (rule->kind == RULE_OFFSET && fits(rule->value, ROW_SECOND_MIN, -8))
		return rule->value / 8;
	return 1;
}

/* Is the caller's stack pointer the cfa, as nearly everywhere? */
static bool sp_is_cfa(const struct cfi_state *state)
{
	const struct cfi_rule *rule = &state->regs[UNWIND_SP];

	return rule->kind == RULE_UNSPECIFIED || (rule->kind == RULE_VAL_OFFSET && !rule->value);
}

int cfi_row_make(const struct cfi_program *prog, uint64_t *row)
{
	const struct cfi_state *state = &prog->state;
	const struct cfi_rule *ra = &state->regs[UNWIND_PC];
	enum unwind_bp_rule rule;
	struct cfi_expr_shape cfa;
	enum unwind_row_kind kind;
	int64_t bp_off, second = 0;
	int err;

	*row = row_rare();
	if (prog->cie->ra_reg != UNWIND_PC)
		return 0;
	if (ra->kind == RULE_UNDEFINED) {
		*row = unwind_row_make(0, ROW_END, 0, 0, 0, 0, 0);
		return 0;
	}
	if (prog->cie->signal)
		return row_make_signal(prog, row);
	if (ra->kind != RULE_OFFSET || ra->value != UNWIND_RETURN_OFF || !sp_is_cfa(state))
		return 0;
	err = cfa_shape(prog, &cfa);
	if (err)
		return err;
	err = bp_rule(prog, &cfa, &rule, &bp_off);
	if (err)
		return err < 0 ? err : 0;
	if (cfa.reg >= UNWIND_PC || !fits(cfa.off, ROW_OFF_MIN, ROW_OFF_MAX))
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
		if (bx_rule(state)) /* such a row means that the base register keeps its value */
			return 0;
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
