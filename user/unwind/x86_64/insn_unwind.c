// SPDX-License-Identifier: Apache-2.0
#include "unwind/insn_unwind.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "base/vec.h"
#include "elf/image.h"
#include "elf/instruction.h"
#include "elf/x86_64/operand.h"
#include "unwind/x86_64/insn_execute.h"
#include "unwind/x86_64/insn_machine.h"
#include "unwind/x86_64/insn_row.h"
#include "arch.h"

/*
 * An abstract interpreter. Each instruction has a state of the registers before it, as terms over
 * the registers at the first instruction (insn_machine.h). Where ways meet, a difference becomes
 * unknown: a state only ever loses, so the interpreter comes to an end. A stack word that was not
 * written on the way has its first value.
 *
 * The ABI is trusted: called functions preserve the registers that they must, and stores through
 * pointers not known to point into the frame leave the saved registers alone.
 */

#define BLOCK_BYTES 4096
#define MAX_BLOCKS 64
#define MAX_VISITS (2 * INSN_UNWIND_MAX_INSTRUCTIONS)
#define ENOUGH_INSTRUCTIONS 2048 /* if a return is among them */
#define MAX_BORDER_CALLS 256
#define MAX_PADDING 15 /* between functions that begin at multiples of 16 */
#define NO_INSTRUCTION (-1)

struct passed {
	uint64_t off;
	uint32_t len; /* 0: not decoded yet */
	bool queued, is_ret, is_jump; /* is_jump: to an unknown target */
	bool border_known, at_border;
	struct machine before;
};

/* Code is read once, block by block. */
struct block {
	uint64_t off; /* a multiple of BLOCK_BYTES */
	uint32_t len;
	uint8_t code[BLOCK_BYTES];
	int16_t at[BLOCK_BYTES]; /* number of the instruction that begins there */
};

_Static_assert(INSN_UNWIND_MAX_INSTRUCTIONS <= INT16_MAX, "numbers of instructions in blocks");

struct follower {
	const struct code_area *area;
	uint64_t origin; /* the place that needs a rule */
	struct passed *instructions;
	size_t nr, cap;
	struct block *blocks[MAX_BLOCKS], *last_block;
	size_t nr_blocks, nr_border_calls;
	int32_t *queue; /* a ring: each instruction is in it at most once */
	size_t queue_first, queue_nr;
	bool found_ret;
};
/* The block that has off: 0, 1 if it is not in the file, -ENODATA if there are too many. */
static int block_get(struct follower *f, uint64_t off, struct block **ret)
{
	const struct code_area *area = f->area;
	uint64_t first = off - off % BLOCK_BYTES;
	uint64_t size = area->img ? elf_image_size(area->img) : area->end;
	struct block *block;
	size_t i;
	int err;

	*ret = f->last_block;
	if (*ret && (*ret)->off == first)
		return 0;
	if (off >= size)
		return 1;
	for (i = 0; i < f->nr_blocks; i++)
		if (f->blocks[i]->off == first) {
			*ret = f->last_block = f->blocks[i];
			return 0;
		}
	if (f->nr_blocks == MAX_BLOCKS)
		return -ENODATA;
	block = malloc(sizeof(*block));
	if (!block)
		return -ENOMEM;
	block->off = first;
	block->len = (uint32_t)(size - first < BLOCK_BYTES ? size - first : BLOCK_BYTES);
	memset(block->at, 0xff, sizeof(block->at)); /* NO_INSTRUCTION */
	err = area->img ? elf_image_read(area->img, first, block->code, block->len)
			: area->read(area->arg, first, block->code, block->len);
	if (err) {
		free(block);
		return err;
	}
	*ret = f->last_block = f->blocks[f->nr_blocks++] = block;
	return 0;
}

