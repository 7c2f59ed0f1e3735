/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_STREAMS_BPF_H
#define BPFPROF_BPF_GPU_STREAMS_BPF_H

/*
 * Streams of a process, and what of their work is done. Times stand for work: what was put on a stream until
 * done_ns is done. From this comes when collectives are complete, which is told to user space proof by
 * proof, and since when the device of a process has nothing to do.
 *
 * Who launches writes work_ns, who waits done_ns; threads that do so at once may lose the older of
 * two times, which a later proof makes good. gpu/waits.bpf.h finds the proofs.
 *
 * A stream may wait for an event that another one records. Proof that it went on is proof of the other
 * one's work, too, and of what that has waited for.
 */

#include "gpu/kernels.bpf.h"

#define WAITS_NONE 0xffffffffU /* of a thread: there was no room */
#define STREAM_PROBES 8
#define STREAM_LEGACY 1 /* CU_STREAM_LEGACY: the same as 0 */
#define STREAM_PER_THREAD 2

/* Whoever has an element is to be known, or nobody would take it back: not all who have make calls that count. */
static __noinline int waits_tell(const struct bpfprof_gpu_thread *t)
{
	struct bpfprof_gpu_key key = { .start_ns = t->start_ns, .pid = t->pid };

	if (key_tell(&key, 0, BPFPROF_CALL_ENTRY))
		gpu_count(GPU_COUNT_EVENTS_LOST);
	return 0;
}

/* Finds the element of the thread's process, or takes one for it. */
__noinline int waits_seek(struct bpfprof_gpu_thread *t, bool take)
{
	struct bpfprof_gpu_waits *p;
	bool taken = false;
	__u32 i, at;

	for (i = 0; t && i < BPFPROF_GPU_MAX_WAITS; i++) {
		at = (t->pid + i) % BPFPROF_GPU_MAX_WAITS;
		p = bpf_map_lookup_elem(&gpu_waits, &at);
		if (!p)
			break;
		if (take && !p->start_ns &&
		    !__sync_val_compare_and_swap(&p->start_ns, 0, t->start_ns)) {
			p->pid = t->pid;
			taken = true;
		}
		if (p->start_ns == t->start_ns && p->pid == t->pid) {
			t->waits = at + 1;
			break;
		}
	}
	if (!t || !t->waits)
		return -1;
	return taken ? waits_tell(t) : 0;
}

/* Of the thread's process; NULL: it has put nothing on a stream, or there was no room for it. */
static __always_inline struct bpfprof_gpu_waits *waits_of(struct bpfprof_gpu_thread *t)
{
	struct bpfprof_gpu_waits *p;
	__u32 index;

	if (!t->waits && waits_seek(t, false))
		return NULL;
	index = t->waits - 1;
	p = bpf_map_lookup_elem(&gpu_waits, &index);
	return p && p->start_ns == t->start_ns ? p : NULL;
}

/* The same of a thread that puts something on a stream. */
static __always_inline struct bpfprof_gpu_waits *waits_take(struct bpfprof_gpu_thread *t)
{
	if (!t->waits && waits_seek(t, false) && waits_seek(t, true)) {
		gpu_count(GPU_COUNT_WAITS_FULL);
		t->waits = WAITS_NONE;
	}
	return waits_of(t);
}

static __always_inline __u64 stream_key(const struct bpfprof_gpu_function *f, __u64 stream)
{
	if (stream == STREAM_PER_THREAD || (!stream && f->per_thread))
		return bpf_get_current_pid_tgid() << 32 | STREAM_PER_THREAD;
	return stream == STREAM_LEGACY ? 0 : stream;
}

static __always_inline struct bpfprof_gpu_stream *stream_at(struct bpfprof_gpu_waits *p,
							    __u64 stream, __u32 probe)
{
	__u64 hash = stream * 0x9e3779b97f4a7c15ULL >> 32;

	return &p->streams[(hash + probe) & (BPFPROF_GPU_MAX_STREAMS - 1)];
}

static __always_inline struct bpfprof_gpu_stream *stream_find(struct bpfprof_gpu_waits *p,
							      __u64 stream)
{
	struct bpfprof_gpu_stream *s;
	__u32 i;

	for (i = 0; i < STREAM_PROBES; i++) {
		s = stream_at(p, stream, i);
		if (s->work_ns && s->stream == stream)
			return s;
	}
	return NULL;
}

