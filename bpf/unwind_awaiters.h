/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_UNWIND_AWAITERS_H
#define BPFPROF_BPF_UNWIND_AWAITERS_H

/*
 * Goes from a running task of asyncio to the tasks that await it, and down their chains of coroutines. Plain C,
 * compiled into the BPF programs and into the tests, over unwind_python.h and its reader, and:
 *
 *	static int unwind_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len);
 *	static int await_frame(struct unwind_reader *reader, __u64 code, __u32 lasti, __u64 *ret);
 *
 * (0 or negative; await_frame() makes the frame of a code object, or BPFPROF_AWAIT_HIDDEN.)
 *
 * From 3.14 on a task has the task that awaits it. Before, its callbacks lead there, as in
 * user/python/async_edges.c: a method of the awaiting task, which has the future among its fields as proof; a
 * closure (gather, wait, shield) or a partial (wait_for) that holds a future, whose callbacks lead on; a method
 * of a TaskGroup, which has its task. Coroutines of Cython have no frames, but their types describe the field with
 * the awaited object. Types are compared by their names. All memory is the target's: each step
 * reads a few words, and the caller bounds the number of steps.
 */

#include "await_names.h"

/* Returns the kind of the class w->type. *base is its base class, or 0. */
static __always_inline __u32 await_kind(struct await_walk *w, struct unwind_reader *reader,
					__u64 *base)
{
	__u64 name = 0;
	__u32 kind;

	*base = 0;
	if (await_u64(reader, w->type + w->a.type_name, &name) ||
	    await_name(w, reader, name + w->prefix))
		return AWAIT_OTHER;
	kind = await_named(w->name);
	if (w->prefix) /* coroutines of Cython have no frames */
		return kind == AWAIT_WRAPPER ? kind : AWAIT_OTHER;
	if (kind != AWAIT_OTHER)
		return kind;
	w->prefix = await_prefix(w->name);
	if (w->prefix)
		return AWAIT_PREFIXED;
	if (await_u64(reader, w->type + w->a.type_base, base))
		*base = 0;
	/* The last class but object, if it is a class of asyncio in Python. */
	if (AWAIT_NAMED(w->name, "Future"))
		return AWAIT_PYTHON;
	return AWAIT_OTHER;
}

static __always_inline void await_add(struct await_walk *w, __u64 at, __u64 left, __u64 most,
				      __u32 stride, __u32 role)
{
	struct await_source *s = &w->sources[w->nr_sources & (AWAIT_SOURCES - 1)];

	if (w->nr_sources >= AWAIT_SOURCES || left > most)
		w->cut = 1;
	if (w->nr_sources >= AWAIT_SOURCES)
		return;
	s->at = at;
	s->left = left < most ? left : most;
	s->stride = stride;
	s->role = role;
	s->future = w->source.future;
	s->depth = w->source.depth;
	w->nr_sources++;
}

/* The callbacks of w->source.future. In all versions: the loop, the first one, its context, a list. */
static __always_inline void await_callbacks(struct await_walk *w)
{
	__u64 at = w->source.future + w->a.object_size;

	await_add(w, at + 24, 1, 1, 8, AWAIT_IS_LIST);
	await_add(w, at + 8, 1, 1, 8, AWAIT_IS_CALLBACK);
}

static __always_inline void await_tuple(struct await_walk *w, struct unwind_reader *reader,
					__u64 tuple, __u32 role)
{
	__u64 nr = 0;

	if (!tuple)
		return;
	if (await_u64(reader, tuple + w->a.tuple_size, &nr))
		w->faulted = 1;
	else
		await_add(w, tuple + w->a.tuple_items, nr, AWAIT_MAX_HELD, 8, role);
}

