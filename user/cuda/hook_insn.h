/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_HOOK_INSN_H
#define BPFPROF_CUDA_HOOK_INSN_H

/* Instructions at the begin of a function that may get a probe (cuda/hook_place.h). */

#include <stdbool.h>

struct instruction;

/* Does the kernel emulate the instruction, so that a probe on it is cheap? */
bool hook_insn_is_emulated(const struct instruction *in);
/*
 * Does the instruction leave no trace for the caller and for the rest of the function? Then it may run
 * before the probe.
 */
bool hook_insn_is_harmless(const struct instruction *in);

#endif
