// SPDX-License-Identifier: Apache-2.0
#include "unwind/cfi_eval.h"

#include <stdbool.h>
#include <stddef.h>

#include "unwind/cfi_expr.h"
#include "unwind/cfi_program.h"
#include "unwind/reader.h"
#include "unwind_native.h"

struct eval {
	const struct cfi_program *prog;
	struct cfi_expr_env env;
	uint64_t cfa;
};

static int cfa_eval(struct eval *eval)
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
		return cfi_expr_eval(cfi_program_expr(eval->prog, &cfa->rule), &eval->env, NULL,
				     &eval->cfa);
	}
	return BPFPROF_STOP_BAD_CFI;
}

static bool reg_is_preserved(uint32_t reg)
{
	static const uint32_t preserved[] = UNWIND_PRESERVED;
	size_t i;

	for (i = 0; i < UNWIND_NR_PRESERVED && preserved[i] != reg; i++)
		;
	return i < UNWIND_NR_PRESERVED;
}

static int saved_read(const struct eval *eval, uint64_t va, uint64_t *ret)
{
	__u64 value;

	if (unwind_read_u64(eval->env.reader, va, &value))
		return BPFPROF_STOP_READ_FAULT;
	*ret = value;
	return 0;
}

/* The caller's value of one register: 0, or the reason why it is not known. */
static int reg_eval(const struct eval *eval, uint32_t reg, uint64_t *ret)
{
	const struct cfi_rule *rule = &eval->prog->state.regs[reg];
	const struct unwind_state *state = eval->env.state;
	uint64_t from = reg, va;
	int stop;

	switch (rule->kind) {
	case RULE_UNSPECIFIED:
		if (reg == UNWIND_SP) {
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
		stop = cfi_expr_eval(cfi_program_expr(eval->prog, rule), &eval->env, &eval->cfa,
				     &va);
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

int cfi_eval_caller(const struct cfi_program *prog, const struct cfi_expr_env *env,
		    struct unwind_state *ret)
{
	struct eval eval = { .prog = prog, .env = *env };
	const struct cfi_cie *cie = prog->cie;
	struct unwind_state up = { 0 };
	uint64_t value, ra = 0;
	int stop;

	if (cie->ra_reg >= BPFPROF_NR_REGS)
		return BPFPROF_STOP_BAD_CFI;
	switch (prog->state.regs[cie->ra_reg].kind) {
	case RULE_UNDEFINED:
		return BPFPROF_STOP_COMPLETE;
	case RULE_UNSPECIFIED:
		return BPFPROF_STOP_BAD_CFI;
	}
	stop = cfa_eval(&eval);
	if (stop)
		return stop;
	for (uint32_t i = 0; i < BPFPROF_NR_REGS; i++) {
		stop = reg_eval(&eval, i, &value);
		if (!stop) {
			up.regs[i] = value;
			up.valid |= 1U << i;
		}
		if (stop && (i == cie->ra_reg || i == UNWIND_SP))
			return stop;
		if (i == cie->ra_reg)
			ra = value;
	}
	up.regs[UNWIND_PC] = ra;
	up.valid |= 1U << UNWIND_PC;
	up.exact = cie->signal;
	/* The stack pointer may stay equal only if a register holds the return address (vfork). */
	if (!cie->signal && up.regs[UNWIND_SP] <= env->state->regs[UNWIND_SP] &&
	    (up.regs[UNWIND_SP] < env->state->regs[UNWIND_SP] ||
	     prog->state.regs[cie->ra_reg].kind != RULE_REGISTER))
		return BPFPROF_STOP_BAD_FRAME;
	*ret = up;
	return ra ? 0 : BPFPROF_STOP_COMPLETE;
}
