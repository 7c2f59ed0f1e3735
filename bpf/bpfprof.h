/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_BPFPROF_H
#define BPFPROF_BPF_BPFPROF_H

/*
 * The wire contract between the BPF programs and user space: ring buffer
 * records, the values of the shared maps, limits and counters. Fixed-width
 * types only, explicit padding, append-only enums with 0 invalid. User space
 * decodes these in user/kernel/ and nowhere else.
 */

#include "arch.h"

/* Limits. */
#define BPFPROF_COMM_LEN 16
#define BPFPROF_MAX_KERNEL_FRAMES 127
#define BPFPROF_MAX_USER_FRAMES 1536 /* up to 3.10 each of 500 Python frames takes three */
#define BPFPROF_MAX_PYTHON_FRAMES 1024 /* Python itself ends a recursion of 1000 */
#define BPFPROF_MAX_PYTHON_ENTRIES                                                                 \
	1024 /* C calls of the eval loop in one stack: up to 3.10 each frame */
#define BPFPROF_MAX_FRAMES 2688 /* kernel + Python + native, rounded up */
#define BPFPROF_STACK_BYTES 262144 /* room for the copy of the stack of a miss, a power of two */
#define BPFPROF_STACK_PAGES 64 /* of 4 KiB, of which it may touch so many */
#define BPFPROF_PATH_MAX 4096
#define BPFPROF_CALL_BYTES 104 /* struct bpfprof_gpu_call */
#define BPFPROF_TARGET_BITS 65536 /* a power of two */
#define BPFPROF_TARGET_AT_EXEC                                                                     \
	(1U << 31) /* in the map targets: not before it has executed something */
#define BPFPROF_TITLE_BYTES 1032 /* read of a Ray worker's title: 1023, and whether there is more */
#define BPFPROF_TITLE_SHORT 128 /* nearly all are shorter, NUL included: read first */
#define BPFPROF_PAGE_SHIFT 16 /* a page of unwind rows covers 64 KiB of file */

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

/* Per-CPU counters (map counters, one __u64 each). */
enum bpfprof_counter {
	BPFPROF_COUNT_INVALID = 0,
	BPFPROF_COUNT_TICKS = 1, /* program runs of the sampling clock */
	BPFPROF_COUNT_IDLE = 2, /* of which the CPU was idle */
	BPFPROF_COUNT_FILTERED = 3, /* of which the process was not asked for */
	BPFPROF_COUNT_SAMPLES = 4, /* samples sent, misses included */
	BPFPROF_COUNT_MISSES = 5, /* samples sent with a copy of the stack */
	BPFPROF_COUNT_RING_FULL = 6, /* samples lost: ring buffer full */
	BPFPROF_COUNT_EVENT_LOST = 7, /* process events lost: ring buffer full */
	BPFPROF_COUNT_SCRATCH_BUSY = 8, /* samples lost: scratch in use */
	BPFPROF_COUNT_KSOFTIRQD = 9, /* timer ticks that landed in ksoftirqd */
	BPFPROF_COUNT_TIMER_MOVED = 10, /* timer ticks on another CPU than armed on */
	BPFPROF_COUNT_TIMER_ERROR = 11, /* timer could not be armed again */
	BPFPROF_COUNT_SELF_NS = 12, /* time of the timed samples */
	BPFPROF_COUNT_SELF_RUNS = 13, /* number of timed samples */
	BPFPROF_COUNT_PC_CACHE_HIT = 14,
	BPFPROF_COUNT_PC_CACHE_MISS = 15,
	BPFPROF_COUNT_STALE = 16, /* searches repeated or given up: slice replaced meanwhile */
	BPFPROF_COUNT_TARGET_LOST = 17, /* child of a target could not be added to the filter */
	BPFPROF_COUNT_TIMER_LATE = 18, /* timer ticks left out because the one before came late */
	BPFPROF_COUNT_CODES_FULL = 19, /* code objects for which the map codes had no room */
	BPFPROF_COUNT_KERNEL_WORKER = 20, /* samples of threads that never enter user mode */
	BPFPROF_COUNT_OWN_UNKNOWN = 21, /* timer ticks whose own frames could not be told */
	BPFPROF_COUNT_NO_KERNEL_STACK = 22, /* samples whose kernel stack the kernel did not give */
	BPFPROF_COUNT_TITLES_LOST = 23, /* changes of titles not told: no room, or not to be read */
	BPFPROF_COUNT_TITLES_LIMITED = 24, /* the same: a process changed its title too often */
	BPFPROF_COUNT_WINDOWS_LOST = 25, /* begins and ends of windows not told: no room */
	BPFPROF_NR_COUNTERS = 26,
};

