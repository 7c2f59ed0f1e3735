// SPDX-License-Identifier: Apache-2.0
#include "unwind/x86_64/insn_unwind.h"

#include <Zydis/Zydis.h>
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "elf/image.h"
#include "unwind/reader.h"
#include "unwind_native.h"

/*
 * An abstract interpreter: each instruction has the state of the registers before it, as terms
 * over what the registers were where we began. Where ways meet, what differs is unknown: a
 * state only ever loses, so that this comes to an end. A word of the stack that was not
 * written on the way is what it was at the beginning.
 *
 * Taken on trust, as the ABI has it: called functions preserve what they must, and stores
 * through pointers that are not known to point into the frame do not hit what is saved there.
 */

#define NR_GPRS 16
#define NR_SLOTS 12
#define BLOCK_BYTES 4096
#define MAX_BLOCKS 64
#define MAX_VISITS (2 * INSN_UNWIND_MAX_INSTRUCTIONS)
#define ENOUGH_INSTRUCTIONS 2048 /* with a way out among them */
#define MAX_BORDER_CALLS 256
#define MAX_PADDING 15 /* between functions that begin at multiples of 16 */
#define MAX_OFF (1 << 24)
#define BASE_ALIGNED 16 /* the stack pointer after it was rounded down */
#define NO_INSTRUCTION (-1)

enum value_kind { VALUE_UNKNOWN = 0, VALUE_REG, VALUE_LOADED, VALUE_LOADED_TWICE };

/*
 * REG: what register `base` was + add. LOADED: what is at (what base was + off), + add.
 * LOADED_TWICE: what is where that leads.
 */
struct value {
	uint8_t kind, base;
	int32_t off, add;
};

/* A word of the stack that was written on the way. */
struct slot {
	uint8_t base;
	bool used;
	int32_t off;
	struct value value;
};

struct machine {
	struct value regs[NR_GPRS]; /* DWARF numbers */
	struct slot slots[NR_SLOTS];
	bool full; /* more was written than there are slots: what has none is unknown */
};

struct instruction {
	uint64_t off;
	uint32_t len; /* 0: not decoded yet */
	bool queued, is_ret, is_jump; /* is_jump: where to is not known */
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
	uint64_t origin; /* where the rule is wanted */
	ZydisDecoder decoder;
	struct instruction *instructions;
	size_t nr, cap;
	struct block *blocks[MAX_BLOCKS], *last_block;
	size_t nr_blocks, nr_border_calls;
	int32_t *queue; /* a ring: each instruction is in it at most once */
	size_t queue_first, queue_nr;
	bool found_ret;
};

static struct value unknown(void)
{
	return (struct value){ .kind = VALUE_UNKNOWN };
}

static bool value_equal(const struct value *a, const struct value *b)
{
	if (a->kind != b->kind)
		return false;
	return a->kind == VALUE_UNKNOWN ||
	       (a->base == b->base && a->add == b->add && a->off == b->off);
}

static struct value value_plus(struct value v, int64_t n)
{
	if (v.kind == VALUE_LOADED_TWICE && !n)
		return v;
	if (v.kind == VALUE_UNKNOWN || v.kind == VALUE_LOADED_TWICE || n > MAX_OFF ||
	    n < -MAX_OFF || v.add + n > MAX_OFF || v.add + n < -MAX_OFF)
		return unknown();
	v.add += (int32_t)n;
	return v;
}

static struct slot *slot_find(struct machine *m, uint8_t base, int32_t off)
{
	int i;

	for (i = 0; i < NR_SLOTS; i++)
		if (m->slots[i].used && m->slots[i].base == base && m->slots[i].off == off)
			return &m->slots[i];
	return NULL;
}

/* Are the 8 bytes there what they were at the beginning? */
static bool is_untouched(const struct machine *m, uint8_t base, int32_t off)
{
	const struct slot *s;

	for (s = m->slots; s < m->slots + NR_SLOTS; s++)
		if (s->used && s->base == base && s->off < off + 8 && off < s->off + 8)
			return false;
	return !m->full;
}

