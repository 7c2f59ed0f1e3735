/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_SPANS_H
#define BPFPROF_BPF_SPANS_H

/*
 * Parts of a process's memory, each copied once per sample. A read of user memory costs the same
 * whatever its length, up to a page, and what a Python stack refers to lies together: objects of
 * one size, frames one above another. So of each page one piece is copied, from the first to the
 * last byte that was asked for in the samples before. That only tells how much to copy: no byte
 * outlives its sample. Plain C: tests/hostbpf compiles it, too. The includer brings
 *
 *	static int spans_read(struct unwind_reader *reader, __u8 *dst, __u32 len, __u64 va);
 *
 * (0 or negative).
 */

#include "bpfprof.h"

#define SPANS_PAGE_BYTES 4096
#define SPANS_SLOTS 256 /* pages; a power of two */
#define SPANS_RING_BYTES 32768 /* a power of two */
#define SPANS_OBJECT_BYTES 256 /* more than what is asked for at once */
#define SPANS_MAX_BYTES (SPANS_PAGE_BYTES + SPANS_OBJECT_BYTES) /* of a piece */
#define SPANS_FORGET_RUNS 256 /* a power of two: memory is put to other uses */

/* Of this page the bytes from lo on and below hi (perhaps in the next one), at pos of the ring. */
struct span {
	__u64 page;
	__u32 run; /* when it was copied */
	__u32 pos;
	__u32 lo;
	__u32 hi;
};

/* Zeroed at first. Positions in the ring count on; what is its size behind the head is gone. */
struct spans {
	__u32 run;
	__u32 head;
	struct span span[SPANS_SLOTS];
	__u8 ring[SPANS_RING_BYTES];
	__u8 slack[SPANS_MAX_BYTES]; /* for the last piece in the ring */
};

/* Another sample: nothing that was copied counts any more. */
static __always_inline void spans_begin(struct spans *spans)
{
	spans->run++;
}

static __always_inline struct span *span_of(struct spans *spans, __u64 va)
{
	__u64 page = va / SPANS_PAGE_BYTES;

	return &spans->span[page * 0x9e3779b97f4a7c15ULL >> 40 & (SPANS_SLOTS - 1)];
}

/* To the head of the ring. A read that fails has written there, too: nothing else is there then. */
static __always_inline int span_copy(struct unwind_reader *reader, struct spans *spans,
				     struct span *span, __u64 page, __u32 lo, __u32 hi)
{
	__u32 pos = spans->head, len;

	lo &= ~7U; /* what is aligned there is so in the ring */
	len = hi - lo;
	if (len > SPANS_MAX_BYTES)
		return -1;
	span->page = page;
	span->run = spans->run;
	span->pos = pos;
	span->lo = lo;
	span->hi = hi;
	spans->head += (len + 7) & ~7U;
	if ((pos ^ spans->head) & ~(SPANS_RING_BYTES - 1))
		spans->head &= ~(SPANS_RING_BYTES - 1);
	return spans_read(reader, spans->ring + (pos & (SPANS_RING_BYTES - 1)), len,
			  page * SPANS_PAGE_BYTES + lo);
}

/* [va, va + len), what of its page is up to `below` bytes before, and what was asked for lately. */
static __noinline int span_fill(struct unwind_reader *reader, struct spans *spans, __u64 va,
				__u32 len, __u32 below)
{
	__u64 page = va / SPANS_PAGE_BYTES;
	struct span *span = span_of(spans, va);
	__u32 off = va & (SPANS_PAGE_BYTES - 1), lo, hi = off + len;

	lo = below < off ? off - below : 0;
	if (span->page == page && span->run / SPANS_FORGET_RUNS == spans->run / SPANS_FORGET_RUNS) {
		if (span->lo < lo)
			lo = span->lo;
		if (span->hi > hi)
			hi = span->hi;
	}
	if (!span_copy(reader, spans, span, page, lo, hi) ||
	    !span_copy(reader, spans, span, page, off, off + len))
		return 0;
	span->page = 0;
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
	__u32 off = va & (SPANS_PAGE_BYTES - 1);

	if (span->page != va / SPANS_PAGE_BYTES || span->run != spans->run || off < span->lo ||
	    off + len > span->hi ||
	    spans->head - span->pos > SPANS_RING_BYTES - 2 * SPANS_MAX_BYTES) {
		if (span_fill(reader, spans, va, len, below))
			return 0;
	}
	off -= span->lo;
	return spans->ring + (span->pos & (SPANS_RING_BYTES - 1)) + (off & (SPANS_PAGE_BYTES - 1));
}

#endif