/* Begins to look for the task that awaits w->task. */
static __always_inline void await_search(struct await_walk *w, struct unwind_reader *reader)
{
	__u64 at = w->task + w->a.task_awaited_by, set = 0;
	__u8 is_set = 0;

	w->faulted = w->cut = w->python = w->nr_sources = 0;
	w->source.role = AWAIT_IS_CALLBACK;
	w->source.future = w->task;
	w->source.depth = 0;
	w->type = 0;
	if (!w->a.task_awaited_by) {
		await_callbacks(w);
		return;
	}
	if (unwind_read(reader, w->task + w->a.task_awaited_by_is_set, &is_set, 1)) {
		w->faulted = 1;
	} else if (!is_set) {
		await_add(w, at, 1, 1, 8, AWAIT_IS_AWAITER);
	} else if (await_u64(reader, at, &set) ||
		   /* In all versions: entries in use, the mask, the table. */
		   unwind_read(reader, set + w->a.set_mask - 8, w->read, sizeof(w->read))) {
		w->faulted = 1;
	} else {
		if (w->read[0] > 1)
			w->flags |= BPFPROF_AWAIT_SEVERAL;
		await_add(w, w->read[2], w->read[1] + 1, AWAIT_MAX_SET, 16, AWAIT_IS_AWAITER);
	}
}

/* No task awaits w->task. */
static __always_inline int await_end(const struct await_walk *w)
{
	if (w->python)
		return AWAIT_STOP_PYTHON;
	if (w->faulted)
		return AWAIT_STOP_READ_FAULT;
	return w->cut ? AWAIT_STOP_SEARCH : AWAIT_STOP_COMPLETE;
}

/* Takes the next object of the last source in hand. False: there is none at this place. */
static __always_inline int await_take(struct await_walk *w, struct unwind_reader *reader)
{
	struct await_source *s = &w->sources[(w->nr_sources - 1) & (AWAIT_SOURCES - 1)];
	__u64 at = s->at, va = 0;

	w->source = *s;
	s->at = at + s->stride;
	if (s->left <= 1)
		w->nr_sources--;
	else
		s->left--;
	if (!await_u64(reader, at, &va)) {
		at = 0;
		if (va && w->source.role == AWAIT_IS_CELL)
			at = va + w->a.cell_value;
		if (va && w->source.role == AWAIT_IS_ENTRY)
			at = va + w->a.tuple_items;
		if (!at || !await_u64(reader, at, &va)) {
			w->va = va;
			return va != 0;
		}
	}
	w->faulted = 1;
	return 0;
}

/* The attributes of a TaskGroup: the only one that is a task is the one that runs it. */
static __always_inline void await_group(struct await_walk *w, struct unwind_reader *reader)
{
	__u64 dict = 0, keys = 0, values = 0, nr = 0;

	if (w->a.instance == PYTHON_INSTANCE_DICT) /* asyncio has no TaskGroup there */
		return;
	if (await_u64(reader, w->va - w->a.instance_dict, &dict) ||
	    await_u64(reader, w->exact + w->a.type_keys, &keys)) {
		w->faulted = 1;
		return;
	}
	if (w->a.instance == PYTHON_INSTANCE_TAGGED && dict & 1) {
		values = dict + 1;
	} else if (dict) {
		if (await_u64(reader, dict + w->a.dict_keys, &keys) ||
		    await_u64(reader, dict + w->a.dict_values, &values))
			keys = 0;
	} else if (w->a.instance == PYTHON_INSTANCE_VALUES) {
		if (await_u64(reader, w->va - w->a.instance_dict - 8, &values))
			values = 0;
	} else if (w->a.instance == PYTHON_INSTANCE_INLINE) {
		if (!await_u64(reader, w->exact + w->a.type_basic, &values))
			values += w->va;
	}
	/* Attributes in a table of their own are rare: only vars() with further names makes one. */
	if (!keys || !values || await_u64(reader, keys + w->a.keys_nr, &nr))
		w->faulted = 1;
	else
		await_add(w, values + w->a.values_first, nr, AWAIT_MAX_ATTRIBUTES, 8,
			  AWAIT_IS_AWAITER);
}

static __always_inline void await_callback(struct await_walk *w, struct unwind_reader *reader,
					   __u32 kind)
{
	__u64 behind = w->va + w->a.object_size, held = 0;

	switch (kind) {
	case AWAIT_FUNCTION:
		if (await_u64(reader, w->va + w->a.function_closure, &held))
			w->faulted = 1;
		await_tuple(w, reader, held, AWAIT_IS_CELL);
		break;
	case AWAIT_PARTIAL: /* a function, then its arguments */
		if (await_u64(reader, behind + 8, &held))
			w->faulted = 1;
		await_tuple(w, reader, held, AWAIT_IS_HELD);
		break;
	case AWAIT_METHOD: /* a function, then its object */
		await_add(w, behind + 8, 1, 1, 8, AWAIT_IS_GROUP);
		break;
	case AWAIT_BUILTIN:
		await_add(w, behind + 8, 1, 1, 8, AWAIT_IS_WAKER);
		break;
	case AWAIT_WAKEUP:
		await_add(w, behind, 1, 1, 8, AWAIT_IS_WAKER);
		break;
	}
}