/* The 8 bytes at address. */
static struct value load(struct machine *m, struct value address)
{
	struct slot *slot;

	if (address.kind == VALUE_LOADED) {
		address.kind = VALUE_LOADED_TWICE;
		return address;
	}
	if (address.kind != VALUE_REG)
		return unknown();
	slot = slot_find(m, address.base, address.add);
	if (slot)
		return slot->value;
	if (!is_untouched(m, address.base, address.add))
		return unknown();
	return (struct value){ .kind = VALUE_LOADED, .base = address.base, .off = address.add };
}

/* Something of the caller's that may be looked for: all else that is spilled is data. */
static bool is_precious(const struct value *v)
{
	return v->kind == VALUE_REG && (v->base == UNWIND_RSP || v->base == UNWIND_RBP ||
					v->base == UNWIND_RBX || v->base == BASE_ALIGNED);
}

/* Room for a word that has no slot: a free one, else one that only says that data was written. */
static struct slot *slot_take(struct machine *m)
{
	struct slot *s, *data = NULL;

	for (s = m->slots; s < m->slots + NR_SLOTS; s++) {
		if (!s->used)
			return s;
		if (!is_precious(&s->value))
			data = s;
	}
	return data;
}

static bool is_loaded_from(const struct value *v, const struct value *address)
{
	return v->kind == VALUE_LOADED && v->base == address->base && v->off == address->add &&
	       !v->add;
}

static void store(struct machine *m, struct value address, uint32_t bytes, struct value value)
{
	struct slot *slot, *s;

	if (address.kind != VALUE_REG)
		return;
	for (s = m->slots; s < m->slots + NR_SLOTS; s++)
		if (s->used && s->base == address.base && s->off != address.add &&
		    s->off < address.add + (int32_t)bytes && address.add < s->off + 8)
			s->value = unknown();
	if (bytes != 8)
		value = unknown();
	slot = slot_find(m, address.base, address.add);
	if (is_loaded_from(&value, &address) && !m->full) { /* as it was */
		if (slot)
			slot->used = false;
		return;
	}
	if (!slot)
		slot = slot_take(m);
	if (slot)
		*slot = (struct slot){
			.base = address.base, .used = true, .off = address.add, .value = value
		};
	else
		m->full = true;
}

static bool slots_meet(struct machine *a, struct machine *b)
{
	struct slot *s, *other;
	bool changed = false;

	for (s = a->slots; s < a->slots + NR_SLOTS; s++) {
		if (!s->used || s->value.kind == VALUE_UNKNOWN)
			continue;
		other = slot_find(b, s->base, s->off);
		if (!other || !value_equal(&s->value, &other->value)) {
			s->value = unknown();
			changed = true;
		}
	}
	for (s = b->slots; s < b->slots + NR_SLOTS && !a->full; s++) {
		if (!s->used || slot_find(a, s->base, s->off))
			continue;
		for (other = a->slots; other < a->slots + NR_SLOTS && other->used;)
			other++;
		if (other < a->slots + NR_SLOTS)
			*other = (struct slot){ .base = s->base, .used = true, .off = s->off };
		else if (is_precious(&s->value))
			a->full = true;
		else
			continue; /* data, as in slot_take() */
		changed = true;
	}
	if (b->full && !a->full)
		a->full = changed = true;
	return changed;
}

/* b is another way to where a is: a keeps what both say. Did that change it? */
static bool machine_meet(struct machine *a, struct machine *b)
{
	bool changed = false;
	int i;

	for (i = 0; i < NR_GPRS; i++)
		if (a->regs[i].kind != VALUE_UNKNOWN && !value_equal(&a->regs[i], &b->regs[i])) {
			a->regs[i] = unknown();
			changed = true;
		}
	return slots_meet(a, b) || changed;
}

/* The block that has off: 0, 1 if it is not in the file, -ENODATA if it is one too many. */
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

