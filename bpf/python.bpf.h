/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_PYTHON_BPF_H
#define BPFPROF_BPF_PYTHON_BPF_H

/*
 * The Python part of a sample: finds the thread state of the interrupted thread, walks its frames,
 * and sends what a code object is called the first time it is seen.
 *
 * A code object is known by a fingerprint of what it points to and says of itself, proved
 * again in every sample: its memory may hold another one since. The fingerprint is a
 * keyed hash, so that no process can make its code pass for another's.
 */
#include "reader.bpf.h"

#define THREAD_RECHECK_NS 10000000ULL
#define MAX_THREAD_STEPS 4096
#define THREAD_STEP_NS 20000ULL /* a list that takes a step more is read so much later again */
#define MAX_INTERPRETERS 64
#define CODE_BUDGET_BYTES 65536
#define CODE_CPU_BITS 12
#define NAME_MAX_BYTES 4096
#define LINES_MAX_BYTES (1U << 20)
#define STRING_HEADER_BYTES 40
#define STRING_HEADER_FT_BYTES 56 /* of free-threaded builds */
#define LINES_PASSES 4
#define FRAME_HIDDEN 1

/* Key: number; value: written once by user space before a process refers to it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct bpfprof_python_layout);
} layouts SEC(".maps");

/* Processes that run CPython; 0 is none. Writer: user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct bpfprof_python);
} pythons SEC(".maps");

/*
 * Code objects that were sent. Writer: BPF; user space deletes those of processes that ended.
 * Allocated beforehand: in an interrupt memory is not always to be had.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct bpfprof_code_key);
	__type(value, struct bpfprof_code_known);
} codes SEC(".maps");

/*
 * From 3.11 on frames lie one above another in the thread's data stack, a caller below what it
 * called, so that one copy serves many; shims lie on the C stack. Others (generators,
 * 3.8-3.10) are somewhere in the heap.
 */
static __always_inline const __u8 *python_frame_at(struct unwind_reader *r, __u64 va, __u32 len,
						   __u8 *room)
{
	struct python_scratch *py = &r->py;
	__u64 off = va - r->rec.stack_va, size, start;

	len &= BPFPROF_PYTHON_FRAME_BYTES - 1;
	if (off < BPFPROF_STACK_BYTES - PYTHON_FRAME_ROOM && window_has(r, va, len))
		return r->rec.stack + (off & (BPFPROF_STACK_BYTES - 1));
	off = va - py->window_va;
	if (off < PYTHON_WINDOW_BYTES && off + len <= py->window_len)
		return py->window + (off & (PYTHON_WINDOW_BYTES - 1));
	if (py->layout.chain != PYTHON_CHAIN_OBJECTS && py->last_va - va < 4 * PAGE_BYTES) {
		/* Not into the page below: it may not be there, and a fault costs more than a read. */
		off = va & (PAGE_BYTES - 1);
		if (off > PYTHON_WINDOW_BYTES / 2)
			off = PYTHON_WINDOW_BYTES / 2;
		size = off + len;
		barrier_var(size);
		size &= PYTHON_WINDOW_BYTES - 1;
		if (!bpf_probe_read_user(py->window, size, (void *)(va - off))) {
			py->window_va = va - off;
			py->window_len = size;
			return py->window + (off & (PYTHON_WINDOW_BYTES - 1));
		}
	}
	py->last_va = va;
	start = py->layout.frame_start & (BPFPROF_PYTHON_FRAME_BYTES - 8);
	size = (len - start) & (BPFPROF_PYTHON_FRAME_BYTES - 1);
	return bpf_probe_read_user(room + start, size, (void *)(va + start)) ? NULL : room;
}

static __always_inline int user_u64(__u64 va, __u64 *dst)
{
	return bpf_probe_read_user(dst, 8, (void *)va);
}

static __always_inline __u64 tstate_u64(struct python_scratch *py, __u32 off)
{
	return *(__u64 *)(py->tstate + (off & (BPFPROF_PYTHON_TSTATE_BYTES - 1)));
}

