/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_MAPPINGS_H
#define BPFPROF_BPF_MAPPINGS_H

/*
 * Part of the wire contract (bpfprof.h): mappings of processes, as the kernel reports them and as the walker finds
 * them, and the unwind rows of mapped files.
 */

#include "record.h"

#define BPFPROF_PATH_MAX 4096

#define BPFPROF_PAGE_SHIFT 16 /* a page of unwind rows covers 64 KiB of file */

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

_Static_assert(sizeof(struct bpfprof_vma) == 64, "wire");
_Static_assert(sizeof(struct bpfprof_origin) == 72, "wire");
_Static_assert(sizeof(struct bpfprof_mapping) == 24, "wire");
_Static_assert(sizeof(struct bpfprof_page) == 16, "wire");

#endif