/* Reads at most one instruction's bytes from off. Their number, or -errno. */
static int code_get(struct follower *f, uint64_t off, uint8_t *code)
{
	uint64_t left = f->area->end - off;
	uint32_t want, len = 0, at, part;
	struct block *block;
	int err;

	want = left < ARCH_INSTRUCTION_BYTES ? (uint32_t)left : ARCH_INSTRUCTION_BYTES;
	while (len < want) {
		err = block_get(f, off + len, &block);
		if (err < 0 && !len)
			return err;
		at = (off + len) % BLOCK_BYTES;
		if (err || at >= block->len)
			break;
		part = block->len - at < want - len ? block->len - at : want - len;
		memcpy(code + len, block->code + at, part);
		len += part;
	}
	return (int)len;
}

static void enqueue(struct follower *f, int32_t at)
{
	if (f->instructions[at].queued)
		return;
	f->instructions[at].queued = true;
	f->queue[(f->queue_first + f->queue_nr++) % INSN_UNWIND_MAX_INSTRUCTIONS] = at;
}

/* The machine comes to off in this state. */
static int arrive(struct follower *f, uint64_t off, struct machine *m)
{
	struct block *block;
	int16_t *at;
	int err;

	if (off < f->area->start || off >= f->area->end) /* nothing to read there */
		return 0;
	err = block_get(f, off, &block);
	if (err || off - block->off >= block->len)
		return err < 0 ? err : 0;
	at = &block->at[off - block->off];
	if (*at != NO_INSTRUCTION) {
		if (insn_meet(&f->instructions[*at].before, m))
			enqueue(f, *at);
		return 0;
	}
	if (f->found_ret && f->nr >= ENOUGH_INSTRUCTIONS && f->area->way != CODE_FROM_START)
		return 0;
	if (f->nr == INSN_UNWIND_MAX_INSTRUCTIONS)
		return -ENODATA;
	if (vec_grow(f->instructions, f->nr + 1, f->cap, INSN_UNWIND_MAX_INSTRUCTIONS))
		return -ENOMEM;
	*at = (int16_t)f->nr++;
	f->instructions[*at] = (struct passed){ .off = off, .before = *m };
	enqueue(f, *at);
	return 0;
}

/* 0, 1 if there is no instruction, -errno. */
static int decode(struct follower *f, uint64_t off, struct instruction *ret)
{
	uint8_t code[ARCH_INSTRUCTION_BYTES];
	int len = code_get(f, off, code);

	if (len < 0)
		return len;
	return !instruction_decode(code, (size_t)len, ret);
}

/* The end of the padding that may follow the last instruction of a function. */
static uint64_t padding_end(struct follower *f, uint64_t off)
{
	struct instruction in;
	uint64_t at = off;

	while (at < f->area->end && at - off <= MAX_PADDING && !decode(f, at, &in) &&
	       (in.kind == INSTRUCTION_NOP || in.own.insn.mnemonic == ZYDIS_MNEMONIC_INT3))
		at += in.bytes;
	return at;
}

/* Does the instruction at off look like the first one of a function? */
static bool looks_like_start(struct follower *f, uint64_t off)
{
	ZydisMnemonic mnemonic;
	struct instruction in;

	if (decode(f, off, &in))
		return false;
	mnemonic = in.own.insn.mnemonic;
	return mnemonic == ZYDIS_MNEMONIC_PUSH || mnemonic == ZYDIS_MNEMONIC_ENDBR64 ||
	       (mnemonic == ZYDIS_MNEMONIC_SUB && operand_is_gpr64(&in.own.ops[0]) &&
		insn_gpr(in.own.ops[0].reg.value) == UNWIND_RSP);
}

/* Does the code behind a call, from next, look like the next function? end is that of its padding. */
static bool looks_like_border(struct follower *f, uint64_t next, uint64_t end)
{
	return (end != next && !(end & 15)) || looks_like_start(f, end);
}

