/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_ALLOCATIONS_H
#define BPFPROF_BPF_ALLOCATIONS_H

/*
 * The wire contract of allocations by stack. The rules of bpfprof.h apply.
 *
 * With R bytes per sample, a block of S bytes belongs to the sample with the probability
 * p = min(1, S / R), and stands for S / p = max(S, R) bytes: the sums have no bias, and blocks of R
 * bytes and more have no error at all. The frees are not sampled: a block of the sample is known by
 * its address until it is freed.
 */

#include "bpfprof.h"

#define BPFPROF_MAX_HELD_BLOCKS 32768 /* of the map held_blocks */
/* From here on user space doubles the bytes per sample, and drops blocks that are not in the sample then. */
#define BPFPROF_HELD_BLOCKS_HIGH (BPFPROF_MAX_HELD_BLOCKS / 4 * 3)
#define BPFPROF_MAX_ALLOC_RATE (1ULL << 31)
#define BPFPROF_MAX_OPEN_ALLOCATIONS 4096 /* calls of the sample that have not returned yet */
#define BPFPROF_MAX_ALLOC_PROCESSES 64 /* with probes */
#define BPFPROF_MAX_ALLOC_FUNCTIONS 18 /* with probes in a file that return blocks */
#define BPFPROF_ALLOC_FILES 2

/* What a hooked function does: the cookie of its probe. */
enum bpfprof_alloc_kind {
	ALLOC_INVALID = 0,
	ALLOC_MALLOC = 1, /* (bytes) */
	ALLOC_CALLOC = 2, /* (number, bytes) */
	ALLOC_REALLOC = 3, /* (block, bytes) */
	ALLOC_ALIGNED = 4, /* (alignment, bytes) */
	ALLOC_POSIX = 5, /* (pointer to the result, alignment, bytes) */
	ALLOC_FREE = 6, /* (block) */
	ALLOC_MMAP = 7, /* (address, bytes, protection, flags) */
	ALLOC_MUNMAP = 8, /* (address, bytes) */
	/* (block, bytes); without a block it jumps to one of these functions, which counts then */
	ALLOC_REALLOC_PASSING = 9,
};

enum bpfprof_alloc_counter {
	ALLOC_COUNT_INVALID = 0,
	ALLOC_COUNT_SAMPLED = 1, /* blocks of the sample that were allocated */
	ALLOC_COUNT_FREED = 2, /* of these, freed */
	ALLOC_COUNT_FAILED = 3, /* calls of the sample that returned no block */
	ALLOC_COUNT_FULL = 4, /* blocks of the sample that are missing: no room in held_blocks */
	ALLOC_COUNT_BUSY = 5, /* the same: the scratch was in use */
	ALLOC_COUNT_REPLACED =
		6, /* blocks whose address was handed out again: their free was not seen */
	ALLOC_COUNT_OPEN_FULL = 7, /* the same as FULL: no room in open_allocations */
	ALLOC_COUNT_UNREPORTED = 8, /* blocks whose end was not reported: no room in the ring */
	ALLOC_NR_COUNTERS = 9,
};

/* The one element of the map alloc_control, memory-mapped. */
struct bpfprof_alloc_control {
	__u64 bytes; /* per sample, at most BPFPROF_MAX_ALLOC_RATE; written by user space */
	__u64 last_id; /* of a block; written by BPF */
	__u64 held_bytes; /* that the blocks in held_blocks stand for; written by both sides */
	__u64 count[ALLOC_NR_COUNTERS]; /* written by BPF */
};

/* Value of the map alloc_costs, per CPU; key: pid. User space adds and deletes it: only with it do calls count. */
struct bpfprof_alloc_cost {
	__u64 calls; /* at whose begin a probe ran */
	__u64 returns; /* at whose end a probe ran */
	__u64 stack_ns; /* time for the stacks of the sample */
};

struct bpfprof_alloc_range {
	__u64 start, end; /* unused ones are 0 */
};

/* Value of the map alloc_codes, key: pid. Written by user space. Calls from there count in their callers. */
struct bpfprof_alloc_code {
	/* Of the allocator, those that return blocks: some call others. */
	struct bpfprof_alloc_range functions[BPFPROF_MAX_ALLOC_FUNCTIONS];
	/* Code of the allocator and of the C library: for mmap. */
	struct bpfprof_alloc_range files[BPFPROF_ALLOC_FILES];
	__u64 exec_id; /* of the program that runs there; of a later one the places are not known yet */
};

/* Key of the map held_blocks. */
struct bpfprof_block_key {
	__u64 va;
	__u32 pid;
	__u32 pad;
};

/* Value of the map held_blocks. Written by BPF. */
struct bpfprof_block {
	__u64 id; /* BLOCK of its sample: never reused */
	__u64 bytes; /* that it stood for when it was added */
};

_Static_assert(sizeof(struct bpfprof_block_key) == 16, "wire");
_Static_assert(sizeof(struct bpfprof_block) == 16, "wire");

/* BLOCK_FREED: the end of a block of the sample. */
struct bpfprof_block_freed {
	struct bpfprof_record rec;
	__u64 block; /* its id */
	__u32 pid;
	__u32 unseen; /* the address was handed out again: it ended at some time before */
};

_Static_assert(sizeof(struct bpfprof_block_freed) == 40, "wire");

#endif
