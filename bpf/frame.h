/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_FRAME_H
#define BPFPROF_BPF_FRAME_H

/*
 * Part of the wire contract (bpfprof.h): a frame of a stack, and why a stack ends.
 */

#include "arch.h"

#define BPFPROF_MAX_KERNEL_FRAMES 127
#define BPFPROF_MAX_USER_FRAMES 1536 /* up to 3.10 each of 500 Python frames takes three */
#define BPFPROF_MAX_PYTHON_FRAMES 1024 /* Python itself ends a recursion of 1000 */
#define BPFPROF_MAX_PYTHON_ENTRIES                                                                 \
	1024 /* C calls of the eval loop in one stack: up to 3.10 each frame */
#define BPFPROF_MAX_FRAMES 2688 /* kernel + Python + native, rounded up */

/*
 * A frame is 8 bytes, the kind in the top 4 bits:
 *   KERNEL     60 bits: kernel address, sign-extended from bit 59
 *   NATIVE     20 bits image id, 40 bits file offset of the instruction
 *   NATIVE_VA  60 bits: user address outside every file (JIT code, vsyscall)
 *   PYTHON     40 bits code id, 20 bits index of the instruction (2 bytes each)
 *   MARKER     enum bpfprof_stop: why the stack ends here
 *   EVAL       a native frame of the eval loop: 16 bits how many of the sample's Python frames
 *              it runs; they take its place
 *   LABEL      made in user space: id of a text that stands above the stack (profile/aggregate.h)
 * A caller's address is its return address minus one, so that it lies inside
 * the call; a leaf's, and one below a signal frame, is exact.
 */
enum bpfprof_frame_kind {
	BPFPROF_FRAME_INVALID = 0,
	BPFPROF_FRAME_KERNEL = 1,
	BPFPROF_FRAME_NATIVE = 2,
	BPFPROF_FRAME_NATIVE_VA = 3,
	BPFPROF_FRAME_PYTHON = 4,
	BPFPROF_FRAME_MARKER = 5,
	BPFPROF_FRAME_EVAL = 6,
	BPFPROF_FRAME_LABEL = 7, /* user space only */
};

#define BPFPROF_FRAME_SHIFT 60
#define BPFPROF_FRAME_MASK ((1ULL << BPFPROF_FRAME_SHIFT) - 1)
#define BPFPROF_OFF_BITS 40
#define BPFPROF_OFF_MASK ((1ULL << BPFPROF_OFF_BITS) - 1)
#define BPFPROF_MAX_IMAGES (1U << 20)
#define BPFPROF_LASTI_BITS 20
#define BPFPROF_LASTI_MASK ((1U << BPFPROF_LASTI_BITS) - 1)
#define BPFPROF_LASTI_NONE BPFPROF_LASTI_MASK /* not begun, or not to be had */

/* Image ids below this are not files. */
enum bpfprof_image {
	BPFPROF_IMAGE_NONE = 0, /* anonymous executable memory */
	BPFPROF_IMAGE_VDSO = 1,
	BPFPROF_IMAGE_FIRST_FILE = 2,
};

/* Why a user stack ended. COMPLETE and NO_USER are good ends. */
enum bpfprof_stop {
	BPFPROF_STOP_INVALID = 0,
	BPFPROF_STOP_COMPLETE = 1, /* reached _start, a thread's start or a coroutine's */
	BPFPROF_STOP_NO_USER =
		2, /* kernel thread, a process's worker in the kernel, or no memory */
	BPFPROF_STOP_COMPAT32 = 3, /* 32-bit code: named, not walked */
	BPFPROF_STOP_DEPTH = 4, /* more than BPFPROF_MAX_USER_FRAMES */
	BPFPROF_STOP_READ_FAULT = 5, /* stack memory not readable now (paged out, unmapped) */
	BPFPROF_STOP_NO_PROCESS = 6, /* mappings not known to the kernel side: a miss */
	BPFPROF_STOP_NO_MAPPING = 7, /* pc in no known mapping: a miss */
	BPFPROF_STOP_NO_PAGE = 8, /* unwind rows of this page not resident: a miss */
	BPFPROF_STOP_RARE_RULE = 9, /* rule that no row can hold: a miss */
	BPFPROF_STOP_STALE = 10, /* slice replaced while it was searched: a miss */
	BPFPROF_STOP_BAD_FRAME = 11, /* cfa not above sp, or frame pointer chain broken */
	BPFPROF_STOP_NO_TABLE = 12, /* code without unwind rule, and no frame pointer to follow */
	BPFPROF_STOP_MISS_WINDOW = 13, /* user space: what lies above the copied stack */
	BPFPROF_STOP_MISS_RATE = 14, /* a miss that was not sent: over the rate or ring too full */
	BPFPROF_STOP_MISS_GONE = 15, /* user space: process gone before its mappings were read */
	BPFPROF_STOP_MISS_FILE =
		16, /* user space: file not readable, blocked or not the mapped one */
	BPFPROF_STOP_BAD_CFI = 17, /* malformed or hostile .eh_frame */
	BPFPROF_STOP_REG_LOST = 18, /* rule needs a register that is no longer known */
	BPFPROF_STOP_BUSY = 19, /* scratch of this CPU in use */
	BPFPROF_STOP_PYTHON = 20, /* user space: the Python part ended before; its stop says why */
	BPFPROF_STOP_PYTHON_BROKEN = 21, /* user space: Python itself has lost what called it */
	BPFPROF_NR_STOPS,
};

#endif
