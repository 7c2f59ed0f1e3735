/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_UNIT_STACK_FRAMES_H
#define BPFPROF_TESTS_UNIT_STACK_FRAMES_H

/* Stacks of a view or profile as lists of frames, leaf first, and the other way. */

#include <criterion/criterion.h>

#include "base/vec.h"
#include "profile/aggregate.h"
#include "profile/profile.h"
#include "profile/stack_set.h"

/* Stacks that share no callers. */
struct stacks_made {
	uint64_t *frames;
	uint32_t *callers;
	size_t nr; /* with the empty stack */
};

static inline void stacks_free(struct stacks_made *made)
{
	free(made->frames);
	free(made->callers);
	*made = (struct stacks_made){ .nr = 0 };
}

/* Appends a stack; its number. */
static inline uint32_t stack_make(struct stacks_made *made, const uint64_t *frames, size_t nr)
{
	uint32_t stack = 0;

	made->nr += !made->nr;
	cr_assert(vec_fit(made->frames, made->nr + nr) && vec_fit(made->callers, made->nr + nr));
	while (nr-- > 0) {
		made->frames[made->nr] = frames[nr];
		made->callers[made->nr] = stack;
		stack = (uint32_t)made->nr++;
	}
	return stack;
}

static inline void stacks_view(const struct stacks_made *made, struct aggregate_view *view)
{
	view->frames = made->frames;
	view->callers = made->callers;
	view->nr_stacks = made->nr;
}

/* The frames until the next call. */
static inline const uint64_t *stack_frames(const struct aggregate_view *view, uint32_t stack,
					   size_t *ret_nr)
{
	static uint64_t frames[2 * AGGREGATE_MAX_STACK];
	uint32_t at;

	*ret_nr = 0;
	cr_assert_lt(stack, view->nr_stacks);
	stack_each(at, view->callers, stack) {
		cr_assert_lt(*ret_nr, 2 * AGGREGATE_MAX_STACK);
		cr_assert_lt(view->callers[at], at, "a caller has a smaller number");
		frames[(*ret_nr)++] = view->frames[at];
	}
	return frames;
}

/* The index of a location, leaf first. */
static inline uint32_t stack_location(const struct profile *profile, uint32_t stack, size_t depth)
{
	while (depth-- > 0)
		stack = profile->stack_callers[stack];
	cr_assert_neq(stack, 0);
	return profile->stack_locations[stack];
}

#endif
