/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_CPYTHON_H
#define BPFPROF_BPF_CPYTHON_H

/*
 * Part of the wire contract (bpfprof.h): layouts of CPython, its runtimes in processes, and code
 * objects.
 */

#include "record.h"

/* How frames are linked. */
enum bpfprof_python_chain {
	PYTHON_CHAIN_INVALID = 0,
	/* 3.8-3.10: PyFrameObject, one for each C call of the eval loop. */
	PYTHON_CHAIN_OBJECTS = 1,
	PYTHON_CHAIN_ENTRY_FLAG =
		2, /* 3.11: thread state -> cframe -> frame, is_entry ends a C call */
	/* 3.12: as 3.11, but a frame on the C stack ends a C call. */
	PYTHON_CHAIN_CFRAME = 3,
	PYTHON_CHAIN_FRAMES = 4, /* 3.13+: thread state -> frame */
};

/* Format of the line table. */
enum bpfprof_python_lines {
	PYTHON_LINES_INVALID = 0,
	PYTHON_LINES_LNOTAB = 1, /* up to 3.9 */
	PYTHON_LINES_RANGES = 2, /* 3.10 */
	PYTHON_LINES_LOCATIONS = 3, /* 3.11+ */
};

#define PYTHON_GIL_BYTES 256 /* no version has a larger GIL */
#define BPFPROF_PYTHON_TSTATE_BYTES 256 /* bytes of a thread state that the walker reads, at most */
#define BPFPROF_PYTHON_FRAME_BYTES 128 /* bytes of a frame */
#define BPFPROF_PYTHON_CODE_BYTES 192 /* bytes of a code object */

/*
 * The layout of one version (and build) of CPython. Offsets are in bytes; 0 = no such field, unless
 * the field says otherwise.
 */
struct bpfprof_python_layout {
	__u16 chain; /* enum bpfprof_python_chain */
	__u16 lines; /* enum bpfprof_python_lines */
	__u16 version; /* 0x30b = 3.11 */
	__u16 free_threaded;
	__u32 runtime_interpreters; /* _PyRuntime: the first interpreter (newest) */
	__u32 runtime_current; /* _PyRuntime: thread state that holds the GIL (up to 3.11) */
	/*
	 * Offset of the GIL in _PyRuntime (up to 3.11); later of the pointer to it in an
	 * interpreter; 0: not known
	 */
	__u32 gil;
	__u32 gil_holder; /* offset in the GIL: the last thread state that held it */
	__u32 interpreter_next; /* may be 0 */
	__u32 interpreter_threads; /* first thread state */
	/* PyThreadState: all below BPFPROF_PYTHON_TSTATE_BYTES */
	__u16 tstate_next;
	__u16 tstate_thread; /* thread_id: pthread_self(), the fs base */
	__u16 tstate_frame; /* frame or cframe: depends on chain */
	__u16 tstate_status; /* 4 bytes, with status_mask: the thread holds the GIL (3.12+) */
	__u32 status_mask;
	__u16 cframe_frame; /* current_frame, may be 0 */
	__u16 cframe_previous;
	/* Frames: all below BPFPROF_PYTHON_FRAME_BYTES */
	__u16 frame_code; /* may be 0 */
	__u16 frame_previous;
	__u16 frame_lasti; /* int f_lasti, or a pointer to the instruction (3.11+) */
	__u16 frame_owner; /* one byte; is_entry in 3.11 */
	__u16 shim_owner; /* frames with this owner or a higher one run no Python code (3.12+) */
	__u16 code_mask; /* low bits of frame_code that are a tag */
	/* PyCodeObject: all below BPFPROF_PYTHON_CODE_BYTES but adaptive */
	__u16 code_name;
	__u16 code_qualname; /* 3.11+ */
	__u16 code_filename;
	__u16 code_linetable;
	__u16 code_firstlineno;
	__u16 code_flags;
	__u16 code_version; /* 3.12+ */
	__u16 code_adaptive; /* the first instruction, in the object (3.11+) */
	/* Strings and bytes */
	__u16 unicode_length;
	__u16 unicode_hash;
	__u16 unicode_state; /* 4 bytes */
	/* Shift of the kind (3 bits of state); then the bits compact and ascii. */
	__u16 unicode_kind_shift;
	__u16 ascii_data; /* sizeof(PyASCIIObject) */
	__u16 compact_data; /* sizeof(PyCompactUnicodeObject) */
	__u16 bytes_size;
	__u16 bytes_data;
	__u16 lasti_unit; /* bytes that one step of f_lasti stands for: 1, or 2 in 3.10 */
	/* Bytes to read of a thread state: up to the last field in use; also the next two. */
	__u16 tstate_bytes;
	__u16 frame_bytes;
	__u16 code_bytes;
	__u16 code_start; /* first byte to read of a code object; a multiple of 8 */
};

/*
 * Element of the array map pythons: a runtime in which a process may run CPython. A process may
 * have several; some of them may run nothing. Written by user space.
 */
