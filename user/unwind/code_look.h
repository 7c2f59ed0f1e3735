/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_CODE_LOOK_H
#define BPFPROF_UNWIND_CODE_LOOK_H

/* Questions about a few bytes of machine code. The folder of the CPU answers them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Enough on every CPU: for each question, for a call, and for the return from a signal handler. */
#define CODE_LOOK_BYTES 32
#define CODE_CALL_BYTES 8
#define CODE_SIGNAL_RETURN_BYTES 9

/* Does code[0..len) end with a call instruction, so that its end is a return address? */
bool code_ends_in_call(const uint8_t *code, size_t len);
/* The target of the call or jump that ends code[0..len); off is the end. -ENODATA: not a direct one. */
int code_leads_to(const uint8_t *code, size_t len, uint64_t off, uint64_t *ret);
/*
 * The next address at or after *pos that the code, which lies at va, loads into a register: 0 with
 * *pos behind it, or -ENODATA.
 */
int code_address_next(const uint8_t *code, size_t len, uint64_t va, size_t *pos, uint64_t *ret);
/*
 * The next bytes from *pos on that may be a jump or a branch out of a function, and their target: 0 with
 * *pos - 1 in the jump, or -ENODATA. Bytes in other instructions look like jumps, too.
 */
int code_jump_next(const uint8_t *code, size_t len, uint64_t va, size_t *pos, uint64_t *ret);
/* Bytes that run one after the other, up to the first branch or call, which is counted. */
size_t code_straight(const uint8_t *code, size_t len);
/* The same up to the first branch that is not conditional: all of it belongs to one function. */
size_t code_run(const uint8_t *code, size_t len);
/*
 * Is this the first code of a process? It passes on the stack pointer that the kernel set, where a
 * function has its return address. Some programs do not; no compiled function does.
 */
bool code_begins_process(const uint8_t *code, size_t len);
/* Does the code stop the processor, which no compiled code does, before it branches or calls? */
bool code_halts(const uint8_t *code, size_t len);
/* The length of the call of rt_sigreturn that signal handlers return to; 0: the code is not one. */
size_t code_returns_from_signal(const uint8_t *code, size_t len);

#endif
