// SPDX-License-Identifier: Apache-2.0
#include "cuda/code_values.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "elf/image.h"

#define MAX_STACK_OFF (1 << 20)

int code_reader_init(struct code_reader *reader, struct elf_image *img)
{
	*reader = (struct code_reader){ .img = img };
	if (!elf_image_is_native(img) ||
	    !ZYAN_SUCCESS(ZydisDecoderInit(&reader->decoder, ZYDIS_MACHINE_MODE_LONG_64,
					   ZYDIS_STACK_WIDTH_64)))
		return -EOPNOTSUPP;
	return 0;
}

bool code_reader_has(struct code_reader *reader, uint64_t rva)
{
	const struct elf_segment *seg = reader->segment;

	if (!seg || rva < seg->va || rva - seg->va >= seg->file_bytes)
		seg = elf_image_segment_at(reader->img, rva, PF_X);
	if (seg)
		reader->segment = seg;
	return seg;
}

int code_reader_get(struct code_reader *reader, uint64_t rva, struct code_instruction *ret)
{
	uint8_t code[ZYDIS_MAX_INSTRUCTION_LENGTH];
	const struct elf_segment *seg;
	uint64_t len;
	int err;

	if (!code_reader_has(reader, rva))
		return -ENOENT;
	seg = reader->segment;
	len = seg->file_bytes - (rva - seg->va);
	if (len > sizeof(code))
		len = sizeof(code);
	err = elf_image_read(reader->img, seg->off + (rva - seg->va), code, len);
	if (err)
		return err;
	ret->rva = rva;
	if (!ZYAN_SUCCESS(
		    ZydisDecoderDecodeFull(&reader->decoder, code, len, &ret->insn, ret->ops)))
		return -ENOENT;
	return 0;
}

bool code_value_equal(const struct code_value *a, const struct code_value *b)
{
	return a->kind == b->kind && (a->kind == CODE_UNKNOWN || a->n == b->n);
}

bool code_value_is(const struct code_value *value, uint64_t number)
{
	return value->kind == CODE_NUMBER && value->n == number;
}

static struct code_value value_make(enum code_value_kind kind, uint64_t n)
{
	return (struct code_value){ .kind = kind, .n = n };
}

static struct code_value unknown(void)
{
	return value_make(CODE_UNKNOWN, 0);
}

static struct code_value value_plus(struct code_value value, int64_t n)
{
	int64_t off;

	if (!n)
		return value;
	if (value.kind == CODE_NUMBER)
		return value_make(CODE_NUMBER, value.n + (uint64_t)n);
	if (value.kind != CODE_STACK || n > MAX_STACK_OFF || n < -MAX_STACK_OFF)
		return unknown();
	off = (int64_t)value.n + n;
	if (off > MAX_STACK_OFF || off < -MAX_STACK_OFF)
		return unknown();
	return value_make(CODE_STACK, (uint64_t)off);
}

void code_state_init(struct code_state *state)
{
	memset(state, 0, sizeof(*state));
}

static const uint8_t argument_regs[CODE_NR_ARGUMENTS] = { CODE_RDI, CODE_RSI, CODE_RDX,
							  CODE_RCX, CODE_R8,  CODE_R9 };

void code_state_begin(struct code_state *state)
{
	uint32_t i;

	code_state_init(state);
	for (i = 0; i < CODE_NR_ARGUMENTS; i++)
		state->regs[argument_regs[i]] = value_make(CODE_ARGUMENT, i);
	state->regs[CODE_RSP] = value_make(CODE_STACK, 0);
}

const struct code_value *code_state_argument(const struct code_state *state, uint32_t nr)
{
	return &state->regs[argument_regs[nr]];
}

static const struct code_slot *slot_find(const struct code_state *state, int64_t off)
{
	const struct code_slot *slot;

	for (slot = state->slots; slot < state->slots + state->nr_slots; slot++)
		if (slot->off == off)
			return slot;
	return NULL;
}