/* In the place of one that has nothing to do; NULL: all have. */
static __noinline struct bpfprof_gpu_stream *stream_add(struct bpfprof_gpu_waits *p, __u64 stream,
							__u64 now)
{
	struct bpfprof_gpu_stream *s;
	__u32 i;

	for (i = 0; i < STREAM_PROBES; i++) {
		s = stream_at(p, stream, i);
		if (s->work_ns > s->done_ns)
			continue;
		s->stream = stream;
		s->collective_ns = 0;
		s->done_ns = 0;
		s->running_ns = 0;
		__builtin_memset(s->after, 0, sizeof(s->after));
		s->work_ns = now;
		return s;
	}
	gpu_count(GPU_COUNT_STREAMS_FULL);
	p->lost_ns = now;
	return NULL;
}

/* Something is put on a stream. */
static __always_inline struct bpfprof_gpu_stream *stream_use(struct bpfprof_gpu_waits *p,
							     __u64 stream, __u64 now)
{
	struct bpfprof_gpu_stream *s = stream_find(p, stream);

	p->work_ns = now;
	if (!s)
		return stream_add(p, stream, now);
	s->work_ns = now;
	return s;
}

/* The device has work again. How long it had none, without what was copied to it meanwhile. */
static __always_inline __u64 gap_end(struct bpfprof_gpu_waits *p, __u64 now, __u64 *ret_idle_ns)
{
	__u64 idle_ns = __sync_lock_test_and_set(&p->idle_ns, 0);
	__u64 copy_ns = p->idle_copy_ns, gap_ns;

	if (!idle_ns || idle_ns >= now)
		return 0;
	gap_ns = now - idle_ns;
	if (copy_ns > gap_ns) /* of several threads at once */
		copy_ns = gap_ns;
	gap_ns -= copy_ns;
	__sync_fetch_and_add(&p->gaps, 1);
	__sync_fetch_and_add(&p->device_idle_ns, gap_ns);
	__sync_fetch_and_add(&p->device_idle_copy_ns, copy_ns);
	if (gap_ns > p->device_idle_max_ns)
		p->device_idle_max_ns = gap_ns;
	p->launch_tid = (__u32)bpf_get_current_pid_tgid();
	*ret_idle_ns = idle_ns;
	return gap_ns;
}

/* From now on the device of the process has nothing to do, or nothing of what was asked for. */
static __always_inline void span_end(struct bpfprof_gpu_waits *p, __u64 now)
{
	__u64 span_ns = __sync_lock_test_and_set(&p->span_ns, 0);

	if (!span_ns || span_ns >= now)
		return;
	__sync_fetch_and_add(&p->spans, 1);
	__sync_fetch_and_add(&p->spans_ns, now - span_ns);
	if (now - span_ns > p->span_max_ns)
		p->span_max_ns = now - span_ns;
}

static __noinline int wait_send(struct bpfprof_gpu_thread *t, __u64 kind_and_flags, __u64 stream,
				__u64 until_ns, __u64 running_ns)
{
	struct bpfprof_gpu_wait *e = NULL;

	if (!cfg.gpu_waits)
		return 0;
	if (ring_has_room())
		e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e) {
		gpu_count(GPU_COUNT_WAITS_LOST);
		return 0;
	}
	record_fill(&e->rec, BPFPROF_KIND_GPU_WAIT, sizeof(*e));
	task_id_fill(&e->task, bpf_get_current_task_btf());
	e->kind = (__u32)kind_and_flags;
	e->flags = kind_and_flags >> 32;
	e->stream = stream;
	e->until_ns = until_ns;
	e->running_ns = running_ns;
	e->now_ns = e->rec.ts_ns;
	e->call = t->call;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * Has the device of the process nothing to do from now on? Who asks whether something is done may only
 * look after others.
 */
static __noinline int idle_begin(struct bpfprof_gpu_thread *t, struct bpfprof_gpu_waits *p)
{
	__u32 function = t->call.key.function, i;
	struct bpfprof_gpu_function *f = bpf_map_lookup_elem(&gpu_functions, &function);
	bool waited = f && f->kind == GPU_KIND_SYNC;
	__u64 now = bpf_ktime_get_ns();
	struct bpfprof_gpu_stream *s;

	if (p->idle_ns || !p->work_ns || p->lost_ns > p->all_done_ns)
		return 0;
	for (i = 0; i < BPFPROF_GPU_MAX_STREAMS; i++) {
		s = &p->streams[i];
		if (s->work_ns > s->done_ns)
			return 0;
	}
	p->idle_copy_ns = 0;
	p->idle_tid = waited || !p->launch_tid ? (__u32)bpf_get_current_pid_tgid() : p->launch_tid;
	p->idle_ns = now;
	if (p->work_ns >= now) /* another thread's launch, which may not have seen it */
		p->idle_ns = 0;
	else
		span_end(p, now);
	return 0;
}