/* The bytes from off on, at most one instruction's. How many, or -errno. */
static int code_get(struct follower *f, uint64_t off, uint8_t *code)
{
	uint64_t left = f->area->end - off;
	uint32_t want, len = 0, at, part;
	struct block *block;
	int err;

	want = left < ZYDIS_MAX_INSTRUCTION_LENGTH ? (uint32_t)left : ZYDIS_MAX_INSTRUCTION_LENGTH;
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
		if (machine_meet(&f->instructions[*at].before, m))
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
	f->instructions[*at] = (struct instruction){ .off = off, .before = *m };
	enqueue(f, *at);
	return 0;
}

/* DWARF number of the 64-bit register that reg is part of, -1 if it is another kind. */
static int gpr(ZydisRegister reg)
{
	static const int8_t dwarf[NR_GPRS] = {
		0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15
	};
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	if (ZydisRegisterGetClass(whole) != ZYDIS_REGCLASS_GPR64)
		return -1;
	return dwarf[ZydisRegisterGetId(whole) & (NR_GPRS - 1)];
}

static bool is_gpr64(const ZydisDecodedOperand *op)
{
	return op->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       ZydisRegisterGetClass(op->reg.value) == ZYDIS_REGCLASS_GPR64;
}

/* The address that a memory operand means, unknown if it has an index. */
static struct value address_of(const struct machine *m, const ZydisDecodedOperand *op)
{
	int base = gpr(op->mem.base);

	if (base < 0 || ZydisRegisterGetClass(op->mem.base) != ZYDIS_REGCLASS_GPR64 ||
	    op->mem.index != ZYDIS_REGISTER_NONE || op->mem.segment == ZYDIS_REGISTER_FS ||
	    op->mem.segment == ZYDIS_REGISTER_GS)
		return unknown();
	return value_plus(m->regs[base], op->mem.disp.value);
}

