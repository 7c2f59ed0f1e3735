// SPDX-License-Identifier: Apache-2.0
#include "unwind/x86_64/insn_execute.h"

#include "elf/instruction.h"
#include "elf/x86_64/operand.h"
#include "unwind/x86_64/insn_machine.h"
#include "arch.h"

int insn_gpr(ZydisRegister reg)
{
	static const int8_t dwarf[NR_GPRS] = {
		0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15
	};
	int nr = operand_gpr(reg);

	return nr < 0 ? -1 : dwarf[nr];
}

/* The address that a memory operand means, unknown if it has an index. */
static struct value address_of(const struct machine *m, const ZydisDecodedOperand *op)
{
	int base = insn_gpr(op->mem.base);

	if (base < 0 || ZydisRegisterGetClass(op->mem.base) != ZYDIS_REGCLASS_GPR64 ||
	    op->mem.index != ZYDIS_REGISTER_NONE || operand_has_segment(op))
		return unknown();
	return insn_value_plus(m->regs[base], op->mem.disp.value);
}

void insn_clobber(struct machine *m, const struct instruction *in)
{
	const ZydisDecodedOperand *ops = in->own.ops;
	int i, reg;

	for (i = 0; i < in->own.insn.operand_count; i++) {
		if (!operand_is_written(&ops[i]))
			continue;
		if (ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER) {
			reg = insn_gpr(ops[i].reg.value);
			if (reg >= 0)
				m->regs[reg] = unknown();
		} else if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY) {
			insn_store(m, address_of(m, &ops[i]), ops[i].size / 8, unknown());
		}
	}
}

void insn_push(struct machine *m, struct value value)
{
	m->regs[UNWIND_RSP] = insn_value_plus(m->regs[UNWIND_RSP], -8);
	insn_store(m, m->regs[UNWIND_RSP], 8, value);
}

static struct value pop(struct machine *m)
{
	struct value value = insn_load(m, m->regs[UNWIND_RSP]);

	m->regs[UNWIND_RSP] = insn_value_plus(m->regs[UNWIND_RSP], 8);
	return value;
}

/* Register and immediate: no other arithmetic makes stack pointers. */
static bool adds_immediate(const struct instruction *in)
{
	const ZydisDecodedOperand *ops = in->own.ops;

	return (in->own.insn.mnemonic == ZYDIS_MNEMONIC_ADD ||
		in->own.insn.mnemonic == ZYDIS_MNEMONIC_SUB) &&
	       operand_is_gpr64(&ops[0]) && ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
}

/*
 * Only one stack pointer that was rounded down is known at a time; a pointer to data that is
 * rounded as well must not be mistaken for it.
 */
static bool rounds_down(const struct machine *m, const struct instruction *in)
{
	const ZydisDecodedOperand *ops = in->own.ops;
	const struct value *v;

	if (in->own.insn.mnemonic != ZYDIS_MNEMONIC_AND || !operand_is_gpr64(&ops[0]) ||
	    ops[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE || ops[1].imm.value.s >= 0)
		return false;
	v = &m->regs[insn_gpr(ops[0].reg.value)];
	return v->kind == VALUE_REG && v->base == UNWIND_RSP &&
	       m->regs[UNWIND_RSP].kind == VALUE_REG && m->regs[UNWIND_RSP].base == UNWIND_RSP;
}

static void round_down(struct machine *m, int reg)
{
	struct slot *s;
	int i;

	for (i = 0; i < NR_GPRS; i++)
		if (m->regs[i].kind != VALUE_UNKNOWN && m->regs[i].base == BASE_ALIGNED)
			m->regs[i] = unknown();
	for (s = m->slots; s < m->slots + NR_SLOTS; s++)
		if (s->used && s->base == BASE_ALIGNED)
			s->used = false;
		else if (s->value.kind != VALUE_UNKNOWN && s->value.base == BASE_ALIGNED)
			s->value = unknown();
	m->regs[reg] = (struct value){ .kind = VALUE_REG, .base = BASE_ALIGNED };
}

static void move(struct machine *m, const struct instruction *in)
{
	const ZydisDecodedOperand *to = &in->own.ops[0], *from = &in->own.ops[1];

	if (operand_is_gpr64(to) && operand_is_gpr64(from))
		m->regs[insn_gpr(to->reg.value)] = m->regs[insn_gpr(from->reg.value)];
	else if (operand_is_gpr64(to) && from->type == ZYDIS_OPERAND_TYPE_MEMORY)
		m->regs[insn_gpr(to->reg.value)] = insn_load(m, address_of(m, from));
	else if (to->type == ZYDIS_OPERAND_TYPE_MEMORY && operand_is_gpr64(from))
		insn_store(m, address_of(m, to), 8, m->regs[insn_gpr(from->reg.value)]);
	else
		insn_clobber(m, in);
}

void insn_execute(struct machine *m, const struct instruction *in)
{
	const ZydisDecodedInstruction *insn = &in->own.insn;
	const ZydisDecodedOperand *ops = in->own.ops;
	struct value value;
	int64_t n;
	int reg;

	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_PUSH:
		if (insn->operand_width == 64)
			insn_push(m, operand_is_gpr64(&ops[0]) ? m->regs[insn_gpr(ops[0].reg.value)]
							       : unknown());
		else
			m->regs[UNWIND_RSP] = unknown();
		return;
	case ZYDIS_MNEMONIC_POP:
		value = pop(m);
		if (insn->operand_width != 64)
			m->regs[UNWIND_RSP] = unknown();
		else if (operand_is_gpr64(&ops[0]))
			m->regs[insn_gpr(ops[0].reg.value)] = value;
		else if (ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY)
			insn_store(m, address_of(m, &ops[0]), 8, value);
		return;
	case ZYDIS_MNEMONIC_PUSHFQ:
		insn_push(m, unknown());
		return;
	case ZYDIS_MNEMONIC_POPFQ:
		pop(m);
		return;
	case ZYDIS_MNEMONIC_LEAVE:
		m->regs[UNWIND_RSP] = m->regs[UNWIND_RBP];
		m->regs[UNWIND_RBP] = pop(m);
		return;
	case ZYDIS_MNEMONIC_MOV:
		move(m, in);
		return;
	case ZYDIS_MNEMONIC_SYSCALL: /* writes rax too, which is not among its operands */
		m->regs[UNWIND_RAX] = unknown();
		break;
	case ZYDIS_MNEMONIC_LEA:
		if (operand_is_gpr64(&ops[0])) {
			value = address_of(m, &ops[1]);
			m->regs[insn_gpr(ops[0].reg.value)] = value;
			return;
		}
		break;
	default:
		break;
	}
	if (adds_immediate(in)) {
		reg = insn_gpr(ops[0].reg.value);
		n = ops[1].imm.value.s;
		if (n > MAX_OFF || n < -MAX_OFF)
			m->regs[reg] = unknown();
		else
			m->regs[reg] = insn_value_plus(
				m->regs[reg], insn->mnemonic == ZYDIS_MNEMONIC_ADD ? n : -n);
	} else if (rounds_down(m, in)) {
		round_down(m, insn_gpr(ops[0].reg.value));
	} else {
		insn_clobber(m, in);
	}
}

void insn_call(struct machine *m)
{
	static const uint8_t scratch[] = { 0, 1, 2, 4, 5, 8, 9, 10, 11 };
	size_t i;

	for (i = 0; i < sizeof(scratch); i++)
		m->regs[scratch[i]] = unknown();
}
