// SPDX-License-Identifier: Apache-2.0
#include "unwind/code_look.h"

#include <errno.h>
#include <string.h>

#include "elf/instruction.h"

/* Are the last bytes of code[0..len) one instruction of that kind? */
static bool ends_in(const uint8_t *code, size_t len, size_t bytes, enum instruction_kind kind,
		    struct instruction *in)
{
	return bytes <= len && instruction_decode(code + len - bytes, bytes, in) &&
	       in->bytes == bytes && in->kind == kind;
}

bool code_ends_in_call(const uint8_t *code, size_t len)
{
	struct instruction in;
	size_t bytes;

	for (bytes = 2; bytes <= 8; bytes++)
		if (ends_in(code, len, bytes, INSTRUCTION_CALL, &in))
			return true;
	return false;
}

int code_leads_to(const uint8_t *code, size_t len, uint64_t off, uint64_t *ret)
{
	struct instruction in;

	/* Only 32-bit distances: compilers use no other for calls and for jumps out of a function. */
	return (ends_in(code, len, 5, INSTRUCTION_CALL, &in) ||
		ends_in(code, len, 5, INSTRUCTION_JUMP, &in)) &&
			       instruction_target(&in, off - 5, ret)
		       ? 0
		       : -ENODATA;
}

/* The address that the instruction loads into a register. */
static bool loads_address(const struct instruction *in, uint64_t next_va, uint64_t *ret)
{
	const ZydisDecodedOperand *ops = in->own.ops;
	ZydisMnemonic mnemonic = in->own.insn.mnemonic;

	if (mnemonic == ZYDIS_MNEMONIC_LEA && ops[1].mem.base == ZYDIS_REGISTER_RIP)
		*ret = next_va + (uint64_t)ops[1].mem.disp.value;
	else if (mnemonic == ZYDIS_MNEMONIC_MOV && ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		 ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
		*ret = ops[1].imm.value.u;
	else
		return false;
	return true;
}

int code_address_next(const uint8_t *code, size_t len, uint64_t va, size_t *pos, uint64_t *ret)
{
	struct instruction in;

	while (*pos < len && instruction_decode(code + *pos, len - *pos, &in)) {
		*pos += in.bytes;
		if (loads_address(&in, va + *pos, ret))
			return 0;
	}
	return -ENODATA;
}

/* `jmp rel32` (e9) and `jcc rel32` (0f 80..8f; *pos is behind the second byte). */
int code_jump_next(const uint8_t *code, size_t len, uint64_t va, size_t *pos, uint64_t *ret)
{
	int32_t distance;
	size_t i;

	for (i = *pos; i + 5 <= len; i++) {
		if (code[i] != 0xe9 && (!i || code[i - 1] != 0x0f || code[i] >> 4 != 8))
			continue;
		memcpy(&distance, code + i + 1, sizeof(distance));
		*pos = i + 1;
		*ret = va + i + 5 + (uint64_t)(int64_t)distance;
		return 0;
	}
	return -ENODATA;
}

/*
 * The bytes up to the end of the first call or branch; conditional branches count if `conditional`.
 * *ret_halts: a hlt ends them.
 */
static size_t run_length(const uint8_t *code, size_t len, bool conditional, bool *ret_halts)
{
	struct instruction in;
	size_t at = 0;

	*ret_halts = false;
	while (at < len && instruction_decode(code + at, len - at, &in)) {
		at += in.bytes;
		*ret_halts = in.own.insn.mnemonic == ZYDIS_MNEMONIC_HLT;
		switch (in.kind) {
		case INSTRUCTION_CALL:
		case INSTRUCTION_RETURN:
		case INSTRUCTION_JUMP:
			return at;
		case INSTRUCTION_BRANCH:
			if (conditional)
				return at;
			break;
		default:
			if (*ret_halts || in.own.insn.mnemonic == ZYDIS_MNEMONIC_UD2)
				return at;
			break;
		}
	}
	return at;
}

size_t code_straight(const uint8_t *code, size_t len)
{
	bool halts;

	return run_length(code, len, true, &halts);
}

size_t code_run(const uint8_t *code, size_t len)
{
	bool halts;

	return run_length(code, len, false, &halts);
}

bool code_begins_process(const uint8_t *code, size_t len)
{
	static const uint8_t clear_frame[] = { 0x48, 0x31, 0xed }; /* xor %rbp,%rbp */
	static const uint8_t pass_stack[] = { 0x48, 0x89, 0xe7 }; /* mov %rsp,%rdi */

	if (len >= sizeof(clear_frame) && !memcmp(code, clear_frame, sizeof(clear_frame))) {
		code += sizeof(clear_frame);
		len -= sizeof(clear_frame);
	}
	return len >= sizeof(pass_stack) && !memcmp(code, pass_stack, sizeof(pass_stack));
}

bool code_halts(const uint8_t *code, size_t len)
{
	bool halts;

	run_length(code, len, true, &halts);
	return halts;
}

size_t code_returns_from_signal(const uint8_t *code, size_t len)
{
	static const uint8_t rax[] = { 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05 };
	static const uint8_t eax[] = { 0xb8, 15, 0, 0, 0, 0x0f, 0x05 };

	if (len >= sizeof(rax) && !memcmp(code, rax, sizeof(rax)))
		return sizeof(rax);
	return len >= sizeof(eax) && !memcmp(code, eax, sizeof(eax)) ? sizeof(eax) : 0;
}
