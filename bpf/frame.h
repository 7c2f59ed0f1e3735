/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_FRAME_H
#define BPFPROF_BPF_FRAME_H

/* Part of the wire contract (bpfprof.h): one frame of a stack, and why a stack ends. */

#include "arch.h"

#define BPFPROF_MAX_KERNEL_FRAMES 127
/* 500 Python frames take three native frames each, up to 3.10. */
#define BPFPROF_MAX_USER_FRAMES 1536
#define BPFPROF_MAX_PYTHON_FRAMES 1024 /* Python itself ends a recursion after 1000 frames */
/* C calls of the eval loop in one stack; up to 3.10 each Python frame is one */
#define BPFPROF_MAX_PYTHON_ENTRIES 1024
#define BPFPROF_MAX_FRAMES 2688 /* kernel + Python + native, rounded up */

/*
 * A frame has 8 bytes. The top 4 bits are its kind:
 *   KERNEL     60 bits: kernel address, sign-extended from bit 59
 *   NATIVE     20 bits image id, 40 bits file offset of the instruction
 *   NATIVE_VA  60 bits: user address outside every file (JIT code, vsyscall)
 *   PYTHON     40 bits code id, 20 bits index of the instruction (2 bytes each)
 *   MARKER     enum bpfprof_stop: why the stack ends here
 *   EVAL       native frame of the eval loop; 16 bits: the number of Python frames that it runs
 *              and that replace it
 *   LABEL      made in user space: id of a text above the stack (profile/aggregate.h)
 * A caller's address is its return address minus one, so that it lies inside the call. The address
 * of a leaf, and of a frame below a signal frame, is exact.
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
/* The code has not begun, or the index cannot be read. */
#define BPFPROF_LASTI_NONE BPFPROF_LASTI_MASK

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
	/* Kernel thread, a kernel-only thread of a process, or no memory. */
	BPFPROF_STOP_NO_USER = 2,
	BPFPROF_STOP_COMPAT32 = 3, /* 32-bit code: it is named and not walked */
	BPFPROF_STOP_DEPTH = 4, /* more than BPFPROF_MAX_USER_FRAMES */
	/* The stack memory is not readable now (paged out, unmapped). */
	BPFPROF_STOP_READ_FAULT = 5,
	BPFPROF_STOP_NO_PROCESS = 6, /* miss: the maps lack the mappings of the process */
	BPFPROF_STOP_NO_MAPPING = 7, /* miss: pc lies in no known mapping */
	BPFPROF_STOP_NO_PAGE = 8, /* miss: the unwind rows of this page are not loaded */
	BPFPROF_STOP_RARE_RULE = 9, /* miss: no row can hold the rule */
	BPFPROF_STOP_STALE = 10, /* miss: user space replaced the slice during the search */
	BPFPROF_STOP_BAD_FRAME = 11, /* cfa not above sp, or a broken frame pointer chain */
	/* The code has no unwind rule, and no frame pointer to follow. */
	BPFPROF_STOP_NO_TABLE = 12,
	BPFPROF_STOP_MISS_WINDOW = 13, /* user space: the stack goes on above its copy */
	/* A miss was not sent: over the rate, or the ring is too full. */
	BPFPROF_STOP_MISS_RATE = 14,
	/* User space: the process ended before its mappings were read. */
	BPFPROF_STOP_MISS_GONE = 15,
	/* User space: file unreadable, read hangs, or not the mapped file. */
	BPFPROF_STOP_MISS_FILE = 16,
	BPFPROF_STOP_BAD_CFI = 17, /* malformed or hostile .eh_frame */
	BPFPROF_STOP_REG_LOST = 18, /* the rule needs a register that is no longer known */
	BPFPROF_STOP_BUSY = 19, /* the scratch of this CPU was in use */
	BPFPROF_STOP_PYTHON = 20, /* user space: the Python part ended first; its stop says why */
	BPFPROF_STOP_PYTHON_BROKEN = 21, /* user space: Python itself lost the caller */
	BPFPROF_NR_STOPS,
};

#endif
