// SPDX-License-Identifier: Apache-2.0
#include "unwind/x86_64/insn_row.h"

#include "unwind/reader.h"
#include "unwind_native.h"

/* The register whose value differs from value only by *ret_add, or -1. */
static int register_for(const struct machine *m, const struct value *value, int32_t *ret_add)
{
	static const uint8_t order[NR_GPRS] = {
		7, 6, 3, 0, 1, 2, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15
	};
	const struct value *v;
	int i;

	for (i = 0; i < NR_GPRS; i++) {
		v = &m->regs[order[i]];
		if (v->kind == VALUE_UNKNOWN || v->kind != value->kind || v->base != value->base ||
		    (v->kind == VALUE_LOADED && v->off != value->off))
			continue;
		*ret_add = value->add - v->add;
		return order[i];
	}
	return -1;
}

/* The place of value on the stack, as an address relative to the first value of a register. */
static bool place_of(const struct machine *m, const struct value *value, struct value *ret)
{
	const struct slot *s;

	for (s = m->slots; s < m->slots + NR_SLOTS; s++) {
		if (!s->used || !insn_value_equal(&s->value, value))
			continue;
		*ret = (struct value){ .kind = VALUE_REG, .base = s->base, .add = s->off };
		return true;
	}
	if (value->kind != VALUE_LOADED || value->add ||
	    !insn_is_untouched(m, value->base, value->off))
		return false;
	*ret = (struct value){ .kind = VALUE_REG, .base = value->base, .add = value->off };
	return true;
}

static bool fits(int32_t n, int32_t limit)
{
	return !(n & 7) && n / 8 >= -limit && n / 8 < limit;
}

/* The rule of rbp, as bits of a row. */
static uint64_t rbp_bits(const struct machine *m, const struct insn_caller *caller)
{
	struct value place;
	int32_t add;

	if (caller->rbp.kind != VALUE_UNKNOWN &&
	    insn_value_equal(&caller->rbp, &m->regs[UNWIND_RBP]))
		return unwind_row_make(0, 0, 0, 0, BP_SAME, 0, 0);
	/* The saved frame pointer lies at a distance from the old stack pointer in memory. */
	if (caller->rbp.kind == VALUE_LOADED_TWICE && caller->cfa.kind == VALUE_LOADED &&
	    caller->rbp.base == caller->cfa.base && caller->rbp.off == caller->cfa.off &&
	    fits(caller->rbp.add - caller->cfa.add, 1 << 13))
		return unwind_row_make(0, 0, 0, 0, BP_AT_CFA,
				       (caller->rbp.add - caller->cfa.add) / 8, 0);
	if (caller->rbp.kind == VALUE_UNKNOWN || !place_of(m, &caller->rbp, &place))
		return unwind_row_make(0, 0, 0, 0, BP_LOST, 0, 0);
	if (caller->cfa.kind == VALUE_REG && caller->cfa.base == place.base &&
	    fits(place.add - caller->cfa.add, 1 << 13))
		return unwind_row_make(0, 0, 0, 0, BP_AT_CFA, (place.add - caller->cfa.add) / 8, 0);
	add = place.add - m->regs[UNWIND_RBP].add;
	if (m->regs[UNWIND_RBP].kind == VALUE_REG && m->regs[UNWIND_RBP].base == place.base &&
	    fits(add, 1 << 13))
		return unwind_row_make(0, 0, 0, 0, BP_AT_BP, add / 8, 0);
	return unwind_row_make(0, 0, 0, 0, BP_LOST, 0, 0);
}

/* The rule of rbx: the second number of a ROW_CFA. */
static int32_t rbx_rule(const struct machine *m, const struct insn_caller *caller)
{
	struct value place;
	int32_t off;

	if (caller->rbx.kind == VALUE_UNKNOWN)
		return 1;
	if (insn_value_equal(&caller->rbx, &m->regs[UNWIND_RBX]))
		return 0;
	if (!place_of(m, &caller->rbx, &place) || caller->cfa.kind != VALUE_REG ||
	    caller->cfa.base != place.base)
		return 1;
	off = place.add - caller->cfa.add;
	return off < 0 && fits(off, 128) ? off / 8 : 1;
}

/* A row whose cfa is the word at place plus second. 0 if no row can hold it. */
static uint64_t row_deref(const struct machine *m, const struct insn_caller *caller,
			  const struct value *place, int32_t second)
{
	int32_t add;
	int reg = register_for(m, place, &add);

	if (reg < 0 || !fits(add, 1 << 15) || !fits(second, 128))
		return 0;
	return unwind_row_make(0, ROW_DEREF, (uint32_t)reg, add / 8, 0, 0, second / 8) |
	       rbp_bits(m, caller);
}

uint64_t insn_row_make(const struct machine *m, const struct insn_caller *caller)
{
	const struct value *cfa = &caller->cfa;
	struct value place = { .kind = VALUE_REG };
	const struct slot *s;
	uint64_t row = 0;
	int32_t add;
	int reg = register_for(m, cfa, &add);

	if (reg >= 0)
		return fits(add, 1 << 15) ? unwind_row_make(0, ROW_CFA, (uint32_t)reg, add / 8, 0,
							    0, rbx_rule(m, caller)) |
						    rbp_bits(m, caller)
					  : 0;
	/* The stack pointer was rounded down; its old value is kept in memory. */
	for (s = m->slots; s < m->slots + NR_SLOTS && !row; s++) {
		if (!s->used || s->value.kind != cfa->kind || s->value.base != cfa->base ||
		    s->value.off != cfa->off)
			continue;
		place.base = s->base;
		place.add = s->off;
		row = row_deref(m, caller, &place, cfa->add - s->value.add);
	}
	if (row || cfa->kind != VALUE_LOADED || !insn_is_untouched(m, cfa->base, cfa->off))
		return row;
	place.base = cfa->base;
	place.add = cfa->off;
	return row_deref(m, caller, &place, cfa->add);
}
