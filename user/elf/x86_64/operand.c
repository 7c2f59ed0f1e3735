// SPDX-License-Identifier: Apache-2.0
#include "elf/x86_64/operand.h"

#include "elf/arch.h"

int operand_gpr(ZydisRegister reg)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	if (ZydisRegisterGetClass(whole) != ZYDIS_REGCLASS_GPR64)
		return -1;
	return ZydisRegisterGetId(whole) & (ARCH_NR_GPRS - 1);
}

static bool is_of_class(const ZydisDecodedOperand *op, ZydisRegisterClass kind)
{
	return op->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       ZydisRegisterGetClass(op->reg.value) == kind;
}

bool operand_is_gpr32(const ZydisDecodedOperand *op)
{
	return is_of_class(op, ZYDIS_REGCLASS_GPR32);
}

bool operand_is_gpr64(const ZydisDecodedOperand *op)
{
	return is_of_class(op, ZYDIS_REGCLASS_GPR64);
}

bool operand_is_register(const ZydisDecodedOperand *op, ZydisRegister reg)
{
	return op->type == ZYDIS_OPERAND_TYPE_REGISTER && op->reg.value == reg;
}

bool operand_is_written(const ZydisDecodedOperand *op)
{
	return op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
}

bool operand_has_segment(const ZydisDecodedOperand *op)
{
	return op->mem.segment == ZYDIS_REGISTER_FS || op->mem.segment == ZYDIS_REGISTER_GS;
}
