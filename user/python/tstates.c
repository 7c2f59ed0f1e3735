// SPDX-License-Identifier: Apache-2.0
#include "python/tstates.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/map.h"
#include "base/vec.h"
#include "python/heap.h"

static int state_read(struct python_heap *heap, uint64_t runtime_current,
		      struct python_tstate *tstate, uint64_t *ret_next)
{
	const struct bpfprof_python_layout *l = heap->layout;
	uint8_t buf[BPFPROF_PYTHON_TSTATE_BYTES] = { 0 };
	uint64_t native = 0;
	int err;

	if (l->tstate_bytes > sizeof(buf) || l->tstate_next + 16U > sizeof(buf))
		return -EBADMSG;
	err = python_heap_read(heap, tstate->va, buf, l->tstate_bytes);
	if (err)
		return err;
	if (heap->has_objects && heap->objects.tstate_native &&
	    python_heap_u64(heap, tstate->va + heap->objects.tstate_native, &native))
		native = 0;
	/* In all versions the pointer to the interpreter follows `next`. */
	if (bytes_u64(buf + l->tstate_next + 8) != tstate->interpreter_va)
		return -EBADMSG;
	*ret_next = bytes_u64(buf + l->tstate_next);
	tstate->thread_id = bytes_u64(buf + l->tstate_thread);
	tstate->frame_start = bytes_u64(buf + l->tstate_frame);
	tstate->native_tid = native <= INT32_MAX ? (uint32_t)native : 0;
	if (l->free_threaded)
		tstate->holds_gil = false;
	else if (l->runtime_current)
		tstate->holds_gil = tstate->va == runtime_current;
	else
		tstate->holds_gil =
			l->status_mask && bytes_u32(buf + l->tstate_status) & l->status_mask;
	return 0;
}

/* Up to 3.11 the runtime has the current thread state, which holds the GIL. */
static uint64_t current_read(struct python_heap *heap)
{
	uint64_t current = 0;

	if (heap->layout->runtime_current &&
	    python_heap_u64(heap, heap->runtime + heap->layout->runtime_current, &current))
		current = 0;
	return current;
}

struct reading {
	struct python_tstates *ret;
	struct python_heap *heap;
	/* Addresses read so far: a list that comes back to one of them ends. */
	struct map seen;
	size_t cap;
	uint64_t current;
};

static int state_add(struct reading *r, const struct python_tstate *tstate)
{
	if (vec_grow(r->ret->states, r->ret->nr + 1, r->cap, VEC_BOUNDED))
		return -ENOMEM;
	r->ret->states[r->ret->nr++] = *tstate;
	return 0;
}

/* May the list go on with va? 1, 0 (then complete is false), or the error of map_set(). */
static int list_goes_on(struct reading *r, uint64_t va, size_t nr, size_t max)
{
	uint32_t before;
	int err;

	if (nr == max) {
		r->heap->counts.nr_cut++;
		r->ret->complete = false;
		return 0;
	}
	if (map_find(&r->seen, va, &before)) {
		r->heap->counts.nr_cyclic++;
		r->ret->complete = false;
		return 0;
	}
	err = map_set(&r->seen, va, 0);
	return err ? err : 1;
}

static int threads_read(struct reading *r, uint64_t interpreter, uint64_t va)
{
	struct python_tstate tstate;
	uint64_t next;
	int more;

	while (va) {
		more = list_goes_on(r, va, r->ret->nr, PYTHON_MAX_TSTATES);
		if (more <= 0)
			return more;
		tstate = (struct python_tstate){ .va = va,
						 .interpreter_va = interpreter,
						 .interpreter = r->ret->nr_interpreters };
		if (state_read(r->heap, r->current, &tstate, &next)) {
			r->ret->complete = false;
			return 0;
		}
		more = state_add(r, &tstate);
		if (more)
			return more;
		va = next;
	}
	return 0;
}

static int interpreters_read(struct reading *r, uint64_t interpreter)
{
	const struct bpfprof_python_layout *l = r->heap->layout;
	uint64_t threads, next;
	int more;

	while (interpreter) {
		more = list_goes_on(r, interpreter, r->ret->nr_interpreters,
				    PYTHON_MAX_INTERPRETERS);
		if (more <= 0)
			return more;
		if (python_heap_u64(r->heap, interpreter + l->interpreter_threads, &threads) ||
		    python_heap_u64(r->heap, interpreter + l->interpreter_next, &next)) {
			r->ret->complete = false;
			return 0;
		}
		more = threads_read(r, interpreter, threads);
		if (more)
			return more;
		r->ret->interpreters[r->ret->nr_interpreters++] = interpreter;
		interpreter = next;
	}
	return 0;
}

/* The first interpreter of the runtime: 0, -ENODATA without one, or as python_heap_u64(). */
static int interpreter_first(struct python_heap *heap, uint64_t *ret)
{
	int err = python_heap_u64(heap, heap->runtime + heap->layout->runtime_interpreters, ret);

	return err || *ret ? err : -ENODATA;
}

int python_runtime_check(struct python_heap *heap)
{
	const struct bpfprof_python_layout *l = heap->layout;
	uint64_t interpreter, threads, next;
	struct python_tstate tstate = { 0 };
	int err;

	err = interpreter_first(heap, &interpreter);
	if (err)
		return err;
	err = python_heap_u64(heap, interpreter + l->interpreter_threads, &threads);
	if (err || !threads)
		return err ? -EBADMSG : -ENODATA;
	tstate = (struct python_tstate){ .va = threads, .interpreter_va = interpreter };
	return state_read(heap, 0, &tstate, &next) ? -EBADMSG : 0;
}

int python_tstates_read(struct python_tstates *ret, struct python_heap *heap)
{
	const struct bpfprof_python_layout *l = heap->layout;
	struct python_tstates tstates = { .complete = true };
	struct reading r = { .ret = &tstates, .heap = heap };
	uint64_t interpreter;
	int err;

	err = interpreter_first(heap, &interpreter);
	if (err)
		return err;
	/* Interpreters, states, and for each interpreter a state that could not be read. */
	map_init(&r.seen, PYTHON_MAX_TSTATES + 2 * PYTHON_MAX_INTERPRETERS);
	r.current = current_read(heap);
	tstates.gil_known = !l->free_threaded && (l->runtime_current || l->status_mask);
	err = interpreters_read(&r, interpreter);
	map_fini(&r.seen);
	if (err) {
		free(tstates.states);
		return err;
	}
	for (size_t i = 0; i < tstates.nr; i++)
		tstates.states[i].interpreter =
			tstates.nr_interpreters - 1 - tstates.states[i].interpreter;
	*ret = tstates;
	return 0;
}

void python_tstates_fini(struct python_tstates *tstates)
{
	free(tstates->states);
	*tstates = (struct python_tstates){ 0 };
}

const struct python_tstate *python_tstates_find(const struct python_tstates *tstates,
						uint64_t fs_base, const struct python_tstate *after)
{
	size_t i = after ? (size_t)(after - tstates->states) + 1 : 0;

	for (; fs_base && i < tstates->nr; i++)
		if (tstates->states[i].thread_id == fs_base)
			return &tstates->states[i];
	return NULL;
}

const struct python_tstate *python_tstates_gil_holder(const struct python_tstates *tstates)
{
	for (size_t i = tstates->nr; tstates->gil_known && i--;)
		if (tstates->states[i].holds_gil)
			return &tstates->states[i];
	return NULL;
}
