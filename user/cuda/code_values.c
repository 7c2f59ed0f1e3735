// SPDX-License-Identifier: Apache-2.0
#include "cuda/code_values.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "cuda/code_state.h"
#include "elf/image.h"

#define MAX_STACK_OFF (1 << 20)

int code_reader_init(struct code_reader *reader, struct elf_image *img)
{
	*reader = (struct code_reader){ .img = img };
	return elf_image_is_native(img) ? 0 : -EOPNOTSUPP;
}

bool code_reader_has(struct code_reader *reader, uint64_t rva)
{
	const struct elf_segment *seg = reader->segment;

	if (!seg || rva < seg->va || rva - seg->va >= seg->file_bytes)
		seg = elf_image_segment_at(reader->img, rva, PF_X);
	if (seg)
		reader->segment = seg;
	return seg;
}

int code_reader_bytes(struct code_reader *reader, uint64_t rva, uint8_t *code, size_t len)
{
	const struct elf_segment *seg;
	uint64_t left;
	int err;

	if (!code_reader_has(reader, rva))
		return -ENOENT;
	seg = reader->segment;
	left = seg->file_bytes - (rva - seg->va);
	if (len > left)
		len = left;
	err = elf_image_read(reader->img, seg->off + (rva - seg->va), code, len);
	return err ? err : (int)len;
}

int code_reader_get(struct code_reader *reader, uint64_t rva, struct code_instruction *ret)
{
	uint8_t code[ARCH_INSTRUCTION_BYTES];
	int len = code_reader_bytes(reader, rva, code, sizeof(code));

	if (len < 0)
		return len;
	ret->rva = rva;
	return instruction_decode(code, (size_t)len, &ret->insn) ? 0 : -ENOENT;
}

bool code_value_equal(const struct code_value *a, const struct code_value *b)
{
	return a->kind == b->kind && (a->kind == CODE_UNKNOWN || a->n == b->n);
}

bool code_value_is(const struct code_value *value, uint64_t number)
{
	return value->kind == CODE_NUMBER && value->n == number;
}

struct code_value code_value_make(enum code_value_kind kind, uint64_t n)
{
	return (struct code_value){ .kind = kind, .n = n };
}

struct code_value code_value_plus(struct code_value value, int64_t n)
{
	int64_t off;

	if (!n)
		return value;
	if (value.kind == CODE_NUMBER)
		return code_value_make(CODE_NUMBER, value.n + (uint64_t)n);
	if (value.kind != CODE_STACK || n > MAX_STACK_OFF || n < -MAX_STACK_OFF)
		return code_value_unknown();
	off = (int64_t)value.n + n;
	if (off > MAX_STACK_OFF || off < -MAX_STACK_OFF)
		return code_value_unknown();
	return code_value_make(CODE_STACK, (uint64_t)off);
}

void code_state_init(struct code_state *state)
{
	memset(state, 0, sizeof(*state));
}

static const struct code_slot *slot_find(const struct code_state *state, int64_t off)
{
	const struct code_slot *slot;

	for (slot = state->slots; slot < state->slots + state->nr_slots; slot++)
		if (slot->off == off)
			return slot;
	return NULL;
}

bool code_state_meet(struct code_state *state, const struct code_state *from)
{
	const struct code_slot *other;
	bool changed = false;
	uint32_t i;

	for (i = 0; i < CODE_NR_REGS; i++)
		if (state->regs[i].kind != CODE_UNKNOWN &&
		    !code_value_equal(&state->regs[i], &from->regs[i])) {
			state->regs[i] = code_value_unknown();
			changed = true;
		}
	for (i = 0; i < state->nr_slots;) {
		other = slot_find(from, state->slots[i].off);
		if (other && code_value_equal(&other->value, &state->slots[i].value)) {
			i++;
			continue;
		}
		state->slots[i] = state->slots[--state->nr_slots];
		changed = true;
	}
	return changed;
}

struct code_value code_state_load(const struct code_state *state, struct code_value address)
{
	const struct code_slot *slot;

	switch (address.kind) {
	case CODE_NUMBER:
		return code_value_make(CODE_LOADED, address.n);
	case CODE_LOADED:
		return code_value_make(CODE_LOADED_TWICE, address.n);
	case CODE_STACK:
		slot = slot_find(state, (int64_t)address.n);
		return slot ? slot->value : code_value_unknown();
	default:
		return code_value_unknown();
	}
}

/* Static data is not in the stack; all other unknown addresses may be. */
void code_state_store(struct code_state *state, struct code_value address, uint32_t bytes,
		      struct code_value value)
{
	int64_t off = (int64_t)address.n;
	uint32_t i;

	if (address.kind == CODE_NUMBER)
		return;
	if (address.kind != CODE_STACK) {
		state->nr_slots = 0;
		return;
	}
	for (i = 0; i < state->nr_slots;)
		if (state->slots[i].off < off + (int64_t)bytes && off < state->slots[i].off + 8)
			state->slots[i] = state->slots[--state->nr_slots];
		else
			i++;
	if (bytes == 8 && value.kind != CODE_UNKNOWN && state->nr_slots < CODE_NR_SLOTS)
		state->slots[state->nr_slots++] = (struct code_slot){ .off = off, .value = value };
}
