/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_MERGE_H
#define BPFPROF_PYTHON_MERGE_H

/*
 * Native and Python frames of one sample become one stack: each C call of the eval loop gives
 * way to the Python frames that it runs. The walker has marked the calls for which that is proven (EVAL
 * frames, which say how many they run); what such a frame called and is eval loop too is
 * the function of an instruction, and goes with it. The innermost call may have no mark: it is just
 * beginning or ending. Every other call without one, and every Python frame that is left, is said.
 *
 * A chain that is cut ends the whole stack where its next frame would stand. A chain that is whole and
 * has given all its frames to calls inside of a switch of coroutines (greenlet) ends it there: what lies
 * further out on the C stack belongs to another coroutine, or is what one has left behind.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a native frame is. */
enum python_native {
	PYTHON_NATIVE_OTHER = 0,
	PYTHON_NATIVE_EVAL, /* in the eval loop */
	PYTHON_NATIVE_PERHAPS, /* the same of a file that does not tell where it has its eval loop */
	PYTHON_NATIVE_SWITCH, /* in a library that switches C stacks */
};

/* Why Python and native frames do not pair up. */
enum python_unmerged {
	PYTHON_MERGED = 0,
	PYTHON_UNMERGED_MISSING, /* the eval loop runs, but of no Python frame */
	PYTHON_UNMERGED_CALLS, /* calls of the eval loop for which no frame was found */
	PYTHON_UNMERGED_FRAMES, /* frames that no call of the eval loop runs */
	PYTHON_UNMERGED_UNPROVEN, /* they are as many, but none was found to belong to another */
	PYTHON_UNMERGED_READ, /* of a stack that was merged elsewhere: it is not said */
	PYTHON_NR_UNMERGED,
};

struct python_merge {
	const uint64_t *python; /* leaf first */
	size_t nr_python;
	const uint64_t *native; /* leaf first */
	size_t nr_native;
	bool complete; /* the native stack is there up to its root */
	bool deep; /* or it is not, for its length alone: then only what is innermost is shown */
	bool python_complete; /* the Python frames are there up to the outermost */
	bool by_number; /* up to 3.10 each call runs one frame */
	enum python_native (*kind)(void *arg, uint64_t frame);
	void *arg;
};

struct python_merged {
	size_t nr; /* frames of the stack */
	enum python_unmerged unmerged; /* if so, a marker stands in the stack */
	bool cut; /* as the chain is: the outermost part is missing */
	bool broken; /* the same, for a chain that Python itself has broken there */
	bool ended; /* the end is proven, wherever the native walk has ended */
};

#define PYTHON_FRAME_UNMERGED (1ULL << 16) /* of a MARKER frame */

/* Writes the stack, leaf first, to frames (room for nr_python + 2 * nr_native + 1). */
struct python_merged python_merge(const struct python_merge *merge, uint64_t *frames);

#endif
