/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_CODE_STATE_H
#define BPFPROF_CUDA_CODE_STATE_H

/* Reads and writes values in a state (cuda/code_values.h), for the code that executes instructions. */

#include <stdint.h>

#include "cuda/code_values.h"

struct code_value code_value_make(enum code_value_kind kind, uint64_t n);
struct code_value code_value_plus(struct code_value value, int64_t n);

static inline struct code_value code_value_unknown(void)
{
	return (struct code_value){ .kind = CODE_UNKNOWN };
}

/* The 8 bytes at address. */
struct code_value code_state_load(const struct code_state *state, struct code_value address);
void code_state_store(struct code_state *state, struct code_value address, uint32_t bytes,
		      struct code_value value);

#endif
