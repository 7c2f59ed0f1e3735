// SPDX-License-Identifier: Apache-2.0
/* The effect of the instructions of x86-64 on known values. */
#include "cuda/code_values.h"

#include "cuda/code_state.h"
#include "elf/x86_64/operand.h"

/* Numbers in instructions. */
enum {
	CODE_RAX,
	CODE_RCX,
	CODE_RDX,
	CODE_RBX,
	CODE_RSP,
	CODE_RBP,
	CODE_RSI,
	CODE_RDI,
	CODE_R8,
	CODE_R9,
};

static const uint8_t argument_regs[CODE_NR_ARGUMENTS] = { CODE_RDI, CODE_RSI, CODE_RDX,
							  CODE_RCX, CODE_R8,  CODE_R9 };

void code_state_begin(struct code_state *state)
{
	uint32_t i;

	code_state_init(state);
	for (i = 0; i < CODE_NR_ARGUMENTS; i++)
		state->regs[argument_regs[i]] = code_value_make(CODE_ARGUMENT, i);
	state->regs[CODE_RSP] = code_value_make(CODE_STACK, 0);
}

int64_t code_state_depth(const struct code_state *state)
{
	const struct code_value *rsp = &state->regs[CODE_RSP];

	return rsp->kind == CODE_STACK ? -(int64_t)rsp->n : CODE_UNKNOWN_DEPTH;
}

void code_state_set_depth(struct code_state *state, int64_t depth)
{
	state->regs[CODE_RSP] = depth == CODE_UNKNOWN_DEPTH
					? code_value_unknown()
					: code_value_make(CODE_STACK, (uint64_t)-depth);
}

const struct code_value *code_state_argument(const struct code_state *state, uint32_t nr)
{
	return &state->regs[argument_regs[nr]];
}

/* The address of a memory operand. */
static struct code_value address_of(const struct code_state *state,
				    const struct code_instruction *in,
				    const ZydisDecodedOperand *op)
{
	int64_t disp = op->mem.disp.has_displacement ? op->mem.disp.value : 0;
	int base;

	if (op->mem.index != ZYDIS_REGISTER_NONE || operand_has_segment(op))
		return code_value_unknown();
	if (op->mem.base == ZYDIS_REGISTER_RIP)
		return code_value_make(CODE_NUMBER, in->rva + in->insn.bytes + (uint64_t)disp);
	if (op->mem.base == ZYDIS_REGISTER_NONE)
		return code_value_make(CODE_NUMBER, (uint64_t)disp);
	base = operand_gpr(op->mem.base);
	if (base < 0 || ZydisRegisterGetClass(op->mem.base) != ZYDIS_REGCLASS_GPR64)
		return code_value_unknown();
	return code_value_plus(state->regs[base], disp);
}

static void push(struct code_state *state, struct code_value value)
{
	state->regs[CODE_RSP] = code_value_plus(state->regs[CODE_RSP], -8);
	code_state_store(state, state->regs[CODE_RSP], 8, value);
}

static struct code_value pop(struct code_state *state)
{
	struct code_value value = code_state_load(state, state->regs[CODE_RSP]);

	if (state->regs[CODE_RSP].kind != CODE_STACK)
		value = code_value_unknown();
	state->regs[CODE_RSP] = code_value_plus(state->regs[CODE_RSP], 8);
	return value;
}