/* What an instruction of no further interest writes is unknown after it. */
static void clobber(struct machine *m, const ZydisDecodedInstruction *insn,
		    const ZydisDecodedOperand *ops)
{
	int i, reg;

	for (i = 0; i < insn->operand_count; i++) {
		if (!(ops[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		if (ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER) {
			reg = gpr(ops[i].reg.value);
			if (reg >= 0)
				m->regs[reg] = unknown();
		} else if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY) {
			store(m, address_of(m, &ops[i]), ops[i].size / 8, unknown());
		}
	}
}

static void push(struct machine *m, struct value value)
{
	m->regs[UNWIND_RSP] = value_plus(m->regs[UNWIND_RSP], -8);
	store(m, m->regs[UNWIND_RSP], 8, value);
}

static struct value pop(struct machine *m)
{
	struct value value = load(m, m->regs[UNWIND_RSP]);

	m->regs[UNWIND_RSP] = value_plus(m->regs[UNWIND_RSP], 8);
	return value;
}

/* Register and immediate: the only arithmetic that stack pointers are made by. */
static bool adds_immediate(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *ops)
{
	return (insn->mnemonic == ZYDIS_MNEMONIC_ADD || insn->mnemonic == ZYDIS_MNEMONIC_SUB) &&
	       is_gpr64(&ops[0]) && ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
}

/*
 * Only one stack pointer that was rounded down is known at a time; a pointer to data that
 * is rounded beside it must not be taken for it.
 */
static bool rounds_down(const struct machine *m, const ZydisDecodedInstruction *insn,
			const ZydisDecodedOperand *ops)
{
	const struct value *v;

	if (insn->mnemonic != ZYDIS_MNEMONIC_AND || !is_gpr64(&ops[0]) ||
	    ops[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE || ops[1].imm.value.s >= 0)
		return false;
	v = &m->regs[gpr(ops[0].reg.value)];
	return v->kind == VALUE_REG && v->base == UNWIND_RSP &&
	       m->regs[UNWIND_RSP].kind == VALUE_REG && m->regs[UNWIND_RSP].base == UNWIND_RSP;
}

static void round_down(struct machine *m, int reg)
{
	struct slot *s;
	int i;

	for (i = 0; i < NR_GPRS; i++)
		if (m->regs[i].kind != VALUE_UNKNOWN && m->regs[i].base == BASE_ALIGNED)
			m->regs[i] = unknown();
	for (s = m->slots; s < m->slots + NR_SLOTS; s++)
		if (s->used && s->base == BASE_ALIGNED)
			s->used = false;
		else if (s->value.kind != VALUE_UNKNOWN && s->value.base == BASE_ALIGNED)
			s->value = unknown();
	m->regs[reg] = (struct value){ .kind = VALUE_REG, .base = BASE_ALIGNED };
}

static void move(struct machine *m, const ZydisDecodedInstruction *insn,
		 const ZydisDecodedOperand *ops)
{
	const ZydisDecodedOperand *to = &ops[0], *from = &ops[1];

	if (is_gpr64(to) && is_gpr64(from))
		m->regs[gpr(to->reg.value)] = m->regs[gpr(from->reg.value)];
	else if (is_gpr64(to) && from->type == ZYDIS_OPERAND_TYPE_MEMORY)
		m->regs[gpr(to->reg.value)] = load(m, address_of(m, from));
	else if (to->type == ZYDIS_OPERAND_TYPE_MEMORY && is_gpr64(from))
		store(m, address_of(m, to), 8, m->regs[gpr(from->reg.value)]);
	else
		clobber(m, insn, ops);
}

/* What one instruction that does not branch does to the machine. */
static void execute(struct machine *m, const ZydisDecodedInstruction *insn,
		    const ZydisDecodedOperand *ops)
{
	struct value value;
	int64_t n;
	int reg;

	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_PUSH:
		if (insn->operand_width == 64)
			push(m, is_gpr64(&ops[0]) ? m->regs[gpr(ops[0].reg.value)] : unknown());
		else
			m->regs[UNWIND_RSP] = unknown();
		return;
	case ZYDIS_MNEMONIC_POP:
		value = pop(m);
		if (insn->operand_width != 64)
			m->regs[UNWIND_RSP] = unknown();
		else if (is_gpr64(&ops[0]))
			m->regs[gpr(ops[0].reg.value)] = value;
		else if (ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY)
			store(m, address_of(m, &ops[0]), 8, value);
		return;
	case ZYDIS_MNEMONIC_PUSHFQ:
		push(m, unknown());
		return;
	case ZYDIS_MNEMONIC_POPFQ:
		pop(m);
		return;
	case ZYDIS_MNEMONIC_LEAVE:
		m->regs[UNWIND_RSP] = m->regs[UNWIND_RBP];
		m->regs[UNWIND_RBP] = pop(m);
		return;
	case ZYDIS_MNEMONIC_MOV:
		move(m, insn, ops);
		return;
	case ZYDIS_MNEMONIC_SYSCALL: /* writes rax too, which is not among its operands */
		m->regs[UNWIND_RAX] = unknown();
		break;
	case ZYDIS_MNEMONIC_LEA:
		if (is_gpr64(&ops[0])) {
			value = address_of(m, &ops[1]);
			m->regs[gpr(ops[0].reg.value)] = value;
			return;
		}
		break;
	default:
		break;
	}
	if (adds_immediate(insn, ops)) {
		reg = gpr(ops[0].reg.value);
		n = ops[1].imm.value.s;
		if (n > MAX_OFF || n < -MAX_OFF)
			m->regs[reg] = unknown();
		else
			m->regs[reg] = value_plus(m->regs[reg],
						  insn->mnemonic == ZYDIS_MNEMONIC_ADD ? n : -n);
	} else if (rounds_down(m, insn, ops)) {
		round_down(m, gpr(ops[0].reg.value));
	} else {
		clobber(m, insn, ops);
	}
}

/* System V ABI, 3.2.1: what a called function need not preserve. */
static void call_clobbers(struct machine *m)
{
	static const uint8_t scratch[] = { 0, 1, 2, 4, 5, 8, 9, 10, 11 };
	size_t i;

	for (i = 0; i < sizeof(scratch); i++)
		m->regs[scratch[i]] = unknown();
}

/* Where a direct branch goes. False for an indirect one. */
static bool branch_target(const struct instruction *at, const ZydisDecodedInstruction *insn,
			  const ZydisDecodedOperand *ops, uint64_t *ret)
{
	if (ops[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE || !ops[0].imm.is_relative)
		return false;
	*ret = at->off + insn->length + (uint64_t)ops[0].imm.value.s;
	return true;
}

/* 0, 1 if there is no instruction, -errno. */
static int decode(struct follower *f, uint64_t off, ZydisDecodedInstruction *insn,
		  ZydisDecodedOperand *ops)
{
	uint8_t code[ZYDIS_MAX_INSTRUCTION_LENGTH];
	int len = code_get(f, off, code);

	if (len < 0)
		return len;
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&f->decoder, code, (size_t)len, insn, ops)) ? 0
											       : 1;
}

/* Where the padding ends that may follow the last instruction of a function. */
static uint64_t padding_end(struct follower *f, uint64_t off)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;
	uint64_t at = off;

	while (at < f->area->end && at - off <= MAX_PADDING && !decode(f, at, &insn, ops) &&
	       (insn.mnemonic == ZYDIS_MNEMONIC_NOP || insn.mnemonic == ZYDIS_MNEMONIC_INT3))
		at += insn.length;
	return at;
}

