/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_MAPPINGS_H
#define BPFPROF_BPF_MAPPINGS_H

/*
 * Part of the wire contract (bpfprof.h): mappings, as the kernel reports them and as the walker
 * finds them, and unwind rows.
 */

#include "record.h"

#define BPFPROF_PATH_MAX 4096

#define BPFPROF_PAGE_SHIFT 16 /* a page of unwind rows covers 64 KiB of file */

/* One mapping as the kernel knows it. */
struct bpfprof_vma {
	__u64 start;
	__u64 end;
	__u64 off; /* file offset of start, bytes */
	__u64 ino; /* of the real file (f_inode); 0 = anonymous */
	__u64 size; /* of the file, bytes */
	__u32 dev; /* kernel's dev_t of the real file's file system */
	__u32 ino_gen; /* i_generation; dev, ino and ino_gen never name another file */
	__u32 flags; /* BPFPROF_VMA_* */
	__u32 path_len; /* with the NUL; 0 = no path follows */
	__s64 mtime_sec;
};

#define BPFPROF_VMA_VDSO 1U
#define BPFPROF_VMA_OVERLAY 2U /* the path belongs to an overlay file system */
#define BPFPROF_VMA_UNLINKED 4U /* no directory entry is left */
#define BPFPROF_VMA_DATA 8U /* not executable; sent when the request asks for all parts of files */
#define BPFPROF_VMA_REMOTE 16U /* set by the iterator: the file system waits for a server */
#define BPFPROF_VMA_PROGRAM 32U /* set by the iterator: the entry point of the program lies in it */
#define BPFPROF_VMA_MEMORY 64U /* shared memory, memfd, huge pages: no file on a disk */

#define BPFPROF_ANCESTORS 3

/* The root folder, the user and the ancestors of a process; sent with its mappings. */
struct bpfprof_origin {
	__u64 root_ino; /* inode of its root folder */
	__u32 uid; /* owner of the files that the process makes */
	__u32 flags; /* BPFPROF_ORIGIN_* */
	__u32 root_dev; /* kernel's dev_t of the file system that root_ino is in */
	__u32 pad;
	/*
	 * Processes that it was forked from with no exec since, its parent first; pid 0 ends the
	 * list.
	 */
	struct bpfprof_ancestor {
		__u64 start_ns; /* CLOCK_BOOTTIME */
		__u32 pod_pid; /* in its own pid namespace */
		__u32 pad;
	} ancestors[BPFPROF_ANCESTORS];
};

#define BPFPROF_ORIGIN_OUR_MOUNTS 1U /* the process lives in the reader's mount namespace */
#define BPFPROF_ORIGIN_OUR_ROOT 2U /* its root folder is the reader's */
/* Its mount namespace belongs to the reader's user namespace, so it cannot mount what it likes. */
#define BPFPROF_ORIGIN_OUR_USERS 4U

/* The VMA iterator writes this header, then path_len bytes, padded to 8. */
struct bpfprof_vma_record {
	struct bpfprof_task_id task;
	char comm[BPFPROF_COMM_LEN]; /* of the leader */
	struct bpfprof_ns_context ns_context;
	struct bpfprof_origin origin;
	struct bpfprof_vma vma;
};

/*
 * Key of the map code_blocks; its value is a row of unwind_native.h. The map has rules of code that
 * the map rows cannot serve: code in no file (made at run time) without frame pointers, and code in
 * a file whose rule holds for one process alone. Code in no file has one rule per block, or one per
 * instruction where a block needs several.
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
 * Value of the map mappings (array). A slice begins with a header: image is the asid. BPF sets
 * start to 1 when a range of the slice is mapped again; the slice is void from then on. BPF sets
 * off to 1 when it sends an MMAP event; user space sets it to 0 before it reads the mappings again.
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
	__u32 first; /* index of the slice header in the map rows; the header is the generation */
	__u32 nr; /* rows after the header, sorted; 0: no code here has unwind rows */
	__u64 generation; /* never 0 */
};

_Static_assert(sizeof(struct bpfprof_vma) == 64, "wire");
_Static_assert(sizeof(struct bpfprof_origin) == 72, "wire");
_Static_assert(sizeof(struct bpfprof_mapping) == 24, "wire");
_Static_assert(sizeof(struct bpfprof_page) == 16, "wire");

#endif
