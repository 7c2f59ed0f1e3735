/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_PYTHON_PROOF_BPF_H
#define BPFPROF_BPF_PYTHON_PROOF_BPF_H

/*
 * Which Python frames a C call of the eval loop runs, up to 3.10: it is the one of the chain whose address
 * it holds, and with it those inside of it that no call runs.
 *
 * A call that is just beginning or ending runs none that is in the chain, and may hold that of its
 * caller: registers that its callers saved lie in its C frame as well. Only the innermost can be
 * such a call, so what it was given is taken back when the next call holds the same.
 */
#include "reader.bpf.h"

#define PROOF_WORDS 128 /* of a C frame; it has 40 to 60, more without optimization */
#define PROOF_AHEAD 16 /* entries that are looked for in all words of it */

/* Key: image. Writer: user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct bpfprof_evals);
} evals __weak SEC(".maps");

static __always_inline __u32 eval_flags(__u32 image, __u64 off)
{
	struct bpfprof_evals *found = bpf_map_lookup_elem(&evals, &image);
	int i;

	if (!found)
		return 0;
	for (i = 0; i < BPFPROF_EVAL_RANGES; i++)
		if (off - found->range[i].off < found->range[i].bytes)
			return BPFPROF_CACHED_EVAL;
	return 0;
}

/* frames[at] is the call that runs all Python frames from the last such call up to the entry. */
static __always_inline void entry_mark(struct unwind_reader *r, __u32 at, __u32 entry)
{
	__u32 next = r->rec.at.next_entry & (BPFPROF_MAX_PYTHON_ENTRIES - 1), before = 0;

	entry &= BPFPROF_MAX_PYTHON_ENTRIES - 1;
	barrier_var(at); /* as in frame_append() */
	if (at >= BPFPROF_MAX_FRAMES)
		return;
	if (next)
		before = r->entries[(next - 1) & (BPFPROF_MAX_PYTHON_ENTRIES - 1)].nr;
	r->rec.frames[at] = (__u64)BPFPROF_FRAME_EVAL << BPFPROF_FRAME_SHIFT |
			    ((r->entries[entry].nr - before) & 0xffff);
	r->rec.at.next_entry = entry + 1;
}

/* Before the frame of a call of the eval loop is stepped over. */
static __always_inline void proof_begin(struct unwind_reader *r)
{
	struct python_proof *p = &r->proof;

	p->sp = r->state.regs[UNWIND_RSP];
	p->held[0] = 0;
	p->held[1] = r->state.valid & 1U << UNWIND_RBP ? r->state.regs[UNWIND_RBP] : 0;
	if (!unwind_settle(&r->state, r) && r->state.valid & 1U << UNWIND_RBX)
		p->held[0] = r->state.regs[UNWIND_RBX];
}

/* A word of the C frame just stepped over: it is in the window, unless that could not grow so far. */
static __always_inline int frame_word(struct unwind_reader *r, __u64 va, __u64 *dst)
{
	__u64 off = va - r->rec.at.stack_va;

	if (off < BPFPROF_STACK_BYTES - 8 && off + 8 <= r->rec.at.stack_len) {
		*dst = *(__u64 *)(r->stack + (off & (BPFPROF_STACK_BYTES - 1)));
		return 0;
	}
	return bpf_probe_read_user(dst, 8, (void *)va);
}

static __always_inline __u32 proof_place(const struct python_proof *p, __u64 va)
{
	return p->held[0] == va	  ? 1
	       : p->held[1] == va ? 2
	       : p->held[2] == va ? 3
	       : p->held[3] == va ? 4
				  : 0;
}

/*
 * All calls of a stack hold their frames in a register or in the same word of their C frames. In its other
 * words lies what was left there before, which may be a frame of the chain, too.
 */
static __always_inline bool proof_holds(struct python_proof *p, __u64 va)
{
	__u32 place = proof_place(p, va);

	if (p->place)
		return place == 1 || place == 2 || p->held[(p->place - 1) & 3] == va;
	p->place = place;
	return place;
}

static __always_inline __u64 entry_va(const struct unwind_reader *r, __u32 nth)
{
	return r->entries[nth & (BPFPROF_MAX_PYTHON_ENTRIES - 1)].va;
}

struct proof_ctx {
	struct unwind_reader *r;
};