bool code_state_meet(struct code_state *state, const struct code_state *from)
{
	const struct code_slot *other;
	bool changed = false;
	uint32_t i;

	for (i = 0; i < CODE_NR_REGS; i++)
		if (state->regs[i].kind != CODE_UNKNOWN &&
		    !code_value_equal(&state->regs[i], &from->regs[i])) {
			state->regs[i] = unknown();
			changed = true;
		}
	for (i = 0; i < state->nr_slots;) {
		other = slot_find(from, state->slots[i].off);
		if (other && code_value_equal(&other->value, &state->slots[i].value)) {
			i++;
			continue;
		}
		state->slots[i] = state->slots[--state->nr_slots];
		changed = true;
	}
	return changed;
}

/* The number of the register that reg is, or is part of; -1: another kind. */
static int gpr(ZydisRegister reg)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	if (ZydisRegisterGetClass(whole) != ZYDIS_REGCLASS_GPR64)
		return -1;
	return ZydisRegisterGetId(whole) & (CODE_NR_REGS - 1);
}

static bool is_gpr(const ZydisDecodedOperand *op, ZydisRegisterClass kind)
{
	return op->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       ZydisRegisterGetClass(op->reg.value) == kind;
}

static bool is_gpr64(const ZydisDecodedOperand *op)
{
	return is_gpr(op, ZYDIS_REGCLASS_GPR64);
}

static bool has_own_base(const ZydisDecodedOperand *op)
{
	return op->mem.segment == ZYDIS_REGISTER_FS || op->mem.segment == ZYDIS_REGISTER_GS;
}

/* The address of a memory operand. */
static struct code_value address_of(const struct code_state *state,
				    const struct code_instruction *in,
				    const ZydisDecodedOperand *op)
{
	int64_t disp = op->mem.disp.has_displacement ? op->mem.disp.value : 0;
	int base;

	if (op->mem.index != ZYDIS_REGISTER_NONE || has_own_base(op))
		return unknown();
	if (op->mem.base == ZYDIS_REGISTER_RIP)
		return value_make(CODE_NUMBER, in->rva + in->insn.length + (uint64_t)disp);
	if (op->mem.base == ZYDIS_REGISTER_NONE)
		return value_make(CODE_NUMBER, (uint64_t)disp);
	base = gpr(op->mem.base);
	if (base < 0 || ZydisRegisterGetClass(op->mem.base) != ZYDIS_REGCLASS_GPR64)
		return unknown();
	return value_plus(state->regs[base], disp);
}

/* The 8 bytes at address. */
static struct code_value load(const struct code_state *state, struct code_value address)
{
	const struct code_slot *slot;

	switch (address.kind) {
	case CODE_NUMBER:
		return value_make(CODE_LOADED, address.n);
	case CODE_LOADED:
		return value_make(CODE_LOADED_TWICE, address.n);
	case CODE_STACK:
		slot = slot_find(state, (int64_t)address.n);
		return slot ? slot->value : unknown();
	default:
		return unknown();
	}
}

/* Static data is not in the stack; all other unknown addresses may be. */
static void store(struct code_state *state, struct code_value address, uint32_t bytes,
		  struct code_value value)
{
	int64_t off = (int64_t)address.n;
	uint32_t i;

	if (address.kind == CODE_NUMBER)
		return;
	if (address.kind != CODE_STACK) {
		state->nr_slots = 0;
		return;
	}
	for (i = 0; i < state->nr_slots;)
		if (state->slots[i].off < off + (int64_t)bytes && off < state->slots[i].off + 8)
			state->slots[i] = state->slots[--state->nr_slots];
		else
			i++;
	if (bytes == 8 && value.kind != CODE_UNKNOWN && state->nr_slots < CODE_NR_SLOTS)
		state->slots[state->nr_slots++] = (struct code_slot){ .off = off, .value = value };
}

static void push(struct code_state *state, struct code_value value)
{
	state->regs[CODE_RSP] = value_plus(state->regs[CODE_RSP], -8);
	store(state, state->regs[CODE_RSP], 8, value);
}

