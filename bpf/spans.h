/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_SPANS_H
#define BPFPROF_BPF_SPANS_H

/*
 * Copies of a process's memory, made once per sample. A read of user memory costs 75 ns plus 10 ns
 * per KiB, and a Python stack refers to memory that lies together: objects of one size, frames one
 * above another. So one read copies the used part of a block of 16 KiB: from the first to the last
 * byte that earlier samples asked for. Earlier samples only decide how much to copy: no copied byte
 * outlives its sample. Plain C; tests/hostbpf compiles it, too. The includer defines
 *
 *	static int spans_read(struct unwind_reader *reader, __u8 *dst, __u32 len, __u64 va);
 *
 * (0 or negative).
 */

#include "bpfprof.h"

#define SPANS_PAGE_BYTES 4096
#define SPANS_BLOCK_BYTES 16384 /* another read costs as much as copying a gap of this size */
#define SPANS_SLOTS 256 /* blocks; a power of two */
#define SPANS_RING_BYTES 65536 /* a power of two */
#define SPANS_OBJECT_BYTES 256 /* more than one request can ask for */
#define SPANS_MAX_BYTES (SPANS_BLOCK_BYTES + SPANS_OBJECT_BYTES) /* of one piece */
/* A power of two; afterwards ranges are forgotten, as memory changes its use. */
#define SPANS_FORGET_RUNS 256

/* Bytes [lo, hi) of a block (hi may be in the next one), copied to pos in the ring. */
struct span {
	__u64 block;
	__u32 run; /* the sample that copied it */
	__u32 pos;
	__u32 lo;
	__u32 hi;
	__u32 torn; /* memory between the requested parts is unreadable */
	__u32 pad;
};

/* Zeroed at first. Pieces further behind head than the size of the ring are overwritten. */
struct spans {
	__u32 run;
	__u32 head;
	struct span span[SPANS_SLOTS];
	__u8 ring[SPANS_RING_BYTES];
	__u8 slack[SPANS_MAX_BYTES]; /* for the last piece of the ring */
};

/*
 * Begins a sample: all copies become invalid. The ring begins anew, so that it stays in the CPU's
 * caches.
 */
static __always_inline void spans_begin(struct spans *spans)
{
	spans->run++;
	spans->head = 0;
}

static __always_inline struct span *span_of(struct spans *spans, __u64 va)
{
	__u64 block = va / SPANS_BLOCK_BYTES;

	return &spans->span[block * 0x9e3779b97f4a7c15ULL >> 40 & (SPANS_SLOTS - 1)];
}

/* Copies to the head of the ring. A failed read overwrites it, too; nothing valid is there then. */
static __always_inline int span_copy(struct unwind_reader *reader, struct spans *spans,
				     struct span *span, __u64 block, __u32 lo, __u32 hi)
{
	__u32 pos = spans->head, len;

	lo &= ~7U; /* keeps the alignment of the source */
	len = hi - lo;
	if (len > SPANS_MAX_BYTES)
		return -1;
	span->block = block;
	span->run = spans->run;
	span->pos = pos;
	span->lo = lo;
	span->hi = hi;
	spans->head += (len + 7) & ~7U;
	if ((pos ^ spans->head) & ~(SPANS_RING_BYTES - 1))
		spans->head &= ~(SPANS_RING_BYTES - 1);
	return spans_read(reader, spans->ring + (pos & (SPANS_RING_BYTES - 1)), len,
			  block * SPANS_BLOCK_BYTES + lo);
}

/*
 * Copies [va, va + len), up to `below` bytes before it in its page, and the range of its block that
 * was requested lately. A global function, so that the verifier checks it once.
 */
__weak __noinline int span_fill(struct unwind_reader *reader, struct spans *spans, __u64 va,
				__u32 len, __u32 below)
{
	__u32 off = va & (SPANS_BLOCK_BYTES - 1), in_page = va & (SPANS_PAGE_BYTES - 1);
	__u64 block = va / SPANS_BLOCK_BYTES;
	struct span *span;
	__u32 lo = off - (below < in_page ? below : in_page), hi = off + len;

	if (!spans)
		return -1;
	span = span_of(spans, va);
	if (span->block != block ||
	    span->run / SPANS_FORGET_RUNS != spans->run / SPANS_FORGET_RUNS) {
		span->torn = 0;
	} else if (!span->torn) {
		if (span->lo < lo)
			lo = span->lo;
		if (span->hi > hi)
			hi = span->hi;
	}
	if (!span_copy(reader, spans, span, block, lo, hi))
		return 0;
	span->torn = 1;
	if (!span_copy(reader, spans, span, block, off, off + len))
		return 0;
	span->block = 0;
	return -1;
}

/*
 * A copy of [va, va + len), or NULL if it cannot be read; len: less than SPANS_OBJECT_BYTES. Valid
 * until the second call after it.
 */
static __always_inline __u8 *spans_at(struct unwind_reader *reader, struct spans *spans, __u64 va,
				      __u32 len, __u32 below)
{
	struct span *span = span_of(spans, va);
	__u32 off = va & (SPANS_BLOCK_BYTES - 1);

	if (span->block != va / SPANS_BLOCK_BYTES || span->run != spans->run || off < span->lo ||
	    off + len > span->hi ||
	    spans->head - span->pos > SPANS_RING_BYTES - 2 * SPANS_MAX_BYTES) {
		if (span_fill(reader, spans, va, len, below))
			return 0;
	}
	off -= span->lo;
	return spans->ring + (span->pos & (SPANS_RING_BYTES - 1)) + (off & (SPANS_BLOCK_BYTES - 1));
}

#endif