/* Is it entry i behind the next one? A step of bpf_loop. */
static long proof_entry(__u32 i, struct proof_ctx *ctx)
{
	struct unwind_reader *r = ctx->r;
	__u32 nth = r->rec.at.next_entry + 1 + i;

	if (nth >= r->rec.at.nr_entries)
		return 1;
	if (!proof_holds(&r->proof, entry_va(r, nth)))
		return 0;
	r->proof.nth = nth;
	r->proof.found = 1;
	return 1;
}

/* Is word i of the C frame, from its end on, one of the next entries? A step of bpf_loop. */
static long proof_word(__u32 i, struct proof_ctx *ctx)
{
	struct unwind_reader *r = ctx->r;
	struct python_proof *p = &r->proof;
	__u64 va = p->cfa - 16 - i * 8, word = 0; /* the return address comes first */
	__u32 j, nth;

	if (va < p->sp || frame_word(r, va, &word))
		return 1;
#pragma clang loop unroll(disable)
	for (j = 0; j < PROOF_AHEAD; j++) {
		nth = r->rec.at.next_entry + j;
		if (nth >= r->rec.at.nr_entries || (p->found && nth >= p->nth))
			break;
		if (entry_va(r, nth) != word)
			continue;
		p->nth = nth;
		p->found = 1;
		if (p->place != 3)
			p->slot[1] = p->slot[0];
		p->slot[0] = 16 + i * 8;
		p->place = 3; /* slot[0] */
		break;
	}
	return 0;
}

static __always_inline __u64 slot_read(struct unwind_reader *r, __u32 slot)
{
	__u64 va = r->proof.cfa - slot, word = 0;

	if (!slot || va < r->proof.sp || frame_word(r, va, &word))
		return 0;
	return word;
}

/* The frame that the innermost call holds is that of its caller: it is just beginning, or ending. */
static __always_inline bool proof_was_given(struct unwind_reader *r)
{
	struct python_proof *p = &r->proof;
	__u32 place;

	if (!p->inner_at || !r->rec.at.next_entry)
		return false;
	place = proof_place(p, entry_va(r, r->rec.at.next_entry - 1));
	if (place)
		p->place = place;
	return place;
}

static __always_inline void inner_undo(struct unwind_reader *r, __u32 at)
{
	struct python_proof *p = &r->proof;
	__u32 inner = p->inner_at;

	barrier_var(at);
	barrier_var(inner);
	if (inner >= BPFPROF_MAX_FRAMES || at >= BPFPROF_MAX_FRAMES)
		return;
	r->rec.frames[at] = r->rec.frames[inner];
	r->rec.frames[inner] = p->inner_frame;
	p->inner_at = 0;
}

/*
 * frames[at], whose frame was just stepped over, is a call of the eval loop: says which Python frames it
 * runs, if that is proven. A global function, so that the verifier goes through it once.
 */
__weak __noinline int proof_find(struct unwind_reader *r)
{
	struct proof_ctx ctx = { .r = r };
	struct python_proof *p;

	if (!r)
		return 0;
	p = &r->proof;
	p->found = 0;
	p->cfa = r->state.regs[UNWIND_RSP];
	p->held[2] = slot_read(r, p->slot[0]);
	p->held[3] = slot_read(r, p->slot[1]);
	if (proof_was_given(
		    r)) /* first: saved registers may hold the frame of a caller further out */
		return 1;
	if (proof_holds(p, entry_va(r, r->rec.at.next_entry))) {
		p->nth = r->rec.at.next_entry;
		p->found = 1;
		return 0;
	}
	bpf_loop(BPFPROF_MAX_PYTHON_ENTRIES, proof_entry, &ctx, 0);
	if (!p->found && !p->place)
		bpf_loop(PROOF_WORDS, proof_word, &ctx, 0);
	return 0;
}

static __always_inline void proof_mark(struct unwind_reader *r, __u32 at)
{
	struct python_proof *p = &r->proof;

	if (proof_find(r)) {
		inner_undo(r, at);
		return;
	}
	p->inner_at = 0;
	if (!p->found)
		return;
	barrier_var(at);
	if (!r->rec.at.next_entry && at < BPFPROF_MAX_FRAMES) {
		p->inner_at = at;
		p->inner_frame = r->rec.frames[at];
	}
	entry_mark(r, at, p->nth);
}

#endif
