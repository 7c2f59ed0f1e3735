// SPDX-License-Identifier: Apache-2.0
#include "python/merge.h"

#include <string.h>

#include "bpfprof.h"

#define MARKER ((uint64_t)BPFPROF_FRAME_MARKER << BPFPROF_FRAME_SHIFT | PYTHON_FRAME_UNMERGED)

/* Numbers and places of calls of the eval loop among the native frames. */
struct places {
	size_t nr_marks; /* marked calls */
	size_t nr_evals; /* calls without a mark */
	size_t nr_inner; /* calls without a mark inside of the first mark; neighbours count as one */
	size_t nr_between; /* calls without a mark between marks */
	size_t nr_outer; /* calls without a mark outside of the last mark */
	size_t behind; /* the frame behind the last mark; 0: there is no mark */
	size_t outer; /* the first call outside of the last mark */
	size_t switched; /* the frame behind the first switch of stacks outside of it; 0: none */
};

struct stack {
	uint64_t *frames;
	size_t nr;
};

static void add(struct stack *stack, const uint64_t *frames, size_t nr)
{
	if (nr)
		memcpy(stack->frames + stack->nr, frames, nr * sizeof(*frames));
	stack->nr += nr;
}

static void add_marker(struct stack *stack)
{
	stack->frames[stack->nr++] = MARKER;
}

static bool is_mark(uint64_t frame)
{
	return frame >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_EVAL;
}

static enum python_native kind_of(const struct python_merge *m, size_t i)
{
	return m->kind(m->arg, m->native[i]);
}

/*
 * If each instruction is a function (3.14+, --with-tail-call-interp), the call of the eval loop has two
 * frames: that of _PyEval_EvalFrameDefault(), which has the mark, and the instruction that runs now.
 */
static bool is_handler(const struct python_merge *m, size_t i)
{
	enum python_native kind;

	if (m->by_number || i + 1 >= m->nr_native || !is_mark(m->native[i + 1]))
		return false;
	kind = kind_of(m, i);
	return kind == PYTHON_NATIVE_EVAL || kind == PYTHON_NATIVE_PERHAPS;
}

/* The number of calls of the eval loop from i on up to the next mark or the end, *ret_mark. */
static size_t gap_count(const struct python_merge *m, size_t i, size_t *ret_mark)
{
	size_t nr = 0;

	for (; i < m->nr_native && !is_mark(m->native[i]); i++)
		nr += kind_of(m, i) == PYTHON_NATIVE_EVAL;
	*ret_mark = i;
	return nr;
}

/*
 * Up to 3.10 each call runs one frame. If a compiler keeps the frame elsewhere for a while, the call is
 * not proven; but if there are as many calls as frames between two proven calls, each call runs one of
 * them. Such calls in own[] get a mark with one frame. The innermost call may have none.
 */
static void gaps_fill(const struct python_merge *m, uint64_t *own)
{
	uint64_t one = (uint64_t)BPFPROF_FRAME_EVAL << BPFPROF_FRAME_SHIFT | 1;
	size_t i, mark, nr, frames, at = 0, first = 0;

	for (i = 0; i < m->nr_native; i = mark + 1, first = i) {
		nr = gap_count(m, i, &mark);
		if (mark == m->nr_native) /* a coroutine's frame may stand for that of a call */
			return;
		frames = (m->native[mark] & 0xffff) - 1;
		at += frames + 1;
		if (at > m->nr_python || !nr || (nr != frames && (first || nr != frames + 1)))
			continue;
		for (; i < mark; i++)
			if (kind_of(m, i) == PYTHON_NATIVE_EVAL && nr-- <= frames)
				own[i] = one;
		own[mark] = one;
	}
}

static struct places places_find(const struct python_merge *m)
{
	struct places p = { .outer = m->nr_native };
	enum python_native kind;
	size_t i;

	for (i = 0; i < m->nr_native; i++) {
		if (is_mark(m->native[i])) {
			p.nr_between += p.nr_marks++ ? p.nr_outer : 0;
			p.nr_outer = p.switched = 0;
			p.outer = m->nr_native;
			p.behind = i + 1;
			continue;
		}
		kind = kind_of(m, i);
		if (kind == PYTHON_NATIVE_SWITCH && (!p.switched || p.switched == i))
			p.switched = i + 1;
		if (kind != PYTHON_NATIVE_EVAL || is_handler(m, i))
			continue;
		p.outer = p.nr_outer++ ? p.outer : i;
		p.nr_evals++;
		p.nr_inner += !p.nr_marks && (!i || kind_of(m, i - 1) != PYTHON_NATIVE_EVAL);
	}
	return p;
}

/* Adds native frames [from, to) with their Python frames; *at of these were added already. */
static void add_merged(const struct python_merge *m, struct stack *stack, size_t from, size_t to,
		       size_t *at)
{
	size_t i, nr;

	for (i = from; i < to; i++) {
		if (!is_mark(m->native[i])) {
			if (!is_handler(m, i))
				stack->frames[stack->nr++] = m->native[i];
			continue;
		}
		nr = m->native[i] & 0xffff;
		if (nr > m->nr_python - *at)
			nr = m->nr_python - *at;
		add(stack, m->python + *at, nr);
		*at += nr;
	}
}

/*
 * Up to 3.10, if nothing proves which call runs which frame: pairs as many calls as frames one by one.
 * The innermost call may be just beginning, if it has called nothing.
 */
static bool merge_by_number(const struct python_merge *m, const struct places *p,
			    struct stack *stack)
{
	bool beginning = p->nr_evals == m->nr_python + 1 && kind_of(m, 0) == PYTHON_NATIVE_EVAL;
	size_t i, at = 0;