enum bpfprof_kind {
	BPFPROF_KIND_INVALID = 0,
	BPFPROF_KIND_SAMPLE = 1,
	BPFPROF_KIND_MISS = 2,
	BPFPROF_KIND_EXEC = 3,
	BPFPROF_KIND_FORK = 4,
	BPFPROF_KIND_EXIT = 5,
	BPFPROF_KIND_RENAME = 6,
	BPFPROF_KIND_MMAP = 7, /* a range that may hold a new file mapping was handed out */
	BPFPROF_KIND_PYTHON_CODE = 8,
	BPFPROF_KIND_TITLE = 9,
	BPFPROF_KIND_GPU_CALL = 10, /* these two: gpu_calls.h */
	BPFPROF_KIND_GPU_NAME = 11,
	BPFPROF_KIND_GPU_TRACE = 12, /* gpu_calls.h */
	BPFPROF_KIND_GPU_WAIT = 13, /* the same */
	BPFPROF_KIND_WAITER = 14, /* wait_times.h */
	BPFPROF_KIND_WINDOW = 15, /* gpu_calls.h */
	BPFPROF_KIND_GPU_GRAPH = 16, /* the same */
};

struct bpfprof_record {
	__u32 kind; /* enum bpfprof_kind */
	__u32 size; /* whole record, bytes */
	__u64 ts_ns; /* CLOCK_MONOTONIC */
	__u32 cpu;
	__u32 pad;
};

/* Names one incarnation of an address space: pids and addresses are reused. */
struct bpfprof_task_id {
	__u32 pid; /* tgid */
	__u32 tid;
	__u64 start_ns; /* of the thread group leader, CLOCK_BOOTTIME */
	__u64 exec_id; /* rises with every exec */
};

/*
 * Where a process lives: what its container is found by, also when it has exited by then. Told
 * when a process begins, when its mappings are read and with a miss (as is the first sample of
 * a process not known yet), so that a sample costs no more for it.
 */
struct bpfprof_place {
	__u64 mnt_ns; /* number of its mount namespace, never given to another; 0 = not known */
	__u32 pod_pid; /* its pid in its own pid namespace, 0 = not known */
	__u32 agent_pid; /* and in that of cfg.pid_ns, 0 = it has none there */
};

#define BPFPROF_SAMPLE_USER_MODE 1U /* the tick interrupted user code */
#define BPFPROF_SAMPLE_KTHREAD 2U
#define BPFPROF_SAMPLE_TIMER 4U /* taken by the timer clock */
#define BPFPROF_SAMPLE_VMA 8U /* leaf_vma of the miss is filled in */
#define BPFPROF_SAMPLE_KSOFTIRQD 16U /* timer tick misplaced into ksoftirqd */
#define BPFPROF_SAMPLE_RAY 32U /* of a Ray worker: its title was read, or tried to */
#define BPFPROF_SAMPLE_CALL 64U /* of a hooked call, not of the clock: it follows the title */
#define BPFPROF_SAMPLE_WAIT 128U /* of a thread that was off the CPU, at the end of that */
#define BPFPROF_SAMPLE_UNINTERRUPTIBLE 256U /* and could not be woken by signals */
#define BPFPROF_SAMPLE_GIL_WAIT 512U /* it waited for Python's GIL */
#define BPFPROF_SAMPLE_WAKER 1024U /* of a thread while it wakes another one; no time */
#define BPFPROF_SAMPLE_INTERRUPT                                                                   \
	2048U /* WAKER: an interrupt does that; the thread has no part in it */
#define BPFPROF_SAMPLE_GAP 4096U /* of the clock: the device of its process has nothing to do */

struct bpfprof_sample {
	struct bpfprof_record rec;
	struct bpfprof_task_id task;
	__u64 period_ns; /* time that this sample stands for */
	__u32 asid; /* address space id used for the walk, 0 = process unknown */
	__u32 flags;
	__u16 nr_kernel; /* frames[] starts with this many raw kernel addresses */
	__u16 nr_user; /* and ends with this many native frames */
	__u16 stop; /* enum bpfprof_stop */
	__u16 skip; /* of nr_kernel: the sampler's own interrupt, to be left out */
	__u16 nr_python; /* frames between the kernel's and the native ones */
	__u16 python_stop; /* enum bpfprof_python_stop */
	__u16 python_flags; /* BPFPROF_PYTHON_* */
	__u16 title_words; /* after the frames so many times 8 bytes of the title follow */
	char comm[BPFPROF_COMM_LEN]; /* of the thread */
	char leader_comm[BPFPROF_COMM_LEN];
	__u64 runnable_ns; /* WAIT: of period_ns, what it had only a CPU to wait for */
	__u32 holder_tid; /* GIL_WAIT: who held it last when the wait was over, 0: not known;
			   * WAKER: who is woken */
	__u32 wait_nr; /* WAIT, WAKER: of one thread, the same wait has the same; 0: it was not asleep */
	char holder_comm[BPFPROF_COMM_LEN];
	__u64 gap_ns; /* GAP: since when, as idle_ns of struct bpfprof_gpu_waits; else 0 */
	/*
	 * __u64 frames[] follow: kernel, Python, native, each leaf first; then the title; then, with
	 * BPFPROF_SAMPLE_CALL, struct bpfprof_gpu_call (gpu_calls.h).
	 */
};