/* The register that another instruction writes is unknown after it. */
static void clobber(struct code_state *state, const struct code_instruction *in)
{
	bool repeated = in->insn.own.insn.attributes &
			(ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
	int i, reg;

	for (i = 0; i < in->insn.own.insn.operand_count; i++) {
		if (!operand_is_written(&in->insn.own.ops[i]))
			continue;
		if (in->insn.own.ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			code_state_store(state,
					 repeated ? code_value_unknown()
						  : address_of(state, in, &in->insn.own.ops[i]),
					 in->insn.own.ops[i].size / 8, code_value_unknown());
	}
	for (i = 0; i < in->insn.own.insn.operand_count; i++) {
		if (!operand_is_written(&in->insn.own.ops[i]) ||
		    in->insn.own.ops[i].type != ZYDIS_OPERAND_TYPE_REGISTER)
			continue;
		reg = operand_gpr(in->insn.own.ops[i].reg.value);
		if (reg >= 0)
			state->regs[reg] = code_value_unknown();
	}
}

static void execute_call(struct code_state *state)
{
	static const uint8_t lost[] = { CODE_RAX, CODE_RCX, CODE_RDX, CODE_RSI, CODE_RDI,
					CODE_R8,  CODE_R9,  10,	      11 };
	size_t i;

	for (i = 0; i < sizeof(lost); i++)
		state->regs[lost[i]] = code_value_unknown();
	state->nr_slots = 0;
}

/* A load of 32 bits from a table at a fixed address, with an index. */
static struct code_value table_entry(const struct code_state *state, const ZydisDecodedOperand *op)
{
	int64_t disp = op->mem.disp.has_displacement ? op->mem.disp.value : 0;
	int base = operand_gpr(op->mem.base), index = operand_gpr(op->mem.index);

	if (operand_has_segment(op) || index < 0)
		return code_value_unknown();
	if (base >= 0 && state->regs[base].kind == CODE_NUMBER)
		return code_value_make(CODE_TABLE_ENTRY, state->regs[base].n + (uint64_t)disp);
	if (op->mem.scale == 1 && state->regs[index].kind == CODE_NUMBER)
		return code_value_make(CODE_TABLE_ENTRY, state->regs[index].n + (uint64_t)disp);
	return code_value_unknown();
}

static void execute_mov(struct code_state *state, const struct code_instruction *in)
{
	const ZydisDecodedOperand *to = &in->insn.own.ops[0], *from = &in->insn.own.ops[1];
	struct code_value value = code_value_unknown();
	bool narrow = operand_is_gpr32(to);

	if (to->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		if (operand_is_gpr64(from))
			value = state->regs[operand_gpr(from->reg.value)];
		code_state_store(state, address_of(state, in, to), to->size / 8, value);
		return;
	}
	if (!operand_is_gpr64(to) && !narrow) {
		clobber(state, in);
		return;
	}
	if (from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
		value = code_value_make(CODE_NUMBER, from->imm.value.u);
	else if (operand_is_gpr64(from) || operand_is_gpr32(from))
		value = state->regs[operand_gpr(from->reg.value)];
	else if (from->type == ZYDIS_OPERAND_TYPE_MEMORY && !narrow && !operand_has_segment(from))
		value = code_state_load(state, address_of(state, in, from));
	else if (from->type == ZYDIS_OPERAND_TYPE_MEMORY && narrow)
		value = table_entry(state, from);
	if (narrow && value.kind == CODE_NUMBER)
		value.n = (uint32_t)value.n;
	else if (narrow && value.kind != CODE_TABLE_ENTRY)
		value = code_value_unknown();
	state->regs[operand_gpr(to->reg.value)] = value;
}

static void execute_lea(struct code_state *state, const struct code_instruction *in)
{
	struct code_value value = address_of(state, in, &in->insn.own.ops[1]);

	if (!operand_is_gpr64(&in->insn.own.ops[0]))
		clobber(state, in);
	else
		state->regs[operand_gpr(in->insn.own.ops[0].reg.value)] = value;
}

static struct code_value sum(struct code_value a, struct code_value b)
{
	if (a.kind == CODE_TABLE_ENTRY && code_value_is(&b, a.n))
		return code_value_make(CODE_TABLE_TARGET, a.n);
	return code_value_unknown();
}

/* Addition, subtraction and the two idioms that make 0 and -1. */
static void execute_arithmetic(struct code_state *state, const struct code_instruction *in)
{
	const ZydisDecodedOperand *to = &in->insn.own.ops[0], *from = &in->insn.own.ops[1];
	bool wide = operand_is_gpr64(to), narrow = operand_is_gpr32(to);
	bool immediate = from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
	ZydisMnemonic what = in->insn.own.insn.mnemonic;
	struct code_value value, other;

	if (!wide && !narrow) {
		clobber(state, in);
		return;
	}
	value = state->regs[operand_gpr(to->reg.value)];
	if (what == ZYDIS_MNEMONIC_OR && immediate && from->imm.value.s == -1) {
		value = code_value_make(CODE_NUMBER, wide ? UINT64_MAX : UINT32_MAX);
	} else if ((what == ZYDIS_MNEMONIC_XOR || what == ZYDIS_MNEMONIC_SUB) &&
		   from->type == ZYDIS_OPERAND_TYPE_REGISTER && from->reg.value == to->reg.value) {
		value = code_value_make(CODE_NUMBER, 0);
	} else if (wide && immediate && what == ZYDIS_MNEMONIC_ADD) {
		value = code_value_plus(value, from->imm.value.s);
	} else if (wide && immediate && what == ZYDIS_MNEMONIC_SUB &&
		   from->imm.value.s > INT32_MIN) {
		value = code_value_plus(value, -from->imm.value.s);
	} else if (wide && what == ZYDIS_MNEMONIC_ADD && operand_is_gpr64(from)) {
		other = state->regs[operand_gpr(from->reg.value)];
		value = value.kind == CODE_TABLE_ENTRY ? sum(value, other) : sum(other, value);
	} else {
		value = code_value_unknown();
	}
	state->regs[operand_gpr(to->reg.value)] = value;
}

void code_state_execute(struct code_state *state, const struct code_instruction *in)
{
	const ZydisDecodedOperand *ops = in->insn.own.ops;
	struct code_value value;

	switch (in->insn.own.insn.mnemonic) {
	case ZYDIS_MNEMONIC_CALL:
		execute_call(state);
		return;
	case ZYDIS_MNEMONIC_MOV:
		execute_mov(state, in);
		return;
	case ZYDIS_MNEMONIC_LEA:
		execute_lea(state, in);
		return;
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_SUB:
	case ZYDIS_MNEMONIC_XOR:
	case ZYDIS_MNEMONIC_OR:
		execute_arithmetic(state, in);
		return;
	case ZYDIS_MNEMONIC_MOVSXD:
		value = operand_is_gpr64(&ops[0]) && ops[1].type == ZYDIS_OPERAND_TYPE_MEMORY
				? table_entry(state, &ops[1])
				: code_value_unknown();
		clobber(state, in);
		if (value.kind != CODE_UNKNOWN)
			state->regs[operand_gpr(ops[0].reg.value)] = value;
		return;
	case ZYDIS_MNEMONIC_CDQE:
		if (state->regs[CODE_RAX].kind != CODE_TABLE_ENTRY)
			state->regs[CODE_RAX] = code_value_unknown();
		return;
	case ZYDIS_MNEMONIC_PUSH:
		if (in->insn.own.insn.operand_width == 64) {
			push(state, operand_is_gpr64(&ops[0])
					    ? state->regs[operand_gpr(ops[0].reg.value)]
					    : code_value_unknown());
			return;
		}
		break;
	case ZYDIS_MNEMONIC_POP:
		if (in->insn.own.insn.operand_width == 64 && operand_is_gpr64(&ops[0])) {
			value = pop(state);
			state->regs[operand_gpr(ops[0].reg.value)] = value;
			return;
		}
		break;
	case ZYDIS_MNEMONIC_LEAVE:
		state->regs[CODE_RSP] = state->regs[CODE_RBP];
		value = pop(state);
		state->regs[CODE_RBP] = value;
		return;
	default:
		break;
	}
	clobber(state, in);
	if (in->insn.own.insn.mnemonic == ZYDIS_MNEMONIC_PUSH ||
	    in->insn.own.insn.mnemonic == ZYDIS_MNEMONIC_POP)
		state->nr_slots = 0; /* of another width */
}

static struct code_target target_make(enum code_target_kind kind, uint64_t n)
{
	return (struct code_target){ .kind = kind, .n = n };
}

static struct code_target target_of_value(const struct code_value *value)
{
	switch (value->kind) {
	case CODE_NUMBER:
		return target_make(CODE_TARGET_CODE, value->n);
	case CODE_LOADED:
		return target_make(CODE_TARGET_LOADED, value->n);
	case CODE_TABLE_TARGET:
		return target_make(CODE_TARGET_TABLE, value->n);
	default:
		return target_make(CODE_TARGET_UNKNOWN, 0);
	}
}

struct code_target code_target(const struct code_state *state, const struct code_instruction *in)
{
	const ZydisDecodedOperand *op = &in->insn.own.ops[0];
	struct code_value value;
	uint64_t rva;

	if (instruction_target(&in->insn, in->rva, &rva))
		return target_make(CODE_TARGET_CODE, rva);
	if (operand_is_gpr64(op))
		return target_of_value(&state->regs[operand_gpr(op->reg.value)]);
	if (op->type != ZYDIS_OPERAND_TYPE_MEMORY || operand_has_segment(op))
		return target_make(CODE_TARGET_UNKNOWN, 0);
	if (op->mem.base == ZYDIS_REGISTER_NONE && op->mem.index != ZYDIS_REGISTER_NONE)
		return op->mem.scale == 8 && op->mem.disp.has_displacement
			       ? target_make(CODE_TARGET_ADDRESSES, (uint64_t)op->mem.disp.value)
			       : target_make(CODE_TARGET_UNKNOWN, 0);
	if (op->mem.index != ZYDIS_REGISTER_NONE)
		return target_make(CODE_TARGET_UNKNOWN, 0);
	value = address_of(state, in, op);
	if (value.kind == CODE_NUMBER)
		return target_make(CODE_TARGET_LOADED, value.n);
	return target_make(CODE_TARGET_POINTER, 0);
}

const struct code_value *code_state_put(const struct code_state *state,
					const struct code_instruction *in)
{
	ZydisMnemonic mnemonic = in->insn.own.insn.mnemonic;
	int reg;

	if ((mnemonic != ZYDIS_MNEMONIC_LEA && mnemonic != ZYDIS_MNEMONIC_MOV) ||
	    in->insn.own.ops[0].type != ZYDIS_OPERAND_TYPE_REGISTER)
		return NULL;
	reg = ZydisRegisterGetId(in->insn.own.ops[0].reg.value);
	return reg < 0 || reg >= CODE_NR_REGS ? NULL : &state->regs[reg];
}

bool code_is_frame(const struct code_instruction *in)
{
	switch (in->insn.own.insn.mnemonic) {
	case ZYDIS_MNEMONIC_ENDBR64:
	case ZYDIS_MNEMONIC_PUSH:
	case ZYDIS_MNEMONIC_POP:
		return true;
	case ZYDIS_MNEMONIC_MOV:
		return operand_is_register(&in->insn.own.ops[0], ZYDIS_REGISTER_RBP);
	default:
		return false;
	}
}