/* Does the instruction at off look like the first one of a function? */
static bool looks_like_start(struct follower *f, uint64_t off)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;

	if (decode(f, off, &insn, ops))
		return false;
	return insn.mnemonic == ZYDIS_MNEMONIC_PUSH || insn.mnemonic == ZYDIS_MNEMONIC_ENDBR64 ||
	       (insn.mnemonic == ZYDIS_MNEMONIC_SUB && is_gpr64(&ops[0]) &&
		gpr(ops[0].reg.value) == UNWIND_RSP);
}

/* Does what is behind a call, from next on, look like the next function? end: of the padding there. */
static bool looks_like_border(struct follower *f, uint64_t next, uint64_t end)
{
	return (end != next && !(end & 15)) || looks_like_start(f, end);
}

/* A call that another function comes right after does not return. */
static bool is_last_call(struct follower *f, struct instruction *at, uint64_t next)
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
	struct instruction *at = &f->instructions[index];
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;
	struct machine after = at->before;
	uint64_t next, target;
	int err = decode(f, at->off, &insn, ops);

	if (err)
		return err < 0 ? err : 0; /* not code: nothing comes through here */
	at->len = insn.length;
	next = at->off + insn.length;
	switch (insn.meta.category) {
	case ZYDIS_CATEGORY_RET:
		at->is_ret = insn.mnemonic == ZYDIS_MNEMONIC_RET &&
			     insn.meta.branch_type == ZYDIS_BRANCH_TYPE_NEAR;
		f->found_ret |= at->is_ret;
		return 0;
	case ZYDIS_CATEGORY_UNCOND_BR:
		at->is_jump = !branch_target(at, &insn, ops, &target);
		return at->is_jump ? 0 : arrive(f, target, &after);
	case ZYDIS_CATEGORY_COND_BR:
		clobber(&after, &insn, ops); /* loop counts rcx */
		err = branch_target(at, &insn, ops, &target) ? arrive(f, target, &after) : 0;
		return err ? err : arrive(f, next, &after);
	case ZYDIS_CATEGORY_CALL:
		if (branch_target(at, &insn, ops, &target) && target == next)
			push(&after, unknown()); /* a way to learn one's own address */
		else if (is_last_call(f, at, next))
			return 0;
		else
			call_clobbers(&after);
		return arrive(f, next, &after);
	default:
		break;
	}
	if (insn.mnemonic == ZYDIS_MNEMONIC_UD2 || insn.mnemonic == ZYDIS_MNEMONIC_HLT ||
	    insn.mnemonic == ZYDIS_MNEMONIC_INT3)
		return 0;
	execute(&after, &insn, ops);
	return arrive(f, next, &after);
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