/* One executable mapping as the kernel knows it. */
struct bpfprof_vma {
	__u64 start;
	__u64 end;
	__u64 off; /* file offset of start, bytes */
	__u64 ino; /* of the real file (f_inode); 0 = anonymous */
	__u64 size; /* of the file, bytes */
	__u32 dev; /* kernel's dev_t of the real file's file system */
	__u32 ino_gen; /* i_generation: with ino and dev it names the file for ever */
	__u32 flags; /* BPFPROF_VMA_* */
	__u32 path_len; /* with the NUL; 0 = no path */
	__s64 mtime_sec;
};

#define BPFPROF_VMA_VDSO 1U
#define BPFPROF_VMA_OVERLAY 2U /* the path belongs to an overlay file system */
#define BPFPROF_VMA_UNLINKED 4U /* no directory entry is left */
#define BPFPROF_VMA_DATA 8U /* not executable: told when all parts of files are asked for */
#define BPFPROF_VMA_REMOTE 16U /* told by the iterator: its file system waits for somebody else */
#define BPFPROF_VMA_PROGRAM 32U /* the iterator sets it: the code that exec started begins in it */
#define BPFPROF_VMA_MEMORY 64U /* shared memory, memfd, huge pages: no file on a disk */

/*
 * Python. What the walker has to know of one version (and build) of CPython: offsets in bytes,
 * 0 = there is no such field unless said otherwise.
 */
enum bpfprof_python_chain { /* how frames hang together */
			    PYTHON_CHAIN_INVALID = 0,
			    PYTHON_CHAIN_OBJECTS =
				    1, /* 3.8-3.10: PyFrameObject, one for each C call of the eval loop */
			    PYTHON_CHAIN_ENTRY_FLAG =
				    2, /* 3.11: thread state -> cframe -> frame, is_entry ends a C call */
			    PYTHON_CHAIN_CFRAME =
				    3, /* 3.12: the same, a frame on the C stack ends a C call */
			    PYTHON_CHAIN_FRAMES = 4, /* 3.13+: thread state -> frame */
};

enum bpfprof_python_lines { /* how a line table is written */
			    PYTHON_LINES_INVALID = 0,
			    PYTHON_LINES_LNOTAB = 1, /* up to 3.9 */
			    PYTHON_LINES_RANGES = 2, /* 3.10 */
			    PYTHON_LINES_LOCATIONS = 3, /* 3.11+ */
};

#define PYTHON_GIL_BYTES 256 /* no version has a larger one */
#define BPFPROF_PYTHON_TSTATE_BYTES 256 /* what the walker reads of a thread state */
#define BPFPROF_PYTHON_FRAME_BYTES 128 /* and of a frame */
#define BPFPROF_PYTHON_CODE_BYTES 192 /* and of a code object */

struct bpfprof_python_layout {
	__u16 chain; /* enum bpfprof_python_chain */
	__u16 lines; /* enum bpfprof_python_lines */
	__u16 version; /* 0x30b = 3.11 */
	__u16 free_threaded;
	__u32 runtime_interpreters; /* _PyRuntime: the first interpreter (newest) */
	__u32 runtime_current; /* _PyRuntime: thread state that holds the GIL (up to 3.11) */
	__u32 gil; /* up to 3.11 in _PyRuntime, then where an interpreter points to it; 0: not known */
	__u32 gil_holder; /* in it: the last thread state that held it */
	__u32 interpreter_next; /* (may be 0) */
	__u32 interpreter_threads; /* first thread state */
	/* PyThreadState: all below BPFPROF_PYTHON_TSTATE_BYTES */
	__u16 tstate_next;
	__u16 tstate_thread; /* thread_id: pthread_self(), the fs base */
	__u16 tstate_frame; /* frame or cframe, as chain says */
	__u16 tstate_status; /* 4 bytes, with status_mask: the thread holds the GIL (3.12+) */
	__u32 status_mask;
	__u16 cframe_frame; /* current_frame (may be 0) */
	__u16 cframe_previous;
	/* Frames: all below BPFPROF_PYTHON_FRAME_BYTES */
	__u16 frame_code; /* (may be 0) */
	__u16 frame_previous;
	__u16 frame_lasti; /* int f_lasti, or a pointer to the instruction (3.11+) */
	__u16 frame_owner; /* one byte; is_entry in 3.11 */
	__u16 shim_owner; /* owner from this value on: no Python code runs in it (3.12+) */
	__u16 code_mask; /* low bits of frame_code that are a tag */
	/* PyCodeObject: all below BPFPROF_PYTHON_CODE_BYTES but adaptive */
	__u16 code_name;
	__u16 code_qualname; /* 3.11+ */
	__u16 code_filename;
	__u16 code_linetable;
	__u16 code_firstlineno;
	__u16 code_flags;
	__u16 code_version; /* 3.12+ */
	__u16 code_adaptive; /* first instruction, in the object (3.11+) */
	/* Strings and bytes */
	__u16 unicode_length;
	__u16 unicode_hash;
	__u16 unicode_state; /* 4 bytes */
	__u16 unicode_kind_shift; /* kind: 3 bits of state, from this one; then compact, then ascii */
	__u16 ascii_data; /* sizeof(PyASCIIObject) */
	__u16 compact_data; /* sizeof(PyCompactUnicodeObject) */
	__u16 bytes_size;
	__u16 bytes_data;
	__u16 lasti_unit; /* bytes that one step of f_lasti stands for: 1, or 2 in 3.10 */
	__u16 tstate_bytes; /* what of each is read: up to the last field that is asked for */
	__u16 frame_bytes;
	__u16 code_bytes;
	__u16 code_start; /* and from the first one on; a multiple of 8 */
};

