/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_STREAMS_BPF_H
#define BPFPROF_BPF_GPU_STREAMS_BPF_H

/*
 * Streams of a process and the progress of their work. Times stand for work: everything put on a
 * stream until done_ns is done. From this follow the completion of collectives, which is sent to
 * user space proof by proof, and the idle times of the device.
 *
 * Launching threads write work_ns, waiting ones done_ns. Threads that write at the same time may
 * lose the older of two times; a later proof corrects that. gpu/waits.bpf.h finds the proofs.
 *
 * A stream may wait for an event of another one. Proof that it went on proves the other one's work,
 * too, and the work that the other one has waited for.
 */

#include "gpu/kernels.bpf.h"

#define WAITS_NONE 0xffffffffU /* of a thread: no room */
#define STREAM_PROBES 8
#define STREAM_LEGACY 1 /* CU_STREAM_LEGACY, equal to stream 0 */
#define STREAM_PER_THREAD 2

/*
 * Sends the owner of an element, so that user space can free it; not every owner makes counted
 * calls.
 */
static __noinline int waits_report(const struct bpfprof_gpu_thread *t)
{
	struct bpfprof_gpu_key key = { .start_ns = t->start_ns, .pid = t->pid };

	if (key_send(&key, 0, BPFPROF_CALL_ENTRY))
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
	return taken ? waits_report(t) : 0;
}

/*
 * The element of the thread's process; NULL: it has put no work on a stream, or there was no room.
 */
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

/* As waits_of(), for a thread that puts work on a stream; takes an element if needed. */
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

/* Adds a stream in the place of an idle one; NULL: all have work. */
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

/* Work is put on a stream. */
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

/* The device gets work: ends the gap. Returns its length without copies to the device in it. */
static __always_inline __u64 gap_end(struct bpfprof_gpu_waits *p, __u64 now, __u64 *ret_idle_ns)
{
	__u64 idle_ns = __sync_lock_test_and_set(&p->idle_ns, 0);
	__u64 copy_ns = p->idle_copy_ns, gap_ns;

	if (!idle_ns || idle_ns >= now)
		return 0;
	gap_ns = now - idle_ns;
	if (copy_ns > gap_ns) /* copies of several threads overlap */
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

/* The device of the process becomes idle, or its wanted work has ended. */
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
 * Begins a gap if the device of the process becomes idle. A thread that only queries the progress
 * may not be the one that launches next.
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
	/* A launch of another thread, which may not have seen the idle time. */
	if (p->work_ns >= now)
		p->idle_ns = 0;
	else
		span_end(p, now);
	return 0;
}

/* Work put on a stream until until_ns is done; at running_ns it was not. True: that is new. */
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

/* One round covers all waits of all streams. */
#define FOLLOW_STEPS (BPFPROF_GPU_MAX_STREAMS * BPFPROF_GPU_MAX_AFTER)
#define FOLLOW_ROUNDS 4 /* a stream may wait for one that waits for another one, and so on */

struct follow {
	struct bpfprof_gpu_thread *t;
	struct bpfprof_gpu_waits *p;
	__u64 changed; /* in this round, new work is known to be done */
	__u64 left; /* some stream still waits */
};

/* One wait of a stream for another one: derives the progress of each from the other's. */
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
		/* The stream went on, so its wait has ended. */
		after->wait_ns = 0;
		if (stream_prove(f->t, on, until_ns, 0))
			f->changed = 1;
	} else if (s->done_ns >= before_ns && (!on || on->done_ns >= until_ns)) {
		/*
		 * All work before the wait is done, and the event is reached: so the wait has
		 * ended.
		 */
		after->wait_ns = 0;
		s->done_ns = wait_ns;
		f->changed = 1;
	} else {
		f->left = 1;
	}
}

/* Follows one wait of one stream; a step of bpf_loop. */
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

/*
 * Some work is done: derives the progress of streams that wait for each other. Not static: see
 * gpu/waits.bpf.h.
 */
__noinline int waits_follow(struct bpfprof_gpu_thread *t, struct bpfprof_gpu_waits *p)
{
	struct follow f = { .t = t, .p = p };

	if (!t || !p)
		return 0;
	bpf_loop(FOLLOW_ROUNDS * FOLLOW_STEPS, follow_one, &f, 0);
	return 0;
}

/* As stream_prove(), with all consequences. */
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

/*
 * Notes that all work put on any stream until until_ns is done. Does nothing for a process with
 * several devices: a context belongs to one device, and the device of a stream is not known.
 */
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
