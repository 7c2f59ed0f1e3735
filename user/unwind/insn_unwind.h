/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_INSN_UNWIND_H
#define BPFPROF_UNWIND_INSN_UNWIND_H

/*
 * Unwind rules of code without tables (hand-written assembly: the kernels of BLAS and video
 * libraries; programs built without tables). The rules come from the instructions.
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
	 * The code is followed from off along all branches to every return, which finds the return
	 * address at the stack pointer. The terms for the registers that a row restores make the
	 * rules of all instructions passed. The function needs neither a name nor a known start.
	 */
	CODE_TO_RETURN,
	/*
	 * The code is followed from the first instruction of the function, which a call enters.
	 * Where only an indirect jump can lead to off (whole), the stack is as it was at such jumps.
	 */
	CODE_FROM_START,
	/* The rules of the following ways need a stack that proves them. */
	CODE_GUESSES,
	/* To every return; a call does not return if the code behind it looks like a function. */
	CODE_TO_NEAR_RETURN = CODE_GUESSES,
	/* From off as long as the frame pointer keeps its value; it points to a frame. */
	CODE_FRAME_POINTER,
};

/* The code that may be followed. */
struct code_area {
	enum code_way way;
	uint64_t function; /* CODE_FROM_START: file offset of its first instruction */
	bool whole; /* the area is one function: a jump leads to off if no branch does */
	bool after_call; /* off is a return address, which may lie behind the end of its function */
	bool starts_unknown; /* function_starts misses some: CODE_TO_NEAR_RETURN's rule always holds */
	struct elf_image *img; /* NULL: `read` reads the code */
	int (*read)(void *arg, uint64_t off, void *dst, size_t len); /* exactly len: 0 or -errno */
	uint64_t start, end; /* file offsets of one segment, or the numbers that `read` takes */
	/* Does a function (of a table, of a symbol) begin at this file offset? May be NULL. */
	bool (*function_starts)(void *arg, uint64_t off);
	void *arg;
};

/*
 * Follows the code from file offset off, an instruction in the area (CODE_FROM_START: from the
 * function's first one). A call does not return if a known function follows it immediately.
 * Writes the rules of the instructions passed, sorted, neighbours merged, at most cap (those around
 * off). Returns their number, or -ENODATA: no way leads to a return, the ways contradict each other,
 * or there is too much code; -ENOMEM; errors of elf_image_read().
 * Takes some milliseconds at most, 4 MiB while it runs, and reads no more than 256 KiB.
 */
int insn_unwind_find(const struct code_area *area, uint64_t off, struct insn_rule *rules,
		     size_t cap);

#endif