/* A call does not return if another function follows immediately. */
static bool is_last_call(struct follower *f, struct passed *at, uint64_t next)
{
	const struct code_area *area = f->area;
	uint64_t end;

	if (at->border_known || f->nr_border_calls == MAX_BORDER_CALLS)
		return at->at_border;
	f->nr_border_calls++;
	at->border_known = true;
	if (next >= area->end)
		return at->at_border = true;
	end = padding_end(f, next);
	if (area->way == CODE_TO_NEAR_RETURN || area->starts_unknown)
		at->at_border = looks_like_border(f, next, end);
	if (!at->at_border && area->function_starts)
		at->at_border =
			area->function_starts(area->arg, next) ||
			(end != next && end < area->end && area->function_starts(area->arg, end));
	return at->at_border;
}

/* Executes the instruction and goes on to those after it. 0 or -errno. */
static int follow_one(struct follower *f, int32_t index)
{
	struct passed *at = &f->instructions[index];
	struct instruction in;
	struct machine after = at->before;
	uint64_t next, target;
	int err = decode(f, at->off, &in);

	if (err)
		return err < 0 ? err : 0; /* not code: no way leads through here */
	at->len = in.bytes;
	next = at->off + in.bytes;
	switch (in.kind) {
	case INSTRUCTION_STOP:
		return 0;
	case INSTRUCTION_RETURN:
		at->is_ret = in.own.insn.mnemonic == ZYDIS_MNEMONIC_RET &&
			     in.own.insn.meta.branch_type == ZYDIS_BRANCH_TYPE_NEAR;
		f->found_ret |= at->is_ret;
		return 0;
	case INSTRUCTION_JUMP:
		at->is_jump = !instruction_target(&in, at->off, &target);
		return at->is_jump ? 0 : arrive(f, target, &after);
	case INSTRUCTION_BRANCH:
		insn_clobber(&after, &in); /* loop counts rcx */
		err = instruction_target(&in, at->off, &target) ? arrive(f, target, &after) : 0;
		return err ? err : arrive(f, next, &after);
	case INSTRUCTION_CALL:
		if (instruction_target(&in, at->off, &target) && target == next)
			insn_push(&after, unknown()); /* the code learns its own address */
		else if (is_last_call(f, at, next))
			return 0;
		else
			insn_call(&after);
		return arrive(f, next, &after);
	default:
		insn_execute(&after, &in);
		return arrive(f, next, &after);
	}
}

static int follow(struct follower *f)
{
	size_t visits = 0;
	int32_t at;
	int err = 0;

	while (!err && f->queue_nr) {
		if (visits++ == MAX_VISITS)
			return -ENODATA;
		at = f->queue[f->queue_first];
		f->queue_first = (f->queue_first + 1) % INSN_UNWIND_MAX_INSTRUCTIONS;
		f->queue_nr--;
		f->instructions[at].queued = false;
		err = follow_one(f, at);
	}
	return err;
}

/*
 * Was a register's first value saved on the stack? Then one that is loaded relative to another
 * register, which may have been made from rsp before we began, is likely to be that value.
 */
static bool is_saved(const struct follower *f, uint8_t reg)
{
	const struct value first = { .kind = VALUE_REG, .base = reg };
	const struct slot *s;
	size_t i;

	for (i = 0; i < f->nr; i++)
		for (s = f->instructions[i].before.slots;
		     s < f->instructions[i].before.slots + NR_SLOTS; s++)
			if (s->used && s->base == UNWIND_RSP && insn_value_equal(&s->value, &first))
				return true;
	return false;
}

static void caller_doubt(const struct follower *f, struct value *value, uint8_t reg)
{
	if (value->kind == VALUE_LOADED && value->base != UNWIND_RSP && value->base != UNWIND_RBP &&
	    is_saved(f, reg))
		*value = unknown();
}