/*
 * Element of the array map pythons: a runtime that a process may run CPython with. A process may
 * have several, in which others or none run. Written by user space.
 */
struct bpfprof_python {
	__u64 runtime; /* address of _PyRuntime */
	__u64 start_ns; /* of the process, so that a slot given to another one is not believed */
	__u32 id; /* never reused: code objects are known under it; 0 = free */
	__u32 layout; /* index in the array map layouts */
	__u32 pid;
	__u32 nr_codes; /* elements of codes that it took; counted by BPF, set back by user space */
	__u32 next; /* element of the next runtime of the process, 0 = none */
	__u32 pad;
};

#define BPFPROF_MAX_RUNTIMES 4 /* of one process */

/*
 * Value of the map evals; key __u32 image: where an interpreter up to 3.10 has its eval loop, in
 * file offsets. Most have it in one piece, or in two. Written by user space.
 */
#define BPFPROF_EVAL_RANGES 4

struct bpfprof_eval_range {
	__u64 off;
	__u64 bytes; /* 0: none */
};

struct bpfprof_evals {
	struct bpfprof_eval_range range[BPFPROF_EVAL_RANGES];
};

#define BPFPROF_CACHED_EVAL 1U /* flag of a cached pc: it lies in one of these */
#define BPFPROF_CACHED_SIGNAL 2U /* its row is ROW_SIGNAL */

/* A C call of the eval loop, found in the chain of frames. */
struct bpfprof_python_entry {
	__u64 va; /* of something that lies in its C frame; up to 3.10 of the frame that it runs */
	__u32 nr; /* Python frames from the leaf up to and including those that it runs */
	__u32 pad;
};

/* Why the Python part of a stack ended. */
enum bpfprof_python_stop {
	PYTHON_STOP_NONE = 0, /* not a Python process, or a thread without Python frames */
	PYTHON_STOP_COMPLETE = 1,
	PYTHON_STOP_READ_FAULT = 2, /* memory not readable now */
	PYTHON_STOP_DEPTH = 3, /* more than BPFPROF_MAX_PYTHON_FRAMES */
	PYTHON_STOP_ENTRIES = 4, /* more than BPFPROF_MAX_PYTHON_ENTRIES */
	PYTHON_STOP_THREADS = 5, /* thread state not found among very many */
	PYTHON_STOP_BAD = 6, /* what lies there is no frame */
	PYTHON_NR_STOPS,
};

#define BPFPROF_PYTHON_PROCESS 1U /* the process runs CPython */
#define BPFPROF_PYTHON_GIL_KNOWN 2U
#define BPFPROF_PYTHON_GIL_HELD 4U
#define BPFPROF_PYTHON_CODE_PENDING 8U /* some frame's names or lines are still to come */
#define BPFPROF_PYTHON_OBJECTS 16U /* there are frames of PYTHON_CHAIN_OBJECTS */

/*
 * PYTHON_CODE: a piece of what a code object consists of; user space puts them together by
 * code_id. NAME and FILENAME come as CPython keeps them, char_bytes each character.
 */
enum bpfprof_python_part {
	PYTHON_PART_INVALID = 0,
	PYTHON_PART_NAME = 1, /* qualified where there is one */
	PYTHON_PART_FILENAME = 2,
	PYTHON_PART_LINES = 3,
};

#define BPFPROF_PYTHON_MAX_CODES 16384 /* of one process, before others' are thrown out for it */
#define BPFPROF_PYTHON_PIECE_BYTES 16380 /* whole characters of every size */
#define BPFPROF_CODE_ID_RAW                                                                        \
	(1ULL << 39) /* set in ids that BPF gives; user space has its own below */

