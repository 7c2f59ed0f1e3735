// SPDX-License-Identifier: Apache-2.0
#include "unwind/x86_64/insn_machine.h"

#include <stddef.h>

#include "arch.h"

bool insn_value_equal(const struct value *a, const struct value *b)
{
	if (a->kind != b->kind)
		return false;
	return a->kind == VALUE_UNKNOWN ||
	       (a->base == b->base && a->add == b->add && a->off == b->off);
}

struct value insn_value_plus(struct value v, int64_t n)
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

bool insn_is_untouched(const struct machine *m, uint8_t base, int32_t off)
{
	const struct slot *s;

	for (s = m->slots; s < m->slots + NR_SLOTS; s++)
		if (s->used && s->base == base && s->off < off + 8 && off < s->off + 8)
			return false;
	return !m->full;
}

struct value insn_load(struct machine *m, struct value address)
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
	if (!insn_is_untouched(m, address.base, address.add))
		return unknown();
	return (struct value){ .kind = VALUE_LOADED, .base = address.base, .off = address.add };
}

/* A register of the caller that a rule may need; any other spilled value is data. */
static bool is_precious(const struct value *v)
{
	return v->kind == VALUE_REG && (v->base == UNWIND_RSP || v->base == UNWIND_RBP ||
					v->base == UNWIND_RBX || v->base == BASE_ALIGNED);
}

/* A slot for a word that has none: a free one, else one that only records written data. */
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

void insn_store(struct machine *m, struct value address, uint32_t bytes, struct value value)
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
	if (is_loaded_from(&value, &address) && !m->full) { /* its first value */
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
		if (!other || !insn_value_equal(&s->value, &other->value)) {
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

bool insn_meet(struct machine *a, struct machine *b)
{
	bool changed = false;
	int i;

	for (i = 0; i < NR_GPRS; i++)
		if (a->regs[i].kind != VALUE_UNKNOWN &&
		    !insn_value_equal(&a->regs[i], &b->regs[i])) {
			a->regs[i] = unknown();
			changed = true;
		}
	return slots_meet(a, b) || changed;
}