static __always_inline int tstate_read(struct python_scratch *py, __u64 va)
{
	return bpf_probe_read_user(py->tstate,
				   py->layout.tstate_bytes & (BPFPROF_PYTHON_TSTATE_BYTES - 1),
				   (void *)va);
}

static __always_inline bool tstate_is_ours(struct python_scratch *py)
{
	return tstate_u64(py, py->layout.tstate_thread) == py->fs_base;
}

struct python_ctx {
	struct unwind_reader *r;
};

/* One step through the thread states of all interpreters; newest interpreter first. */
static long thread_step(__u32 i, struct python_ctx *ctx)
{
	struct python_scratch *py = &ctx->r->py;
	__u64 interpreter = py->list_interpreter;
	__u32 at;

	if (!py->list_at) {
		if (!interpreter || py->nr_interpreters >= MAX_INTERPRETERS) {
			py->list_steps = 0; /* went to the end */
			return 1;
		}
		py->nr_interpreters++;
		py->list_interpreter = 0;
		if (user_u64(interpreter + py->layout.interpreter_threads, &py->list_at))
			py->list_at = 0;
		if (user_u64(interpreter + py->layout.interpreter_next, &py->list_interpreter))
			py->list_interpreter = 0;
		return 0;
	}
	if (tstate_read(py, py->list_at)) {
		py->list_torn = 1;
		py->list_at = 0;
		return 0;
	}
	if (!tstate_is_ours(py)) {
		py->list_at = tstate_u64(py, py->layout.tstate_next);
		return 0;
	}
	at = py->nr_tstates;
	if (at < 4) {
		py->tstates[at] = py->list_at;
		py->nr_tstates = at + 1;
	}
	py->list_at = 0;
	return 0;
}

static __always_inline void gil_note(struct unwind_reader *r, __u64 tstate)
{
	struct python_scratch *py = &r->py;
	__u64 current = 0;

	if (py->layout.free_threaded) {
		return;
	} else if (py->layout.runtime_current) {
		if (user_u64(py->runtime + py->layout.runtime_current, &current))
			return;
	} else if (py->layout.tstate_status) {
		if ((__u32)tstate_u64(py, py->layout.tstate_status) & py->layout.status_mask)
			current = tstate;
	} else {
		return;
	}
	r->rec.sample.python_flags |= BPFPROF_PYTHON_GIL_KNOWN;
	if (current == tstate)
		r->rec.sample.python_flags |= BPFPROF_PYTHON_GIL_HELD;
}

/*
 * The thread state that the thread had last time, if it still has it. One that holds the GIL
 * is the thread's current one; else the thread may be in another interpreter by now.
 */
static __always_inline bool tstate_cached(struct unwind_reader *r, const struct cached_thread *slot)
{
	struct python_scratch *py = &r->py;
	__u64 newest = 0;

	if (tstate_read(py, slot->tstate) || !tstate_is_ours(py))
		return false;
	gil_note(r, slot->tstate);
	if (r->rec.sample.python_flags & BPFPROF_PYTHON_GIL_HELD)
		return true;
	return !user_u64(py->runtime + py->layout.runtime_interpreters, &newest) &&
	       newest == slot->interpreter;
}

/* Thread states of the interrupted thread into py->tstates. */
static __noinline int tstates_find(struct unwind_reader *r)
{
	struct python_scratch *py = &r->py;
	struct python_ctx ctx = { .r = r };
	__u32 tid = r->rec.sample.task.tid;
	struct cached_thread *slot = &py->threads[tid & (THREAD_SLOTS - 1)];
	__u64 now = r->rec.sample.rec.ts_ns, newest = 0;
	long steps;

	py->nr_tstates = 0;
	py->nr_interpreters = 0;
	if (slot->tid == tid && slot->python == py->id) {
		if (slot->tstate && tstate_cached(r, slot)) {
			py->tstates[0] = slot->tstate;
			py->nr_tstates = 1;
			return 0;
		}
		if (!slot->tstate && now < slot->recheck_ns)
			return 0;
	}
	if (user_u64(py->runtime + py->layout.runtime_interpreters, &newest) || !newest)
		return 0; /* not begun yet */
	py->list_at = 0;
	py->list_interpreter = newest;
	py->list_steps = 1;
	py->list_torn = 0;
	py->nr_interpreters = 0;
	steps = bpf_loop(MAX_THREAD_STEPS, thread_step, &ctx, 0);
	if (py->list_steps) {
		py->stop = PYTHON_STOP_THREADS;
		py->nr_tstates = 0;
	}
	/*
	 * Of several interpreters a thread may enter another one at any time. A list that was
	 * changed while it was read says nothing about what is not in it.
	 */
	slot->tid = py->nr_interpreters > 1 || (py->list_torn && !py->nr_tstates) ? 0 : tid;
	slot->python = py->id;
	slot->interpreter = newest;
	slot->recheck_ns = now + THREAD_RECHECK_NS + steps * THREAD_STEP_NS;
	slot->tstate = py->nr_tstates ? py->tstates[0] : 0;
	return 0;
}

