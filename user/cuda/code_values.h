/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_CODE_VALUES_H
#define BPFPROF_CUDA_CODE_VALUES_H

/*
 * The known values of registers and stack words before an instruction: numbers in the code, words
 * loaded from a fixed address, and arguments of the function. A value that is not certain is
 * unknown; where paths meet, a value stays if both have it. A called function keeps the registers
 * that the ABI says, and may write to every word of the stack. The folder of the CPU executes
 * instructions.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/instruction.h"

#define CODE_NR_REGS ARCH_NR_GPRS
#define CODE_NR_SLOTS 16
#define CODE_NR_ARGUMENTS 6

struct elf_image;
struct elf_segment;

enum code_value_kind {
	CODE_UNKNOWN = 0,
	CODE_NUMBER, /* n, which may be an image-relative address */
	CODE_LOADED, /* the 8 bytes at n */
	CODE_LOADED_TWICE, /* the 8 bytes that those at n point to */
	CODE_ARGUMENT, /* the n-th integer argument of the function, as it was passed */
	CODE_STACK, /* the stack pointer at the begin of the function, + n */
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
	struct code_slot slots[CODE_NR_SLOTS]; /* other words of the stack are unknown */
	uint32_t nr_slots;
};

/* Reads instructions by image-relative address. */
struct code_reader {
	struct elf_image *img;
	const struct elf_segment *segment; /* the last one read */
};

struct code_instruction {
	uint64_t rva;
	struct instruction insn;
};

/* The target of a branch or call. */
enum code_target_kind {
	CODE_TARGET_UNKNOWN = 0,
	CODE_TARGET_CODE, /* n */
	CODE_TARGET_LOADED, /* the address in the 8 bytes at n */
	CODE_TARGET_TABLE, /* an entry of the table at n: 32-bit numbers that are added to n */
	CODE_TARGET_ADDRESSES, /* an entry of the table at n: 8-byte addresses */
	CODE_TARGET_POINTER, /* a field of an object: outside of this function */
};

struct code_target {
	enum code_target_kind kind;
	uint64_t n;
};

/* 0; -EOPNOTSUPP: the code is for another machine. Borrows img. */
int code_reader_init(struct code_reader *reader, struct elf_image *img);
/* 0; -ENOENT: no instruction there; errors of elf_image_read(). */
int code_reader_get(struct code_reader *reader, uint64_t rva, struct code_instruction *ret);
/* The bytes at rva, at most len: their number; -ENOENT: no code; errors of elf_image_read(). */
int code_reader_bytes(struct code_reader *reader, uint64_t rva, uint8_t *code, size_t len);
bool code_reader_has(struct code_reader *reader, uint64_t rva); /* is it executable? */

void code_state_init(struct code_state *state); /* all unknown */
void code_state_begin(struct code_state *state); /* as at the begin of a function */
/* Another path with the state `from` meets state. True: state lost a value. */
bool code_state_meet(struct code_state *state, const struct code_state *from);
void code_state_execute(struct code_state *state, const struct code_instruction *in);
const struct code_value *code_state_argument(const struct code_state *state, uint32_t nr);
/* How much lower the stack pointer is than at the begin of the function. */
#define CODE_UNKNOWN_DEPTH INT64_MAX
int64_t code_state_depth(const struct code_state *state);
void code_state_set_depth(struct code_state *state, int64_t depth);
/* The value that in has put into a register, if it is a move or makes an address; else NULL. */
const struct code_value *code_state_put(const struct code_state *state,
					const struct code_instruction *in);
/* Does the instruction only mark the begin of a function, or make or remove its frame? */
bool code_is_frame(const struct code_instruction *in);

bool code_value_equal(const struct code_value *a, const struct code_value *b);
bool code_value_is(const struct code_value *value, uint64_t number);

/* The target of a jump or a call. */
struct code_target code_target(const struct code_state *state, const struct code_instruction *in);

#endif