/* A list of tuples (callback, context). */
static __always_inline void await_list(struct await_walk *w, struct unwind_reader *reader)
{
	__u64 nr = 0, items = 0;

	if (await_u64(reader, w->va + w->a.list_size, &nr) ||
	    await_u64(reader, w->va + w->a.list_items, &items))
		w->faulted = 1;
	else if (nr)
		await_add(w, items, nr, AWAIT_MAX_CALLBACKS, 8, AWAIT_IS_ENTRY);
}

/* The task in hand awaits w->task: goes on with its coroutines. 0, or enum bpfprof_await_stop. */
static __always_inline int await_accept(struct await_walk *w, struct unwind_reader *reader)
{
	w->task = w->va;
	w->source.role = AWAIT_IS_CHAIN;
	if (w->nr_tasks >= BPFPROF_MAX_AWAITING_TASKS)
		return AWAIT_STOP_DEPTH;
	w->nr_tasks++;
	return await_u64(reader, w->task + w->a.task_coro, &w->va) ? AWAIT_STOP_READ_FAULT : 0;
}

/* One object of the search. 0, or enum bpfprof_await_stop. */
static __always_inline int await_found(struct await_walk *w, struct unwind_reader *reader,
				       __u32 kind)
{
	__u64 waits_for = 0;

	if (kind == AWAIT_PYTHON &&
	    (w->source.role == AWAIT_IS_GROUP || w->source.role == AWAIT_IS_AWAITER))
		w->python = 1;
	switch (w->source.role) {
	case AWAIT_IS_CALLBACK:
	case AWAIT_IS_ENTRY:
		await_callback(w, reader, kind);
		break;
	case AWAIT_IS_LIST:
		if (kind == AWAIT_LIST)
			await_list(w, reader);
		break;
	case AWAIT_IS_WAKER:
		if (kind != AWAIT_TASK)
			break;
		if (await_u64(reader, w->va + w->a.task_coro - 8, &waits_for))
			w->faulted = 1;
		else if (waits_for == w->source.future)
			return await_accept(w, reader);
		break;
	case AWAIT_IS_GROUP:
		if (kind == AWAIT_GROUP)
			await_group(w, reader);
		break;
	case AWAIT_IS_AWAITER:
		if (kind == AWAIT_TASK)
			return await_accept(w, reader);
		break;
	case AWAIT_IS_CELL:
	case AWAIT_IS_HELD:
		if ((kind != AWAIT_TASK && kind != AWAIT_FUTURE) || w->va == w->source.future)
			break;
		w->source.future = w->va;
		if (++w->source.depth > AWAIT_MAX_DEPTH)
			w->cut = 1;
		else
			await_callbacks(w);
		break;
	}
	return 0;
}

/* Address of the frame of the coroutine; 0: it has none any more. */
static __always_inline __u64 await_frame_of(const struct await_walk *w,
					    struct unwind_reader *reader, __u64 coroutine)
{
	__u64 frame = coroutine + w->a.gen_frame;

	if (!coroutine)
		return 0;
	if (w->a.stack_form < PYTHON_STACK_INDEX && await_u64(reader, frame, &frame))
		return 0;
	return frame;
}