static __always_inline __u64 code_u64(struct python_scratch *py, __u32 off)
{
	return *(__u64 *)(py->code + (off & 0xff));
}

static __always_inline __u32 code_u32(struct python_scratch *py, __u32 off)
{
	return *(__u32 *)(py->code + (off & 0xff));
}

/* The part of it that matters, to its place in py->code. */
static __always_inline int code_read(struct python_scratch *py, __u64 va)
{
	__u32 start = py->layout.code_start & 0xf8;

	return bpf_probe_read_user(py->code + start, (py->layout.code_bytes - start) & 0xff,
				   (void *)(va + start));
}

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
}

/* Of the object in py->code. */
static __always_inline __u64 code_fingerprint(struct python_scratch *py, __u64 va)
{
	const struct bpfprof_python_layout *l = &py->layout;
	__u64 hash = mix(mix(cfg.hash_seed, py->id), va), version = 0;

	hash = mix(hash, code_u64(py, l->code_name));
	hash = mix(hash, code_u64(py, l->code_filename));
	hash = mix(hash, code_u64(py, l->code_linetable));
	hash = mix(hash,
		   (__u64)code_u32(py, l->code_firstlineno) << 32 | code_u32(py, l->code_flags));
	if (l->code_qualname)
		hash = mix(hash, code_u64(py, l->code_qualname));
	if (l->code_version)
		version = code_u32(py, l->code_version);
	if (!version)
		user_u64(code_u64(py, l->code_name) + l->unicode_hash, &version);
	hash = mix(hash, version);
	return hash ? hash : 1;
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

/* May this process have another element of codes? User space gives it new ones. */
static __always_inline bool code_quota(struct python_scratch *py)
{
	__u32 slot = py->slot;
	struct bpfprof_python *p = bpf_map_lookup_elem(&pythons, &slot);

	return p && __sync_fetch_and_add(&p->nr_codes, 1) < BPFPROF_PYTHON_MAX_CODES;
}

/* Id of the code object at va, in py->code, that is not in this CPU's cache. */
static __noinline __u64 code_id_slow(struct unwind_reader *r, __u64 va, __u64 fingerprint)
{
	struct python_scratch *py = &r->py;
	struct bpfprof_code_key key = { .va = va, .python = py->id };
	struct bpfprof_code_known fresh = { .fingerprint = fingerprint };
	struct bpfprof_code_known *known = bpf_map_lookup_elem(&codes, &key);
	struct cached_code *slot = &py->codes[fingerprint & (CODE_SLOTS - 1)];

	if (known && known->fingerprint == fingerprint) {
		if (known->state == CODE_COMPLETE) {
			slot->fingerprint = fingerprint;
			slot->id = known->id;
		} else {
			pending_add(r, va, known->id);
		}
		return known->id;
	}
	fresh.id = BPFPROF_CODE_ID_RAW |
		   (((__u64)++py->nr_codes << CODE_CPU_BITS) & (BPFPROF_CODE_ID_RAW - 1)) |
		   (bpf_get_smp_processor_id() & ((1 << CODE_CPU_BITS) - 1));
	if (!code_quota(py)) {
		count_add(BPFPROF_COUNT_CODES_FULL, 1);
		return fresh.id;
	}
	if (bpf_map_update_elem(&codes, &key, &fresh, BPF_ANY))
		count_add(BPFPROF_COUNT_CODES_FULL, 1);
	pending_add(r, va, fresh.id);
	return fresh.id;
}

/* Frame of (code object at va, lasti); 0 if it cannot be read, or FRAME_HIDDEN. */
static __noinline __u64 python_frame_make(struct unwind_reader *r, __u64 va, __u32 lasti)
{
	struct python_scratch *py = &r->py;
	struct cached_code *slot;
	__u64 fingerprint, id;

	if (code_read(py, va))
		return 0;
	if (python_code_hidden(&py->layout, py->code))
		return FRAME_HIDDEN;
	fingerprint = code_fingerprint(py, va);
	slot = &py->codes[fingerprint & (CODE_SLOTS - 1)];
	id = slot->fingerprint == fingerprint ? slot->id : code_id_slow(r, va, fingerprint);
	return (__u64)BPFPROF_FRAME_PYTHON << BPFPROF_FRAME_SHIFT | id << BPFPROF_LASTI_BITS |
	       (lasti & BPFPROF_LASTI_MASK);
}

static long python_walk_frame(__u32 i, struct python_ctx *ctx)
{
	struct unwind_reader *r = ctx->r;
	struct python_scratch *py = &r->py;
	__u32 at, nr = r->rec.sample.nr_python;
	__u64 frame;
	int stop;

	stop = python_step(&py->walk, &py->layout, r, py->frame);
	if (!stop && py->walk.code) {
		at = r->rec.sample.nr_kernel + nr;
		frame = python_frame_make(r, py->walk.code, py->walk.lasti);
		if (!frame)
			stop = PYTHON_STOP_READ_FAULT;
		else if (nr >= BPFPROF_MAX_PYTHON_FRAMES || at >= BPFPROF_MAX_FRAMES)
			stop = PYTHON_STOP_DEPTH;
		else if (frame != FRAME_HIDDEN) {
			r->rec.frames[at] = frame;
			r->rec.sample.nr_python = ++nr;
		}
	}
	if (stop) {
		py->stop = stop;
		return 1;
	}
	at = r->rec.nr_entries;
	if (!py->walk.entry || nr == py->entered)
		return 0;
	if (at >= BPFPROF_MAX_PYTHON_ENTRIES) {
		py->stop = PYTHON_STOP_ENTRIES;
		return 1;
	}
	r->rec.entries[at].va = py->walk.entry;
	r->rec.entries[at].nr = nr;
	r->rec.nr_entries = at + 1;
	py->entered = nr;
	return 0;
}

/* The chain of the thread state in py->tstate. */
static __noinline int chain_walk(struct unwind_reader *r)
{
	struct python_scratch *py = &r->py;
	struct python_ctx ctx = { .r = r };

	py->walk.frame = tstate_u64(py, py->layout.tstate_frame);
	py->walk.cframe = py->walk.frame;
	if (py->layout.chain == PYTHON_CHAIN_ENTRY_FLAG ||
	    py->layout.chain == PYTHON_CHAIN_CFRAME) {
		if (!py->walk.cframe)
			return 0;
		if (unwind_read_u64(r, py->walk.cframe + py->layout.cframe_frame,
				    &py->walk.frame)) {
			py->stop = PYTHON_STOP_READ_FAULT;
			return 0;
		}
	}
	py->window_len = 0;
	py->last_va = py->walk.frame;
	py->stop = PYTHON_STOP_DEPTH; /* unless it ends before */
	bpf_loop(BPFPROF_MAX_PYTHON_FRAMES + BPFPROF_MAX_PYTHON_ENTRIES, python_walk_frame, &ctx,
		 0);
	return 0;
}

/* Sends what py->piece was filled with: 0, or -1 if there is no room or no budget now. */
static __always_inline int piece_send(struct unwind_reader *r, __u64 id, __u64 va, __u64 data,
				      __u32 len)
{
	struct python_scratch *py = &r->py;
	struct bpfprof_python_code *p = &py->piece;
	__u64 size, bytes = len;

	if (len > py->budget || bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > cfg.ring_bytes / 2)
		return -1;
	if (len > BPFPROF_PYTHON_PIECE_BYTES)
		return -1;
	barrier_var(bytes); /* or the compiler drops the mask, seeing that it changes nothing */
	bytes &= 16383;
	if (bytes && bpf_probe_read_user(p->data, bytes, (void *)data))
		return -1;
	py->budget -= len;
	p->code_id = id;
	p->python = py->id;
	p->first_line = code_u32(py, py->layout.code_firstlineno);
	p->code_flags = code_u32(py, py->layout.code_flags);
	p->layout = py->layout_nr;
	p->len = len;
	p->pad = 0;
	p->code_va = va;
	size = __builtin_offsetof(struct bpfprof_python_code, data) + bytes;
	record_fill(&p->rec, BPFPROF_KIND_PYTHON_CODE, size);
	return bpf_ringbuf_output(&ring, p, size, BPF_RB_NO_WAKEUP) ? -1 : 0;
}

/* A str object. One that is not kept in the usual way goes out without characters. */
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

/* Names of pending[i]. */
static long names_send(__u32 i, struct python_ctx *ctx)
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
	name = code_u64(py, l->code_qualname ? l->code_qualname : l->code_name);
	filename = code_u64(py, l->code_filename);
	if (!string_send(r, known->id, key.va, name, PYTHON_PART_NAME) &&
	    !string_send(r, known->id, key.va, filename, PYTHON_PART_FILENAME))
		known->state = CODE_LINES_PENDING;
	return 0;
}