struct bpfprof_python {
	__u64 runtime; /* address of _PyRuntime */
	__u64 start_ns; /* of the process; proves that the slot is not another process's */
	__u32 id; /* never reused; the map codes has it in its keys; 0 = free */
	__u32 layout; /* index in the array map layouts */
	__u32 pid;
	__u32 nr_codes; /* elements of the map codes in use; BPF counts, user space sets it back */
	__u32 next; /* element of the next runtime of the process, 0 = none */
	__u32 pad;
};

#define BPFPROF_MAX_RUNTIMES 4 /* per process */

/*
 * Value of the map evals; key __u32 image. The file offsets of the eval loop of an interpreter up
 * to 3.10. Most interpreters have it in one piece or in two. Written by user space.
 */
#define BPFPROF_EVAL_RANGES 4

struct bpfprof_eval_range {
	__u64 off;
	__u64 bytes; /* 0: unused */
};

struct bpfprof_evals {
	struct bpfprof_eval_range range[BPFPROF_EVAL_RANGES];
};

#define BPFPROF_CACHED_EVAL 1U /* flag of a cached pc: it lies in one of these ranges */
#define BPFPROF_CACHED_SIGNAL 2U /* flag of a cached pc: its row is ROW_SIGNAL */

/* A C call of the eval loop, found in the chain of frames. */
struct bpfprof_python_entry {
	__u64 va; /* an address in its C frame; up to 3.10 the frame that it runs */
	__u32 nr; /* Python frames from the leaf up to the last that it runs */
	__u32 pad;
};

/* Why the Python part of a stack ended. */
enum bpfprof_python_stop {
	PYTHON_STOP_NONE = 0, /* not a Python process, or a thread without Python frames */
	PYTHON_STOP_COMPLETE = 1,
	PYTHON_STOP_READ_FAULT = 2, /* memory not readable now */
	PYTHON_STOP_DEPTH = 3, /* more than BPFPROF_MAX_PYTHON_FRAMES */
	PYTHON_STOP_ENTRIES = 4, /* more than BPFPROF_MAX_PYTHON_ENTRIES */
	PYTHON_STOP_THREADS = 5, /* thread state not found in a very long list */
	PYTHON_STOP_BAD = 6, /* the memory is no frame */
	PYTHON_NR_STOPS,
};

#define BPFPROF_PYTHON_PROCESS 1U /* the process runs CPython */
#define BPFPROF_PYTHON_GIL_KNOWN 2U
#define BPFPROF_PYTHON_GIL_HELD 4U
#define BPFPROF_PYTHON_CODE_PENDING 8U /* names or lines of some frame are not sent yet */
#define BPFPROF_PYTHON_OBJECTS 16U /* the stack has frames of PYTHON_CHAIN_OBJECTS */

/*
 * PYTHON_CODE: a piece of a code object. User space joins the pieces of one code_id. NAME and
 * FILENAME have the encoding of CPython, with char_bytes bytes per character.
 */
enum bpfprof_python_part {
	PYTHON_PART_INVALID = 0,
	PYTHON_PART_NAME = 1, /* the qualified name if there is one */
	PYTHON_PART_FILENAME = 2,
	PYTHON_PART_LINES = 3,
};

#define BPFPROF_PYTHON_MAX_CODES 16384 /* per process; with more, user space evicts some */
#define BPFPROF_PYTHON_PIECE_BYTES 16380 /* a multiple of every size of character */
#define BPFPROF_CODE_ID_RAW (1ULL << 39) /* set in ids that BPF makes; clear in ids of user space */

struct bpfprof_python_code {
	struct bpfprof_record rec;
	__u64 code_id;
	__u32 python; /* id in struct bpfprof_python */
	__u32 part; /* enum bpfprof_python_part */
	__u32 first_line; /* of the code object */
	__u32 code_flags;
	__u32 layout;
	__u32 char_bytes; /* 1, 2 or 4; 1 for LINES */
	__u32 total; /* bytes of the whole part */
	__u32 off; /* of this piece in the part */
	__u32 len; /* bytes in data */
	__u32 pad;
	__u64 code_va; /* with python: key of the map codes */
	__u8 data[BPFPROF_PYTHON_PIECE_BYTES];
	__u32 tail_pad; /* not sent */
};

/*
 * Key and value of the map codes: code objects that were sent. BPF adds elements, user space
 * deletes them.
 */
struct bpfprof_code_key {
	__u64 va;
	__u32 python;
	__u32 pad;
};

struct bpfprof_code_known {
	__u64 fingerprint;
	__u64 id;
	__u32 lines_sent; /* bytes of the line table that were sent */
	__u32 state; /* enum bpfprof_code_state */
};

enum bpfprof_code_state {
	CODE_NAMES_PENDING = 0,
	CODE_LINES_PENDING = 1,
	CODE_COMPLETE = 2,
};

#endif
