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
#define PROOF_FIRST (8 - UNWIND_RETURN_OFF) /* the first of them is below the return address */
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

static __always_inline __u64 entry_va(const struct unwind_reader *r, __u32 nth)
{
	return r->entries[nth & (BPFPROF_MAX_PYTHON_ENTRIES - 1)].va;
}

/* From here on calls are asked about entry nth. */
static __always_inline void entry_next(struct unwind_reader *r, __u32 nth)
{
	r->rec.at.next_entry = nth;
	r->next_va = nth < r->rec.at.nr_entries ? entry_va(r, nth) : 0;
}

/* frames[at] is the call that runs all Python frames from the last such call up to the entry. */
static __always_inline void entry_mark(struct unwind_reader *r, __u64 at, __u32 entry)
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
	entry_next(r, entry + 1);
}

static __always_inline struct python_build *proof_build(struct python_proof *p)
{
	return &p->builds[p->image & (PROOF_BUILDS - 1)];
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

/* Index + 1 in held[] of the word that is va; 0: none is. */
static __always_inline __u32 proof_place(const struct python_proof *p, __u64 va)
{
	return p->held[0] == va	  ? 1
	       : p->held[1] == va ? 2
	       : p->held[2] == va ? 3
	       : p->held[3] == va ? 4
				  : 0;
}

/* Does it hold va where the calls of its build hold their frames? */
static __always_inline bool proof_is_in_place(struct python_proof *p, __u64 va)
{
	struct python_build *b = proof_build(p);

	return b->at.score && p->held[(b->at.place - 1) & 3] == va;
}

/*
 * All calls of a build hold their frames in a register or in the same word of their C frames. In its other
 * words lies what was left there before, which may be a frame of the chain, too.
 */
static __always_inline bool proof_holds(struct python_proof *p, __u64 va)
{
	__u32 place;

	if (proof_is_in_place(p, va))
		return true;
	place = proof_place(p, va);
	return proof_build(p)->at.score ? place == 1 || place == 2 : place;
}

/* A call that runs va beyond doubt, and holds it, says where its build holds frames. */
static __always_inline void proof_learn(struct python_proof *p, __u64 va)
{
	struct python_place *at = &proof_build(p)->at;

	python_place_vote(at, proof_is_in_place(p, va) ? at->place : proof_place(p, va));
}

/* Is it entry i behind the next one? A step of bpf_loop. */
static long proof_entry(__u32 i, struct reader_ctx *ctx)
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
static long proof_word(__u32 i, struct reader_ctx *ctx)
{
	struct unwind_reader *r = ctx->r;
	struct python_proof *p = &r->proof;
	struct python_build *b = proof_build(p);
	__u64 va = p->cfa - PROOF_FIRST - i * 8, word = 0;
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
		if (!p->found)
			b->slot[1] = b->slot[0];
		b->slot[0] = PROOF_FIRST + i * 8;
		p->nth = nth;
		p->found = 1;
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

/* What the base register is in the call, which may have been saved by what it called; 0: not known. */
static __always_inline __u64 base_read(struct unwind_reader *r, __u32 valid, __u64 base)
{
	__u64 word = 0;

	if (valid & UNWIND_BASE_SAVED)
		return frame_word(r, base, &word) ? 0 : word;
	return valid & 1U << UNWIND_BASE ? base : 0;
}

/*
 * Before the frame of a call of the eval loop is stepped over. Does it hold the next entry in the register in which
 * its build does? So it is with most, and then that is all.
 */
static __always_inline bool proof_begin(struct unwind_reader *r)
{
	__u32 image = (r->last_frame & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS;
	struct unwind_state *s = &r->state;
	struct python_proof *p = &r->proof;
	struct python_build *b = &p->builds[image & (PROOF_BUILDS - 1)];
	__u64 next = r->next_va;

	p->image = image;
	if (b->image == image && b->at.score) {
		if (b->at.place == 1 && base_read(r, s->valid, s->regs[UNWIND_BASE]) == next)
			return true;
		if (b->at.place == 2 && s->valid & 1U << UNWIND_FP && s->regs[UNWIND_FP] == next)
			return true;
	}
	p->sp = s->regs[UNWIND_SP];
	p->valid = s->valid;
	p->base = s->regs[UNWIND_BASE];
	p->held[1] = s->valid & 1U << UNWIND_FP ? s->regs[UNWIND_FP] : 0;
	return false;
}

/* All that it holds. */
static __always_inline void held_read(struct unwind_reader *r)
{
	struct python_proof *p = &r->proof;
	struct python_build *b = proof_build(p);

	p->held[0] = base_read(r, p->valid, p->base);
	p->held[2] = slot_read(r, b->slot[0]);
	p->held[3] = slot_read(r, b->slot[1]);
}

/*
 * Is the frame that the innermost call holds that of its caller, which is asked about now? Then the innermost one
 * is just beginning, or ending. One that holds a frame of its own where its build does is asked no more: what was
 * left in it from before may be any.
 */
static __always_inline bool proof_was_given(struct unwind_reader *r)
{
	struct python_proof *p = &r->proof;
	__u32 next = r->rec.at.next_entry;

	if (!p->inner_at || !next)
		return false;
	if (r->next_va && proof_is_in_place(p, r->next_va))
		return false;
	return proof_place(p, entry_va(r, next - 1));
}

static __always_inline void inner_undo(struct unwind_reader *r, __u64 at)
{
	struct python_proof *p = &r->proof;
	__u64 inner = p->inner_at;

	barrier_var(at);
	barrier_var(inner);
	if (inner >= BPFPROF_MAX_FRAMES || at >= BPFPROF_MAX_FRAMES)
		return;
	r->rec.frames[at] = r->rec.frames[inner];
	r->rec.frames[inner] = p->inner_frame;
	p->inner_at = 0;
}

/* Does it hold the next entry in the word of its frame in which its build does? */
static __always_inline bool proof_in_slot(struct unwind_reader *r, const struct python_build *b)
{
	return b->at.score && b->at.place >= 3 &&
	       slot_read(r, b->slot[(b->at.place - 3) & 1]) == r->next_va;
}

/* entry_mark(), which can be undone if frames[at] is the innermost call. */
static __always_inline void call_mark(struct unwind_reader *r, __u64 at, __u32 entry)
{
	barrier_var(at);
	if (!r->rec.at.next_entry && at < BPFPROF_MAX_FRAMES) {
		r->proof.inner_at = at;
		r->proof.inner_frame = r->rec.frames[at];
	}
	entry_mark(r, at, entry);
}

/* frames[at] runs the next entry, and holds it where its build does. */
static __always_inline void proof_go_on(struct unwind_reader *r, __u64 at)
{
	struct python_proof *p = &r->proof;

	if (p->inner_at) {
		p->inner_at = 0;
		python_place_vote(&proof_build(p)->at, proof_build(p)->at.place);
	}
	call_mark(r, at, r->rec.at.next_entry);
}

/* Sets found and nth to the entry that the call runs, if that is proven. 1: it runs none, and was given its caller's. */
static __always_inline int proof_find(struct unwind_reader *r)
{
	struct python_proof *p = &r->proof;
	struct python_build *b = proof_build(p);
	struct reader_ctx ctx = { .r = r };

	p->found = 0;
	if (proof_was_given(r))
		return 1;
	p->nth = r->rec.at.next_entry;
	if (proof_holds(p, r->next_va)) {
		p->found = 1;
		if (p->nth) /* the innermost one may be none of those that run a frame */
			proof_learn(p, r->next_va);
		return 0;
	}
	if (p->in_vain >= PYTHON_PLACE_TRIES)
		return 0;
	bpf_loop(BPFPROF_MAX_PYTHON_ENTRIES, proof_entry, &ctx, 0);
	if (!p->found && !b->at.score)
		bpf_loop(PROOF_WORDS, proof_word, &ctx, 0);
	if (!p->found) {
		p->in_vain++;
		if (b->at.score && r->rec.at.next_entry) /* it may be another place after all */
			b->at.score--;
	}
	return 0;
}

/*
 * Marks frames[at], a call of the eval loop, with the Python frames that it runs, if that is proven. The walk has just
 * stepped over its frame, and proof_begin() found nothing. A global function: the verifier goes through it once.
 */
__weak __noinline int proof_other(struct unwind_reader *r, __u64 at)
{
	struct python_build *b;
	struct python_proof *p;

	if (!r)
		return 0;
	p = &r->proof;
	p->cfa = r->state.regs[UNWIND_SP];
	b = proof_build(p);
	if (b->image != p->image) {
		__builtin_memset(b, 0, sizeof(*b));
		b->image = p->image;
	}
	if (proof_in_slot(r, b)) {
		proof_go_on(r, at);
		return 0;
	}
	held_read(r);
	if (proof_find(r)) {
		inner_undo(r, at);
		return 0;
	}
	p->inner_at = 0;
	if (p->found)
		call_mark(r, at, p->nth);
	return 0;
}

/* After it was stepped over. goes_on: what proof_begin() said. */
static __always_inline void proof_mark(struct unwind_reader *r, __u64 at, bool goes_on)
{
	if (goes_on)
		proof_go_on(r, at);
	else
		proof_other(r, at);
}

#endif
