/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_HOOK_PLACE_H
#define BPFPROF_CUDA_HOOK_PLACE_H

/*
 * The instruction of a function that gets the probe. A probe is a trap, after which the kernel must
 * execute the instruction that the trap replaced. It emulates a few instructions and single-steps
 * all others, which costs ten times as much.
 *
 * So the probe goes to the first such instruction, if the ones before it have no effect that
 * matters: no jump, no call, no fault, no write to memory, to an argument, to the stack pointer or to a register
 * of the caller; and if the function never jumps back to it, since each round would count as a
 * call. A function for which this is not certain is hooked at its first byte.
 */

#include <stdint.h>

struct code_reader;

/* Limits of instructions that are read; 32768 of a library take about 30 ms. */
#define HOOK_PLACE_MAX_INSTRUCTIONS 2048
#define HOOK_PLACE_LIBRARY_INSTRUCTIONS (1 << 15)

/*
 * The offset of the instruction from rva, the begin of a function with at most `bytes` of code.
 * Subtracts the instructions that it reads from *budget; when that is 0, the offset is 0.
 */
uint64_t hook_place(struct code_reader *reader, uint64_t rva, uint64_t bytes, uint32_t *budget);

#endif