struct bpfprof_python_code {
	struct bpfprof_record rec;
	__u64 code_id;
	__u32 python; /* id of the process */
	__u32 part; /* enum bpfprof_python_part */
	__u32 first_line; /* of the code object */
	__u32 code_flags;
	__u32 layout;
	__u32 char_bytes; /* 1, 2, 4; of LINES 1 */
	__u32 total; /* bytes of the whole part */
	__u32 off; /* of this piece in it */
	__u32 len; /* bytes in data */
	__u32 pad;
	__u64 code_va; /* key in the map codes, with python */
	__u8 data[BPFPROF_PYTHON_PIECE_BYTES];
	__u32 tail_pad; /* not sent */
};

/* Key and value of the map codes: code objects that were sent. Written by BPF, deleted by user space. */
struct bpfprof_code_key {
	__u64 va;
	__u32 python;
	__u32 pad;
};

struct bpfprof_code_known {
	__u64 fingerprint;
	__u64 id;
	__u32 lines_sent; /* bytes of the line table */
	__u32 state; /* enum bpfprof_code_state */
};

enum bpfprof_code_state {
	CODE_NAMES_PENDING = 0,
	CODE_LINES_PENDING = 1,
	CODE_COMPLETE = 2,
};

#define BPFPROF_MAX_RETURNS 8

/*
 * A return probe, of ours or of anybody else, is on a function that has not returned yet: the kernel's own
 * address, the beginning of a page, lies where the return address was (Linux, kernel/events/uprobes.c).
 */
struct bpfprof_return {
	__u64 va; /* of that place */
	__u64 to; /* what lay there */
};

/* Where a walk stopped, and what is needed to go on from there. */
struct bpfprof_miss_point {
	__u64 regs[BPFPROF_NR_REGS];
	__u32 regs_valid; /* bit n: regs[n] is known */
	__u32 pc_exact; /* 1: pc is the interrupted instruction, not a return address */
	__u64 stack_va; /* address of stack[0] */
	__u32 stack_len; /* bytes of stack */
	__u32 nr_returns;
	__u64 stack_holes; /* bit n: nothing is there of the n-th memory page that stack touches */
	struct bpfprof_vma leaf_vma; /* with BPFPROF_SAMPLE_VMA: mapping of the missed pc */
	__u32 nr_entries; /* C calls of the eval loop, leaf first; those up to next_entry are done */
	__u32 next_entry;
	struct bpfprof_place place; /* of the sample's process */
	struct bpfprof_return returns[BPFPROF_MAX_RETURNS];
};

/*
 * A miss as it is gathered. It is sent without what is not used of it: the sample with its
 * frames as always, then at, entries[nr_entries] and stack[stack_len], without gaps.
 */
struct bpfprof_miss {
	struct bpfprof_sample sample;
	/* And the title, and the call. */
	__u64 frames[BPFPROF_MAX_FRAMES + (BPFPROF_TITLE_BYTES + BPFPROF_CALL_BYTES) / 8];
	struct bpfprof_miss_point at;
	/* And struct bpfprof_python_entry entries[]; and __u8 stack[BPFPROF_STACK_BYTES]. */
};

struct bpfprof_process_event { /* EXEC, EXIT, RENAME, MMAP */
	struct bpfprof_record rec;
	struct bpfprof_task_id task;
	char comm[BPFPROF_COMM_LEN];
	__u64 va; /* MMAP: range handed out; EXIT: exit code */
	__u64 len;
	__u64 cpu_ns; /* EXIT of the last thread: CPU time of the thread group */
	__u32 flags; /* EXIT: 1 = last thread of its group; MMAP: 1 = overlaps a known mapping */
	__u32 pad;
	struct bpfprof_place place; /* EXEC: afterwards; else 0 */
};

struct bpfprof_fork_event {
	struct bpfprof_record rec;
	struct bpfprof_task_id parent;
	struct bpfprof_task_id child;
	char comm[BPFPROF_COMM_LEN];
	struct bpfprof_place place; /* of the child */
};

/* TITLE: a thread of a Ray worker has written a title, and taken its beginning for its name. */
struct bpfprof_title_event {
	struct bpfprof_record rec; /* its time is that of the change */
	struct bpfprof_task_id task;
	struct bpfprof_place place;
	__u32 lost; /* so many changes of this process since the last event were not told */
	__u32 verdict; /* enum bpfprof_title_verdict, that it had then */
	char old_comm[BPFPROF_COMM_LEN]; /* of the thread, until now */
	/* In the ring so many words of it as there are; user space fills it up with zeros. */
	char title[BPFPROF_TITLE_BYTES];
};

