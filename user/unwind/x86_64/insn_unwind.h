/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_X86_64_INSN_UNWIND_H
#define BPFPROF_UNWIND_X86_64_INSN_UNWIND_H

/*
 * Unwind rules of code that has no tables (hand-written assembly: the kernels of BLAS and
 * video libraries; programs built without them), read out of the code itself. x86-64 only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_image;

#define INSN_UNWIND_MAX_INSTRUCTIONS 8192

/* [off, off + len) of the file has this row (bpf/unwind_native.h; its low 16 bits are 0). */
struct insn_rule {
	uint64_t off;
	uint64_t row;
	uint32_t len;
};

/* How the rules are found. */
enum code_way {
	/*
	 * From off on, along all branches, to every `ret`, which finds the return address at rsp.
	 * What rsp, rbp and rbx are on the way there, in terms of what they are now, is the rule of
	 * every instruction passed. No function has to have a name or a known start.
	 */
	CODE_TO_RETURN,
	/*
	 * From the first instruction of the function, which is entered by a call, on. Where only an
	 * indirect jump can lead to off (whole), the stack is as it was at such jumps.
	 */
	CODE_FROM_START,
	/* These have to be proven by a stack. */
	CODE_GUESSES,
	/* To every `ret`, but a call does not return if what is behind it looks like a function. */
	CODE_TO_NEAR_RETURN = CODE_GUESSES,
	/* From off on, as long as rbp keeps its value, which the caller knows to be a frame's. */
	CODE_FRAME_POINTER,
};

/* Where code may be followed, and how. */
struct code_area {
	enum code_way way;
	uint64_t function; /* CODE_FROM_START: file offset of its first instruction */
	bool whole; /* the area is this function: if its branches do not lead to off, a jump does */
	bool after_call; /* off is what a call returns to, which may not be code of this function */
	/*
	 * function_starts does not know all functions: what looks like one behind a call is one for every way,
	 * as it is for CODE_TO_NEAR_RETURN.
	 */
	bool starts_unknown;
	struct elf_image *img; /* or NULL, and */
	int (*read)(void *arg, uint64_t off, void *dst, size_t len); /* exactly len: 0 or -errno */
	uint64_t start, end; /* file offsets of one segment, or what read takes for such */
	/* Does a function (of a table, of a symbol) begin at this file offset? May be NULL. */
	bool (*function_starts)(void *arg, uint64_t off);
	void *arg;
};

/*
 * Follows the code from file offset off, which is an instruction in the area (CODE_FROM_START: from the
 * function's first one). A call that a known function follows immediately is taken for one that does
 * not return.
 * Writes the rules of the instructions it came through, sorted, neighbours merged, at most
 * cap (those around off); returns how many, or -ENODATA: no way to a `ret` was found, the ways
 * contradict each other, or it is too much code; -ENOMEM; errors of elf_image_read().
 * Some milliseconds at most, 4 MiB while it runs, and no more than 256 KiB are read.
 */
int insn_unwind_find(const struct code_area *area, uint64_t off, struct insn_rule *rules,
		     size_t cap);

/* Is code[0..len) the end of a call instruction, so that what follows it is a return address? */
bool code_ends_in_call(const uint8_t *code, size_t len);
/* Where the call or jump leads that ends code[0..len), which lies before off. -ENODATA: that is not in it. */
int code_leads_to(const uint8_t *code, size_t len, uint64_t off, uint64_t *ret);
/*
 * The next address at or after *pos that the code, which lies at va, loads into a register: 0 with
 * *pos behind it, or -ENODATA.
 */
int code_address_next(const uint8_t *code, size_t len, uint64_t va, size_t *pos, uint64_t *ret);
/* How many bytes run one after the other, up to the first branch or call, which is counted. */
size_t code_straight(const uint8_t *code, size_t len);
/* The same up to the first one that is not conditional: all of this belongs to one function. */
size_t code_run(const uint8_t *code, size_t len);
/*
 * Is this the first code of a process? It hands on the stack pointer that the kernel set, where a function
 * has its return address. Not every program's does, no compiled function's does.
 */
bool code_begins_process(const uint8_t *code, size_t len);
/* Does the code stop the processor (hlt, which no compiler writes) before it branches or calls? */
bool code_halts(const uint8_t *code, size_t len);
/* Is this the call of rt_sigreturn that signal handlers return to? Its bytes; 0: it is not. */
size_t code_returns_from_signal(const uint8_t *code, size_t len);
#define CODE_LOOK_BYTES 32 /* enough for each of them */

#endif
