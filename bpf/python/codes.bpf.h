/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_PYTHON_CODES_BPF_H
#define BPFPROF_BPF_PYTHON_CODES_BPF_H

/*
 * Identifies code objects, and sends names and lines of each when a sample first finds it.
 *
 * A fingerprint of its pointers and fields identifies a code object. Every sample computes it
 * again, because its memory may hold another object by then. The fingerprint is a keyed hash, so
 * that no process can make its code pass for another's.
 */
#include "code_id.h"
#include "python/tstates.bpf.h"

#define CODE_BUDGET_BYTES 65536
#define NAME_MAX_BYTES 4096
#define LINES_MAX_BYTES (1U << 20)
#define LINES_PASSES 4
#define FRAME_HIDDEN BPFPROF_AWAIT_HIDDEN

/* Key: number; value: user space writes it once, before a process refers to it. */
ARRAY_MAP(layouts, 64, struct bpfprof_python_layout);

/* Runtimes of processes; element 0 stays empty. Writer: user space. */
ARRAY_MAP(pythons, 8192, struct bpfprof_python);

/*
 * Code objects that were sent. Writer: BPF; user space deletes those of processes that have ended.
 * Allocated beforehand, because an interrupt cannot always allocate memory.
 */
MAP(codes, HASH, 65536, struct bpfprof_code_key, struct bpfprof_code_known, 0);

/* Reads the part of the code object that has the fields to its place in py->code. */
static __always_inline int code_read(struct python_scratch *py, __u64 va)
{
	__u32 start = py->layout.code_start & 0xf8;

	return bpf_probe_read_user(py->code + start, (py->layout.code_bytes - start) & 0xff,
				   (void *)(va + start));
}

static __always_inline void pending_add(struct unwind_reader *r, __u64 va, __u64 id)
{
	struct python_scratch *py = &r->py;
	__u32 at = py->nr_pending;

	r->rec.sample.python_flags |= BPFPROF_PYTHON_CODE_PENDING;
	if (at >= MAX_PENDING)
		return;
	py->pending[at].va = va;
	py->pending[at].python = py->id;
	py->pending[at].pad = 0;
	py->pending_id[at] = id;
	py->nr_pending = at + 1;
}

/* May this process add an element to codes? User space resets the count. */
static __always_inline bool code_quota(struct python_scratch *py)
{
	__u32 slot = py->slot;
	struct bpfprof_python *p = bpf_map_lookup_elem(&pythons, &slot);

	return p && __sync_fetch_and_add(&p->nr_codes, 1) < BPFPROF_PYTHON_MAX_CODES;
}

/* Id of the code object at va, which is not in this CPU's cache. */
static __noinline __u64 code_id_slow(struct unwind_reader *r, __u64 va, __u64 fingerprint)
{
	struct python_scratch *py = &r->py;
	struct bpfprof_code_known *fresh = &py->fresh, *known; /* not on the stack, which is full */
	struct cached_code *slot = &py->codes[fingerprint & (CODE_SLOTS - 1)];
	__u32 state;
	__u64 id;

	py->key.va = va;
	py->key.python = py->id;
	py->key.pad = 0;
	known = bpf_map_lookup_elem(&codes, &py->key);
	if (known) {
		/*
		 * Another key may take a deleted element at once, so the fingerprint is read last.
		 */
		id = *(volatile __u64 *)&known->id;
		state = *(volatile __u32 *)&known->state;
		if (*(volatile __u64 *)&known->fingerprint == fingerprint) {
			if (state == CODE_COMPLETE) {
				slot->fingerprint = fingerprint;
				slot->id = id;
			} else {
				pending_add(r, va, id);
			}
			return id;
		}
	}
	id = code_id_make(py->nr_codes, r->index, cfg.code_giver_bits & 15);
	if (id == BPFPROF_CODE_ID_RAW || !code_quota(py)) {
		count_add(BPFPROF_COUNT_CODES_FULL, 1);
		return BPFPROF_CODE_ID_RAW;
	}
	__builtin_memset(fresh, 0, sizeof(*fresh));
	fresh->fingerprint = fingerprint;
	fresh->id = id;
	if (bpf_map_update_elem(&codes, &py->key, fresh, BPF_ANY)) {
		count_add(BPFPROF_COUNT_CODES_FULL, 1);
		return BPFPROF_CODE_ID_RAW;
	}
	py->nr_codes++;
	pending_add(r, va, id);
	return id;
}

/* Frame of the code object at va and lasti; 0 if it cannot be read, or FRAME_HIDDEN. */
static __always_inline __u64 python_frame_make(struct unwind_reader *r, __u64 va, __u32 lasti)
{
	struct python_scratch *py = &r->py;
	struct cached_code *slot;
	__u64 fingerprint, id;
	__u8 *code;

	code = spans_at(r, &py->prints.spans, va, py->layout.code_bytes & 0xff, 0);
	if (!code)
		return 0;
	if (python_code_hidden(&py->layout, code))
		return FRAME_HIDDEN;
	fingerprint = code_fingerprint(r, &py->prints, &py->layout, code, va);
	slot = &py->codes[fingerprint & (CODE_SLOTS - 1)];
	id = slot->fingerprint == fingerprint ? slot->id : code_id_slow(r, va, fingerprint);
	return (__u64)BPFPROF_FRAME_PYTHON << BPFPROF_FRAME_SHIFT | id << BPFPROF_LASTI_BITS |
	       (lasti & BPFPROF_LASTI_MASK);
}

