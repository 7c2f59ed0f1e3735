/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_WAITS_BPF_H
#define BPFPROF_BPF_GPU_WAITS_BPF_H

/*
 * The completion of work on the device. The process itself reveals it: it waits for a stream,
 * queries it, or does so with an event that it recorded behind its work.
 *
 * Calls outside of the wanted steps are followed, too, because the device would seem idle
 * otherwise; but their collectives, and gaps that they end, are not sent.
 *
 * Some functions here and in gpu/streams.bpf.h are not static, so that the verifier checks them
 * once and not for each caller.
 */

#include "gpu/arguments.bpf.h"
#include "gpu/comms.bpf.h"
#include "gpu/graphs.bpf.h"
#include "gpu/streams.bpf.h"

#define EVENT_RECORD_EXTERNAL 1 /* CU_EVENT_RECORD_EXTERNAL */
#define RESULT_NOT_READY 600 /* CUDA_ERROR_NOT_READY */
#define RESULT_IN_PROGRESS 7 /* ncclInProgress, from non-blocking communicators */
#define WAITED_NS 100000 /* a longer synchronization has returned when the work was done */

/* Events by handle. Writer: BPF; user space deletes those of processes that have ended. */
HASH_MAP(gpu_events, 32768, struct bpfprof_gpu_event_key, struct bpfprof_gpu_recorded);

/*
 * Is the thread's launch captured and not run? Then its key has no grid and block: a server
 * captures its launches once for each of many batch sizes, which would use up all keys.
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

/* As capture_launch(), for other work of a stream; the node of a collective is its kernel. */
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

/* A kernel or a graph is launched. Returns how long the device was idle before. */
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
	if (t->call.flags & BPFPROF_CALL_OUTSIDE) { /* the wanted work had no gap */
		p->idle_ns = 0;
		if (p->span_ns)
			span_end(p, t->call.begin_ns);
		return 0;
	}
	if (!p->span_ns)
		p->span_ns = t->call.begin_ns;
	if (s && t->grouped) /* the end of the group puts the collectives on their streams */
		s->collective_ns = t->call.begin_ns;
	return p->idle_ns ? gap_end(p, t->call.begin_ns, &t->call.idle_ns) : 0;
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

/* Notes where an event was recorded. This is useful only behind work that may be unfinished. */
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

/*
 * A query of an event, or a wait for it, that began at begin_ns shows that it is reached, or not
 * yet.
 */
__noinline int event_observed(struct bpfprof_gpu_thread *t, __u64 event, __u64 begin_ns,
			      bool reached, __u64 running_ns)
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

/*
 * Room for one more wait. Without room the wait is dropped; a later wait for the same stream may
 * replace it.
 */
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
	/* The last one: the waits before it end earlier. */
	if (after->stream != stream)
		gpu_count(GPU_COUNT_AFTER_FULL);
	return after;
}

/* A call from begin_ns on has made a stream wait for an event. */
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
	/* If the event was recorded again during the call, the wait may be for either record. */
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

__noinline int stream_observed(struct bpfprof_gpu_thread *t, __u64 stream, __u64 begin_ns,
			       bool reached, __u64 running_ns)
{
	struct bpfprof_gpu_waits *p = t ? waits_of(t) : NULL;
	struct bpfprof_gpu_stream *s = p ? stream_find(p, stream) : NULL;

	if (p && p->capturing) /* a captured stream proves nothing */
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
	/* The work on it goes on to its end, but no proof of that can come any more. */
	s->work_ns = 0;
	return 0;
}

/* The begin of a function that is hooked only for this file. */
static __always_inline void waits_enter(struct pt_regs *ctx, const struct bpfprof_gpu_function *f,
					struct bpfprof_gpu_thread *t)
{
	struct bpfprof_gpu_waits *p;
	bool external;

	switch (f->kind) {
	case GPU_KIND_EVENT_RECORD:
		/*
		 * An external record of a captured stream is made when the graph runs: a stream
		 * that waits for it does not join the capture.
		 */
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
		if (f->handle) /* captures into an existing graph */
			graph_forget(t, waits_of(t), argument(ctx, f->handle));
		break;
	case GPU_KIND_GRAPH_COPY:
		if (!f->out) /* until the return, which may not be seen */
			graph_take(t, waits_of(t), argument(ctx, f->extra));
		break;
	case GPU_KIND_GRAPH_END:
		graph_forget(t, waits_of(t), argument(ctx, f->handle));
		break;
	case GPU_KIND_GRAPH_CHANGE:
		p = waits_of(t);
		graph_forget(t, p, argument(ctx, f->handle));
		capture_blur(p); /* the graph may be a captured one */
		break;
	case GPU_KIND_GROUP_START:
		t->groups++;
		break;
	}
}

/* The return of a function that is hooked only for this file will not be seen. */
static __always_inline void waits_blur(const struct bpfprof_gpu_function *f,
				       struct bpfprof_gpu_thread *t)
{
	struct bpfprof_gpu_capture c = { .number = t->call.key.dims[0] };

	if (f->kind == GPU_KIND_STREAM_WAIT) /* the stream may have joined a capture */
		capture_blur(waits_of(t));
	else if (f->kind == GPU_KIND_CAPTURE_END && c.number)
		graph_send(t, GPU_GRAPH_DROPPED, &c, 0);
}

/* Notes the device of a communicator, to see whether the process has several devices. */
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

/* A call has returned that may prove progress. */
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
			event_observed(t, open->name, call->begin_ns, !call->result, 0);
		break;
	case GPU_KIND_STREAM_QUERY:
		if (!call->result || call->result == RESULT_NOT_READY)
			stream_observed(t, stream_key(f, open->key.stream), call->begin_ns,
					!call->result, 0);
		break;
	case GPU_KIND_SYNC:
		if (call->result)
			break;
		if (f->handle)
			event_observed(t, open->name, call->begin_ns, true, waited_ns);
		else if (f->stream)
			stream_observed(t, stream_key(f, call->key.stream), call->begin_ns, true,
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
		/* A capture of this stream whose end was not seen has ended. */
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