/* What the caller's registers are. */
struct caller {
	struct value cfa, rbp, rbx;
};

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
			if (s->used && s->base == UNWIND_RSP && value_equal(&s->value, &first))
				return true;
	return false;
}

static void caller_doubt(const struct follower *f, struct value *value, uint8_t reg)
{
	if (value->kind == VALUE_LOADED && value->base != UNWIND_RSP && value->base != UNWIND_RBP &&
	    is_saved(f, reg))
		*value = unknown();
}

/* As all `ret`s say; where they do not agree on the stack pointer nothing is known. */
static int caller_by_returns(const struct follower *f, struct caller *ret)
{
	const struct instruction *in = f->instructions, *end = in + f->nr;
	bool found = false;
	struct value cfa;

	for (; in < end; in++) {
		if (!in->is_ret)
			continue;
		cfa = value_plus(in->before.regs[UNWIND_RSP], 8);
		if (cfa.kind == VALUE_UNKNOWN || (found && !value_equal(&cfa, &ret->cfa)))
			return -ENODATA;
		if (!found) {
			ret->cfa = cfa;
			ret->rbp = in->before.regs[UNWIND_RBP];
			ret->rbx = in->before.regs[UNWIND_RBX];
			found = true;
		}
		if (!value_equal(&ret->rbp, &in->before.regs[UNWIND_RBP]))
			ret->rbp = unknown();
		if (!value_equal(&ret->rbx, &in->before.regs[UNWIND_RBX]))
			ret->rbx = unknown();
	}
	caller_doubt(f, &ret->rbp, UNWIND_RBP);
	caller_doubt(f, &ret->rbx, UNWIND_RBX);
	return found ? 0 : -ENODATA;
}

/* The caller's registers, in terms of what they were where the way began. */
static int caller_find(const struct follower *f, struct caller *ret)
{
	static const struct value rsp = { .kind = VALUE_REG, .base = UNWIND_RSP, .add = 8 };
	static const struct value rbp = { .kind = VALUE_REG, .base = UNWIND_RBP };
	static const struct value rbx = { .kind = VALUE_REG, .base = UNWIND_RBX };

	switch (f->area->way) {
	case CODE_FROM_START: /* System V ABI, 3.2.2: the return address is at rsp */
		*ret = (struct caller){ .cfa = rsp, .rbp = rbp, .rbx = rbx };
		return 0;
	case CODE_FRAME_POINTER: /* System V ABI, 3.2.2, figure 3.3 */
		*ret = (struct caller){ .cfa = value_plus(rbp, 16),
					.rbp = { .kind = VALUE_LOADED, .base = UNWIND_RBP } };
		return 0;
	default:
		return caller_by_returns(f, ret);
	}
}

/* Is value what some register is at m, but for a number? The register, or -1. */
static int register_for(const struct machine *m, const struct value *value, int32_t *ret_add)
{
	static const uint8_t order[NR_GPRS] = {
		7, 6, 3, 0, 1, 2, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15
	};
	const struct value *v;
	int i;

	for (i = 0; i < NR_GPRS; i++) {
		v = &m->regs[order[i]];
		if (v->kind == VALUE_UNKNOWN || v->kind != value->kind || v->base != value->base ||
		    (v->kind == VALUE_LOADED && v->off != value->off))
			continue;
		*ret_add = value->add - v->add;
		return order[i];
	}
	return -1;
}

/* Where the stack holds value: an address relative to what registers were. */
static bool place_of(const struct machine *m, const struct value *value, struct value *ret)
{
	const struct slot *s;

	for (s = m->slots; s < m->slots + NR_SLOTS; s++) {
		if (!s->used || !value_equal(&s->value, value))
			continue;
		*ret = (struct value){ .kind = VALUE_REG, .base = s->base, .add = s->off };
		return true;
	}
	if (value->kind != VALUE_LOADED || value->add || !is_untouched(m, value->base, value->off))
		return false;
	*ret = (struct value){ .kind = VALUE_REG, .base = value->base, .add = value->off };
	return true;
}