/* What user space says of a title, in the maps title_verdicts and long_title_verdicts. */
enum bpfprof_title_verdict {
	BPFPROF_TITLE_UNKNOWN = 0,
	BPFPROF_TITLE_UNWANTED = 1, /* told only where it ends a wanted one */
	BPFPROF_TITLE_WANTED = 2,
};

/* Value of the map titled; key __u32 pid: a process that has sent TITLE. */
struct bpfprof_titled {
	__u64 start_ns; /* of the process */
	__u64 refill_ms; /* when tokens were counted */
	__u64 sent[2]; /* hashes of titles without verdict */
	__u32 tokens; /* what it may send */
	__u32 lost; /* changes that were not told since the last event */
	__u32 open; /* 1: the next change is to be told, whatever it is */
	__u32 done; /* 1: user space wants no more */
};

#define BPFPROF_ANCESTORS 3

/*
 * Where the files that a process names lie, and whose memory its own began as: told with its
 * mappings.
 */
struct bpfprof_origin {
	__u64 root_ino; /* inode of its root folder */
	__u32 uid; /* that it makes files with */
	__u32 flags; /* BPFPROF_ORIGIN_* */
	__u32 root_dev; /* kernel's dev_t of the file system that root_ino is in */
	__u32 pad;
	/* Processes that it was forked from with no exec since, its parent first; pid 0: no more. */
	struct bpfprof_ancestor {
		__u64 start_ns; /* CLOCK_BOOTTIME */
		__u32 pod_pid; /* in its own pid namespace */
		__u32 pad;
	} ancestors[BPFPROF_ANCESTORS];
};

#define BPFPROF_ORIGIN_OUR_MOUNTS 1U /* it lives in the reader's mount namespace */
#define BPFPROF_ORIGIN_OUR_ROOT 2U /* and has the reader's root folder */
/* The user namespace that its mount namespace belongs to is that of the reader's: it cannot mount what it likes. */
#define BPFPROF_ORIGIN_OUR_USERS 4U

/* What the VMA iterator writes: this header, then path_len bytes, padded to 8. */
struct bpfprof_vma_record {
	struct bpfprof_task_id task;
	char comm[BPFPROF_COMM_LEN]; /* of the leader */
	struct bpfprof_place place;
	struct bpfprof_origin origin;
	struct bpfprof_vma vma;
};

/*
 * Rules of code that is in no file (made at run time), where frame pointers do not do: by
 * address space and block of code that one rule holds for, or where several do by
 * instruction. Rules of code in a file that hold for one process alone: by address space and place.
 * Value: row of unwind_native.h.
 */
#define BPFPROF_CODE_BLOCK_SHIFT 6
#define BPFPROF_CODE_BLOCK_PC (1ULL << 63)
struct bpfprof_code_block {
	/*
	 * Code in no file: address >> BPFPROF_CODE_BLOCK_SHIFT, or address | BPFPROF_CODE_BLOCK_PC. Code
	 * in a file: a frame of kind BPFPROF_FRAME_NATIVE.
	 */
	__u64 block;
	__u32 asid;
	__u32 pad;
};

/* Value of the map memory_requests: what the next pass of the memory iterator reads. */
#define BPFPROF_MEMORY_BYTES 16384
#define BPFPROF_MEMORY_SLOTS 4 /* a read that hangs keeps its slot */
#define BPFPROF_ENVIRON_SLOTS 2 /* these come behind */

struct bpfprof_memory_request {
	__u64 va;
	__u32 len; /* at most BPFPROF_MEMORY_BYTES */
	__u32 pad;
	__u8 data[BPFPROF_MEMORY_BYTES]; /* scratch of the program */
};

/* Value of the map procs; key __u32 pid. Written by user space. */
struct bpfprof_proc {
	__u64 start_ns;
	__u64 exec_id;
	__u32 asid; /* never reused; changes with every change of the mappings */
	__u32 first; /* slice header's index in the map mappings */
	__u32 nr; /* mappings after the header, sorted by start */
	__u32 python; /* element of the map pythons, 0 = not Python */
	__u32 flags; /* BPFPROF_PROC_* */
	__u32 pad;
};

#define BPFPROF_PROC_RAY 1U /* was a Ray worker once: it has a title, whatever its name is now */

/*
 * Value of the map mappings (array). The first of a slice is its header: asid in
 * image; start is set to 1 by BPF when a range in the slice is handed out again (the slice
 * is void from then on); off is set to 1 by BPF when it sent an MMAP event, to 0 by
 * user space before it reads the mappings again.
 */
struct bpfprof_mapping {
	__u64 start;
	__u64 off; /* file offset of start */
	__u32 nr_pages; /* length in 4 KiB pages */
	__u32 image;
};

/* Key and value of the map pages: unwind rows of 64 KiB of one file. */
struct bpfprof_page_key {
	__u32 image;
	__u32 page; /* file offset >> BPFPROF_PAGE_SHIFT */
};

