// SPDX-License-Identifier: Apache-2.0
#include "cuda/comm_layout.h"

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <string.h>

#define NR_GPRS 16
#define MIN_OFFSET 64 /* smaller offsets belong to other structs */

/*
 * Reads the code from its first byte to its last, whatever branches there are. It wants the last
 * pair of one load and one store without a branch between them. (Inlined checks of the
 * arguments, which come earlier, have such pairs, too.)
 */
struct tracker {
	uint32_t loaded[NR_GPRS]; /* offset that a register was loaded from, 0 = something else */
	uint32_t field;
};

/* The number of the general purpose register that reg is part of, or -1. */
static int gpr(ZydisRegister reg)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	if (ZydisRegisterGetClass(whole) != ZYDIS_REGCLASS_GPR64)
		return -1;
	return ZydisRegisterGetId(whole) & (NR_GPRS - 1);
}

static bool is_gpr32(const ZydisDecodedOperand *op)
{
	return op->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       ZydisRegisterGetClass(op->reg.value) == ZYDIS_REGCLASS_GPR32;
}

/* Does the operand use a pointer in a register: no stack, no table, no variable? */
static bool is_through_pointer(const ZydisDecodedOperand *op)
{
	return op->type == ZYDIS_OPERAND_TYPE_MEMORY && op->mem.index == ZYDIS_REGISTER_NONE &&
	       ZydisRegisterGetClass(op->mem.base) == ZYDIS_REGCLASS_GPR64 &&
	       op->mem.base != ZYDIS_REGISTER_RSP && op->mem.segment != ZYDIS_REGISTER_FS &&
	       op->mem.segment != ZYDIS_REGISTER_GS;
}

static void forget_written(struct tracker *t, const ZydisDecodedInstruction *insn,
			   const ZydisDecodedOperand *ops)
{
	int reg, i;

	for (i = 0; i < insn->operand_count; i++) {
		if (ops[i].type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    !(ops[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		reg = gpr(ops[i].reg.value);
		if (reg >= 0)
			t->loaded[reg] = 0;
	}
}

static void execute(struct tracker *t, const ZydisDecodedInstruction *insn,
		    const ZydisDecodedOperand *ops)
{
	bool is_mov = insn->mnemonic == ZYDIS_MNEMONIC_MOV;
	uint32_t field;

	if (insn->meta.branch_type != ZYDIS_BRANCH_TYPE_NONE) {
		memset(t->loaded, 0, sizeof(t->loaded));
		return;
	}
	if (is_mov && is_through_pointer(&ops[0]) && !ops[0].mem.disp.value && is_gpr32(&ops[1])) {
		field = t->loaded[gpr(ops[1].reg.value)];
		if (field)
			t->field = field;
		return;
	}
	forget_written(t, insn, ops);
	if (is_mov && is_gpr32(&ops[0]) && is_through_pointer(&ops[1]) &&
	    ops[1].mem.disp.value >= MIN_OFFSET && ops[1].mem.disp.value < COMM_LAYOUT_MAX_OFFSET)
		t->loaded[gpr(ops[0].reg.value)] = (uint32_t)ops[1].mem.disp.value;
}

uint32_t comm_layout_field(const uint8_t *code, size_t len)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;
	struct tracker t = { .field = 0 };
	ZydisDecoder decoder;
	size_t at;

	if (!ZYAN_SUCCESS(
		    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
		return 0;
	for (at = 0; at < len; at += insn.length) {
		if (!ZYAN_SUCCESS(
			    ZydisDecoderDecodeFull(&decoder, code + at, len - at, &insn, ops)))
			break;
		execute(&t, &insn, ops);
	}
	return t.field;
}

uint32_t comm_layout_rank(uint32_t rank, uint32_t count, uint32_t device)
{
	/* The hash before the rank has 8 bytes, and so a multiple of 8 as its offset. */
	if (!rank || rank % 8 || rank >= COMM_LAYOUT_MAX_OFFSET || count != rank + 4 ||
	    device != rank + 8)
		return 0;
	return rank;
}
