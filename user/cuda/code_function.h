/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_CODE_FUNCTION_H
#define BPFPROF_CUDA_CODE_FUNCTION_H

/*
 * The calls that one function makes, and what is known of their arguments. Where a function
 * begins and ends is taken from .eh_frame; parts that were split off (".cold") belong to it. All
 * ways through it are followed, switches included; code that no way leads to (where exceptions
 * land) is taken to be entered with nothing known. A switch that is not understood makes
 * everything unknown, and so does more code than there is time for.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/code_values.h"
#include "unwind/eh_frame.h"

#define CODE_FUNCTION_MAX_CALLS 512
#define CODE_FUNCTION_MAX_VISITS 32768 /* of instructions: about 10 ms */

/* Of one image; the working memory is the caller's, and may serve several. */
struct code_bounds {
	struct eh_frame frame;
	struct eh_pass *pass;
};

struct code_range {
	uint64_t start, end;
	bool is_function; /* and not a part that was split off */
};

/* The range that rva is in. 0, -ENOENT, -EBADMSG, errors of reading. */
int code_bounds_find(struct code_bounds *bounds, uint64_t rva, struct code_range *ret);

struct code_call {
	uint64_t rva, end;
	struct code_target target;
	struct code_value arguments[CODE_NR_ARGUMENTS];
};

struct code_function {
	uint64_t start;
	bool is_known; /* else no argument is */
	size_t nr;
	struct code_call calls[CODE_FUNCTION_MAX_CALLS];
};

/*
 * The function around rva. If there are too many calls only the one that returns to `end` is told.
 * 0, -ENOENT: no such function, -E2BIG: not even that, -ENOMEM, errors of reading.
 */
int code_function_read(struct code_function *ret, struct code_reader *reader,
		       struct code_bounds *bounds, uint64_t rva, uint64_t end);

/* Of the call that returns to end, or NULL. */
const struct code_call *code_function_call(const struct code_function *function, uint64_t end);

/* The word that the code at rva, a PLT's, jumps through. */
bool code_function_plt_word(struct code_reader *reader, uint64_t rva, uint64_t *ret);
/* Where the code at rva really begins: behind jumps that lead on. */
uint64_t code_function_behind_jumps(struct code_reader *reader, uint64_t rva);
/* What the code at rva calls first, 0 if that is not clear. */
uint64_t code_function_first_call(struct code_reader *reader, uint64_t rva);

#endif