/* All `ret`s must agree on the stack pointer. */
static int caller_by_returns(const struct follower *f, struct insn_caller *ret)
{
	const struct passed *in = f->instructions;
	bool found = false;
	struct value cfa;
	size_t i;

	for (i = 0; i < f->nr; i++, in++) {
		if (!in->is_ret)
			continue;
		cfa = insn_value_plus(in->before.regs[UNWIND_RSP], 8);
		if (cfa.kind == VALUE_UNKNOWN || (found && !insn_value_equal(&cfa, &ret->cfa)))
			return -ENODATA;
		if (!found) {
			ret->cfa = cfa;
			ret->rbp = in->before.regs[UNWIND_RBP];
			ret->rbx = in->before.regs[UNWIND_RBX];
			found = true;
		}
		if (!insn_value_equal(&ret->rbp, &in->before.regs[UNWIND_RBP]))
			ret->rbp = unknown();
		if (!insn_value_equal(&ret->rbx, &in->before.regs[UNWIND_RBX]))
			ret->rbx = unknown();
	}
	caller_doubt(f, &ret->rbp, UNWIND_RBP);
	caller_doubt(f, &ret->rbx, UNWIND_RBX);
	return found ? 0 : -ENODATA;
}

/* The caller's registers, as terms over the registers at the first instruction. */
static int caller_find(const struct follower *f, struct insn_caller *ret)
{
	static const struct value rsp = { .kind = VALUE_REG, .base = UNWIND_RSP, .add = 8 };
	static const struct value rbp = { .kind = VALUE_REG, .base = UNWIND_RBP };
	static const struct value rbx = { .kind = VALUE_REG, .base = UNWIND_RBX };

	switch (f->area->way) {
	case CODE_FROM_START: /* System V ABI, 3.2.2: the return address is at rsp */
		*ret = (struct insn_caller){ .cfa = rsp, .rbp = rbp, .rbx = rbx };
		return 0;
	case CODE_FRAME_POINTER: /* System V ABI, 3.2.2, figure 3.3 */
		*ret = (struct insn_caller){ .cfa = insn_value_plus(rbp, 16),
					     .rbp = { .kind = VALUE_LOADED, .base = UNWIND_RBP } };
		return 0;
	default:
		return caller_by_returns(f, ret);
	}
}

static int by_offset(const void *a, const void *b, void *arg)
{
	const struct passed *instructions = arg;
	const struct passed *x = &instructions[*(const int32_t *)a];
	const struct passed *y = &instructions[*(const int32_t *)b];

	return sorted_order(x->off, y->off);
}

/* If there is no room for all, the rules around the origin are kept. */
static int rules_write(struct follower *f, const struct insn_caller *caller,
		       struct insn_rule *rules, size_t cap)
{
	const struct passed *in;
	struct insn_rule *last = NULL;
	uint64_t row, pos = 0;
	size_t i, nr = 0;

	for (i = 0; i < f->nr; i++)
		f->queue[i] = (int32_t)i; /* empty, and long enough */
	qsort_r(f->queue, f->nr, sizeof(*f->queue), by_offset, f->instructions);
	for (i = 0; i < f->nr; i++) {
		in = &f->instructions[f->queue[i]];
		row = in->len ? insn_row_make(&in->before, caller) : 0;
		/* Instructions that lie over one another are no honest code. */
		if (!row || in->off < pos)
			continue;
		pos = in->off + in->len;
		if (last && last->off + last->len == in->off && last->row == row) {
			last->len += in->len;
			continue;
		}
		if (nr == cap) {
			if (!cap || last->off + last->len > f->origin)
				break;
			nr -= (cap + 1) / 2;
			memmove(rules, rules + (cap + 1) / 2, nr * sizeof(*rules));
		}
		last = &rules[nr++];
		*last = (struct insn_rule){ .off = in->off, .row = row, .len = in->len };
	}
	return (int)nr;
}

static int follower_init(struct follower *f, uint64_t from)
{
	struct machine begin = { 0 };
	int i;

	f->queue = malloc(INSN_UNWIND_MAX_INSTRUCTIONS * sizeof(*f->queue));
	if (!f->queue)
		return -ENOMEM;
	for (i = 0; i < NR_GPRS; i++)
		begin.regs[i] = (struct value){ .kind = VALUE_REG, .base = (uint8_t)i };
	return arrive(f, from, &begin);
}