/* Sets *base and *end to the bounds of the values of the frame. 0, or negative: they cannot be read. */
static __always_inline int await_stack(const struct await_walk *w, struct unwind_reader *reader,
				       __u64 frame, __u64 *base, __u64 *end)
{
	__u64 at = frame + w->a.frame_stack;
	__u32 nr = 0, index = 0;

	if (w->a.stack_form <= PYTHON_STACK_DEPTH) {
		if (await_u64(reader, frame + w->a.frame_stack_base, base))
			return -1;
	} else {
		if (unwind_read(reader, w->walk.code + w->a.code_nr, &nr, 4))
			return -1;
		*base = frame + w->a.frame_locals + nr * 8ULL;
	}
	if (w->a.stack_form == PYTHON_STACK_TOP || w->a.stack_form == PYTHON_STACK_POINTER)
		return await_u64(reader, at, end);
	if (unwind_read(reader, at, &index, 4))
		return -1;
	*end = w->a.stack_form == PYTHON_STACK_INDEX ? frame + w->a.frame_locals : *base;
	*end = (__s32)index > 0 ? *end + index * 8ULL : 0;
	return 0;
}

/*
 * The object on top of the values of a suspended frame; 0: none. From 3.15 on a number, or no object, may lie
 * above it.
 */
static __always_inline __u64 await_top(const struct await_walk *w,
				       const struct bpfprof_python_layout *layout,
				       struct unwind_reader *reader, __u64 frame)
{
	__u64 base = 0, end = 0, value = 0, mask = layout->code_mask;

	if (await_stack(w, reader, frame, &base, &end) || end - base > AWAIT_MAX_STACK ||
	    end == base || await_u64(reader, end - 8, &value))
		return 0;
	if (!mask)
		return value;
	value = (value & AWAIT_TAG_INT) == AWAIT_TAG_INT ? 0 : value & ~mask;
	if (value || end - base < 16 || await_u64(reader, end - 16, &value))
		return value;
	return (value & AWAIT_TAG_INT) == AWAIT_TAG_INT ? 0 : value & ~mask;
}

/* Is the generator in hand suspended in `yield from` (or `await`), and not at a yield of its own? */
static __always_inline int await_yields_from(struct await_walk *w,
					     const struct bpfprof_python_layout *layout,
					     struct unwind_reader *reader)
{
	__u64 code = w->walk.code + layout->code_adaptive;
	__u8 next[2] = { 0 };

	if (w->a.gen_state)
		return !unwind_read(reader, w->va + w->a.gen_state, next, 1) &&
		       next[0] == w->a.yield_from;
	if (w->walk.lasti == BPFPROF_LASTI_NONE)
		return 0;
	if (w->a.code_code) {
		if (await_u64(reader, w->walk.code + w->a.code_code, &code))
			return 0;
		code += layout->bytes_data;
	}
	if (unwind_read(reader, code + (w->walk.lasti + 1ULL) * 2, next, 2))
		return 0;
	return w->a.code_code ? next[0] == w->a.yield_from : (next[1] & 3U) >= w->a.yield_from;
}

static __always_inline int await_word(struct await_walk *w, __u64 word)
{
	if (w->nr >= BPFPROF_MAX_AWAITERS)
		return AWAIT_STOP_DEPTH;
	w->words[w->nr & 127] = word;
	w->nr++;
	return 0;
}

/* Adds the frame of the coroutine in hand and goes to what it awaits. 0, or enum bpfprof_await_stop. */
static __always_inline int await_coroutine(struct await_walk *w,
					   const struct bpfprof_python_layout *layout,
					   struct unwind_reader *reader, __u32 kind,
					   __u8 room[PYTHON_FRAME_ROOM])
{
	__u64 frame = await_frame_of(w, reader, w->va), word = 0;
	int stop;

	if (!frame) {
		w->va = 0;
		return 0;
	}
	w->walk.frame = frame;
	w->walk.begun = 1;
	w->walk.outer = 0;
	stop = python_step(&w->walk, layout, reader, room);
	if (stop || !w->walk.code)
		return stop == PYTHON_STOP_READ_FAULT ? AWAIT_STOP_READ_FAULT : AWAIT_STOP_BAD;
	if (await_frame(reader, w->walk.code, w->walk.lasti, &word))
		return AWAIT_STOP_READ_FAULT;
	if (word != BPFPROF_AWAIT_HIDDEN && await_word(w, word))
		return AWAIT_STOP_DEPTH;
	if (kind == AWAIT_GENERATOR && !await_yields_from(w, layout, reader))
		w->va = 0;
	else
		w->va = await_top(w, layout, reader, frame);
	return 0;
}

