// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "bpfprof.h"
#include "python/merge.h"

/*
 * Stacks as letters, leaf first: a-z Python, A-Z native, E a native frame of the eval loop, P one that
 * may be in it, G of a library that switches stacks, 0-9 a marked one that runs so many; in results !
 * is [unmerged].
 */
struct merge_case {
	char python[16], native[16], expected[32];
	char how[8]; /* n: by number; t: native stack truncated, d: for its depth; p: Python is */
	enum python_unmerged unmerged;
	char ends[8]; /* c: cut, b: broken, e: ended */
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

static enum python_native kind(void *arg, uint64_t frame)
{
	(void)arg;
	if (frame == frame_of('E'))
		return PYTHON_NATIVE_EVAL;
	if (frame == frame_of('P'))
		return PYTHON_NATIVE_PERHAPS;
	return frame == frame_of('G') ? PYTHON_NATIVE_SWITCH : PYTHON_NATIVE_OTHER;
}

ParameterizedTestParameters(python_merge, all)
{
	static struct merge_case cases[] = {
		/* Marked calls. */
		{ "ab", "X2Y", "XabY", "", 0, "" },
		{ "abc", "X1S2Y", "XaSbcY", "", 0, "" },
		{ "abc", "EX3Y", "EXabcY", "", 0, "" }, /* the innermost call is just beginning */
		{ "abc", "X1S", "XaSbc", "t", 0, "" }, /* the root is missing anyway */
		{ "abc", "X1S", "XaS", "td", 0, "" }, /* for the depth: what is innermost */
		{ "a", "X3Y", "XaY", "", 0, "" }, /* more said than there are */
		{ "", "XY", "XY", "", 0, "" },
		/* Calls of the eval loop that no frame was found for. */
		{ "", "XEY", "XEY!", "", PYTHON_UNMERGED_MISSING, "" },
		{ "", "XPY", "XPY", "", 0, "" },
		{ "a", "X1SEY", "XaS!EY", "", PYTHON_UNMERGED_CALLS, "" },
		{ "ab", "X1SET1Y", "XaSETbY!", "", PYTHON_UNMERGED_CALLS, "" },
		{ "a", "ESET1Y", "ESETaY!", "", PYTHON_UNMERGED_CALLS, "" },
		{ "a", "X1SPY", "XaSPY", "", 0, "" },
		{ "a", "X1SEY", "XaSEY", "t", 0, "" },
		/* Frames that no call runs: outside of all others, below the thread's start. */
		{ "ab", "XY", "XY!ab", "", PYTHON_UNMERGED_FRAMES, "" },
		{ "abc", "X1SY", "Xabc!SY", "", PYTHON_UNMERGED_FRAMES, "" },
		/* A chain that is cut: what is left belongs to the next call, and nothing is outside of it. */
		{ "abc", "X1SEYEZ", "XaSbc", "p", 0, "c" },
		{ "abc", "SEYEZ", "Sabc", "p", 0, "c" },
		{ "ab", "X1S1YEZ", "XaSbY", "p", 0, "c" },
		{ "abc", "X1SY", "Xabc", "p", 0, "c" },
		{ "ab", "XY", "XY!ab", "p", 0, "c" },
		{ "abc", "X1SEY", "XaSbc", "pt", 0, "c" },
		{ "abc", "X1SY", "XaSYbc", "pt", 0, "c" },
		/* Another coroutine's stack is further out. */
		{ "ab", "X1S1TGGUEY", "XaSbTGG", "", 0, "e" },
		{ "ab", "X1S1TGGUEGZ", "XaSbTGG", "t", 0, "e" },
		{ "a", "GX1TGUGEY", "GXaTG", "", 0, "e" },
		{ "a", "X1TEGY", "XaT!EGY", "", PYTHON_UNMERGED_CALLS, "" },
		{ "", "XGUEY", "XG", "", 0, "e" },
		{ "a", "X1TGUEY", "XaTGU", "p", 0, "c" },
		{ "ab", "X1TGUEY", "XaTGUb", "n", 0, "b" },
		/*
		 * Instructions that are functions: the instruction that a marked call runs belongs
		 * to it.
		 */
		{ "ab", "XE1SE1Y", "XaSbY", "", 0, "" },
		{ "ab", "XP1SP1Y", "XaSbY", "", 0, "" },
		{ "a", "E1Y", "aY", "", 0, "" },
		{ "a", "EXE1Y", "EXaY", "", 0, "" }, /* that of a call just beginning stays */
		{ "a", "EEXE1Y", "EEXaY", "", 0, "" },
		{ "ab", "E11Y", "abY", "", 0, "" },
		{ "a", "E", "Ea", "t", 0, "" },
		/* Up to 3.10, and nothing is proven: as many calls as frames. */
		{ "ab", "XESEY", "XaSbY!", "n", PYTHON_UNMERGED_UNPROVEN, "" },
		{ "a", "ESEY", "ESaY!", "n", PYTHON_UNMERGED_UNPROVEN, "" },
		{ "a", "XESEY", "Xa", "n", 0, "b" },
		{ "ab", "XESE", "XESEab", "nt", 0, "" },
		/* Up to 3.10: calls that are not proven, but as many as frames between those that are. */
		{ "abc", "X1SETEY", "XaSETEYbc", "nt", 0, "" },
		{ "abc", "X1SETEY", "XaSbc", "n", 0, "b" },
		{ "abc", "XESE1T2Y", "XESEaTbcY!", "n", PYTHON_UNMERGED_CALLS, "" },
		{ "ab", "XESE2TY", "XESabTY", "n", 0, "" },
		{ "abcd", "X1SETE2YEZ", "XaSETEbcYd", "n", 0, "b" },
		{ "abcd", "X1SETE3Y", "XaSbTcdY", "n", 0, "" },
		/* Up to 3.9: the chain ends with a coroutine that an exception is thrown through. */
		{ "abc", "X1S1TEYEZ", "XaSbTc", "n", 0, "b" },
		{ "abc", "X1SY", "Xabc!SY", "n", PYTHON_UNMERGED_FRAMES, "" },
	};

	return cr_make_param_array(struct merge_case, cases, sizeof(cases) / sizeof(*cases));
}

ParameterizedTest(struct merge_case *c, python_merge, all)
{
	uint64_t python[16], native[16], frames[64];
	struct python_merge m = { .python = python,
				  .native = native,
				  .nr_python = strlen(c->python),
				  .nr_native = strlen(c->native),
				  .by_number = strchr(c->how, 'n'),
				  .complete = !strchr(c->how, 't'),
				  .deep = strchr(c->how, 'd'),
				  .python_complete = !strchr(c->how, 'p'),
				  .kind = kind };
	struct python_merged merged;
	char got[33] = "", ends[4] = "";
	size_t i;

	for (i = 0; i < m.nr_python; i++)
		python[i] = frame_of(c->python[i]);
	for (i = 0; i < m.nr_native; i++)
		native[i] = frame_of(c->native[i]);
	merged = python_merge(&m, frames);
	cr_assert_leq(merged.nr, m.nr_python + m.nr_native + 1);
	for (i = 0; i < merged.nr; i++)
		got[i] = letter_of(frames[i]);
	snprintf(ends, sizeof(ends), "%s%s%s", merged.cut ? "c" : "", merged.broken ? "b" : "",
		 merged.ended ? "e" : "");
	cr_expect_str_eq(got, c->expected, "%s + %s: %s, not %s", c->python, c->native, got,
			 c->expected);
	cr_expect_eq(merged.unmerged, c->unmerged, "%s + %s", c->python, c->native);
	cr_expect_str_eq(ends, c->ends, "%s + %s: %s", c->python, c->native, ends);
}

/* Frames of awaiting tasks: 0 ends a task, whose outermost frame comes first. */
struct awaiters_case {
	char stack[16], words[16], expected[32];
	size_t at;
	bool placed;
};

ParameterizedTestParameters(python_merge, awaiters)
{
	static struct awaiters_case cases[] = {
		{ "abc", "de0f0", "aedfbc", 1, true },
		{ "aXbYcZ", "de0f0", "aXbedfYcZ", 2, true }, /* native frames do not count */
		{ "abc", "d0", "abcd", 3, true },
		{ "abc", "00", "abc", 1, true },
		{ "abc", "de", "aedbc", 1, true }, /* cut */
		{ "abc", "dXe0", "aedbc", 1, true }, /* a word that is no Python frame */
		{ "abc", "d0", "abc", 4, false },
		{ "abc", "d0", "abc", 0, false },
		{ "X", "d0", "X", 1, false },
	};

	return cr_make_param_array(struct awaiters_case, cases, sizeof(cases) / sizeof(*cases));
}

ParameterizedTest(struct awaiters_case *c, python_merge, awaiters)
{
	uint64_t frames[64], words[16];
	size_t nr = strlen(c->stack), nr_words = strlen(c->words), i;
	char got[33] = "";

	for (i = 0; i < nr; i++)
		frames[i] = frame_of(c->stack[i]);
	for (i = 0; i < nr_words; i++)
		words[i] = c->words[i] == '0' ? 0 : frame_of(c->words[i]);
	cr_assert_eq(python_awaiters_insert(frames, &nr, c->at, words, nr_words), c->placed);
	for (i = 0; i < nr; i++)
		got[i] = letter_of(frames[i]);
	cr_expect_str_eq(got, c->expected, "%s + %s: %s", c->stack, c->words, got);
}
