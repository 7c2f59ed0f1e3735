/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_PYTHON_AWAITERS_BPF_H
#define BPFPROF_BPF_PYTHON_AWAITERS_BPF_H

/*
 * With cfg.async: the tasks of asyncio that await the one that the interrupted thread runs. They are walked at the
 * moment of the sample, because tasks end within milliseconds. Without it the verifier drops all of this.
 */
#include "python/codes.bpf.h"

static __always_inline int await_frame(struct unwind_reader *r, __u64 code, __u32 lasti, __u64 *ret)
{
	*ret = python_frame_make(r, code, lasti);
	return *ret ? 0 : -1;
}

#include "unwind_awaiters.h"

/* At the index of the runtime in the map pythons. Writer: user space. Size set at load. */
ARRAY_MAP(asyncs, 1, struct bpfprof_async);

/* Looks at the next running task of the process; a step of bpf_loop. */
static long candidate_take(__u32 i, struct reader_ctx *ctx)
{
	struct await_walk *w = &ctx->r->awaits;
	__u64 task = 0;

	await_u64(ctx->r, w->source.at, &task);
	w->source.at += w->source.stride;
	if (task)
		await_candidate(w, ctx->r, task);
	return w->cut != 0;
}

static long await_walk_step(__u32 i, struct reader_ctx *ctx)
{
	struct unwind_reader *r = ctx->r;
	int stop = await_step(&r->awaits, &r->py.layout, r, r->py.frame);

	if (stop)
		r->awaits.stop = stop;
	return stop != 0;
}

/* Finds the running tasks of the process, before the walk of the thread's chain. */
static __always_inline void awaits_prepare(struct reader_ctx *ctx, __u64 tstate)
{
	struct unwind_reader *r = ctx->r;
	struct await_walk *w = &r->awaits;
	__u64 task = 0;

	w->nr_candidates = 0;
	w->cut = 0;
	if (!w->a.id || r->rec.sample.await_at)
		return;
	if (!w->a.current) {
		await_u64(r, tstate + w->a.thread_task, &task);
		if (task)
			await_candidate(w, r, task);
	} else if (!await_running(w, r)) {
		bpf_loop(w->source.left, candidate_take, ctx, 0);
	}
	if (!w->nr_candidates)
		return;
	w->stop = 0;
	await_frames_begin(w);
	bpf_loop(AWAIT_RUNNING_STEPS, await_walk_step, ctx, 0);
	if (!w->stop)
		w->cut = 1;
}

/* Has the walk reached the coroutine of a running task? Then this thread runs it. */
static __always_inline void awaits_note(struct unwind_reader *r, __u64 frame)
{
	struct await_walk *w = &r->awaits;
	__u32 i;

	if (!w->nr_candidates || r->rec.sample.await_at)
		return;
	for (i = 0; i < AWAIT_CANDIDATES; i++) {
		if (i >= w->nr_candidates)
			return;
		if (w->frames[i] != frame)
			continue;
		w->task = w->tasks[i];
		r->rec.sample.await_at = r->rec.sample.nr_python;
		return;
	}
}

/* Walks the tasks that await the running one, after the walk of the thread's chain. */
static __always_inline void awaits_walk(struct reader_ctx *ctx)
{
	struct bpfprof_sample *s = &ctx->r->rec.sample;
	struct await_walk *w = &ctx->r->awaits;

	/* This thread may run one of these tasks, or one that was left out. */
	if (!s->await_at && w->nr_framed < w->nr_candidates)
		s->await_stop = AWAIT_STOP_NO_FRAME;
	if (!s->await_at && w->cut)
		s->await_stop = AWAIT_STOP_SEARCH;
	if (!s->await_at || s->await_stop)
		return;
	w->stop = AWAIT_STOP_SEARCH; /* unless it ends before */
	await_begin(w, ctx->r, w->task);
	bpf_loop(AWAIT_STEPS, await_walk_step, ctx, 0);
	s->await_stop = w->stop;
	s->await_flags = w->flags;
	s->nr_awaiters = w->nr;
}

/* Before the thread states of a runtime: takes what user space has found in it. */
static __always_inline void awaits_begin(struct unwind_reader *r, __u32 slot)
{
	struct bpfprof_async *a = bpf_map_lookup_elem(&asyncs, &slot);

	r->awaits.a.id = 0;
	if (a && a->id == r->py.id)
		r->awaits.a = *a;
}

#endif