struct bpfprof_page {
	__u32 first; /* slice header's index in the map rows; header = generation */
	__u32 nr; /* rows after the header, sorted; 0: no code here has a table */
	__u64 generation; /* 0 never */
};

/* Of the node: for a walk while another one is under way on the same CPU. */
#define BPFPROF_SPARE_SCRATCHES 2

/* Read-only configuration of the BPF programs, fixed when they are loaded. */
struct bpfprof_cfg {
	__u64 period_ns; /* nominal */
	__u64 ring_bytes;
	__u64 miss_bytes_per_ms; /* per scratch */
	__u64 irq_start, irq_end; /* timer clock: text of the interrupt entries */
	__u64 softirq_start, softirq_end; /* timer clock: do_softirq */
	__u64 fred_user_start, fred_user_end; /* the same of processors with FRED, else 0 */
	__u64 fred_kernel_start, fred_kernel_end;
	__u64 irq_exit_start, irq_exit_end; /* text of irqentry_exit, */
	__u64 irq_exit_user_start, irq_exit_user_end; /* irqentry_exit_to_user_mode, */
	__u64 wake_start, wake_end; /* and try_to_wake_up */
	__u32 filter; /* 1: only processes in the map targets */
	__u32 follow; /* 1: children of targets are targets */
	__u32 period_is_ns; /* 1: the event's period is in nanoseconds */
	__u32 jitter; /* timer clock: +- this many 1/1024 of the period */
	__u32 mmap_nr; /* system call number of mmap */
	__u32 code_giver_bits; /* of the id of a code object: whose scratch it was given with */
	__u32 nr_cpus; /* possible */
	__u32 pid_ns; /* user space's own pid namespace, 0: the outermost one */
	__u64 hash_seed; /* of fingerprints: targets choose what is hashed */
	__u64 call_token_ns; /* hooked calls: a thread may send a stack for each such time, */
	__u64 call_long_ns; /* and one of each call that takes so long */
	__u32 call_tokens; /* it may save up so many */
	__u32 gpu_trace; /* 1: each hooked call is sent by itself when it is over */
	/* 1: what tells when collectives are complete is sent, and samples tell of gaps */
	__u32 gpu_waits;
	__u32 call_keys; /* that calls of one process may be counted by */
	__u32 wall; /* 1: all time counts, so samples of the clock stand for what their threads ran */
	__u32 fork_wakes; /* 1: user space is woken when a target forks */
	__u32 few_scratches; /* 0: each CPU has its own scratch; else there are so many for all */
	__u32 gaps_alone; /* 1: the clock samples only whose device has nothing to do (SAMPLE_GAP) */
};

/* Entry of the per-CPU pc cache. */
struct bpfprof_cached_pc {
	__u64 pc; /* address looked up */
	__u64 row;
	__u64 frame;
	__u32 asid;
	__u32 flags;
};

/* What the iterator task_states writes of each thread: one of these. Touches no user memory. */
#define BPFPROF_TASK_KTHREAD 1U
#define BPFPROF_TASK_ON_CPU 2U /* it runs at this moment: registers and kernel stack mean nothing */
#define BPFPROF_TASK_NO_MEMORY 4U /* no user memory (any more) */
#define BPFPROF_TASK_TRACED 8U /* by somebody's ptrace */
#define BPFPROF_TASK_COMPAT32 16U /* 32-bit code */

struct bpfprof_task_state {
	struct bpfprof_task_id task;
	__u64 nr_switches; /* times it left a CPU, of itself or not */
	__u64 asleep_ns; /* at least, since it was on a CPU last; 0: it is awake, or that is not known */
	__u64 fs_base;
	__u64 regs[BPFPROF_NR_REGS]; /* those it entered the kernel with */
	__s64 syscall; /* system call that it is in, negative: none */
	__u32 state; /* the kernel's TASK_*: 0 = on a CPU or waiting for one */
	__u32 exit_state; /* not 0: it has ended */
	__u32 flags; /* BPFPROF_TASK_* */
	__u32 nr_kernel;
	__u32 reader_tid; /* as the pid namespace of the reader numbers it; 0: not in there */
	__u32 nr_returns;
	struct bpfprof_return returns[BPFPROF_MAX_RETURNS];
	char comm[BPFPROF_COMM_LEN];
	char leader_comm[BPFPROF_COMM_LEN];
	__u64 kernel[BPFPROF_MAX_KERNEL_FRAMES + 1]; /* leaf first; the last is padding */
};

/*
 * What the iterator task_environ writes: this header, then len bytes of the environment that the
 * process was started with, from the offset asked for on. Secrets are among them.
 */
