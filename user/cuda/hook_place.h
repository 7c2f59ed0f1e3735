/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_HOOK_PLACE_H
#define BPFPROF_CUDA_HOOK_PLACE_H

/*
 * The instruction of a function that a probe is put on. A probe is a trap, after which the kernel
 * must have the instruction done that it replaced. A few it emulates; all others it single-steps,
 * which costs ten times as much. Kernels 6.1 to 7.x agree on jumps and calls to a relative address,
 * pushes of a register and the nop of one byte (arch/x86/kernel/uprobes.c: branch_setup_xol_ops,
 * push_setup_xol_ops); the longer nops only since 6.18.
 *
 * So the first one of those is taken, if what comes before it cannot be told from outside: no
 * jump and no call, nothing that faults, writes memory, an argument, rsp or what belongs to the
 * caller; and if the function never comes back to it, or each round would count as a call. What is
 * not certain is hooked at its first byte.
 */

#include <stdint.h>

struct code_reader;

/* Instructions that may be looked at; about 30 ms for a library's 32768. */
#define HOOK_PLACE_MAX_INSTRUCTIONS 2048
#define HOOK_PLACE_LIBRARY_INSTRUCTIONS (1 << 15)

/*
 * How many bytes behind rva, where the function begins that has at most `bytes` of code. Takes from
 * *budget what it has looked at; without it all is uncertain.
 */
uint64_t hook_place(struct code_reader *reader, uint64_t rva, uint64_t bytes, uint32_t *budget);

#endif
