/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_MERGE_H
#define BPFPROF_PYTHON_MERGE_H

/*
 * Merges the native and the Python frames of one sample into one stack: the Python frames replace the C
 * call of the eval loop that runs them. The walker has marked the calls for which that is proven (EVAL
 * frames, with the number of frames that they run). If a marked call has called code of the eval loop,
 * that is the function of an instruction and is replaced, too. The innermost call may have no mark: it
 * is just beginning or ending. Every other call without a mark, and every Python frame that is left, is
 * reported.
 *
 * A chain that is cut ends the whole stack in the place of its next frame. A complete chain whose frames
 * all belong to calls inside of a switch of coroutines (greenlet) ends the stack there: the rest of the C
 * stack belongs to another coroutine, or is left over from one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kind of a native frame. */
enum python_native {
	PYTHON_NATIVE_OTHER = 0,
	PYTHON_NATIVE_EVAL, /* in the eval loop */
	PYTHON_NATIVE_PERHAPS, /* perhaps in the eval loop: the file does not show where it is */
	PYTHON_NATIVE_SWITCH, /* in a library that switches C stacks */
};

/* The reason why Python and native frames do not match. */
enum python_unmerged {
	PYTHON_MERGED = 0,
	PYTHON_UNMERGED_MISSING, /* the eval loop runs, but there is no Python frame */
	PYTHON_UNMERGED_CALLS, /* calls of the eval loop without a frame */
	PYTHON_UNMERGED_FRAMES, /* frames without a call of the eval loop */
	PYTHON_UNMERGED_UNPROVEN, /* as many calls as frames, but no pair is proven */
	PYTHON_UNMERGED_READ, /* read from a file, which does not have the reason */
	PYTHON_NR_UNMERGED,
};

struct python_merge {
	const uint64_t *python; /* leaf first */
	size_t nr_python;
	const uint64_t *native; /* leaf first */
	size_t nr_native;
	bool complete; /* native has all frames up to the root */
	bool deep; /* the native stack is only too long: just the innermost part is shown */
	bool python_complete; /* python has all frames up to the outermost one */
	bool by_number; /* each call runs one frame (up to 3.10) */
	enum python_native (*kind)(void *arg, uint64_t frame);
	void *arg;
};

struct python_merged {
	size_t nr; /* frames of the stack */
	enum python_unmerged unmerged; /* not PYTHON_MERGED: a marker stands in the stack */
	bool cut; /* the chain is cut: the outermost part is missing */
	bool broken; /* the outermost part is missing because Python has broken the chain */
	bool ended; /* the end is proven, even if the native walk ended early */
};

/*
 * Puts the frames of awaiting tasks into a merged stack of *nr frames: behind its Python frame number `at`
 * (counted from 1). words: nearest task first, the outermost frame of each first, and a 0 behind each. There
 * must be room for nr_words more. False: the stack has no such frame.
 */
bool python_awaiters_insert(uint64_t *frames, size_t *nr, size_t at, const uint64_t *words,
			    size_t nr_words);

#define PYTHON_FRAME_UNMERGED (1ULL << 16) /* of a MARKER frame */

/* Writes the stack, leaf first, to frames (room for nr_python + 2 * nr_native + 1). */
struct python_merged python_merge(const struct python_merge *merge, uint64_t *frames);

#endif
