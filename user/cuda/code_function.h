/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_CODE_FUNCTION_H
#define BPFPROF_CUDA_CODE_FUNCTION_H

/*
 * The calls of one function, with the known values of their arguments. The begin and end of a
 * function are those of .eh_frame; parts that were split off (".cold") belong to it. The reader
 * follows all paths, switches included; code without a path to it (where exceptions land) begins
 * with no known value. A switch that is not understood makes all values unknown, and so does more
 * code than there is time for.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/code_values.h"
#include "unwind/eh_frame.h"

#define CODE_FUNCTION_MAX_CALLS 512
#define CODE_FUNCTION_MAX_VISITS 32768 /* of instructions: about 10 ms */

/* The bounds of functions in one image. The caller owns pass, which may serve several images. */
struct code_bounds {
	struct eh_frame frame;
	struct eh_pass *pass;
};

struct code_range {
	uint64_t start, end;
	bool is_function; /* false: a part that was split off */
};

struct code_call {
	uint64_t rva, end;
	struct code_target target;
	struct code_value arguments[CODE_NR_ARGUMENTS];
};

struct code_function {
	uint64_t start;
	bool is_known; /* false: no argument is known */
	size_t nr;
	struct code_call calls[CODE_FUNCTION_MAX_CALLS];
};

/*
 * The function around rva. With too many calls it has only the call that returns to `end`. 0;
 * -ENOENT: no such function; -E2BIG: not even that call; -ENOMEM; errors of reading.
 */
int code_function_read(struct code_function *ret, struct code_reader *reader,
		       struct code_bounds *bounds, uint64_t rva, uint64_t end);

/* The call that returns to end, or NULL. */
const struct code_call *code_function_call(const struct code_function *function, uint64_t end);

/* The word that an entry of a PLT at rva jumps through. */
bool code_function_plt_word(struct code_reader *reader, uint64_t rva, uint64_t *ret);
/* The target of the jumps at rva, or rva itself. */
uint64_t code_function_behind_jumps(struct code_reader *reader, uint64_t rva);
/* The function that the code at rva calls first; 0: not clear. */
uint64_t code_function_first_call(struct code_reader *reader, uint64_t rva);

#endif