/* What was put on a stream until a time is done; running_ns: until then it was not. Is that new? */
static __always_inline bool stream_prove(struct bpfprof_gpu_thread *t, struct bpfprof_gpu_stream *s,
					 __u64 until_ns, __u64 running_ns)
{
	__u64 before_ns;

	if (!s || until_ns <= s->done_ns)
		return false;
	before_ns = s->done_ns;
	s->done_ns = until_ns;
	if (s->collective_ns > before_ns)
		wait_send(t, GPU_WAIT_DONE, s->stream, until_ns, running_ns);
	return true;
}

#define FOLLOW_STEPS                                                                               \
	(BPFPROF_GPU_MAX_STREAMS * BPFPROF_GPU_MAX_AFTER) /* a round over all of them */
#define FOLLOW_ROUNDS 4 /* streams that wait for one that waits for one ... */

struct follow {
	struct bpfprof_gpu_thread *t;
	struct bpfprof_gpu_waits *p;
	__u64 changed; /* in this round: something is done that was not known to be */
	__u64 left; /* something still waits */
};

/* One wait of a stream for another one: what follows from what of the two is known. */
static __always_inline void follow(struct follow *f, struct bpfprof_gpu_stream *s,
				   volatile struct bpfprof_gpu_after *after)
{
	__u64 wait_ns = after->wait_ns, until_ns = after->until_ns, before_ns = after->before_ns;
	struct bpfprof_gpu_stream *on;

	if (!wait_ns || !s->work_ns)
		return;
	on = stream_find(f->p, after->stream);
	if (after->wait_ns != wait_ns) /* another thread is writing it */
		return;
	if (s->done_ns >= wait_ns) {
		/* It went on: what it has waited for is done. */
		after->wait_ns = 0;
		if (stream_prove(f->t, on, until_ns, 0))
			f->changed = 1;
	} else if (s->done_ns >= before_ns && (!on || on->done_ns >= until_ns)) {
		/* All before the wait is done, and what it waits for: so is the wait itself. */
		after->wait_ns = 0;
		s->done_ns = wait_ns;
		f->changed = 1;
	} else {
		f->left = 1;
	}
}

/* A step of bpf_loop. */
static long follow_one(__u32 i, struct follow *f)
{
	struct bpfprof_gpu_stream *s = &f->p->streams[i & (BPFPROF_GPU_MAX_STREAMS - 1)];

	follow(f, s, &s->after[(i / BPFPROF_GPU_MAX_STREAMS) & (BPFPROF_GPU_MAX_AFTER - 1)]);
	if ((i & (FOLLOW_STEPS - 1)) != FOLLOW_STEPS - 1)
		return 0;
	if (!f->changed) {
		if (!f->left)
			f->p->follows = 0;
		return 1;
	}
	f->changed = 0;
	f->left = 0;
	return 0;
}

/* Something is done: what follows from that, where streams wait for each other. Not static: see gpu/waits.bpf.h. */
__noinline int waits_follow(struct bpfprof_gpu_thread *t, struct bpfprof_gpu_waits *p)
{
	struct follow f = { .t = t, .p = p };

	if (!t || !p)
		return 0;
	bpf_loop(FOLLOW_ROUNDS * FOLLOW_STEPS, follow_one, &f, 0);
	return 0;
}

/* The same as stream_prove(), with all that follows. */
__noinline int stream_done(struct bpfprof_gpu_thread *t, __u64 stream, __u64 until_ns,
			   __u64 running_ns)
{
	struct bpfprof_gpu_waits *p = t ? waits_of(t) : NULL;

	if (!p || !stream_prove(t, stream_find(p, stream), until_ns, running_ns))
		return 0;
	if (p->follows)
		waits_follow(t, p);
	return idle_begin(t, p);
}

/* A context is one of a device, and which streams are of another one is not known. */
__noinline int all_done(struct bpfprof_gpu_thread *t, __u64 until_ns, __u64 running_ns)
{
	struct bpfprof_gpu_waits *p = t ? waits_of(t) : NULL;
	bool collectives = false;
	struct bpfprof_gpu_stream *s;
	__u32 i;

	if (!p || p->devices)
		return 0;
	p->all_done_ns = until_ns;
	for (i = 0; i < BPFPROF_GPU_MAX_STREAMS; i++) {
		s = &p->streams[i];
		if (!s->work_ns || s->done_ns >= until_ns)
			continue;
		collectives |= s->collective_ns > s->done_ns;
		s->done_ns = until_ns;
	}
	if (collectives)
		wait_send(t, GPU_WAIT_ALL_DONE, 0, until_ns, running_ns);
	return idle_begin(t, p);
}

#endif
