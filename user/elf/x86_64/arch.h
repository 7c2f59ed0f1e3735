/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_X86_64_ARCH_H
#define BPFPROF_ELF_X86_64_ARCH_H

/* x86-64. Include elf/arch.h instead. */

#include <Zydis/Zydis.h>

#define ARCH_NAME "x86_64"
#define ARCH_MACHINE EM_X86_64
#define ARCH_CODE_FILLER 0xcc /* int3 */
#define ARCH_NR_GPRS 16
#define ARCH_INSTRUCTION_BYTES ZYDIS_MAX_INSTRUCTION_LENGTH

struct arch_instruction {
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
};

#endif
