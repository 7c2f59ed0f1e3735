// SPDX-License-Identifier: Apache-2.0
#include "unwind/code_look.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <string.h>

#include "unwind/x86_64/insn_execute.h"

static bool look(const uint8_t *code, size_t len, ZydisDecodedInstruction *insn,
		 ZydisDecodedOperand *ops)
{
	ZydisDecoder decoder;

	return ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64,
					     ZYDIS_STACK_WIDTH_64)) &&
	       ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, len, insn, ops));
}

/* Are the last bytes of code[0..len) one instruction of that category? */
static bool ends_in(const uint8_t *code, size_t len, size_t bytes,
		    ZydisInstructionCategory category, ZydisDecodedInstruction *insn,
		    ZydisDecodedOperand *ops)
{
	return bytes <= len && look(code + len - bytes, bytes, insn, ops) &&
	       insn->length == bytes && insn->meta.category == category;
}

bool code_ends_in_call(const uint8_t *code, size_t len)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;
	size_t bytes;

	for (bytes = 2; bytes <= 8; bytes++)
		if (ends_in(code, len, bytes, ZYDIS_CATEGORY_CALL, &insn, ops))
			return true;
	return false;
}

int code_leads_to(const uint8_t *code, size_t len, uint64_t off, uint64_t *ret)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;

	/* Only 32-bit distances: compilers use no other for calls and for jumps out of a function. */
	return (ends_in(code, len, 5, ZYDIS_CATEGORY_CALL, &insn, ops) ||
		ends_in(code, len, 5, ZYDIS_CATEGORY_UNCOND_BR, &insn, ops)) &&
			       insn_branch_target(off - 5, &insn, ops, ret)
		       ? 0
		       : -ENODATA;
}

/* The address that the instruction loads into a register. */
static bool loads_address(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *ops,
			  uint64_t next_va, uint64_t *ret)
{
	if (insn->mnemonic == ZYDIS_MNEMONIC_LEA && ops[1].mem.base == ZYDIS_REGISTER_RIP)
		*ret = next_va + (uint64_t)ops[1].mem.disp.value;
	else if (insn->mnemonic == ZYDIS_MNEMONIC_MOV &&
		 ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		 ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
		*ret = ops[1].imm.value.u;
	else
		return false;
	return true;
}

int code_address_next(const uint8_t *code, size_t len, uint64_t va, size_t *pos, uint64_t *ret)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;

	while (*pos < len && look(code + *pos, len - *pos, &insn, ops)) {
		*pos += insn.length;
		if (loads_address(&insn, ops, va + *pos, ret))
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
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;
	size_t at = 0;

	*ret_halts = false;
	while (at < len && look(code + at, len - at, &insn, ops)) {
		at += insn.length;
		*ret_halts = insn.mnemonic == ZYDIS_MNEMONIC_HLT;
		switch (insn.meta.category) {
		case ZYDIS_CATEGORY_CALL:
		case ZYDIS_CATEGORY_RET:
		case ZYDIS_CATEGORY_UNCOND_BR:
			return at;
		case ZYDIS_CATEGORY_COND_BR:
			if (conditional)
				return at;
			break;
		default:
			if (*ret_halts || insn.mnemonic == ZYDIS_MNEMONIC_UD2)
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
