// SPDX-License-Identifier: Apache-2.0
#include "cuda/hook_place.h"

#include <stdbool.h>
#include <stddef.h>

#include "cuda/code_values.h"

#define MAX_BEFORE 16 /* instructions */
#define MAX_BRANCHES 256
#define MAX_ARGUMENT_BYTES 256 /* on the stack */
#define UNKNOWN_DEPTH INT64_MAX

/* The target of a branch, and how much less rsp is there than at the begin. */
struct branch {
	uint64_t rva;
	int64_t depth;
};

struct walk {
	struct code_reader *reader;
	uint64_t start, end; /* of the function */
	uint64_t place;
	struct branch branches[MAX_BRANCHES];
	size_t nr;
	bool has_index; /* a table may be read */
	bool has_register_jump; /* and this be the switch */
	uint32_t budget;
	struct code_instruction in;
};

static bool is_emulated(const ZydisDecodedInstruction *insn)
{
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

/* Does the instruction leave no trace for the caller and for the rest of the function? */
static bool is_harmless(const struct code_instruction *in)
{
	const ZydisDecodedOperand *op;
	bool writes;
	int i;

	if (in->insn.mnemonic == ZYDIS_MNEMONIC_NOP || in->insn.mnemonic == ZYDIS_MNEMONIC_ENDBR64)
		return true;
	if (!is_simple(in->insn.mnemonic))
		return false;
	for (i = 0; i < in->insn.operand_count; i++) {
		op = &in->ops[i];
		writes = op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY && (writes || !is_readable(op)))
			return false;
		if (op->type == ZYDIS_OPERAND_TYPE_REGISTER && writes && !is_scratch(op->reg.value))
			return false;
	}
	return true;
}

/* The first instruction that is emulated; or the begin, if one that matters comes before it. */
static uint64_t first_emulated(struct walk *w)
{
	uint64_t rva = w->start;
	int i;

	for (i = 0; i < MAX_BEFORE && rva < w->end; i++) {
		if (code_reader_get(w->reader, rva, &w->in) || w->in.insn.length > w->end - rva)
			break;
		if (is_emulated(&w->in.insn))
			return rva;
		if (!is_harmless(&w->in))
			break;
		rva += w->in.insn.length;
	}
	return w->start;
}

static bool is_noted(const struct walk *w, uint64_t rva)
{
	size_t i;

	for (i = 0; i < w->nr; i++)
		if (w->branches[i].rva == rva)
			return true;
	return false;
}

static bool branch_note(struct walk *w, uint64_t rva, int64_t depth)
{
	if (is_noted(w, rva))
		return true;
	if (w->nr == MAX_BRANCHES)
		return false;
	w->branches[w->nr++] = (struct branch){ .rva = rva, .depth = depth };
	return true;
}

static int64_t depth_of(const struct code_state *state)
{
	const struct code_value *rsp = &state->regs[CODE_RSP];

	return rsp->kind == CODE_STACK ? -(int64_t)rsp->n : UNKNOWN_DEPTH;
}

/*
 * False: the jump or call may lead to the place. At each place of a function the stack is
 * equally deep, so a switch within a frame does not lead to before the frame. A jump out of the
 * function leaves it; a conditional one may also lead to a part of it that was split off.
 */
static bool branch_follow(struct walk *w, const struct code_state *state)
{
	const ZydisDecodedOperand *op = &w->in.ops[0];
	int64_t depth = depth_of(state);
	uint64_t rva;

	if (op->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && op->imm.is_relative) {
		rva = w->in.rva + w->in.insn.length + (uint64_t)op->imm.value.s;
		if (rva > w->start && rva <= w->place)
			return false;
		if (rva == w->start || w->in.insn.meta.category == ZYDIS_CATEGORY_CALL ||
		    (w->in.insn.meta.category == ZYDIS_CATEGORY_UNCOND_BR &&
		     (rva < w->start || rva >= w->end)))
			return true;
		return branch_note(w, rva, depth);
	}
	if (w->in.insn.meta.category == ZYDIS_CATEGORY_CALL ||
	    (depth > 0 && depth != UNKNOWN_DEPTH))
		return true;
	if (op->type == ZYDIS_OPERAND_TYPE_MEMORY)
		return op->mem.index == ZYDIS_REGISTER_NONE;
	w->has_register_jump = true;
	return true;
}

static void index_note(struct walk *w)
{
	int i;

	for (i = 0; i < w->in.insn.operand_count_visible; i++)
		if (w->in.ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    w->in.ops[i].mem.index != ZYDIS_REGISTER_NONE)
			w->has_index = true;
}

static bool ends_way(const ZydisDecodedInstruction *insn)
{
	return insn->meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
	       insn->meta.category == ZYDIS_CATEGORY_RET || insn->mnemonic == ZYDIS_MNEMONIC_UD2 ||
	       insn->mnemonic == ZYDIS_MNEMONIC_HLT || insn->mnemonic == ZYDIS_MNEMONIC_INT3;
}

/* False: it leads to the place, or that is not certain. */
static bool way_follow(struct walk *w, struct branch from)
{
	struct code_state state;
	uint64_t rva = from.rva;

	code_state_begin(&state);
	state.regs[CODE_RSP].n = (uint64_t)-from.depth;
	if (from.depth == UNKNOWN_DEPTH)
		state.regs[CODE_RSP].kind = CODE_UNKNOWN;
	for (;;) {
		if (!w->budget || code_reader_get(w->reader, rva, &w->in))
			return false;
		w->budget--;
		index_note(w);
		switch (w->in.insn.meta.category) {
		case ZYDIS_CATEGORY_CALL:
		case ZYDIS_CATEGORY_COND_BR:
		case ZYDIS_CATEGORY_UNCOND_BR:
			if (!branch_follow(w, &state))
				return false;
			break;
		default:
			break;
		}
		if (ends_way(&w->in.insn))
			return true;
		code_state_execute(&state, &w->in);
		rva += w->in.insn.length;
		if (rva == w->end || is_noted(w, rva))
			return true;
	}
}

/* Does each call pass the place once? */
static bool is_passed_once(struct walk *w)
{
	size_t i;

	w->branches[w->nr++] = (struct branch){ .rva = w->place };
	for (i = 0; i < w->nr; i++)
		if (!way_follow(w, w->branches[i]))
			return false;
	return !w->has_index || !w->has_register_jump;
}

uint64_t hook_place(struct code_reader *reader, uint64_t rva, uint64_t bytes, uint32_t *budget)
{
	struct walk w = { .reader = reader, .start = rva, .end = rva + bytes };
	uint32_t before;
	bool once;

	w.place = first_emulated(&w);
	if (w.place == rva)
		return 0;
	before = *budget < HOOK_PLACE_MAX_INSTRUCTIONS ? *budget : HOOK_PLACE_MAX_INSTRUCTIONS;
	w.budget = before;
	once = is_passed_once(&w);
	*budget -= before - w.budget;
	return once ? w.place - rva : 0;
}