/* Goes on behind the object in hand, to w->va. 0, or enum bpfprof_await_stop. */
static __always_inline int await_onward(struct await_walk *w, struct unwind_reader *reader)
{
	if (w->va || w->source.role == AWAIT_IS_RUNNING)
		return 0;
	await_search(w, reader);
	return await_word(w, 0);
}

/*
 * One field that the type of the object in hand describes. Types of Cython may have the names of CPython's, and
 * other objects. 0, or enum bpfprof_await_stop.
 */
static __always_inline int await_member(struct await_walk *w, struct unwind_reader *reader)
{
	struct python_member *member = (void *)w->read;

	if (unwind_read(reader, w->member, w->read, sizeof(w->read)) ||
	    (member->name && await_name(w, reader, member->name)))
		return AWAIT_STOP_READ_FAULT;
	w->member += sizeof(struct python_member);
	/* User space looks at as many. */
	if (!member->name || w->nr_members++ >= PYTHON_MAX_MEMBERS) {
		w->undescribed = w->exact;
		w->member = 0;
		return 0;
	}
	if (member->type != PYTHON_MEMBER_OBJECT || !(member->flags & PYTHON_MEMBER_READONLY) ||
	    (!AWAIT_NAMED(w->name, "cr_await") && !AWAIT_NAMED(w->name, "gi_yieldfrom") &&
	     !AWAIT_NAMED(w->name, "ag_await")))
		return 0;
	w->member = w->type = 0;
	if (member->offset & 7 || await_u64(reader, w->va + member->offset, &w->va))
		return AWAIT_STOP_BAD;
	return await_onward(w, reader);
}

/* One object of a chain of coroutines. 0, or enum bpfprof_await_stop. */
static __always_inline int await_chain(struct await_walk *w,
				       const struct bpfprof_python_layout *layout,
				       struct unwind_reader *reader, __u32 kind,
				       __u8 room[PYTHON_FRAME_ROOM])
{
	int stop = 0;

	if (kind == AWAIT_COROUTINE || kind == AWAIT_GENERATOR)
		stop = await_coroutine(w, layout, reader, kind, room);
	else if (kind != AWAIT_WRAPPER || await_u64(reader, w->va + w->a.object_size, &w->va))
		w->va = 0;
	return stop ? stop : await_onward(w, reader);
}

/* One object of the chain of a running task. */
static __always_inline void await_running_chain(struct await_walk *w, struct unwind_reader *reader,
						__u32 kind)
{
	__u64 va = w->va, frame = 0;

	w->va = 0;
	if (kind == AWAIT_COROUTINE || kind == AWAIT_GENERATOR)
		frame = await_frame_of(w, reader, va);
	else if (kind == AWAIT_WRAPPER && await_u64(reader, va + w->a.object_size, &w->va))
		w->va = 0;
	w->frames[(w->nr_found - 1) & (AWAIT_CANDIDATES - 1)] = frame;
	w->nr_framed += frame != 0;
}

/* Takes the coroutine of the next running task in hand. False: there is none. */
static __always_inline int await_next_running(struct await_walk *w)
{
	__u32 at = w->nr_found;

	if (at >= w->nr_candidates)
		return 0;
	w->va = w->frames[at & (AWAIT_CANDIDATES - 1)];
	w->frames[at & (AWAIT_CANDIDATES - 1)] = 0;
	w->nr_found = at + 1;
	return 1;
}

/* Takes the next object in hand, and its type. 0: there is none at this place; positive: one; negative: the end. */
static __always_inline int await_next(struct await_walk *w, struct unwind_reader *reader)
{
	int is_chain = w->source.role == AWAIT_IS_CHAIN,
	    is_running = w->source.role == AWAIT_IS_RUNNING;

	w->nr_bases = w->nr_members = w->prefix = 0;
	w->member = 0;
	if (is_running && !w->va && !await_next_running(w))
		return -AWAIT_STOP_COMPLETE;
	if (!is_running && !is_chain) {
		if (!w->nr_sources)
			return -await_end(w);
		if (!await_take(w, reader))
			return 0;
	}
	if (await_u64(reader, w->va + w->a.object_type, &w->type)) {
		w->type = 0;
		goto fault;
	}
	w->exact = w->type;
	if ((is_chain || is_running) && w->exact != w->undescribed &&
	    await_u64(reader, w->type + w->a.type_members, &w->member))
		goto fault;
	return 1;
fault:
	w->faulted = 1;
	if (!is_running)
		return is_chain ? -AWAIT_STOP_READ_FAULT : 0;
	w->va = 0;
	return 0;
}

