/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_WAITS_BPF_H
#define BPFPROF_BPF_GPU_WAITS_BPF_H

/*
 * When what a process handed to the device is done: it says so itself, by waiting or asking for a
 * stream, or for an event that it recorded behind its work. Times stand for work: what was put on a
 * stream until done_ns is done. From this comes when collectives are complete, which is
 * told to user space proof by proof, and since when the device of a process has nothing to do.
 *
 * Who launches writes work_ns, who waits done_ns; threads that do so at once may lose the older of
 * two times, which a later proof makes good. For gpu.bpf.c only, which has the helpers.
 *
 * A stream may wait for an event that another one records. Proof that it went on is proof of the other
 * one's work, too, and of what that has waited for.
 *
 * With steps, calls outside of them are followed all the same, or what they leave on a stream would
 * pass for nothing to do; but no collective of theirs is told, and no gap that they end.
 */

#include "gpu_calls.h"

#define WAITS_NONE 0xffffffffU /* of a thread: there was no room */
#define STREAM_PROBES 8
#define STREAM_LEGACY 1 /* CU_STREAM_LEGACY: the same as 0 */
#define STREAM_PER_THREAD 2
#define EVENT_RECORD_EXTERNAL 1 /* CU_EVENT_RECORD_EXTERNAL */
#define RESULT_NOT_READY 600 /* CUDA_ERROR_NOT_READY */
#define RESULT_IN_PROGRESS 7 /* ncclInProgress: of communicators that do not block */
#define WAITED_NS 100000 /* a synchronization that took longer returned when the work was done */

/* Writer: BPF; user space deletes those of processes that are gone. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bpfprof_gpu_event_key);
	__type(value, struct bpfprof_gpu_recorded);
} gpu_events SEC(".maps");

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
	__sync_fetch_and_add(&p->starved_ns, gap_ns);
	__sync_fetch_and_add(&p->starved_copy_ns, copy_ns);
	if (gap_ns > p->starved_max_ns)
		p->starved_max_ns = gap_ns;
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

/*
 * Is the thread's launch written down only? Then without its grid and block: a server captures all that
 * it launches once for each of many batch sizes, and would leave no keys for what runs.
 */
static __always_inline bool capture_launch(struct bpfprof_gpu_thread *t,
					   struct bpfprof_gpu_waits *p, __u64 stream)
{
	struct bpfprof_gpu_capture *c = capture_note(t, p, stream);

	if (!c)
		return false;
	__builtin_memset(t->call.key.dims, 0, sizeof(t->call.key.dims));
	capture_node(t, c);
	return true;
}

/* The same of what else a stream may be given; of a collective its kernel is the node. */
__noinline int capture_enqueued(struct bpfprof_gpu_thread *t, const struct bpfprof_gpu_function *f)
{
	struct bpfprof_gpu_capture *c;

	if (!t || !f)
		return 0;
	c = capture_note(t, waits_of(t), stream_key(f, t->call.key.stream));
	if (c && f->kind != GPU_KIND_COLLECTIVE)
		capture_node(t, c);
	return 0;
}

