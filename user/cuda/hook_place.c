// SPDX-License-Identifier: Apache-2.0
#include "cuda/hook_place.h"

#include <stdbool.h>
#include <stddef.h>

#include "cuda/code_values.h"
#include "cuda/hook_insn.h"

#define MAX_BEFORE 16 /* instructions */
#define MAX_BRANCHES 256

/* The target of a branch, and how much lower the stack pointer is there than at the begin. */
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
	bool has_index; /* the code reads memory as if by a table */
	bool has_register_jump; /* a jump to a register, which may be a switch */
	uint32_t budget;
	struct code_instruction in;
};

/* The first instruction that is emulated; or the begin, if one that matters comes before it. */
static uint64_t first_emulated(struct walk *w)
{
	uint64_t rva = w->start;
	int i;

	for (i = 0; i < MAX_BEFORE && rva < w->end; i++) {
		if (code_reader_get(w->reader, rva, &w->in) || w->in.insn.bytes > w->end - rva)
			break;
		if (hook_insn_is_emulated(&w->in.insn))
			return rva;
		if (!hook_insn_is_harmless(&w->in.insn))
			break;
		rva += w->in.insn.bytes;
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

/*
 * False: the jump or call may lead to the place. At each place of a function the stack is
 * equally deep, so a switch within a frame does not lead to before the frame. A jump out of the
 * function leaves it; a conditional one may also lead to a part of it that was split off.
 */
static bool branch_follow(struct walk *w, const struct code_state *state)
{
	enum instruction_kind kind = w->in.insn.kind;
	int64_t depth = code_state_depth(state);
	uint64_t rva;

	if (instruction_target(&w->in.insn, w->in.rva, &rva)) {
		if (rva > w->start && rva <= w->place)
			return false;
		if (rva == w->start || kind == INSTRUCTION_CALL ||
		    (kind == INSTRUCTION_JUMP && (rva < w->start || rva >= w->end)))
			return true;
		return branch_note(w, rva, depth);
	}
	if (kind == INSTRUCTION_CALL || (depth > 0 && depth != CODE_UNKNOWN_DEPTH))
		return true;
	if (instruction_loads_target(&w->in.insn))
		return !instruction_has_index(&w->in.insn);
	w->has_register_jump = true;
	return true;
}

/* False: it leads to the place, or that is not certain. */
static bool way_follow(struct walk *w, struct branch from)
{
	struct code_state state;
	uint64_t rva = from.rva;

	code_state_begin(&state);
	code_state_set_depth(&state, from.depth);
	for (;;) {
		if (!w->budget || code_reader_get(w->reader, rva, &w->in))
			return false;
		w->budget--;
		w->has_index |= instruction_has_index(&w->in.insn);
		switch (w->in.insn.kind) {
		case INSTRUCTION_CALL:
		case INSTRUCTION_BRANCH:
		case INSTRUCTION_JUMP:
			if (!branch_follow(w, &state))
				return false;
			break;
		default:
			break;
		}
		if (instruction_ends_block(&w->in.insn))
			return true;
		code_state_execute(&state, &w->in);
		rva += w->in.insn.bytes;
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