/* One step: looks at one class of the object in hand. 0, or enum bpfprof_await_stop: the walk has ended. */
static __always_inline int await_step(struct await_walk *w,
				      const struct bpfprof_python_layout *layout,
				      struct unwind_reader *reader, __u8 room[PYTHON_FRAME_ROOM])
{
	__u64 base = 0;
	int next, stop;
	__u32 kind;

	if (!w->type) {
		next = await_next(w, reader);
		if (next <= 0)
			return -next;
	}
	if (w->member) {
		stop = await_member(w, reader);
		if (!stop || w->source.role != AWAIT_IS_RUNNING)
			return stop;
		w->member = w->type = w->va = 0; /* that running task alone is not found */
		return 0;
	}
	kind = await_kind(w, reader, &base);
	if (kind == AWAIT_PREFIXED)
		return 0;
	if (kind == AWAIT_OTHER && base && ++w->nr_bases < AWAIT_MAX_BASES) {
		w->type = base;
		return 0;
	}
	w->type = 0;
	if (w->source.role == AWAIT_IS_CHAIN)
		return await_chain(w, layout, reader, kind, room);
	if (w->source.role != AWAIT_IS_RUNNING)
		return await_found(w, reader, kind);
	await_running_chain(w, reader, kind);
	return 0;
}

/* Begins with the running task. */
static __always_inline void await_begin(struct await_walk *w, struct unwind_reader *reader,
					__u64 task)
{
	w->task = task;
	w->nr = w->nr_tasks = w->flags = 0;
	w->undescribed = 0;
	await_search(w, reader);
}

/* Notes a task that runs in the process, and its coroutine. */
static __always_inline void await_candidate(struct await_walk *w, struct unwind_reader *reader,
					    __u64 task)
{
	__u32 at = w->nr_candidates;
	__u64 coroutine = 0;

	if (at >= AWAIT_CANDIDATES)
		w->cut = 1;
	if (at >= AWAIT_CANDIDATES || await_u64(reader, task + w->a.task_coro, &coroutine))
		return;
	w->tasks[at & (AWAIT_CANDIDATES - 1)] = task;
	w->frames[at & (AWAIT_CANDIDATES - 1)] = coroutine;
	w->nr_candidates = at + 1;
}

/*
 * Sets w->source to the values of the dict of running tasks. 0 or negative. Its keys are loops, so it has no
 * values apart.
 */
static __always_inline int await_running(struct await_walk *w, struct unwind_reader *reader)
{
	__u64 keys = 0, nr = 0, size = 0, entries, words = 3;
	__u8 log = 0, kind = 0;

	if (await_u64(reader, w->a.current + w->a.dict_keys, &keys) ||
	    await_u64(reader, keys + w->a.keys_nr, &nr))
		return -1;
	entries = keys + w->a.keys_indices;
	if (w->a.keys_size) {
		if (await_u64(reader, keys + w->a.keys_size, &size))
			return -1;
		entries += size * (size <= 0xff ? 1 : size <= 0xffff ? 2 : 4);
	} else {
		if (unwind_read(reader, keys + w->a.keys_index, &log, 1) ||
		    unwind_read(reader, keys + w->a.keys_kind, &kind, 1))
			return -1;
		entries += 1ULL << (log & 31);
		words = kind ? 2 : 3;
	}
	size = nr > AWAIT_DICT_ENTRIES ? nr - AWAIT_DICT_ENTRIES : 0;
	w->source.at = entries + (size * words + words - 1) * 8;
	w->source.left = nr - size;
	w->source.stride = words * 8;
	return 0;
}

/*
 * Begins to look for the frames of the coroutines of the running tasks, by which the thread that runs each task can
 * be found. await_step() ends that with AWAIT_STOP_COMPLETE.
 */
static __always_inline void await_frames_begin(struct await_walk *w)
{
	w->source.role = AWAIT_IS_RUNNING;
	w->va = w->type = w->undescribed = 0;
	w->nr_found = w->nr_framed = 0;
}

#endif
