/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_MERGE_H
#define BPFPROF_PYTHON_MERGE_H

/*
 * Native and Python frames of one sample become one stack: each C call of the eval loop gives
 * way to the Python frames that it ran. From 3.11 on the walker has marked these
 * calls (EVAL frames, which say how many they ran); what such a frame called and is eval loop too is
 * the function of an instruction, and goes with it. Up to 3.10 each runs exactly one, and
 * they are recognized by their code; paired from the outermost inwards, since the innermost
 * may be just beginning, before its frame is there.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct python_merge {
	const uint64_t *python; /* leaf first */
	size_t nr_python;
	const uint64_t *native; /* leaf first */
	size_t nr_native;
	bool by_code; /* up to 3.10 */
	bool complete; /* the native stack is there up to its root */
	bool python_complete; /* and the Python frames */
	/* Is this native frame in the eval loop? */
	bool (*is_eval)(void *arg, uint64_t frame);
	void *arg;
};

#define PYTHON_FRAME_UNMERGED (1ULL << 16) /* of a MARKER frame */

/*
 * Writes the stack, leaf first, to frames (room for nr_python + nr_native + 1); returns its
 * length. *unmerged: some frames did not pair up; a marker stands between them and the rest.
 */
size_t python_merge(const struct python_merge *merge, uint64_t *frames, bool *unmerged);

#endif
