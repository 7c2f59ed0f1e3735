// SPDX-License-Identifier: Apache-2.0
#include "cuda/comm_layout.h"

#include <stdbool.h>
#include <string.h>

#include "elf/instruction.h"
#include "elf/x86_64/operand.h"

#define MIN_OFFSET 64 /* smaller offsets belong to other structs */

/*
 * Reads the code from its first byte to its last, whatever branches there are. It wants the last
 * pair of one load and one store without a branch between them. Inlined checks of the
 * arguments, which come earlier, have such pairs, too.
 */
struct tracker {
	/* The offset that a register was loaded from; 0: something else. */
	uint32_t loaded[ARCH_NR_GPRS];
	uint32_t field;
};

/* Does the operand use a pointer in a register: no stack, no table, no variable? */
static bool is_through_pointer(const ZydisDecodedOperand *op)
{
	return op->type == ZYDIS_OPERAND_TYPE_MEMORY && op->mem.index == ZYDIS_REGISTER_NONE &&
	       ZydisRegisterGetClass(op->mem.base) == ZYDIS_REGCLASS_GPR64 &&
	       op->mem.base != ZYDIS_REGISTER_RSP && !operand_has_segment(op);
}

static void forget_written(struct tracker *t, const struct instruction *in)
{
	const ZydisDecodedOperand *ops = in->own.ops;
	int reg, i;

	for (i = 0; i < in->own.insn.operand_count; i++) {
		if (ops[i].type != ZYDIS_OPERAND_TYPE_REGISTER || !operand_is_written(&ops[i]))
			continue;
		reg = operand_gpr(ops[i].reg.value);
		if (reg >= 0)
			t->loaded[reg] = 0;
	}
}

static void execute(struct tracker *t, const struct instruction *in)
{
	const ZydisDecodedOperand *ops = in->own.ops;
	bool is_mov = in->own.insn.mnemonic == ZYDIS_MNEMONIC_MOV;
	uint32_t field;

	if (in->own.insn.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE) {
		memset(t->loaded, 0, sizeof(t->loaded));
		return;
	}
	if (is_mov && is_through_pointer(&ops[0]) && !ops[0].mem.disp.value &&
	    operand_is_gpr32(&ops[1])) {
		field = t->loaded[operand_gpr(ops[1].reg.value)];
		if (field)
			t->field = field;
		return;
	}
	forget_written(t, in);
	if (is_mov && operand_is_gpr32(&ops[0]) && is_through_pointer(&ops[1]) &&
	    ops[1].mem.disp.value >= MIN_OFFSET && ops[1].mem.disp.value < COMM_LAYOUT_MAX_OFFSET)
		t->loaded[operand_gpr(ops[0].reg.value)] = (uint32_t)ops[1].mem.disp.value;
}

uint32_t comm_layout_field(const uint8_t *code, size_t len)
{
	struct tracker t = { .field = 0 };
	struct instruction in;
	size_t at;

	for (at = 0; at < len && instruction_decode(code + at, len - at, &in); at += in.bytes)
		execute(&t, &in);
	return t.field;
}