static struct code_value pop(struct code_state *state)
{
	struct code_value value = load(state, state->regs[CODE_RSP]);

	if (state->regs[CODE_RSP].kind != CODE_STACK)
		value = unknown();
	state->regs[CODE_RSP] = value_plus(state->regs[CODE_RSP], 8);
	return value;
}

/* The register that another instruction writes is unknown after it. */
static void clobber(struct code_state *state, const struct code_instruction *in)
{
	bool repeated = in->insn.attributes &
			(ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
	int i, reg;

	for (i = 0; i < in->insn.operand_count; i++) {
		if (!(in->ops[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		if (in->ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			store(state, repeated ? unknown() : address_of(state, in, &in->ops[i]),
			      in->ops[i].size / 8, unknown());
	}
	for (i = 0; i < in->insn.operand_count; i++) {
		if (!(in->ops[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) ||
		    in->ops[i].type != ZYDIS_OPERAND_TYPE_REGISTER)
			continue;
		reg = gpr(in->ops[i].reg.value);
		if (reg >= 0)
			state->regs[reg] = unknown();
	}
}

static void execute_call(struct code_state *state)
{
	static const uint8_t lost[] = { CODE_RAX, CODE_RCX, CODE_RDX, CODE_RSI, CODE_RDI,
					CODE_R8,  CODE_R9,  10,	      11 };
	size_t i;

	for (i = 0; i < sizeof(lost); i++)
		state->regs[lost[i]] = unknown();
	state->nr_slots = 0;
}

/* A load of 32 bits from a table at a fixed address, with an index. */
static struct code_value table_entry(const struct code_state *state, const ZydisDecodedOperand *op)
{
	int64_t disp = op->mem.disp.has_displacement ? op->mem.disp.value : 0;
	int base = gpr(op->mem.base), index = gpr(op->mem.index);

	if (has_own_base(op) || index < 0)
		return unknown();
	if (base >= 0 && state->regs[base].kind == CODE_NUMBER)
		return value_make(CODE_TABLE_ENTRY, state->regs[base].n + (uint64_t)disp);
	if (op->mem.scale == 1 && state->regs[index].kind == CODE_NUMBER)
		return value_make(CODE_TABLE_ENTRY, state->regs[index].n + (uint64_t)disp);
	return unknown();
}

static void execute_mov(struct code_state *state, const struct code_instruction *in)
{
	const ZydisDecodedOperand *to = &in->ops[0], *from = &in->ops[1];
	struct code_value value = unknown();
	bool narrow = is_gpr(to, ZYDIS_REGCLASS_GPR32);

	if (to->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		if (is_gpr64(from))
			value = state->regs[gpr(from->reg.value)];
		store(state, address_of(state, in, to), to->size / 8, value);
		return;
	}
	if (!is_gpr64(to) && !narrow) {
		clobber(state, in);
		return;
	}
	if (from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
		value = value_make(CODE_NUMBER, from->imm.value.u);
	else if (is_gpr64(from) || is_gpr(from, ZYDIS_REGCLASS_GPR32))
		value = state->regs[gpr(from->reg.value)];
	else if (from->type == ZYDIS_OPERAND_TYPE_MEMORY && !narrow && !has_own_base(from))
		value = load(state, address_of(state, in, from));
	else if (from->type == ZYDIS_OPERAND_TYPE_MEMORY && narrow)
		value = table_entry(state, from);
	if (narrow && value.kind == CODE_NUMBER)
		value.n = (uint32_t)value.n;
	else if (narrow && value.kind != CODE_TABLE_ENTRY)
		value = unknown();
	state->regs[gpr(to->reg.value)] = value;
}

static void execute_lea(struct code_state *state, const struct code_instruction *in)
{
	struct code_value value = address_of(state, in, &in->ops[1]);

	if (!is_gpr64(&in->ops[0]))
		clobber(state, in);
	else
		state->regs[gpr(in->ops[0].reg.value)] = value;
}

static struct code_value sum(struct code_value a, struct code_value b)
{
	if (a.kind == CODE_TABLE_ENTRY && code_value_is(&b, a.n))
		return value_make(CODE_TABLE_TARGET, a.n);
	return unknown();
}

/* Addition, subtraction and the two idioms that make 0 and -1. */
static void execute_arithmetic(struct code_state *state, const struct code_instruction *in)
{
	const ZydisDecodedOperand *to = &in->ops[0], *from = &in->ops[1];
	bool wide = is_gpr64(to), narrow = is_gpr(to, ZYDIS_REGCLASS_GPR32);
	bool immediate = from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
	ZydisMnemonic what = in->insn.mnemonic;
	struct code_value value, other;

	if (!wide && !narrow) {
		clobber(state, in);
		return;
	}
	value = state->regs[gpr(to->reg.value)];
	if (what == ZYDIS_MNEMONIC_OR && immediate && from->imm.value.s == -1) {
		value = value_make(CODE_NUMBER, wide ? UINT64_MAX : UINT32_MAX);
	} else if ((what == ZYDIS_MNEMONIC_XOR || what == ZYDIS_MNEMONIC_SUB) &&
		   from->type == ZYDIS_OPERAND_TYPE_REGISTER && from->reg.value == to->reg.value) {
		value = value_make(CODE_NUMBER, 0);
	} else if (wide && immediate && what == ZYDIS_MNEMONIC_ADD) {
		value = value_plus(value, from->imm.value.s);
	} else if (wide && immediate && what == ZYDIS_MNEMONIC_SUB &&
		   from->imm.value.s > INT32_MIN) {
		value = value_plus(value, -from->imm.value.s);
	} else if (wide && what == ZYDIS_MNEMONIC_ADD && is_gpr64(from)) {
		other = state->regs[gpr(from->reg.value)];
		value = value.kind == CODE_TABLE_ENTRY ? sum(value, other) : sum(other, value);
	} else {
		value = unknown();
	}
	state->regs[gpr(to->reg.value)] = value;
}

void code_state_execute(struct code_state *state, const struct code_instruction *in)
{
	const ZydisDecodedOperand *ops = in->ops;
	struct code_value value;

	switch (in->insn.mnemonic) {
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
		value = is_gpr64(&ops[0]) && ops[1].type == ZYDIS_OPERAND_TYPE_MEMORY
				? table_entry(state, &ops[1])
				: unknown();
		clobber(state, in);
		if (value.kind != CODE_UNKNOWN)
			state->regs[gpr(ops[0].reg.value)] = value;
		return;
	case ZYDIS_MNEMONIC_CDQE:
		if (state->regs[CODE_RAX].kind != CODE_TABLE_ENTRY)
			state->regs[CODE_RAX] = unknown();
		return;
	case ZYDIS_MNEMONIC_PUSH:
		if (in->insn.operand_width == 64) {
			push(state,
			     is_gpr64(&ops[0]) ? state->regs[gpr(ops[0].reg.value)] : unknown());
			return;
		}
		break;
	case ZYDIS_MNEMONIC_POP:
		if (in->insn.operand_width == 64 && is_gpr64(&ops[0])) {
			value = pop(state);
			state->regs[gpr(ops[0].reg.value)] = value;
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
	if (in->insn.mnemonic == ZYDIS_MNEMONIC_PUSH || in->insn.mnemonic == ZYDIS_MNEMONIC_POP)
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
	const ZydisDecodedOperand *op = &in->ops[0];
	struct code_value value;

	if (op->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && op->imm.is_relative)
		return target_make(CODE_TARGET_CODE,
				   in->rva + in->insn.length + (uint64_t)op->imm.value.s);
	if (is_gpr64(op))
		return target_of_value(&state->regs[gpr(op->reg.value)]);
	if (op->type != ZYDIS_OPERAND_TYPE_MEMORY || has_own_base(op))
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