struct bpfprof_environ {
	struct bpfprof_task_id task;
	__u64 total; /* bytes of the environment, 0: it has none */
	__u32 len; /* at most BPFPROF_MEMORY_BYTES; less than there is: not to be read */
	__u32 pad;
};

/*
 * Value of the map task_reads, memory-mapped by user space: pages of a process's memory, which the
 * iterator task_pages fills in as the list says. result: 1 = not done yet, 0, or -errno.
 */
#define BPFPROF_READ_PAGES 32 /* a power of two */
#define BPFPROF_READ_SHIFT 12
#define BPFPROF_READ_BYTES (1U << BPFPROF_READ_SHIFT)
#define BPFPROF_READ_SLOTS 4 /* a read that hangs keeps its slot */

struct bpfprof_task_read {
	__u64 va[BPFPROF_READ_PAGES]; /* multiples of BPFPROF_READ_BYTES */
	__s32 result[BPFPROF_READ_PAGES];
	__u32 nr;
	__u32 pad;
	__u8 data[BPFPROF_READ_PAGES][BPFPROF_READ_BYTES];
};

/*
 * Value of the map kernel_reads, memory-mapped by user space: pieces of the kernel's own memory, which
 * the program kernel_read fills in as the list says. result: 0 or -errno.
 */
#define BPFPROF_KERNEL_PIECES 16
#define BPFPROF_KERNEL_BYTES 4096 /* at most, of one piece */

struct bpfprof_kernel_read {
	__u64 va[BPFPROF_KERNEL_PIECES];
	__u32 len[BPFPROF_KERNEL_PIECES];
	__s32 result[BPFPROF_KERNEL_PIECES];
	__u32 nr;
	__u32 pad;
	__u8 data[BPFPROF_KERNEL_PIECES][BPFPROF_KERNEL_BYTES];
};

/*
 * Value of the map kernel_layouts, filled in by the program kernel_layout: where the kernel's
 * structs have the members by which a file's pages are found, and an inode of our own.
 */
struct bpfprof_kernel_layout {
	__u64 own_inode; /* of the file open as own_fd; 0: there is none */
	__u32 own_fd; /* set by user space */
	__u32 mount_mnt, mount_parent, mount_point, mount_mounts, mount_child; /* struct mount */
	__u32 vfsmount_root;
	/* struct dentry; the pointer to the first child, and that of a child to the next one */
	__u32 dentry_parent, dentry_inode, dentry_name, dentry_name_len, dentry_hash_pprev;
	__u32 dentry_children, dentry_next;
	__u32 inode_mode, inode_uid, inode_sb, inode_mapping, inode_ino, inode_nlink, inode_size;
	__u32 inode_generation, inode_mtime_sec;
	__u32 super_magic;
	__u32 mapping_host, mapping_head; /* struct address_space; its xarray's head */
	__u32 node_shift, node_slots, node_nr_slots; /* struct xa_node */
	__u32 folio_flags, folio_mapping, folio_index;
	__u32 folio_uptodate; /* number of that flag */
	__u32 page_bytes; /* of struct page */
	__u32 pad;
};

/* The iterator task_root writes one of these for a thread: the folder in which its paths begin. */
struct bpfprof_task_root {
	struct bpfprof_task_id task;
	__u64 mount; /* struct vfsmount */
	__u64 dentry;
};

_Static_assert(sizeof(struct bpfprof_record) == 24, "wire");
_Static_assert(sizeof(struct bpfprof_task_id) == 24, "wire");
_Static_assert(sizeof(struct bpfprof_sample) == 152, "wire");
_Static_assert(sizeof(struct bpfprof_place) == 16, "wire");
_Static_assert(sizeof(struct bpfprof_title_event) == 88 + BPFPROF_TITLE_BYTES, "wire");
_Static_assert(sizeof(struct bpfprof_titled) == 48, "wire");
_Static_assert(sizeof(struct bpfprof_miss_point) % 8 == 0, "wire");
_Static_assert(sizeof(struct bpfprof_vma) == 64, "wire");
_Static_assert(sizeof(struct bpfprof_origin) == 72, "wire");
_Static_assert(sizeof(struct bpfprof_mapping) == 24, "wire");
_Static_assert(sizeof(struct bpfprof_task_state) % 8 == 0, "wire");
_Static_assert(sizeof(struct bpfprof_environ) == 40, "wire");
_Static_assert(sizeof(struct bpfprof_kernel_read) % 8 == 0, "wire");
_Static_assert(sizeof(struct bpfprof_kernel_layout) == 152, "wire");
_Static_assert(sizeof(struct bpfprof_task_root) == 40, "wire");
_Static_assert(sizeof(struct bpfprof_proc) == 40, "wire");
_Static_assert(sizeof(struct bpfprof_page) == 16, "wire");
_Static_assert(sizeof(struct bpfprof_cached_pc) == 32, "wire");

#endif