/* Sends py->piece: 0, or -1 if there is no room or no budget now. Global as window_grow(). */
__weak __noinline int piece_send(struct unwind_reader *r, __u64 id, __u64 va, __u64 data, __u32 len)
{
	struct bpfprof_python_code *p;
	struct python_scratch *py;
	__u64 size, bytes = len;

	if (!r)
		return -1;
	py = &r->py;
	p = &py->piece;
	if (len > py->budget || bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > cfg.ring_bytes / 2)
		return -1;
	if (len > BPFPROF_PYTHON_PIECE_BYTES)
		return -1;
	barrier_var(bytes); /* or the compiler drops the mask as without effect */
	bytes &= 16383;
	if (bytes && bpf_probe_read_user(p->data, bytes, (void *)data))
		return -1;
	py->budget -= len;
	p->code_id = id;
	p->python = py->id;
	p->first_line = code_u32(py->code, py->layout.code_firstlineno);
	p->code_flags = code_u32(py->code, py->layout.code_flags);
	p->layout = py->layout_nr;
	p->len = len;
	p->pad = 0;
	p->code_va = va;
	size = __builtin_offsetof(struct bpfprof_python_code, data) + bytes;
	record_fill(&p->rec, BPFPROF_KIND_PYTHON_CODE, size);
	return bpf_ringbuf_output(&ring, p, size, BPF_RB_NO_WAKEUP) ? -1 : 0;
}

/* Sends a str object; without characters if it has an unusual form. */
static __noinline int string_send(struct unwind_reader *r, __u64 id, __u64 va, __u64 string,
				  __u32 part)
{
	struct python_scratch *py = &r->py;
	const struct bpfprof_python_layout *l = &py->layout;
	struct bpfprof_python_code *p = &py->piece;
	__u32 state, kind, len,
		max = part == PYTHON_PART_NAME ? NAME_MAX_BYTES : BPFPROF_PYTHON_PIECE_BYTES;
	__u64 length, data;

	if (bpf_probe_read_user(py->frame,
				l->free_threaded ? STRING_HEADER_FT_BYTES : STRING_HEADER_BYTES,
				(void *)string))
		return -1;
	length = python_u64(py->frame, l->unicode_length & (BPFPROF_PYTHON_FRAME_BYTES - 1));
	state = python_u64(py->frame, l->unicode_state & (BPFPROF_PYTHON_FRAME_BYTES - 1));
	state >>= l->unicode_kind_shift & 31;
	kind = state & 7;
	data = string + (state & 16 ? l->ascii_data : l->compact_data);
	if (!(state & 8) || (kind != 1 && kind != 2 && kind != 4) || length >> 28)
		length = 0;
	p->part = part;
	p->char_bytes = kind;
	p->total = length * kind;
	p->off = 0;
	len = p->total < max ? p->total : max;
	return piece_send(r, id, va, data, len);
}

/* Sends the names of pending[i]. */
static long names_send(__u32 i, struct reader_ctx *ctx)
{
	struct unwind_reader *r = ctx->r;
	struct python_scratch *py = &r->py;
	const struct bpfprof_python_layout *l = &py->layout;
	struct bpfprof_code_key key;
	struct bpfprof_code_known *known;
	__u64 name, filename;

	if (i >= py->nr_pending || i >= MAX_PENDING)
		return 1;
	key = py->pending[i];
	known = bpf_map_lookup_elem(&codes, &key);
	if (!known || known->id != py->pending_id[i] || known->state != CODE_NAMES_PENDING)
		return 0;
	if (code_read(py, key.va))
		return 0;
	name = code_u64(py->code, l->code_qualname ? l->code_qualname : l->code_name);
	filename = code_u64(py->code, l->code_filename);
	if (!string_send(r, py->pending_id[i], key.va, name, PYTHON_PART_NAME) &&
	    !string_send(r, py->pending_id[i], key.va, filename, PYTHON_PART_FILENAME) &&
	    known->id == py->pending_id[i])
		known->state = CODE_LINES_PENDING;
	return 0;
}

/* Sends the next piece of the line table of pending[i]. */
static long lines_send(__u32 i, struct reader_ctx *ctx)
{
	struct unwind_reader *r = ctx->r;
	struct python_scratch *py = &r->py;
	const struct bpfprof_python_layout *l = &py->layout;
	struct bpfprof_code_key key;
	struct bpfprof_code_known *known;
	__u64 table, total = 0;
	__u32 sent, len;

	if (i >= py->nr_pending || i >= MAX_PENDING)
		return 1;
	key = py->pending[i];
	known = bpf_map_lookup_elem(&codes, &key);
	if (!known || known->id != py->pending_id[i] || known->state != CODE_LINES_PENDING)
		return 0;
	if (code_read(py, key.va))
		return 0;
	table = code_u64(py->code, l->code_linetable);
	if (user_u64(table + l->bytes_size, &total))
		return 0;
	if (total > LINES_MAX_BYTES)
		total = 0;
	sent = known->lines_sent;
	len = total > sent ? total - sent : 0;
	if (len > BPFPROF_PYTHON_PIECE_BYTES)
		len = BPFPROF_PYTHON_PIECE_BYTES;
	py->piece.part = PYTHON_PART_LINES;
	py->piece.char_bytes = 1;
	py->piece.total = total;
	py->piece.off = sent;
	if (piece_send(r, py->pending_id[i], key.va, table + l->bytes_data + sent, len) ||
	    known->id != py->pending_id[i])
		return 0;
	known->lines_sent = sent + len;
	if (known->lines_sent >= total)
		known->state = CODE_COMPLETE;
	return 0;
}

static __noinline int pending_send(struct unwind_reader *r)
{
	struct reader_ctx ctx = { .r = r };
	int i;

	r->py.budget = CODE_BUDGET_BYTES;
	bpf_loop(MAX_PENDING, names_send, &ctx, 0);
	for (i = 0; i < LINES_PASSES; i++)
		bpf_loop(MAX_PENDING, lines_send, &ctx, 0);
	return 0;
}

#endif
