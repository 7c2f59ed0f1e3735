/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_INSTRUCTION_H
#define BPFPROF_ELF_INSTRUCTION_H

/* One machine instruction. The folder of the CPU decodes it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/arch.h"

enum instruction_kind {
	INSTRUCTION_OTHER = 0,
	INSTRUCTION_NOP,
	INSTRUCTION_CALL,
	INSTRUCTION_BRANCH, /* conditional */
	INSTRUCTION_JUMP,
	INSTRUCTION_RETURN,
	INSTRUCTION_STOP, /* the code does not go on: a trap, or a halt of the processor */
};

struct instruction {
	uint32_t bytes;
	enum instruction_kind kind;
	struct arch_instruction own; /* for the folders of the CPU alone */
};

/* Is the next instruction only reached by another way? */
static inline bool instruction_ends_block(const struct instruction *in)
{
	return in->kind == INSTRUCTION_JUMP || in->kind == INSTRUCTION_RETURN ||
	       in->kind == INSTRUCTION_STOP;
}

/* Decodes the instruction at code[0..len). False: there is none. */
bool instruction_decode(const uint8_t *code, size_t len, struct instruction *ret);

/*
 * The target of a branch, a jump or a call at `at` (an address, or an offset in a file) that has the
 * distance in it; false: of another one.
 */
bool instruction_target(const struct instruction *in, uint64_t at, uint64_t *ret);
/* Does a branch, a jump or a call load its target from memory? */
bool instruction_loads_target(const struct instruction *in);
/* Does the instruction address memory by the sum of two registers, as for a table? */
bool instruction_has_index(const struct instruction *in);

#endif
