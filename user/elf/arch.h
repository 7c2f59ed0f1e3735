/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_ARCH_H
#define BPFPROF_ELF_ARCH_H

/*
 * The CPU of the build, as files and code know it. The header of a CPU defines:
 *
 *	ARCH_NAME		its name, as uname() reports it
 *	ARCH_MACHINE		its number in ELF headers
 *	ARCH_CODE_FILLER	the byte with which Go's linker fills up space between functions
 *	ARCH_NR_GPRS		the number of general purpose registers
 *	ARCH_INSTRUCTION_BYTES	the length of the longest instruction
 *	struct arch_instruction	a decoded instruction, for the folders of the CPU (elf/instruction.h)
 */

#include <elf.h>

#if defined(__x86_64__)
#include "elf/x86_64/arch.h"
#else
#error "there is no folder for this CPU"
#endif

#endif
