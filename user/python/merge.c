// SPDX-License-Identifier: Apache-2.0
#include "python/merge.h"

#include <string.h>

#include "bpfprof.h"

#define MARKER ((uint64_t)BPFPROF_FRAME_MARKER << BPFPROF_FRAME_SHIFT | PYTHON_FRAME_UNMERGED)

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

static size_t count_evals(const struct python_merge *m, const uint64_t *frames, size_t nr)
{
	size_t i, evals = 0;

	for (i = 0; i < nr; i++)
		evals += m->is_eval(m->arg, frames[i]);
	return evals;
}

static bool is_mark(uint64_t frame)
{
	return frame >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_EVAL;
}

/*
 * Where each instruction is a function (3.14+, --with-tail-call-interp) the call of the eval loop
 * has two frames: that of _PyEval_EvalFrameDefault(), which holds the mark, and what it called,
 * the instruction that runs now.
 */
static bool is_handler(const struct python_merge *m, size_t i)
{
	return i + 1 < m->nr_native && is_mark(m->native[i + 1]) &&
	       m->is_eval(m->arg, m->native[i]);
}

static size_t merge_by_mark(const struct python_merge *m, struct stack *stack)
{
	size_t i, at = 0, nr;

	for (i = 0; i < m->nr_native; i++) {
		if (!is_mark(m->native[i])) {
			if (!is_handler(m, i))
				stack->frames[stack->nr++] = m->native[i];
			continue;
		}
		nr = m->native[i] & 0xffff;
		if (nr > m->nr_python - at)
			nr = m->nr_python - at;
		add(stack, m->python + at, nr);
		at += nr;
	}
	return at;
}

/*
 * Complete stacks pair from the root: of more calls than frames the leaf-most is left
 * over (it is just beginning or ending), of more frames than calls the leaf-most ones. Where
 * the root of either is missing they pair from the leaf, which is all there is.
 */
static size_t merge_by_code(const struct python_merge *m, struct stack *stack, bool *unmerged)
{
	size_t evals = count_evals(m, m->native, m->nr_native), skip = 0, at = 0, i;
	bool complete = m->complete && m->python_complete;

	if (complete && evals > m->nr_python) {
		skip = evals - m->nr_python;
		*unmerged |= skip > 1;
	}
	if (complete && evals < m->nr_python) {
		at = m->nr_python - evals;
		add(stack, m->python, at);
		stack->frames[stack->nr++] = MARKER;
		*unmerged = true;
	}
	for (i = 0; i < m->nr_native; i++) {
		if (at < m->nr_python && m->is_eval(m->arg, m->native[i])) {
			if (!skip) {
				stack->frames[stack->nr++] = m->python[at++];
				continue;
			}
			skip--;
		}
		stack->frames[stack->nr++] = m->native[i];
	}
	return at;
}

size_t python_merge(const struct python_merge *m, uint64_t *frames, bool *unmerged)
{
	struct stack stack = { .frames = frames };
	size_t done;

	*unmerged = false;
	if (m->by_code && m->nr_python)
		done = merge_by_code(m, &stack, unmerged);
	else
		done = merge_by_mark(m, &stack);
	if (done == m->nr_python) {
		/* Calls that are left ran frames that were not to be had. */
		if (m->complete && !*unmerged && !(m->python_complete && m->nr_python) &&
		    count_evals(m, frames, stack.nr)) {
			stack.frames[stack.nr++] = MARKER;
			*unmerged = true;
		}
		return stack.nr;
	}
	/* What is left is further out than all that was paired. */
	if (m->complete) {
		stack.frames[stack.nr++] = MARKER;
		*unmerged = true;
	}
	add(&stack, m->python + done, m->nr_python - done);
	return stack.nr;
}
