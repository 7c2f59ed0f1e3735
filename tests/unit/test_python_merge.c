// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "bpfprof.h"
#include "python/merge.h"

/*
 * Stacks as letters, leaf first: a-z Python, A-Z native, E a native frame of the eval loop,
 * 0-9 a marked one that runs so many; in results ! is [unmerged].
 */
struct merge_case {
	char python[16], native[16], expected[32];
	int by_code, complete, unmerged;
};

static uint64_t frame_of(char letter)
{
	if (letter >= '0' && letter <= '9')
		return (uint64_t)BPFPROF_FRAME_EVAL << BPFPROF_FRAME_SHIFT |
		       (uint64_t)(letter - '0');
	if (letter >= 'a')
		return (uint64_t)BPFPROF_FRAME_PYTHON << BPFPROF_FRAME_SHIFT | (uint64_t)letter;
	return (uint64_t)BPFPROF_FRAME_NATIVE << BPFPROF_FRAME_SHIFT | (uint64_t)letter;
}

static char letter_of(uint64_t frame)
{
	if (frame >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_MARKER)
		return frame & PYTHON_FRAME_UNMERGED ? '!' : '?';
	return (char)frame;
}

static bool is_e(void *arg, uint64_t frame)
{
	(void)arg;
	return frame == frame_of('E');
}

ParameterizedTestParameters(python_merge, all)
{
	static struct merge_case cases[] = {
		/* Marked calls. */
		{ "ab", "XY", "XY!ab", 0, 1, 1 },
		{ "", "XEY", "XEY!", 0, 1, 1 },
		{ "ab", "X2Y", "XabY", 0, 1, 0 },
		{ "abc", "X1S2Y", "XaSbcY", 0, 1, 0 },
		{ "abc", "EX3Y", "EXabcY", 0, 1, 0 },
		{ "abc", "X1S", "XaSbc", 0, 0, 0 }, /* the root is missing anyway */
		{ "abc", "X1SY", "XaSY!bc", 0, 1, 1 },
		{ "a", "X3Y", "XaY", 0, 1, 0 }, /* more said than there are */
		/* Instructions that are functions: the one that a marked call runs goes with it. */
		{ "ab", "XE1SE1Y", "XaSbY", 0, 1, 0 },
		{ "a", "E1Y", "aY", 0, 1, 0 },
		{ "a", "EXE1Y", "EXaY", 0, 1, 0 }, /* that of a call just beginning stays */
		{ "ab", "E11Y", "abY", 0, 1, 0 },
		{ "a", "E", "Ea", 0, 0, 0 },
		/* Up to 3.10: one frame each. */
		{ "ab", "XESEY", "XaSbY", 1, 1, 0 },
		{ "a", "EESY", "EaSY", 1, 1, 0 }, /* the leaf is just beginning */
		{ "a", "EEESY", "EEaSY", 1, 1, 1 },
		{ "abc", "XESEY", "a!XbScY", 1, 1, 1 },
		{ "abc", "XES", "XaSbc", 1, 0, 0 },
		{ "ab", "XESEE", "XaSbE", 1, 0, 0 },
		{ "", "XEY", "XEY!", 1, 1, 1 },
		{ "ab", "XY", "ab!XY", 1, 1, 1 },
	};

	return cr_make_param_array(struct merge_case, cases, sizeof(cases) / sizeof(*cases));
}

ParameterizedTest(struct merge_case *c, python_merge, all)
{
	uint64_t python[16], native[16], frames[33];
	struct python_merge m = { .python = python,
				  .native = native,
				  .nr_python = strlen(c->python),
				  .nr_native = strlen(c->native),
				  .by_code = c->by_code,
				  .complete = c->complete,
				  .python_complete = c->complete,
				  .is_eval = is_e };
	char got[33] = "";
	bool unmerged;
	size_t i, nr;

	for (i = 0; i < m.nr_python; i++)
		python[i] = frame_of(c->python[i]);
	for (i = 0; i < m.nr_native; i++)
		native[i] = frame_of(c->native[i]);
	nr = python_merge(&m, frames, &unmerged);
	cr_assert_leq(nr, m.nr_python + m.nr_native + 1);
	for (i = 0; i < nr; i++)
		got[i] = letter_of(frames[i]);
	cr_expect_str_eq(got, c->expected, "%s + %s: %s, not %s", c->python, c->native, got,
			 c->expected);
	cr_expect_eq(unmerged, c->unmerged, "%s + %s", c->python, c->native);
}