static bool fits(int32_t n, int32_t limit)
{
	return !(n & 7) && n / 8 >= -limit && n / 8 < limit;
}

/* The rule of rbp, as bits of a row. */
static uint64_t rbp_bits(const struct machine *m, const struct caller *caller)
{
	struct value place;
	int32_t add;

	if (caller->rbp.kind != VALUE_UNKNOWN && value_equal(&caller->rbp, &m->regs[UNWIND_RBP]))
		return unwind_row_make(0, 0, 0, 0, BP_SAME, 0, 0);
	/* The old stack pointer, kept in memory, led to it. */
	if (caller->rbp.kind == VALUE_LOADED_TWICE && caller->cfa.kind == VALUE_LOADED &&
	    caller->rbp.base == caller->cfa.base && caller->rbp.off == caller->cfa.off &&
	    fits(caller->rbp.add - caller->cfa.add, 1 << 13))
		return unwind_row_make(0, 0, 0, 0, BP_AT_CFA,
				       (caller->rbp.add - caller->cfa.add) / 8, 0);
	if (caller->rbp.kind == VALUE_UNKNOWN || !place_of(m, &caller->rbp, &place))
		return unwind_row_make(0, 0, 0, 0, BP_LOST, 0, 0);
	if (caller->cfa.kind == VALUE_REG && caller->cfa.base == place.base &&
	    fits(place.add - caller->cfa.add, 1 << 13))
		return unwind_row_make(0, 0, 0, 0, BP_AT_CFA, (place.add - caller->cfa.add) / 8, 0);
	add = place.add - m->regs[UNWIND_RBP].add;
	if (m->regs[UNWIND_RBP].kind == VALUE_REG && m->regs[UNWIND_RBP].base == place.base &&
	    fits(add, 1 << 13))
		return unwind_row_make(0, 0, 0, 0, BP_AT_BP, add / 8, 0);
	return unwind_row_make(0, 0, 0, 0, BP_LOST, 0, 0);
}

/* The rule of rbx: the second number of a ROW_CFA. */
static int32_t rbx_rule(const struct machine *m, const struct caller *caller)
{
	struct value place;
	int32_t off;

	if (caller->rbx.kind == VALUE_UNKNOWN)
		return 1;
	if (value_equal(&caller->rbx, &m->regs[UNWIND_RBX]))
		return 0;
	if (!place_of(m, &caller->rbx, &place) || caller->cfa.kind != VALUE_REG ||
	    caller->cfa.base != place.base)
		return 1;
	off = place.add - caller->cfa.add;
	return off < 0 && fits(off, 128) ? off / 8 : 1;
}

/* A row whose cfa is kept in memory at place, but for a number. 0 if it cannot be said. */
static uint64_t row_deref(const struct machine *m, const struct caller *caller,
			  const struct value *place, int32_t second)
{
	int32_t add;
	int reg = register_for(m, place, &add);

	if (reg < 0 || !fits(add, 1 << 15) || !fits(second, 128))
		return 0;
	return unwind_row_make(0, ROW_DEREF, (uint32_t)reg, add / 8, 0, 0, second / 8) |
	       rbp_bits(m, caller);
}

/* The row of an instruction with this state; 0 if no row can say it. */
static uint64_t row_for(const struct machine *m, const struct caller *caller)
{
	const struct value *cfa = &caller->cfa;
	struct value place = { .kind = VALUE_REG };
	const struct slot *s;
	uint64_t row = 0;
	int32_t add;
	int reg = register_for(m, cfa, &add);

	if (reg >= 0)
		return fits(add, 1 << 15) ? unwind_row_make(0, ROW_CFA, (uint32_t)reg, add / 8, 0,
							    0, rbx_rule(m, caller)) |
						    rbp_bits(m, caller)
					  : 0;
	/* The stack pointer was rounded down; what it was is kept in memory. */
	for (s = m->slots; s < m->slots + NR_SLOTS && !row; s++) {
		if (!s->used || s->value.kind != cfa->kind || s->value.base != cfa->base ||
		    s->value.off != cfa->off)
			continue;
		place.base = s->base;
		place.add = s->off;
		row = row_deref(m, caller, &place, cfa->add - s->value.add);
	}
	if (row || cfa->kind != VALUE_LOADED || !is_untouched(m, cfa->base, cfa->off))
		return row;
	place.base = cfa->base;
	place.add = cfa->off;
	return row_deref(m, caller, &place, cfa->add);
}

