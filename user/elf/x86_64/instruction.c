// SPDX-License-Identifier: Apache-2.0
#include "elf/instruction.h"

static enum instruction_kind kind_of(const ZydisDecodedInstruction *insn)
{
	switch (insn->meta.category) {
	case ZYDIS_CATEGORY_CALL:
		return INSTRUCTION_CALL;
	case ZYDIS_CATEGORY_COND_BR:
		return INSTRUCTION_BRANCH;
	case ZYDIS_CATEGORY_UNCOND_BR:
		return INSTRUCTION_JUMP;
	case ZYDIS_CATEGORY_RET:
		return INSTRUCTION_RETURN;
	default:
		break;
	}
	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT:
	case ZYDIS_MNEMONIC_INT3:
		return INSTRUCTION_STOP;
	case ZYDIS_MNEMONIC_NOP:
		return INSTRUCTION_NOP;
	default:
		return INSTRUCTION_OTHER;
	}
}

bool instruction_decode(const uint8_t *code, size_t len, struct instruction *ret)
{
	ZydisDecoder decoder;

	if (!ZYAN_SUCCESS(
		    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) ||
	    !ZYAN_SUCCESS(
		    ZydisDecoderDecodeFull(&decoder, code, len, &ret->own.insn, ret->own.ops)))
		return false;
	ret->bytes = ret->own.insn.length;
	ret->kind = kind_of(&ret->own.insn);
	return true;
}

bool instruction_target(const struct instruction *in, uint64_t at, uint64_t *ret)
{
	const ZydisDecodedOperand *op = &in->own.ops[0];

	if (op->type != ZYDIS_OPERAND_TYPE_IMMEDIATE || !op->imm.is_relative)
		return false;
	*ret = at + in->bytes + (uint64_t)op->imm.value.s;
	return true;
}

bool instruction_loads_target(const struct instruction *in)
{
	return in->own.ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY;
}

bool instruction_has_index(const struct instruction *in)
{
	int i;

	for (i = 0; i < in->own.insn.operand_count_visible; i++)
		if (in->own.ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    in->own.ops[i].mem.index != ZYDIS_REGISTER_NONE)
			return true;
	return false;
}
