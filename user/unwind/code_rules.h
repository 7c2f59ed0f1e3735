/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_CODE_RULES_H
#define BPFPROF_UNWIND_CODE_RULES_H

/*
 * Unwind rules of code that has no tables (hand-written assembly: the kernels of BLAS and
 * video libraries), read out of the code itself: from an instruction on, along all
 * branches, to every `ret`, which finds the return address at rsp. What rsp, rbp and rbx
 * are on the way there, told by what they are now, is the rule of every instruction passed.
 * No function has to have a name or a known start. x86-64 only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_image;

#define CODE_RULES_MAX_INSTRUCTIONS 8192

/* [off, off + len) of the file has this row (bpf/unwind_native.h; its low 16 bits are 0). */
struct code_rule {
	uint64_t off;
	uint64_t row;
	uint32_t len;
};

/* Where code may be followed. */
struct code_area {
	struct elf_image *img; /* or NULL, and */
	int (*read)(void *arg, uint64_t off, void *dst, size_t len); /* exactly len: 0 or -errno */
	uint64_t start, end; /* file offsets of one segment, or what read takes for such */
	/* Does a function that has tables begin at this file offset? May be NULL. */
	bool (*function_starts)(void *arg, uint64_t off);
	void *arg;
};

/*
 * Follows the code from file offset off, which is an instruction in the area. A call that a
 * function with tables follows immediately is taken for one that does not return.
 * Writes the rules of the instructions it came through, sorted, neighbours merged, at most
 * cap (those around off); returns how many, or -ENODATA: no way to a `ret` was found, the ways
 * contradict each other, or it is too much code; -ENOMEM; errors of elf_image_read().
 * Some milliseconds at most, 4 MiB while it runs, and no more than 256 KiB are read.
 */
int code_rules_find(const struct code_area *area, uint64_t off, struct code_rule *rules,
		    size_t cap);

#endif
