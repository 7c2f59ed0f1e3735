// SPDX-License-Identifier: Apache-2.0
#include "cuda/hook_insn.h"

#include <stddef.h>

#include "elf/instruction.h"
#include "elf/x86_64/operand.h"

#define MAX_ARGUMENT_BYTES 256 /* on the stack */

/*
 * Kernels 6.1 to 7.x emulate jumps and calls to a relative address, pushes of a register and the nop
 * of one byte (arch/x86/kernel/uprobes.c: branch_setup_xol_ops, push_setup_xol_ops); longer nops only
 * since 6.18.
 */
bool hook_insn_is_emulated(const struct instruction *in)
{
	const ZydisDecodedInstruction *insn = &in->own.insn;
	bool bare = !insn->raw.prefix_count;
	uint8_t op = insn->opcode;

	if (insn->opcode_map == ZYDIS_OPCODE_MAP_0F)
		return bare && op >= 0x80 && op <= 0x8f;
	if (insn->opcode_map != ZYDIS_OPCODE_MAP_DEFAULT)
		return false;
	if (op >= 0x50 && op <= 0x57)
		return bare || (insn->raw.prefix_count == 1 && insn->raw.prefixes[0].value == 0x41);
	return bare &&
	       (op == 0x90 || op == 0xe8 || op == 0xe9 || op == 0xeb || (op >= 0x70 && op <= 0x7f));
}

/*
 * Is the memory static data, thread-local data at a fixed place, or an argument? All of it is
 * mapped.
 */
static bool is_readable(const ZydisDecodedOperand *op)
{
	if (op->mem.type == ZYDIS_MEMOP_TYPE_AGEN)
		return true;
	if (op->mem.index != ZYDIS_REGISTER_NONE || op->mem.segment == ZYDIS_REGISTER_GS)
		return false;
	if (op->mem.segment == ZYDIS_REGISTER_FS)
		return op->mem.base == ZYDIS_REGISTER_NONE;
	if (op->mem.base == ZYDIS_REGISTER_RSP)
		return op->mem.disp.value >= 0 && op->mem.disp.value < MAX_ARGUMENT_BYTES;
	return op->mem.base == ZYDIS_REGISTER_RIP;
}

/* Registers whose value does not matter at the begin of a function. */
static bool is_scratch(ZydisRegister reg)
{
	switch (ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg)) {
	case ZYDIS_REGISTER_RAX:
	case ZYDIS_REGISTER_R10:
	case ZYDIS_REGISTER_R11:
		return true;
	default:
		return ZydisRegisterGetClass(reg) == ZYDIS_REGCLASS_FLAGS;
	}
}

/* An instruction that compilers move before the first push or branch. */
static bool is_simple(ZydisMnemonic mnemonic)
{
	static const ZydisMnemonic simple[] = {
		ZYDIS_MNEMONIC_MOV, ZYDIS_MNEMONIC_MOVZX, ZYDIS_MNEMONIC_MOVSX,
		ZYDIS_MNEMONIC_LEA, ZYDIS_MNEMONIC_CMP,	  ZYDIS_MNEMONIC_MOVSXD,
		ZYDIS_MNEMONIC_ADD, ZYDIS_MNEMONIC_SUB,	  ZYDIS_MNEMONIC_TEST,
		ZYDIS_MNEMONIC_AND, ZYDIS_MNEMONIC_OR,	  ZYDIS_MNEMONIC_XOR,
		ZYDIS_MNEMONIC_SHL, ZYDIS_MNEMONIC_SHR,	  ZYDIS_MNEMONIC_SAR,
	};
	size_t i;

	for (i = 0; i < sizeof(simple) / sizeof(simple[0]); i++)
		if (mnemonic == simple[i])
			return true;
	return false;
}

bool hook_insn_is_harmless(const struct instruction *in)
{
	const ZydisDecodedOperand *op;
	bool writes;
	int i;

	if (in->kind == INSTRUCTION_NOP || in->own.insn.mnemonic == ZYDIS_MNEMONIC_ENDBR64)
		return true;
	if (!is_simple(in->own.insn.mnemonic))
		return false;
	for (i = 0; i < in->own.insn.operand_count; i++) {
		op = &in->own.ops[i];
		writes = operand_is_written(op);
		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY && (writes || !is_readable(op)))
			return false;
		if (op->type == ZYDIS_OPERAND_TYPE_REGISTER && writes && !is_scratch(op->reg.value))
			return false;
	}
	return true;
}
