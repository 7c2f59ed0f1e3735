// SPDX-License-Identifier: Apache-2.0
#include "python/awaits.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "bpfprof.h"
#include "python/chain.h"
#include "python/heap.h"

#define CYTHON "_cython_" /* begin of the names of types of Cython 3 */
#define TAG_INT 3 /* a small number in place of a reference: 3.14+ */
#define MAX_STACK_BYTES (1U << 20) /* of the values of one frame */

enum kind {
	KIND_OTHER, /* has no frame */
	KIND_COROUTINE, /* suspended only where it awaits */
	KIND_GENERATOR, /* may be suspended at a plain yield, too */
	KIND_WRAPPER, /* its first word is the awaited object */
	KIND_DESCRIBED, /* has no frame; its type describes the field with the awaited object */
};

/*
 * Types of Cython may have the names of CPython's ("coroutine", up to 0.29) and other objects: only the fields
 * tell them apart. From 3.0 on they have a prefix with the version, such as "_cython_3_0_12.coroutine_wrapper".
 */
static enum kind kind_of(struct python_heap *heap, uint64_t va, const struct python_type **ret_type)
{
	static const struct {
		const char *type;
		enum kind kind;
	} kinds[] = {
		{ "coroutine", KIND_COROUTINE },
		{ "async_generator", KIND_COROUTINE },
		{ "generator", KIND_GENERATOR },
		{ "coroutine_wrapper", KIND_WRAPPER },
		{ "async_generator_asend", KIND_WRAPPER },
		{ "async_generator_athrow", KIND_WRAPPER },
		{ "anext_awaitable", KIND_WRAPPER },
		{ "_asyncio.FutureIter", KIND_WRAPPER },
	};
	const struct python_type *type;
	const char *name, *dot;
	bool is_cython;

	if (python_heap_type(heap, va, &type))
		return KIND_OTHER;
	*ret_type = type;
	if (python_heap_awaited(heap, type))
		return KIND_DESCRIBED;
	is_cython = !strncmp(type->name, CYTHON, strlen(CYTHON));
	dot = is_cython ? strchr(type->name, '.') : NULL;
	name = dot ? dot + 1 : type->name;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(name, kinds[i].type) && (!is_cython || kinds[i].kind == KIND_WRAPPER))
			return kinds[i].kind;
	return KIND_OTHER;
}

static uint64_t frame_of(struct python_heap *heap, uint64_t coroutine)
{
	const struct python_heap_layout *l = &heap->objects;
	uint64_t frame;

	if (l->stack_form >= PYTHON_STACK_INDEX)
		return coroutine + l->gen_frame;
	return python_heap_u64(heap, coroutine + l->gen_frame, &frame) ? 0 : frame;
}

/* The end of the values of a frame and their beginning. False: they cannot be read. */
static bool stack_find(struct python_heap *heap, const struct python_chain_frame *frame,
		       uint64_t *ret_base, uint64_t *ret_end)
{
	const struct python_heap_layout *l = &heap->objects;
	uint64_t at = frame->frame_va + l->frame_stack, base;
	uint32_t nr_locals;
	int32_t index;

	if (l->stack_form <= PYTHON_STACK_DEPTH) {
		if (python_heap_u64(heap, frame->frame_va + l->frame_stack_base, &base))
			return false;
	} else {
		if (python_heap_read(heap, frame->code + l->code_nr, &nr_locals, 4))
			return false;
		base = frame->frame_va + l->frame_locals + nr_locals * 8ULL;
	}
	*ret_base = base;
	if (l->stack_form == PYTHON_STACK_TOP || l->stack_form == PYTHON_STACK_POINTER)
		return !python_heap_u64(heap, at, ret_end);
	if (python_heap_read(heap, at, &index, 4))
		return false;
	if (l->stack_form == PYTHON_STACK_INDEX)
		base = frame->frame_va + l->frame_locals;
	*ret_end = index > 0 ? base + (uint32_t)index * 8ULL : 0;
	return true;
}

/*
 * The object that a suspended frame has on top of its stack; 0: none. From 3.15 on a number, or no object,
 * may lie above the object from which a frame yields.
 */
static uint64_t stack_top(struct python_heap *heap, const struct python_chain_frame *frame)
{
	uint64_t base, end, value = 0, mask = heap->layout->code_mask;
	int depth;

	if (!stack_find(heap, frame, &base, &end) || end - base > MAX_STACK_BYTES)
		return 0;
	for (depth = 0; depth < 2 && !value && end > base; depth++, end -= 8) {
		if (python_heap_u64(heap, end - 8, &value))
			return 0;
		value = mask && (value & TAG_INT) == TAG_INT ? 0 : value & ~mask;
	}
	return value;
}

/* Is a generator suspended in `yield from` (or `await`), and not at a yield of its own? */
static bool yields_from(struct python_heap *heap, uint64_t generator,
			const struct python_chain_frame *frame)
{
	const struct python_heap_layout *l = &heap->objects;
	uint64_t code = frame->code + heap->layout->code_adaptive;
	uint8_t next[2] = { 0 }, state = 0;

	if (l->gen_state)
		return !python_heap_read(heap, generator + l->gen_state, &state, 1) &&
		       state == l->yield_from;
	if (frame->lasti == BPFPROF_LASTI_NONE)
		return false;
	if (l->code_code) {
		if (python_heap_u64(heap, frame->code + l->code_code, &code))
			return false;
		code += heap->layout->bytes_data;
	}
	if (python_heap_read(heap, code + (frame->lasti + 1ULL) * 2, next, sizeof(next)))
		return false;
	return l->code_code ? next[0] == l->yield_from : (next[1] & 3U) >= l->yield_from;
}