/* The next piece of the line table of pending[i]. */
static long lines_send(__u32 i, struct python_ctx *ctx)
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
	table = code_u64(py, l->code_linetable);
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
	if (piece_send(r, known->id, key.va, table + l->bytes_data + sent, len))
		return 0;
	known->lines_sent = sent + len;
	if (known->lines_sent >= total)
		known->state = CODE_COMPLETE;
	return 0;
}

static __noinline int pending_send(struct unwind_reader *r)
{
	struct python_ctx ctx = { .r = r };
	int i;

	r->py.budget = CODE_BUDGET_BYTES;
	bpf_loop(MAX_PENDING, names_send, &ctx, 0);
	for (i = 0; i < LINES_PASSES; i++)
		bpf_loop(MAX_PENDING, lines_send, &ctx, 0);
	return 0;
}

/* All Python frames of the interrupted thread; before the native ones are walked. */
static __noinline int python_walk(struct unwind_reader *r, __u32 slot)
{
	struct python_scratch *py = &r->py;
	struct bpfprof_python *p = bpf_map_lookup_elem(&pythons, &slot);
	struct bpfprof_python_layout *layout;
	__u32 i, nr;

	if (!p || !p->id || p->start_ns != r->rec.sample.task.start_ns)
		return 0;
	if (py->layout_nr != p->layout || !py->layout.chain) {
		nr = p->layout;
		layout = bpf_map_lookup_elem(&layouts, &nr);
		if (!layout)
			return 0;
		py->layout = *layout;
		py->layout_nr = nr;
	}
	py->id = p->id;
	py->slot = slot;
	py->runtime = p->runtime;
	py->stop = PYTHON_STOP_NONE;
	py->nr_pending = 0;
	py->entered = 0;
	r->rec.sample.python_flags |= BPFPROF_PYTHON_PROCESS;
	tstates_find(r);
	for (i = 0; i < 4 && i < py->nr_tstates; i++) {
		/* After the lists were walked another one may have been read last. */
		if (py->nr_interpreters && tstate_read(py, py->tstates[i]))
			continue;
		if (tstate_is_ours(py)) {
			if (!(r->rec.sample.python_flags & BPFPROF_PYTHON_GIL_HELD))
				gil_note(r, py->tstates[i]);
			chain_walk(r);
		}
	}
	if (py->nr_pending)
		pending_send(r);
	r->rec.sample.python_stop = py->stop;
	return 0;
}

#endif