static int by_offset(const void *a, const void *b, void *arg)
{
	const struct instruction *instructions = arg;
	const struct instruction *x = &instructions[*(const int32_t *)a];
	const struct instruction *y = &instructions[*(const int32_t *)b];

	return x->off < y->off ? -1 : x->off > y->off;
}

/* Where there is no room for all, those around the origin are kept. */
static int rules_write(struct follower *f, const struct caller *caller, struct insn_rule *rules,
		       size_t cap)
{
	const struct instruction *in;
	struct insn_rule *last = NULL;
	uint64_t row, pos = 0;
	size_t i, nr = 0;

	for (i = 0; i < f->nr; i++)
		f->queue[i] = (int32_t)i; /* empty, and long enough */
	qsort_r(f->queue, f->nr, sizeof(*f->queue), by_offset, f->instructions);
	for (i = 0; i < f->nr; i++) {
		in = &f->instructions[f->queue[i]];
		row = in->len ? row_for(&in->before, caller) : 0;
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

	if (!ZYAN_SUCCESS(ZydisDecoderInit(&f->decoder, ZYDIS_MACHINE_MODE_LONG_64,
					   ZYDIS_STACK_WIDTH_64)))
		return -ENODATA;
	f->queue = malloc(INSN_UNWIND_MAX_INSTRUCTIONS * sizeof(*f->queue));
	if (!f->queue)
		return -ENOMEM;
	for (i = 0; i < NR_GPRS; i++)
		begin.regs[i] = (struct value){ .kind = VALUE_REG, .base = (uint8_t)i };
	return arrive(f, from, &begin);
}

/* Did the way come through the instruction at the origin, or the call that returns there? */
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
 * What all indirect jumps agree on. One with the stack pointer of the beginning may be a call in the
 * place of a return: it counts only if there is no other.
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
			machine_meet(ret, &other);
		else
			*ret = other;
		found = true;
	}
	return found;
}

/* The end of what was reached before the origin. */
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
 * Where the code that runs into the origin begins, if nothing but a jump leads to it: after what
 * was reached, or after the last instruction that does not go on to the next one. 0 or -ENODATA.
 */
static int block_begin(struct follower *f, uint64_t *ret)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;
	uint64_t at = reached_before(f);

	*ret = at;
	while (at < f->origin) {
		if (decode(f, at, &insn, ops))
			return -ENODATA;
		at += insn.length;
		if (insn.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
		    insn.meta.category == ZYDIS_CATEGORY_RET)
			*ret = at;
	}
	return at == f->origin ? 0 : -ENODATA;
}

/* To where only a jump through a table leads. */
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
	struct caller caller = { 0 };
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

/* A decoder of one's own for a look at a few bytes. */
static bool look(const uint8_t *code, size_t len, ZydisDecodedInstruction *insn,
		 ZydisDecodedOperand *ops)
{
	ZydisDecoder decoder;

	return ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64,
					     ZYDIS_STACK_WIDTH_64)) &&
	       ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, len, insn, ops));
}

/* Is this the instruction that code[0..len) ends with, and of that category? */
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
	struct instruction at = { .off = off - 5 };
	ZydisDecodedInstruction insn;

	/* Those with a 32-bit distance: no compiler calls otherwise, and jumps out of a function neither. */
	return (ends_in(code, len, 5, ZYDIS_CATEGORY_CALL, &insn, ops) ||
		ends_in(code, len, 5, ZYDIS_CATEGORY_UNCOND_BR, &insn, ops)) &&
			       branch_target(&at, &insn, ops, ret)
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
 * How far the code runs: up to and with the first branch, conditional or not, or call. *ret_halts: it is a hlt
 * that ends it.
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