/* The object that a described or wrapping object awaits. 0 or negative. */
static int object_follow(struct python_heap *heap, enum kind kind, const struct python_type *type,
			 uint64_t *va)
{
	uint64_t offset = heap->objects.object_size;

	if (kind == KIND_DESCRIBED)
		offset = python_heap_awaited(heap, type);
	return python_heap_u64(heap, *va + offset, va);
}

static struct python_chain_frame frame_described(const struct python_type *type, uint64_t va)
{
	return (struct python_chain_frame){ .code = type->va,
					    .frame_va = va,
					    .lasti = PYTHON_CHAIN_NO_FRAME };
}

/* Adds an object without a frame and goes to what it awaits. 0, or enum bpfprof_python_stop. */
static int described_follow(struct python_chain *chain, struct python_heap *heap,
			    const struct python_type *type, uint64_t *va)
{
	if (chain->nr_frames == PYTHON_CHAIN_MAX_FRAMES) {
		heap->counts.nr_cut++;
		return PYTHON_STOP_DEPTH;
	}
	chain->frames[chain->nr_frames++] = frame_described(type, *va);
	return object_follow(heap, KIND_DESCRIBED, type, va) ? PYTHON_STOP_READ_FAULT : 0;
}

/* Goes from an object with a frame to what it awaits. 0, or enum bpfprof_python_stop. */
static int frame_follow(struct python_chain *chain, struct python_heap *heap, enum kind kind,
			uint64_t *va)
{
	struct python_chain_frame *frame = &chain->frames[chain->nr_frames];
	uint64_t at = frame_of(heap, *va), object = *va;
	int stop;

	if (chain->nr_frames == PYTHON_CHAIN_MAX_FRAMES) {
		heap->counts.nr_cut++;
		return PYTHON_STOP_DEPTH;
	}
	*va = 0;
	if (!at)
		return 0;
	stop = python_chain_frame_read(frame, heap->layout, heap->reader, at);
	if (stop) {
		heap->counts.nr_bad++;
		return stop;
	}
	chain->nr_frames++;
	if (kind == KIND_COROUTINE || yields_from(heap, object, frame))
		*va = stack_top(heap, frame);
	return 0;
}

static void frames_turn(struct python_chain *chain)
{
	struct python_chain_frame frame;
	uint32_t i, last = chain->nr_frames - 1;

	for (i = 0; i < chain->nr_frames / 2; i++) {
		frame = chain->frames[i];
		chain->frames[i] = chain->frames[last - i];
		chain->frames[last - i] = frame;
	}
}

void python_awaits_walk(struct python_chain *ret, struct python_heap *heap, uint64_t coroutine,
			uint64_t *ret_end)
{
	const struct python_type *type = NULL;
	uint64_t va = coroutine, mark = 0;
	uint32_t steps = 0;
	enum kind kind;
	int stop = 0;

	ret->nr_frames = ret->nr_entries = ret->nr_steps = 0;
	while (va && !stop) {
		kind = kind_of(heap, va, &type);
		if (kind == KIND_OTHER)
			break;
		/* Each power of two of steps sets a mark; a cycle comes back to it. */
		if (va == mark) {
			heap->counts.nr_cyclic++;
			stop = PYTHON_STOP_BAD;
			break;
		}
		if (!(steps & (steps - 1)))
			mark = va;
		if (++steps > 2 * PYTHON_CHAIN_MAX_FRAMES)
			stop = PYTHON_STOP_DEPTH;
		else if (kind == KIND_DESCRIBED)
			stop = described_follow(ret, heap, type, &va);
		else if (kind != KIND_WRAPPER)
			stop = frame_follow(ret, heap, kind, &va);
		else if (object_follow(heap, kind, type, &va))
			stop = PYTHON_STOP_READ_FAULT;
	}
	ret->stop = stop ? stop : PYTHON_STOP_COMPLETE;
	*ret_end = stop ? 0 : va;
	frames_turn(ret);
}

void python_awaits_root(struct python_awaits_root *ret, struct python_heap *heap,
			uint64_t coroutine)
{
	const struct python_type *type = NULL;
	uint64_t va = coroutine;
	enum kind kind;

	ret->frame = ret->nr_outer = 0;
	/* Wrappers have no entries: a step more for each of them. */
	for (int steps = 0; va && steps < 2 * PYTHON_AWAITS_OUTER; steps++) {
		kind = kind_of(heap, va, &type);
		if (kind == KIND_COROUTINE || kind == KIND_GENERATOR) {
			ret->frame = frame_of(heap, va);
			return;
		}
		if (kind == KIND_OTHER)
			return;
		if (kind == KIND_DESCRIBED && ret->nr_outer == PYTHON_AWAITS_OUTER)
			break;
		if (kind == KIND_DESCRIBED)
			ret->outer[ret->nr_outer++] = frame_described(type, va);
		if (object_follow(heap, kind, type, &va))
			return;
	}
	heap->counts.nr_cut += va != 0;
}

void python_awaits_name(struct python_heap *heap, const struct python_chain_frame *frame, char *ret,
			size_t bytes)
{
	const struct python_type *type;

	if (python_heap_type_at(heap, frame->code, &type))
		snprintf(ret, bytes, "[python]");
	else
		snprintf(ret, bytes, "[%s]", type->name);
}
