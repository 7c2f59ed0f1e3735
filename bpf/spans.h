/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_SPANS_H
#define BPFPROF_BPF_SPANS_H

/*
 * Parts of a process's memory, each copied once per sample. A read of user memory costs 75 ns
 * whatever its length and 10 ns more per KiB, and what a Python stack refers to lies together:
 * objects of one size, frames one above another. So of each 16 KiB one piece is copied, from the
 * first to the last byte that was asked for in the samples before. That only tells how much to
 * copy: no byte outlives its sample. Plain C: tests/hostbpf compiles it, too. The includer brings
 *
 *	static int spans_read(struct unwind_reader *reader, __u8 *dst, __u32 len, __u64 va);
 *
 * (0 or negative).
 */

#include "bpfprof.h"

#define SPANS_PAGE_BYTES 4096
#define SPANS_BLOCK_BYTES 16384 /* a gap as long as that costs no less than another read */
#define SPANS_SLOTS 256 /* blocks; a power of two */
#define SPANS_RING_BYTES 65536 /* a power of two */
#define SPANS_OBJECT_BYTES 256 /* more than what is asked for at once */
#define SPANS_MAX_BYTES (SPANS_BLOCK_BYTES + SPANS_OBJECT_BYTES) /* of a piece */
#define SPANS_FORGET_RUNS 256 /* a power of two: memory is put to other uses */

/* Of this block the bytes from lo on and below hi (perhaps in the next one), at pos of the ring. */
struct span {
	__u64 block;
	__u32 run; /* when it was copied */
	__u32 pos;
	__u32 lo;
	__u32 hi;
	__u32 torn; /* something between what was asked for is not there */
	__u32 pad;
};

/* Zeroed at first. What is more than the size of the ring behind its head is gone. */
struct spans {
	__u32 run;
	__u32 head;
	struct span span[SPANS_SLOTS];
	__u8 ring[SPANS_RING_BYTES];
	__u8 slack[SPANS_MAX_BYTES]; /* for the last piece in the ring */
};

/* Another sample: nothing that was copied counts any more. The ring begins anew, in the caches. */
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

/* To the head of the ring. A read that fails has written there, too: nothing else is there then. */
static __always_inline int span_copy(struct unwind_reader *reader, struct spans *spans,
				     struct span *span, __u64 block, __u32 lo, __u32 hi)
{
	__u32 pos = spans->head, len;

	lo &= ~7U; /* what is aligned there is so in the ring */
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
 * [va, va + len), what of its page is up to `below` bytes before, and what of its block was asked
 * for lately.
 */
static __noinline int span_fill(struct unwind_reader *reader, struct spans *spans, __u64 va,
				__u32 len, __u32 below)
{
	__u64 block = va / SPANS_BLOCK_BYTES;
	struct span *span = span_of(spans, va);
	__u32 off = va & (SPANS_BLOCK_BYTES - 1), in_page = va & (SPANS_PAGE_BYTES - 1);
	__u32 lo = off - (below < in_page ? below : in_page), hi = off + len;

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
 * Where a copy of [va, va + len) is, or NULL if it cannot be read; len: less than
 * SPANS_OBJECT_BYTES. Good until two more have been asked for.
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
