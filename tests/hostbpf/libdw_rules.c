// SPDX-License-Identifier: Apache-2.0
#include "libdw_rules.h"

#include <dwarf.h>
#include <string.h>

#include "unwind/reader.h"
#include "unwind_native.h"

uint64_t made_memory(uint64_t va)
{
	va ^= va >> 31;
	va *= 0x7fb5d329728ea185ULL;
	va ^= va >> 27;
	va *= 0x81dadef4bc2dd44dULL;
	return (va >> 20 & ~7ULL) | 1ULL << 45; /* like an address, above every made-up rsp */
}

struct rules_stack {
	uint64_t values[16];
	size_t nr;
	bool is_value; /* the result is the value, not where it is */
};

static bool binary_op(uint8_t atom, uint64_t a, uint64_t b, uint64_t *ret)
{
	switch (atom) {
	case DW_OP_plus:
		*ret = a + b;
		return true;
	case DW_OP_minus:
		*ret = a - b;
		return true;
	case DW_OP_mul:
		*ret = a * b;
		return true;
	case DW_OP_and:
		*ret = a & b;
		return true;
	case DW_OP_shl:
		*ret = a << (b & 63);
		return true;
	case DW_OP_ge:
		*ret = (int64_t)a >= (int64_t)b;
		return true;
	}
	return false;
}

static bool one_op(const Dwarf_Op *op, const __u64 *regs, uint64_t cfa, struct rules_stack *s)
{
	uint64_t *top = &s->values[s->nr];

	if (s->nr == 16)
		return false;
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg16) {
		*top = regs[op->atom - DW_OP_breg0] + op->number;
	} else if (op->atom == DW_OP_bregx && op->number < RULES_NR_REGS) {
		*top = regs[op->number] + op->number2;
	} else if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31) {
		*top = op->atom - DW_OP_lit0;
	} else if (op->atom >= DW_OP_const1u && op->atom <= DW_OP_consts) {
		*top = op->number; /* already extended */
	} else if (op->atom == DW_OP_call_frame_cfa) {
		*top = cfa;
	} else if (op->atom == DW_OP_stack_value) {
		s->is_value = true;
		return s->nr > 0;
	} else if (op->atom == DW_OP_deref && s->nr) {
		top[-1] = made_memory(top[-1]);
		return true;
	} else if (op->atom == DW_OP_plus_uconst && s->nr) {
		top[-1] += op->number;
		return true;
	} else {
		if (s->nr < 2 || !binary_op(op->atom, top[-2], top[-1], &top[-2]))
			return false;
		s->nr--;
		return true;
	}
	s->nr++;
	return true;
}

static bool ops_eval(const Dwarf_Op *ops, size_t nr, const __u64 *regs, uint64_t cfa, uint64_t *ret,
		     bool *ret_is_value)
{
	struct rules_stack s = { .nr = 0 };

	for (size_t i = 0; i < nr; i++)
		if (!one_op(&ops[i], regs, cfa, &s))
			return false;
	if (!s.nr)
		return false;
	*ret = s.values[s.nr - 1];
	*ret_is_value = s.is_value;
	return true;
}

static bool reg_eval(Dwarf_Frame *frame, const __u64 *regs, int reg, struct rules_result *ret)
{
	Dwarf_Op mem[3], *ops;
	bool is_value;
	uint64_t value;
	size_t nr;

	if (dwarf_frame_register(frame, reg, mem, &ops, &nr))
		return false;
	if (!nr) { /* libdw: ops NULL: same value; else undefined */
		ret->known[reg] = ret->same[reg] = !ops;
		ret->regs[reg] = regs[reg];
		return true;
	}
	ret->known[reg] = true;
	if (nr == 1 && ((ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg16) ||
			(ops[0].atom == DW_OP_regx && ops[0].number < RULES_NR_REGS))) {
		ret->regs[reg] =
			regs[ops[0].atom == DW_OP_regx ? ops[0].number
						       : (uint64_t)(ops[0].atom - DW_OP_reg0)];
		return true;
	}
	if (!ops_eval(ops, nr, regs, ret->cfa, &value, &is_value))
		return false;
	ret->regs[reg] = is_value ? value : made_memory(value);
	return true;
}

bool rules_eval(Dwarf_Frame *frame, const struct unwind_state *before, struct rules_result *ret)
{
	const __u64 *regs = before->regs;
	Dwarf_Op *ops;
	bool is_value;
	size_t nr;

	memset(ret, 0, sizeof(*ret));
	dwarf_frame_info(frame, NULL, NULL, &ret->signal);
	if (!dwarf_frame_cfa(frame, &ops, &nr) && ops_eval(ops, nr, regs, 0, &ret->cfa, &is_value))
		ret->has_cfa = true;
	for (int i = 0; i < RULES_NR_REGS; i++)
		if (!reg_eval(frame, regs, i, ret))
			return false;
	return true;
}