	if (p->nr_marks || p->switched || (p->nr_evals != m->nr_python && !beginning))
		return false;
	for (i = 0; i < m->nr_native; i++)
		if (kind_of(m, i) == PYTHON_NATIVE_EVAL && (i || !beginning))
			stack->frames[stack->nr++] = m->python[at++];
		else
			stack->frames[stack->nr++] = m->native[i];
	add_marker(stack);
	return true;
}

/* The chain is cut. The rest of it belongs to the next call outside of the marked ones. */
static void end_cut(const struct python_merge *m, const struct places *p, struct stack *stack,
		    size_t at)
{
	size_t end = p->outer;

	if (end == m->nr_native && m->complete && p->nr_marks)
		end = p->behind; /* frames that no call runs */
	add_merged(m, stack, p->behind, end, &at);
	if (end == m->nr_native && m->complete)
		add_marker(stack);
	if (!m->deep || end < m->nr_native)
		add(stack, m->python + at, m->nr_python - at);
}

/*
 * Up to 3.9 a waiting coroutine has no caller while an exception passes through it: CPython returns to
 * the frames of the outer calls only when the exception has passed.
 */
static void end_broken(const struct python_merge *m, const struct places *p, struct stack *stack,
		       size_t at)
{
	add_merged(m, stack, p->behind, p->outer, &at);
	add(stack, m->python + at, m->nr_python - at);
}

/* Both stacks are complete, and some Python frames are left. */
static void end_with_frames(const struct python_merge *m, const struct places *p,
			    struct stack *stack, size_t at)
{
	if (p->nr_marks) {
		add(stack, m->python + at, m->nr_python - at);
		add_marker(stack);
		at = m->nr_python;
	}
	add_merged(m, stack, p->behind, m->nr_native, &at);
	if (!p->nr_marks) {
		add_marker(stack);
		add(stack, m->python + at, m->nr_python - at);
	}
}

/* All Python frames have their places: the rest of the stack is native. */
static void end_native(const struct python_merge *m, const struct places *p, struct stack *stack,
		       struct python_merged *ret)
{
	size_t at = m->nr_python, end = m->nr_native;

	ret->ended = m->python_complete && p->switched && p->outer >= p->switched;
	if (ret->ended)
		end = p->switched;
	if (m->complete && p->nr_outer && !ret->ended) {
		add_merged(m, stack, p->behind, p->outer, &at);
		if (m->nr_python)
			add_marker(stack);
		add_merged(m, stack, p->outer, end, &at);
		if (!m->nr_python)
			add_marker(stack);
		ret->unmerged = m->nr_python ? PYTHON_UNMERGED_CALLS : PYTHON_UNMERGED_MISSING;
		return;
	}
	add_merged(m, stack, p->behind, end, &at);
	if ((m->complete || ret->ended) && (p->nr_between || (p->nr_marks && p->nr_inner > 1))) {
		add_marker(stack);
		ret->unmerged = PYTHON_UNMERGED_CALLS;
	}
}

static struct python_merged merge(const struct python_merge *m, uint64_t *frames)
{
	struct stack stack = { .frames = frames };
	struct python_merged ret = { 0 };
	struct places p = places_find(m);
	size_t at = 0;

	add_merged(m, &stack, 0, p.behind, &at);
	if (m->by_number && m->complete && m->python_complete && m->nr_python &&
	    merge_by_number(m, &p, &stack)) {
		ret.unmerged = PYTHON_UNMERGED_UNPROVEN;
	} else if (m->nr_python && !m->python_complete) {
		ret.cut = true;
		end_cut(m, &p, &stack, at);
	} else if (at == m->nr_python) {
		end_native(m, &p, &stack, &ret);
	} else if (m->complete && m->by_number && p.nr_outer) {
		ret.broken = true;
		end_broken(m, &p, &stack, at);
	} else if (m->complete) {
		ret.unmerged = PYTHON_UNMERGED_FRAMES;
		end_with_frames(m, &p, &stack, at);
	} else { /* the remaining frames are further out */
		add_merged(m, &stack, p.behind, m->nr_native, &at);
		if (!m->deep)
			add(&stack, m->python + at, m->nr_python - at);
	}
	ret.nr = stack.nr;
	return ret;
}

struct python_merged python_merge(const struct python_merge *m, uint64_t *frames)
{
	struct python_merge filled = *m;
	uint64_t *own;

	if (!m->by_number || !m->nr_native)
		return merge(m, frames);
	/* The copy lies behind the room for the stack, which is written from the leaf on. */
	own = frames + m->nr_python + m->nr_native + 1;
	memcpy(own, m->native, m->nr_native * sizeof(*own));
	gaps_fill(m, own);
	filled.native = own;
	return merge(&filled, frames);
}

static bool is_python(uint64_t frame)
{
	return frame >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_PYTHON;
}

bool python_awaiters_insert(uint64_t *frames, size_t *nr, size_t at, const uint64_t *words,
			    size_t nr_words)
{
	size_t to, i, begin = 0, put = 0;

	for (to = 0; at && to < *nr; to++)
		at -= is_python(frames[to]);
	if (at || !to)
		return false;
	memmove(frames + to + nr_words, frames + to, (*nr - to) * sizeof(*frames));
	for (i = 0; i <= nr_words; i++) {
		if (i < nr_words && words[i])
			continue;
		for (size_t j = i; j-- > begin;)
			if (is_python(words[j]))
				frames[to + put++] = words[j];
		begin = i + 1;
	}
	memmove(frames + to + put, frames + to + nr_words, (*nr - to) * sizeof(*frames));
	*nr += put;
	return true;
}