/* A kernel or a graph is launched. How long the device had nothing to do before. */
__noinline __u64 waits_launch(struct bpfprof_gpu_thread *t, const struct bpfprof_gpu_function *f)
{
	struct bpfprof_gpu_waits *p = t && f ? waits_take(t) : NULL;
	struct bpfprof_gpu_stream *s;
	__u64 stream;

	if (!p)
		return 0;
	stream = stream_key(f, t->call.key.stream);
	if (capture_launch(t, p, stream))
		return 0;
	s = stream_use(p, stream, t->call.begin_ns);
	if (t->call.flags & BPFPROF_CALL_OUTSIDE) { /* nobody starved in what was asked for */
		p->idle_ns = 0;
		if (p->span_ns)
			span_end(p, t->call.begin_ns);
		return 0;
	}
	if (!p->span_ns)
		p->span_ns = t->call.begin_ns;
	if (s && t->grouped) /* the end of the group, which puts them on their streams */
		s->collective_ns = t->call.begin_ns;
	return p->idle_ns ? gap_end(p, t->call.begin_ns, &t->call.idle_ns) : 0;
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

/*
 * Something is done: what follows from that, where streams wait for each other. This and others below
 * are not static, or the verifier would go through them for each caller.
 */
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

static __always_inline void event_key(struct bpfprof_gpu_event_key *key,
				      const struct bpfprof_gpu_thread *t, __u64 event)
{
	key->start_ns = t->start_ns;
	key->event = event;
	key->pid = t->pid;
	key->pad = 0;
}

__noinline int event_forget(struct bpfprof_gpu_thread *t, __u64 event)
{
	struct bpfprof_gpu_waits *p = t ? waits_of(t) : NULL;
	struct bpfprof_gpu_event_key key;

	if (!p)
		return 0;
	event_key(&key, t, event);
	if (!bpf_map_delete_elem(&gpu_events, &key))
		__sync_fetch_and_sub(&p->events, 1);
	return 0;
}

/* Only behind work that is not known to be done an event will tell something. */
__noinline int event_record(struct bpfprof_gpu_thread *t, __u64 event, __u64 stream, bool external)
{
	struct bpfprof_gpu_waits *p = t ? waits_of(t) : NULL;
	struct bpfprof_gpu_recorded fresh = { .stream = stream }, *e;
	struct bpfprof_gpu_event_key key;
	struct bpfprof_gpu_stream *s;

	if (!p)
		return 0;
	fresh.ts_ns = t->call.begin_ns;
	s = stream_find(p, stream);
	if (p->capturing && capture_find(p, stream)) {
		if (external)
			return event_forget(t, event);
		fresh.ts_ns = 0;
	} else if (!s || s->work_ns <= s->done_ns) {
		return event_forget(t, event);
	}
	event_key(&key, t, event);
	e = bpf_map_lookup_elem(&gpu_events, &key);
	if (e) {
		*e = fresh;
	} else if (p->events >= BPFPROF_GPU_MAX_EVENTS ||
		   bpf_map_update_elem(&gpu_events, &key, &fresh, BPF_NOEXIST)) {
		gpu_count(GPU_COUNT_EVENTS_FULL);
		if (!fresh.ts_ns)
			capture_blur(p);
	} else {
		__sync_fetch_and_add(&p->events, 1);
	}
	return 0;
}

/* An event was asked for or waited for, from begin_ns on: it is reached, or not yet. */
__noinline int event_told(struct bpfprof_gpu_thread *t, __u64 event, __u64 begin_ns, bool reached,
			  __u64 running_ns)
{
	struct bpfprof_gpu_recorded *e;
	struct bpfprof_gpu_event_key key;

	if (!t)
		return 0;
	event_key(&key, t, event);
	e = bpf_map_lookup_elem(&gpu_events, &key);
	if (!e)
		return 0;
	if (!reached) {
		e->running_ns = begin_ns;
		return 0;
	}
	stream_done(t, e->stream, e->ts_ns, running_ns ? running_ns : e->running_ns);
	return event_forget(t, event);
}

/* A place for one more; of what there is no room for a later wait for the same stream may tell. */
static __always_inline struct bpfprof_gpu_after *after_take(struct bpfprof_gpu_stream *s,
							    __u64 stream)
{
	struct bpfprof_gpu_after *after = NULL;
	__u32 i;

	for (i = 0; i < BPFPROF_GPU_MAX_AFTER; i++) {
		after = &s->after[i];
		if (!after->wait_ns || after->wait_ns <= s->done_ns)
			return after;
	}
	/* The last one: those before it are reached earlier. */
	if (after->stream != stream)
		gpu_count(GPU_COUNT_AFTER_FULL);
	return after;
}

/* A stream was told, by a call from begin_ns on, to wait for an event. */
__noinline int stream_waits(struct bpfprof_gpu_thread *t, __u64 stream, __u64 event, __u64 begin_ns)
{
	struct bpfprof_gpu_waits *p = t ? waits_of(t) : NULL;
	volatile struct bpfprof_gpu_after *after;
	__u64 now = bpf_ktime_get_ns(), before_ns;
	struct bpfprof_gpu_event_key key;
	struct bpfprof_gpu_recorded *e;
	struct bpfprof_gpu_stream *s, *on;

	if (!p)
		return 0;
	event_key(&key, t, event);
	e = bpf_map_lookup_elem(&gpu_events, &key);
	/* Which of two records it waits for is not known if one was made meanwhile. */
	if (!e || e->stream == stream || e->ts_ns > begin_ns)
		return 0;
	if (!e->ts_ns)
		return capture_join(p, stream, e->stream);
	if (p->capturing && capture_find(p, stream))
		return 0;
	on = stream_find(p, e->stream);
	if (!on || on->done_ns >= e->ts_ns)
		return 0;
	s = stream_find(p, stream);
	before_ns = s ? s->work_ns : 0;
	s = stream_use(p, stream, now);
	if (!s)
		return 0;
	after = after_take(s, e->stream);
	after->wait_ns = 0;
	after->stream = e->stream;
	after->until_ns = e->ts_ns;
	after->before_ns = before_ns;
	after->wait_ns = now;
	p->follows = 1;
	return 0;
}

__noinline int stream_told(struct bpfprof_gpu_thread *t, __u64 stream, __u64 begin_ns, bool reached,
			   __u64 running_ns)
{
	struct bpfprof_gpu_waits *p = t ? waits_of(t) : NULL;
	struct bpfprof_gpu_stream *s = p ? stream_find(p, stream) : NULL;

	if (p && p->capturing) /* one that is captured does not tell */
		capture_drop(t, p, stream);
	if (!s)
		return 0;
	if (reached)
		return stream_done(t, stream, begin_ns, running_ns ? running_ns : s->running_ns);
	s->running_ns = begin_ns;
	return 0;
}

__noinline int stream_end(struct bpfprof_gpu_thread *t, __u64 stream)
{
	struct bpfprof_gpu_waits *p = t ? waits_of(t) : NULL;
	struct bpfprof_gpu_stream *s = p ? stream_find(p, stream) : NULL;

	if (p && p->capturing)
		capture_drop(t, p, stream);
	if (!s)
		return 0;
	if (s->collective_ns > s->done_ns)
		wait_send(t, GPU_WAIT_STREAM_END, stream, 0, 0);
	/* What is on it runs to its end, but of that nothing can be known any more. */
	s->work_ns = 0;
	return 0;
}

/* What is hooked for this alone, when it begins. */
static __always_inline void waits_enter(struct pt_regs *ctx, const struct bpfprof_gpu_function *f,
					struct bpfprof_gpu_thread *t)
{
	struct bpfprof_gpu_waits *p;
	bool external;

	switch (f->kind) {
	case GPU_KIND_EVENT_RECORD:
		/* Of a captured stream it is recorded when the graph runs: who waits does not join. */
		external = f->extra && argument(ctx, f->extra) & EVENT_RECORD_EXTERNAL;
		event_record(t, argument(ctx, f->handle), stream_key(f, argument(ctx, f->stream)),
			     external);
		break;
	case GPU_KIND_EVENT_END:
		event_forget(t, argument(ctx, f->handle));
		break;
	case GPU_KIND_STREAM_END:
		stream_end(t, argument(ctx, f->stream));
		break;
	case GPU_KIND_CAPTURE_END:
		p = waits_of(t);
		if (p)
			graph_end(t, p, stream_key(f, argument(ctx, f->stream)));
		break;
	case GPU_KIND_CAPTURE_BEGIN:
		if (f->handle) /* to a graph that is there */
			graph_forget(t, waits_of(t), argument(ctx, f->handle));
		break;
	case GPU_KIND_GRAPH_COPY:
		if (!f->out) /* until it returns, which may not be seen */
			graph_take(t, waits_of(t), argument(ctx, f->extra));
		break;
	case GPU_KIND_GRAPH_END:
		graph_forget(t, waits_of(t), argument(ctx, f->handle));
		break;
	case GPU_KIND_GRAPH_CHANGE:
		p = waits_of(t);
		graph_forget(t, p, argument(ctx, f->handle));
		capture_blur(p); /* it may be one that is being captured */
		break;
	case GPU_KIND_GROUP_START:
		t->groups++;
		break;
	}
}

/* The return of what is hooked for this alone will not be seen. */
static __always_inline void waits_blur(const struct bpfprof_gpu_function *f,
				       struct bpfprof_gpu_thread *t)
{
	struct bpfprof_gpu_capture c = { .number = t->call.key.dims[0] };

	if (f->kind == GPU_KIND_STREAM_WAIT) /* it may have joined */
		capture_blur(waits_of(t));
	else if (f->kind == GPU_KIND_CAPTURE_END && c.number)
		graph_send(t, GPU_GRAPH_DROPPED, &c, 0);
}

/* A process that uses several devices has contexts of which we know nothing. */
static __always_inline void device_note(struct bpfprof_gpu_waits *p,
					const struct bpfprof_gpu_key *key)
{
	struct bpfprof_gpu_comm_key at = { .start_ns = key->start_ns,
					   .comm = key->handle,
					   .pid = key->pid };
	struct bpfprof_gpu_comm *comm = bpf_map_lookup_elem(&gpu_comms, &at);

	if (!comm || !comm->device || !comm->size || comm->rank >= comm->size)
		return;
	if (!p->device)
		p->device = comm->device;
	else if (p->device != comm->device)
		p->devices = 1;
}

__noinline int waits_collective(struct bpfprof_gpu_thread *t, const struct bpfprof_gpu_function *f)
{
	struct bpfprof_gpu_waits *p = t && f ? waits_take(t) : NULL;
	__u64 now = bpf_ktime_get_ns(), stream, flags = 0;
	struct bpfprof_gpu_stream *s;
	bool captured;

	if (!t || !f)
		return 0;
	stream = stream_key(f, t->call.key.stream);
	captured = t->call.flags & BPFPROF_CALL_CAPTURED;
	if (t->call.result && t->call.result != RESULT_IN_PROGRESS)
		return 0;
	if (t->groups) {
		flags |= BPFPROF_WAIT_GROUPED;
		t->grouped++;
	}
	if (!p)
		return 0;
	device_note(p, &t->call.key);
	if (t->call.flags & BPFPROF_CALL_OUTSIDE) {
		if (!captured)
			stream_use(p, stream, now);
		return 0;
	}
	if (captured)
		return wait_send(t, GPU_WAIT_COLLECTIVE | BPFPROF_WAIT_CAPTURED << 32, stream, now,
				 0);
	s = stream_use(p, stream, now);
	if (!s)
		return 0;
	s->collective_ns = now;
	return wait_send(t, GPU_WAIT_COLLECTIVE | flags << 32, stream, now, 0);
}

static __always_inline void waits_copied(struct bpfprof_gpu_thread *t, __u64 now)
{
	struct bpfprof_gpu_waits *p = waits_of(t);
	__u64 idle_ns = p ? p->idle_ns : 0, ns = t->call.ns;

	if (!idle_ns || now <= idle_ns)
		return;
	__sync_fetch_and_add(&p->idle_copy_ns, ns < now - idle_ns ? ns : now - idle_ns);
}

/* A call that may tell something has returned. */
static __always_inline void waits_return(struct bpfprof_gpu_thread *t,
					 const struct bpfprof_gpu_function *f,
					 const struct bpfprof_gpu_open *open, __u64 now)
{
	const struct bpfprof_gpu_call *call = &t->call;
	__u64 waited_ns = call->ns >= WAITED_NS ? now : 0, stream;
	struct bpfprof_gpu_waits *p;

	switch (f->kind) {
	case GPU_KIND_EVENT_QUERY:
		if (!call->result || call->result == RESULT_NOT_READY)
			event_told(t, open->name, call->begin_ns, !call->result, 0);
		break;
	case GPU_KIND_STREAM_QUERY:
		if (!call->result || call->result == RESULT_NOT_READY)
			stream_told(t, stream_key(f, open->key.stream), call->begin_ns,
				    !call->result, 0);
		break;
	case GPU_KIND_SYNC:
		if (call->result)
			break;
		if (f->handle)
			event_told(t, open->name, call->begin_ns, true, waited_ns);
		else if (f->stream)
			stream_told(t, stream_key(f, call->key.stream), call->begin_ns, true,
				    waited_ns);
		else
			all_done(t, call->begin_ns, waited_ns);
		break;
	case GPU_KIND_STREAM_WAIT:
		if (!call->result)
			stream_waits(t, stream_key(f, open->key.stream), open->name,
				     call->begin_ns);
		break;
	case GPU_KIND_CAPTURE_BEGIN:
		p = waits_take(t);
		stream = stream_key(f, open->key.stream);
		if (!p || call->result)
			break;
		/* What began before, if the end of it was not seen, is over. */
		capture_drop(t, p, stream);
		capture_begin(p, stream, stream, f->handle ? 0 : capture_number(p));
		break;
	case GPU_KIND_CAPTURE_END:
		graph_made(t, waits_of(t), open);
		break;
	case GPU_KIND_GRAPH_COPY:
		graph_copy(t, waits_of(t), f, open);
		break;
	case GPU_KIND_COPY:
		if (f->to_device)
			waits_copied(t, now);
		break;
	case GPU_KIND_COLLECTIVE:
		waits_collective(t, f);
		break;
	case GPU_KIND_GROUP_END:
		if (t->groups && --t->groups)
			break;
		if (t->grouped)
			wait_send(t, GPU_WAIT_GROUP_END, 0, now, 0);
		t->grouped = 0;
		break;
	}
}

#endif
