/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_PYTHON_TSTATES_BPF_H
#define BPFPROF_BPF_PYTHON_TSTATES_BPF_H

/* Finds the thread states of the interrupted thread, in the lists of the interpreters. */
#include "reader.bpf.h"

#define THREAD_RECHECK_NS 10000000ULL
#define MAX_THREAD_STEPS 4096
/* Each step through a list delays the next walk of it by this much. */
#define THREAD_STEP_NS 20000ULL
#define MAX_INTERPRETERS 64
#define RUNTIME_SLOTS (THREAD_SLOTS / BPFPROF_MAX_RUNTIMES) /* a thread has one slot in each */

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
	return tstate_u64(py, py->layout.tstate_thread) == py->tls_base;
}

/* In all versions the pointer to the interpreter lies behind next in a thread state. */
static __always_inline bool tstate_is_of(struct python_scratch *py, __u64 interpreter)
{
	return tstate_u64(py, py->layout.tstate_next + 8) == interpreter;
}

/* One step through the thread states of all interpreters; newest interpreter first. */
static long thread_step(__u32 i, struct reader_ctx *ctx)
{
	struct python_scratch *py = &ctx->r->py;
	__u64 interpreter = py->list_interpreter;
	__u32 at;

	if (!py->list_at) {
		if (!interpreter || py->nr_interpreters >= MAX_INTERPRETERS) {
			py->list_steps = 0; /* reached the end */
			return 1;
		}
		py->nr_interpreters++;
		py->list_owner = interpreter;
		py->list_interpreter = 0;
		if (user_u64(interpreter + py->layout.interpreter_threads, &py->list_at))
			py->list_at = 0;
		if (py->nr_interpreters == 1)
			py->list_head = py->list_at;
		if (user_u64(interpreter + py->layout.interpreter_next, &py->list_interpreter))
			py->list_interpreter = 0;
		return 0;
	}
	/* If this is no thread state of the interpreter, the list leads nowhere. */
	if (tstate_read(py, py->list_at) || !tstate_is_of(py, py->list_owner)) {
		py->list_torn = 1;
		py->list_at = 0;
		return 0;
	}
	if (!tstate_is_ours(py)) {
		py->list_at = tstate_u64(py, py->layout.tstate_next);
		return 0;
	}
	at = py->nr_tstates;
	if (at < MAX_TSTATES) {
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
 * Is the thread state in py->tstate in the list of its interpreter? Freed memory keeps its
 * contents, with the number of the thread. In all versions prev lies before next.
 */
static __always_inline bool tstate_is_linked(struct python_scratch *py, __u64 tstate,
					     __u64 interpreter)
{
	__u32 at = py->layout.tstate_next;
	__u64 next = tstate_u64(py, at), prev = tstate_u64(py, at - 8), back = 0;

	if (next)
		user_u64(next + at - 8, &back);
	else
		user_u64(prev ? prev + at : interpreter + py->layout.interpreter_threads, &back);
	return back == tstate;
}

/*
 * The last known thread state of the thread, if it is still its own: a C thread that calls Python
 * gets a new one with each call. The current thread state of the runtime is valid for sure; without
 * the GIL the thread may have entered another interpreter.
 */
static __always_inline bool tstate_cached(struct unwind_reader *r, const struct cached_thread *slot)
{
	struct python_scratch *py = &r->py;
	__u64 newest = 0;

	if (tstate_read(py, slot->tstate) || !tstate_is_ours(py))
		return false;
	gil_note(r, slot->tstate);
	if (r->rec.sample.python_flags & BPFPROF_PYTHON_GIL_HELD && py->layout.runtime_current)
		return true;
	if (!tstate_is_linked(py, slot->tstate, slot->interpreter)) {
		r->rec.sample.python_flags &= ~(BPFPROF_PYTHON_GIL_KNOWN | BPFPROF_PYTHON_GIL_HELD);
		return false;
	}
	if (r->rec.sample.python_flags & BPFPROF_PYTHON_GIL_HELD)
		return true;
	return !user_u64(py->runtime + py->layout.runtime_interpreters, &newest) &&
	       newest == slot->interpreter;
}

/* May a thread without a thread state have one by now? New ones come to the head of the list. */
static __always_inline bool tstate_is_possible(struct python_scratch *py,
					       const struct cached_thread *slot, __u64 now)
{
	__u64 newest = 0, head = 0;

	if (now < slot->walk_ns)
		return false;
	if (now >= slot->recheck_ns ||
	    user_u64(py->runtime + py->layout.runtime_interpreters, &newest) ||
	    newest != slot->interpreter ||
	    user_u64(newest + py->layout.interpreter_threads, &head) || head != slot->head)
		return true;
	return !tstate_read(py, head) && tstate_is_ours(py);
}

/*
 * The thread state that took the GIL last, if it belongs to this thread. In lists too long to walk,
 * this still finds the threads that run Python. It stays the last one until another thread takes
 * the GIL.
 */
static __noinline int tstate_of_holder(struct unwind_reader *r)
{
	struct python_scratch *py = &r->py;
	__u64 gil = py->runtime + py->layout.gil, interpreter = 0, tstate = 0;

	if (!py->layout.gil || py->layout.free_threaded ||
	    user_u64(py->runtime + py->layout.runtime_interpreters, &interpreter))
		return 0;
	if (py->layout.version >= 0x30c && user_u64(interpreter + py->layout.gil, &gil))
		return 0;
	if (user_u64(gil + py->layout.gil_holder, &tstate) || !tstate || tstate_read(py, tstate) ||
	    !tstate_is_ours(py) || !tstate_is_linked(py, tstate, interpreter))
		return 0;
	py->tstates[0] = tstate;
	py->nr_tstates = 1;
	return 0;
}

/* Puts the thread states of the interrupted thread into py->tstates. */
static __noinline int tstates_find(struct unwind_reader *r)
{
	struct python_scratch *py = &r->py;
	struct reader_ctx ctx = { .r = r };
	__u32 tid = r->rec.sample.task.tid;
	struct cached_thread *slot =
		&py->threads[(tid + py->nth * RUNTIME_SLOTS) & (THREAD_SLOTS - 1)];
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
		if (slot->is_cut)
			tstate_of_holder(r);
		if (py->nr_tstates)
			return 0;
		if (!slot->tstate && !tstate_is_possible(py, slot, now)) {
			if (slot->is_cut)
				py->stop = PYTHON_STOP_THREADS;
			return 0;
		}
	}
	if (user_u64(py->runtime + py->layout.runtime_interpreters, &newest) || !newest)
		return 0; /* the runtime has not begun */
	py->list_at = 0;
	py->list_interpreter = newest;
	py->list_head = 0;
	py->list_steps = 1;
	py->list_torn = 0;
	py->nr_interpreters = 0;
	steps = bpf_loop(MAX_THREAD_STEPS, thread_step, &ctx, 0);
	slot->is_cut = py->list_steps;
	if (py->list_steps && !py->nr_tstates) {
		py->nr_interpreters = 1; /* py->tstate is the thread state just found */
		tstate_of_holder(r);
		if (!py->nr_tstates)
			py->stop = PYTHON_STOP_THREADS;
	}
	/*
	 * With several interpreters, a thread may enter another one at any time. A list that
	 * changed during the walk does not prove that a thread has no state.
	 */
	slot->tid = py->nr_interpreters > 1 || (py->list_torn && !py->nr_tstates) ? 0 : tid;
	slot->python = py->id;
	slot->interpreter = newest;
	slot->head = py->list_head;
	slot->walk_ns = now + steps * THREAD_STEP_NS;
	slot->recheck_ns = slot->walk_ns + THREAD_RECHECK_NS;
	slot->tstate = py->nr_tstates ? py->tstates[0] : 0;
	return 0;
}

#endif
