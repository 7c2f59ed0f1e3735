/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_CODE_VALUES_H
#define BPFPROF_CUDA_CODE_VALUES_H

/*
 * What registers and stack words are known to hold before an instruction, where that is a number
 * in the code, something loaded from a fixed address or an argument of the function. What is
 * not certain is unknown: where ways meet only what both say stays. A called function keeps what
 * the ABI has it keep and may write to every word of the stack. x86-64 only.
 */

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stdint.h>

#define CODE_NR_REGS 16
#define CODE_NR_SLOTS 16
#define CODE_NR_ARGUMENTS 6

struct elf_image;
struct elf_segment;

enum code_register { /* as Zydis and the machine number them */
		     CODE_RAX,
		     CODE_RCX,
		     CODE_RDX,
		     CODE_RBX,
		     CODE_RSP,
		     CODE_RBP,
		     CODE_RSI,
		     CODE_RDI,
		     CODE_R8,
		     CODE_R9,
};

enum code_value_kind {
	CODE_UNKNOWN = 0,
	CODE_NUMBER, /* n, which may be an image-relative address */
	CODE_LOADED, /* the 8 bytes at n */
	CODE_LOADED_TWICE, /* the 8 bytes at where those at n point to */
	CODE_ARGUMENT, /* of the function, the n-th integer one, as it was passed */
	CODE_STACK, /* what rsp was at the function's begin, + n */
	CODE_TABLE_ENTRY, /* one of the 32-bit numbers from n on */
	CODE_TABLE_TARGET, /* n + one of them: where a switch leads */
};

struct code_value {
	enum code_value_kind kind;
	uint64_t n;
};

struct code_slot {
	int64_t off; /* from CODE_STACK 0 */
	struct code_value value;
};

struct code_state {
	struct code_value regs[CODE_NR_REGS];
	struct code_slot slots[CODE_NR_SLOTS]; /* what has none is unknown */
	uint32_t nr_slots;
};

/* Reads instructions by image-relative address. */
struct code_reader {
	struct elf_image *img;
	const struct elf_segment *segment; /* the last one */
	ZydisDecoder decoder;
};

struct code_instruction {
	uint64_t rva;
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
};

/* Where a branch or call leads. */
enum code_target_kind {
	CODE_TARGET_UNKNOWN = 0,
	CODE_TARGET_CODE, /* n */
	CODE_TARGET_LOADED, /* what the 8 bytes at n say */
	CODE_TARGET_TABLE, /* n: of 32-bit numbers that are added to n */
	CODE_TARGET_ADDRESSES, /* n: of 8-byte addresses */
	CODE_TARGET_POINTER, /* a field of an object: not in this function */
};

struct code_target {
	enum code_target_kind kind;
	uint64_t n;
};

/* -EOPNOTSUPP if the image's code is another machine's. Borrows img. */
int code_reader_init(struct code_reader *reader, struct elf_image *img);
/* 0; -ENOENT: no instruction there; errors of elf_image_read(). */
int code_reader_get(struct code_reader *reader, uint64_t rva, struct code_instruction *ret);
bool code_reader_has(struct code_reader *reader, uint64_t rva); /* executable there? */

void code_state_init(struct code_state *state); /* nothing is known */
void code_state_begin(struct code_state *state); /* at the begin of a function */
/* from is another way to where state is. Did state lose anything? */
bool code_state_meet(struct code_state *state, const struct code_state *from);
void code_state_execute(struct code_state *state, const struct code_instruction *in);
const struct code_value *code_state_argument(const struct code_state *state, uint32_t nr);

bool code_value_equal(const struct code_value *a, const struct code_value *b);
bool code_value_is(const struct code_value *value, uint64_t number);

/* Of a jump or a call. */
struct code_target code_target(const struct code_state *state, const struct code_instruction *in);

#endif