/* Did the way pass the instruction at the origin, or the call that returns there? */
static bool is_reached(const struct follower *f)
{
	uint64_t at = f->origin - f->area->after_call;
	size_t i;

	for (i = 0; i < f->nr; i++)
		if (at >= f->instructions[i].off &&
		    at - f->instructions[i].off < f->instructions[i].len)
			return true;
	return false;
}

/*
 * The state that all indirect jumps agree on. A jump with the first stack pointer may be a tail
 * call: it counts only if there is no other.
 */
static bool jumps_meet(const struct follower *f, bool with_frame, struct machine *ret)
{
	const struct value *rsp;
	struct machine other;
	bool found = false;
	size_t i;

	for (i = 0; i < f->nr; i++) {
		rsp = &f->instructions[i].before.regs[UNWIND_RSP];
		if (!f->instructions[i].is_jump || rsp->kind != VALUE_REG ||
		    (rsp->base == UNWIND_RSP && !rsp->add) == with_frame)
			continue;
		other = f->instructions[i].before;
		if (found)
			insn_meet(ret, &other);
		else
			*ret = other;
		found = true;
	}
	return found;
}

/* The end of the code reached before the origin. */
static uint64_t reached_before(const struct follower *f)
{
	uint64_t last = f->area->start, end;
	size_t i;

	for (i = 0; i < f->nr; i++) {
		end = f->instructions[i].off + f->instructions[i].len;
		if (end > last && end <= f->origin)
			last = end;
	}
	return last;
}

/*
 * The first instruction of the code that runs into the origin, if only a jump leads to it: it
 * follows the reached code, or the last instruction that does not go on to the next one.
 * 0 or -ENODATA.
 */
static int block_begin(struct follower *f, uint64_t *ret)
{
	struct instruction in;
	uint64_t at = reached_before(f);

	*ret = at;
	while (at < f->origin) {
		if (decode(f, at, &in))
			return -ENODATA;
		at += in.bytes;
		if (in.kind == INSTRUCTION_JUMP || in.kind == INSTRUCTION_RETURN)
			*ret = at;
	}
	return at == f->origin ? 0 : -ENODATA;
}

/* Follows the code that only a jump through a table leads to. */
static int follow_jumps(struct follower *f)
{
	struct machine m;
	uint64_t begin;
	int err;

	if (is_reached(f) || !f->area->whole)
		return 0;
	if ((!jumps_meet(f, true, &m) && !jumps_meet(f, false, &m)) || block_begin(f, &begin))
		return -ENODATA;
	err = arrive(f, begin, &m);
	return err ? err : follow(f);
}

int insn_unwind_find(const struct code_area *area, uint64_t off, struct insn_rule *rules,
		     size_t cap)
{
	uint64_t start = area->way == CODE_FROM_START ? area->function : off;
	struct follower f = { .area = area, .origin = off };
	struct insn_caller caller = { 0 };
	int err;

	if (off < area->start || off - area->after_call >= area->end || start < area->start ||
	    start >= area->end || (area->img && elf_image_machine(area->img) != EM_X86_64))
		return -ENODATA;
	err = follower_init(&f, start);
	if (!err && area->starts_unknown && area->after_call && area->way != CODE_FROM_START &&
	    looks_like_border(&f, off, padding_end(&f, off)))
		err = -ENODATA;
	if (!err)
		err = follow(&f);
	if (!err && area->way == CODE_FROM_START)
		err = follow_jumps(&f);
	if (!err)
		err = caller_find(&f, &caller);
	if (!err)
		err = rules_write(&f, &caller, rules, cap);
	while (f.nr_blocks)
		free(f.blocks[--f.nr_blocks]);
	free(f.instructions);
	free(f.queue);
	return err;
}
