/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_PYTHON_PROOF_BPF_H
#define BPFPROF_BPF_PYTHON_PROOF_BPF_H

/*
 * Finds the Python frames of a C call of the eval loop, up to 3.10: the frame of the chain whose
 * address the call holds, and the frames inside it that no call runs.
 *
 * A call that is just beginning or ending runs no frame of the chain, and may hold its caller's
 * frame, because saved registers of its callers lie in its C frame. Only the innermost call can be
 * in that state, so its mark is undone when the next call holds the same frame.
 */
#include "reader.bpf.h"

/* Words of a C frame to search; it has 40 to 60, more without optimization. */
#define PROOF_WORDS 128
#define PROOF_FIRST (8 - UNWIND_RETURN_OFF) /* the first word lies below the return address */
#define PROOF_AHEAD 16 /* entries to search for in all these words */

/* Eval loops by image. Writer: user space. */
HASH_MAP(evals, 1024, __u32, struct bpfprof_evals);

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

/* Entry nth is the next one to find a call for. */
static __always_inline void entry_next(struct unwind_reader *r, __u32 nth)
{
	r->rec.at.next_entry = nth;
	r->next_va = nth < r->rec.at.nr_entries ? entry_va(r, nth) : 0;
}

/* frames[at] is the call that runs all Python frames after the last entry, up to this one. */
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

/*
 * A word of the C frame just stepped over. It is in the window, unless that could not grow so far.
 */
static __always_inline int frame_word(struct unwind_reader *r, __u64 va, __u64 *dst)
{
	__u64 off = va - r->rec.at.stack_va;

	if (off < BPFPROF_STACK_BYTES - 8 && off + 8 <= r->rec.at.stack_len) {
		*dst = *(__u64 *)(r->stack + (off & (BPFPROF_STACK_BYTES - 1)));
		return 0;
	}
	return bpf_probe_read_user(dst, 8, (void *)va);
}

/* Index + 1 of va in held[]; 0: it is not there. */
static __always_inline __u32 proof_place(const struct python_proof *p, __u64 va)
{
	return p->held[0] == va	  ? 1
	       : p->held[1] == va ? 2
	       : p->held[2] == va ? 3
	       : p->held[3] == va ? 4
				  : 0;
}

/* Does the call hold va in the place of its build? */
static __always_inline bool proof_is_in_place(struct python_proof *p, __u64 va)
{
	struct python_build *b = proof_build(p);

	return b->at.score && p->held[(b->at.place - 1) & 3] == va;
}

/*
 * All calls of a build hold their frames in a register, or in the same word of their C frames. The
 * other words may hold old values, even other frames of the chain.
 */
static __always_inline bool proof_holds(struct python_proof *p, __u64 va)
{
	__u32 place;

	if (proof_is_in_place(p, va))
		return true;
	place = proof_place(p, va);
	return proof_build(p)->at.score ? place == 1 || place == 2 : place;
}

/* A call that certainly runs va, and holds it, shows the place of its build. */
static __always_inline void proof_learn(struct python_proof *p, __u64 va)
{
	struct python_place *at = &proof_build(p)->at;

	python_place_vote(at, proof_is_in_place(p, va) ? at->place : proof_place(p, va));
}

/* Does the call hold the i-th entry after the next one? A step of bpf_loop. */
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

/* The base register in the call, which its callee may have saved; 0: not known. */
static __always_inline __u64 base_read(struct unwind_reader *r, __u32 valid, __u64 base)
{
	__u64 word = 0;

	if (valid & UNWIND_BASE_SAVED)
		return frame_word(r, base, &word) ? 0 : word;
	return valid & 1U << UNWIND_BASE ? base : 0;
}

/*
 * Before the step over a call of the eval loop: does the call hold the next entry in the register
 * of its build? Most calls do, and need no further search.
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

/* Reads all places where the call may hold a frame. */
static __always_inline void held_read(struct unwind_reader *r)
{
	struct python_proof *p = &r->proof;
	struct python_build *b = proof_build(p);

	p->held[0] = base_read(r, p->valid, p->base);
	p->held[2] = slot_read(r, b->slot[0]);
	p->held[3] = slot_read(r, b->slot[1]);
}

/*
 * Does the innermost call hold the frame of its caller, the present call? Then the innermost call
 * is just beginning or ending. A present call that holds its own frame in the place of its build is
 * exempt: old values do not matter then.
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

/* Does the call hold the next entry in the slot of its build? */
static __always_inline bool proof_in_slot(struct unwind_reader *r, const struct python_build *b)
{
	return b->at.score && b->at.place >= 3 &&
	       slot_read(r, b->slot[(b->at.place - 3) & 1]) == r->next_va;
}

/* As entry_mark(), but can be undone if frames[at] is the innermost call. */
static __always_inline void call_mark(struct unwind_reader *r, __u64 at, __u32 entry)
{
	barrier_var(at);
	if (!r->rec.at.next_entry && at < BPFPROF_MAX_FRAMES) {
		r->proof.inner_at = at;
		r->proof.inner_frame = r->rec.frames[at];
	}
	entry_mark(r, at, entry);
}

/* frames[at] runs the next entry, and holds it in the place of its build. */
static __always_inline void proof_go_on(struct unwind_reader *r, __u64 at)
{
	struct python_proof *p = &r->proof;

	if (p->inner_at) {
		p->inner_at = 0;
		python_place_vote(&proof_build(p)->at, proof_build(p)->at.place);
	}
	call_mark(r, at, r->rec.at.next_entry);
}

/*
 * Sets found and nth to the entry that the call runs, if that is proven. 1: the innermost call was
 * marked with the frame of this one.
 */
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
		if (p->nth) /* the innermost call may be just beginning or ending */
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
		if (b->at.score && r->rec.at.next_entry) /* the place may be wrong */
			b->at.score--;
	}
	return 0;
}

/*
 * Marks frames[at], a call of the eval loop, with the Python frames that it runs, if that is
 * proven. Call it after the step over the call, if proof_begin() has found nothing. A global
 * function, so that the verifier checks it once.
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

/* Call it after the step over the call. goes_on: result of proof_begin(). */
static __always_inline void proof_mark(struct unwind_reader *r, __u64 at, bool goes_on)
{
	if (goes_on)
		proof_go_on(r, at);
	else
		proof_other(r, at);
}

#endif
