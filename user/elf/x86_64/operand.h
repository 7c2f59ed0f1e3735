/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_X86_64_OPERAND_H
#define BPFPROF_ELF_X86_64_OPERAND_H

/* The operands of an x86-64 instruction (elf/instruction.h). For the folders of this CPU alone. */

#include <Zydis/Zydis.h>
#include <stdbool.h>

/*
 * The number in instructions (rax rcx rdx rbx rsp rbp rsi rdi r8-r15) of the general purpose register
 * that reg is, or is part of; -1: it is of another kind.
 */
int operand_gpr(ZydisRegister reg);
bool operand_is_gpr32(const ZydisDecodedOperand *op);
bool operand_is_gpr64(const ZydisDecodedOperand *op);
bool operand_is_register(const ZydisDecodedOperand *op, ZydisRegister reg);
bool operand_is_written(const ZydisDecodedOperand *op);
/* Is the memory relative to fs or gs? */
bool operand_has_segment(const ZydisDecodedOperand *op);

#endif
