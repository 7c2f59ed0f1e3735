/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_PAGE_SAMPLE_H
#define BPFPROF_BPF_PAGE_SAMPLE_H

/*
 * The wire contract of resident memory by stack. The rules of bpfprof.h apply.
 *
 * Whether a page belongs to the sample depends on a hash of the address of its struct page alone.
 * Larger pages are more likely to belong to it: with R bytes per sample, a page of S bytes has the
 * probability p = 1 - exp(-S / R), and stands for S / p bytes. So a program that sees a page freed
 * decides without a look-up as the one that saw it allocated, and a page of the sample that is
 * unknown when it is freed was allocated before the recording.
 */

#include "bpfprof.h"

#define BPFPROF_MAX_HELD 32768 /* pages of the map held_pages */
/* From here on BPF takes the next level, with half as many pages. */
#define BPFPROF_HELD_HIGH (BPFPROF_MAX_HELD / 4 * 3)
#define BPFPROF_PAGE_ORDERS 16 /* more than the page allocator has; a power of two */
#define BPFPROF_PAGE_LEVELS 32 /* a power of two; each has twice the bytes per sample of the last */

enum bpfprof_page_counter {
	PAGE_COUNT_INVALID = 0,
	PAGE_COUNT_SAMPLED = 1, /* pages of the sample that watched processes allocated */
	PAGE_COUNT_FREED = 2, /* of these, freed */
	PAGE_COUNT_FULL = 3, /* pages of the sample that are missing: no room in the map */
	PAGE_COUNT_BUSY = 4, /* the same: the scratch was in use */
	PAGE_COUNT_REPLACED = 5, /* pages allocated again whose end was not seen */
	PAGE_COUNT_OLD_FULL = 6, /* no room in the maps old_mappings and old_freed */
	PAGE_NR_COUNTERS = 7,
};

/* Value of the map held_pages; key __u64: the address of the page's struct page. Written by BPF. */
struct bpfprof_held_page {
	__u64 ts_ns; /* of its sample: pages are reused */
	__u64 mapping; /* of its folio when a look first found it in use; 0: none has */
	__u32 pid; /* of the process that allocated it */
	__u16 order;
	__u16 flags; /* BPFPROF_PAGE_* */
};

/* Not a first touch, but a copy of a page that the process had already, or a page that is no anonymous memory. */
#define BPFPROF_PAGE_COPY 1U

#define BPFPROF_PAGE_SPLIT                                                                         \
	2U /* of a look: a large page was split, nr_left of its pages are in use */

struct bpfprof_page_level {
	__u64 threshold[BPFPROF_PAGE_ORDERS]; /* p, times 2^32 */
	__u64 bytes[BPFPROF_PAGE_ORDERS]; /* that a page of the sample stands for */
};

/* The one element of the map page_control, memory-mapped. */
struct bpfprof_page_control {
	struct bpfprof_page_level levels[BPFPROF_PAGE_LEVELS]; /* written by user space */
	__u64 seed; /* of the hash; written by user space */
	__u64 nr_held; /* entries of held_pages; written by both sides */
	__u64 count[PAGE_NR_COUNTERS]; /* written by BPF */
	__u32 level; /* of new pages; written by BPF */
	__u32 kept; /* level of the pages in the map: at most `level`; written by user space */
};

/* What a look found out about a page. */
enum bpfprof_page_use {
	PAGE_USE_INVALID = 0,
	PAGE_USE_NONE = 1, /* not mapped, not yet, or swapped out and still in the swap cache */
	PAGE_USE_ANON = 2, /* anonymous memory */
	PAGE_USE_FILE = 3, /* page cache, or shared memory */
	PAGE_USE_OTHER = 4, /* it was freed and has another use: the end was not seen */
};

/* Record of the iterator page_looks. */
struct bpfprof_page_look {
	__u64 page; /* key in held_pages */
	__u64 ts_ns;
	__u32 pid;
	__u32 use; /* enum bpfprof_page_use */
	__u16 order;
	__u16 flags;
	__u32 nr_left; /* with BPFPROF_PAGE_SPLIT */
};

/*
 * PAGE_MOVED: a thread of the kernel has freed a page of the sample. khugepaged and kcompactd have copied
 * it to another page, which is not in the sample; kswapd has written it to swap.
 */
struct bpfprof_page_moved {
	struct bpfprof_record rec;
	__u64 page; /* key in held_pages until then */
	__u64 ts_ns;
};

/* Does the hash of a page put it into the sample? Both sides compute the same. */
static inline __u32 page_hash(__u64 seed, __u64 page)
{
	__u64 hash = page ^ seed;

	hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93ULL;
	hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93ULL;
	return hash >> 32;
}

_Static_assert(sizeof(struct bpfprof_held_page) == 24, "wire");
_Static_assert(sizeof(struct bpfprof_page_level) == 256, "wire");
_Static_assert(sizeof(struct bpfprof_page_look) == 32, "wire");

#endif
