// SPDX-License-Identifier: Apache-2.0
/*
 * Reads all events twice: first to find their length and their streams, then to write them. Between
 * the passes it computes how many of the oldest events do not fit.
 */
#include "gpu/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash_table.h"
#include "base/json.h"
#include "base/text.h"
#include "cuda/functions.h"
#include "formats/chrome_trace.h"
#include "gpu/call_args.h"
#include "gpu/call_table.h"
#include "gpu/trace.h"

#define MAX_STREAMS 16384
#define MAX_ENDINGS 4096
#define MAX_TEXT_BYTES 4096
#define MAX_ARGS_BYTES 32768
/* Thread ids are below this limit (PID_MAX_LIMIT). Tracks of no thread begin here. */
#define TITLE_TRACK (1U << 22)
#define STREAM_TRACK (TITLE_TRACK + 1)
#define STREAM_LEGACY 1 /* CU_STREAM_LEGACY; the next is CU_STREAM_PER_THREAD */
#define STREAM_PER_THREAD 2
/*
 * Bytes of a file beside the events: head, end, reasons. The parts that are written again after the
 * skipped events have AGAIN_BYTES each.
 */
#define REST_BYTES 8192
#define AGAIN_BYTES 512
#define NOTE                                                                                       \
	"All times are the host's: when a call began and returned. A stream's track shows when "   \
	"work "                                                                                    \
	"was enqueued, not when the GPU did it, which cannot be seen from outside."

struct stream_key {
	uint32_t process;
	uint32_t tid; /* set for a thread's own default stream, else 0 */
	uint64_t value;
};

struct stream {
	struct hash_node node;
	struct stream_key key;
	struct stream *next; /* next stream of the same process */
	uint32_t track;
	bool open; /* it has launches that no call has waited for */
	uint64_t begin_ns;
	uint64_t id; /* number of the open span */
};

/* A process in the trace. */
struct view {
	uint32_t pid;
	const struct call_table_process *known; /* or NULL */
	struct stream *streams;
	uint64_t title; /* the present one, or 0 */
	bool titled; /* it had a title at some time */
};

struct ending {
	uint64_t ts_ns, id;
	const struct stream *stream;
};

struct timeline {
	struct gpu_timeline *ask;
	const struct gpu_trace_thread *threads;
	const struct gpu_trace_process *processes;
	size_t nr_processes, nr_threads;
	struct view *views;
	struct hash_table streams;
	struct ending endings[MAX_ENDINGS]; /* sorted, the next one last */
	size_t nr_endings;
	uint64_t streams_lost, next_id;
	struct chrome_trace chrome;
	struct buf args, text;
};

static bool is_launch(uint32_t kind)
{
	return kind == GPU_KIND_LAUNCH || kind == GPU_KIND_LAUNCH_CONFIG || kind == GPU_KIND_GRAPH;
}

/* Does stream 0, or no stream, mean the thread's own default stream in this function? */
static bool is_per_thread(const struct gpu_function *function)
{
	return text_ends(function->name, "_ptsz") || text_ends(function->name, "_ptds");
}

static struct stream *stream_get(struct timeline *t, const struct gpu_trace_event *e,
				 const struct gpu_function *function)
{
	const struct gpu_trace_thread *thread = &t->threads[e->thread];
	struct stream_key key = { .process = thread->process, .value = e->stream };
	struct view *view = &t->views[thread->process];
	struct stream *stream;

	if (!key.value && is_per_thread(function))
		key.value = STREAM_PER_THREAD;
	else if (key.value == STREAM_LEGACY)
		key.value = 0;
	if (key.value == STREAM_PER_THREAD)
		key.tid = thread->tid;
	stream = hash_table_find(&t->streams, &key);
	if (stream)
		return stream;
	stream = hash_table_add(&t->streams, &key);
	if (!stream) {
		t->streams_lost++;
		return NULL;
	}
	stream->track = STREAM_TRACK + (uint32_t)t->streams.nr - 1;
	stream->next = view->streams;
	view->streams = stream;
	return stream;
}

/* The text is valid until the next call. */
static const char *stream_text(struct timeline *t, const struct stream *stream, const char *before)
{
	buf_reset(&t->text);
	buf_add_str(&t->text, before);
	if (stream->key.tid)
		buf_printf(&t->text, "default stream of thread %" PRIu32, stream->key.tid);
	else if (!stream->key.value)
		buf_add_str(&t->text, "default stream");
	else
		buf_printf(&t->text, "stream 0x%" PRIx64, stream->key.value);
	return t->text.data ? t->text.data : "";
}

static void span_write(struct timeline *t, const struct stream *stream, uint64_t ts_ns, uint64_t id,
		       bool ends)
{
	/* Viewers show spans of one name together. */
	const struct chrome_event event = { .name = stream_text(t, stream, "launch to sync: "),
					    .category = "span",
					    .pid = t->views[stream->key.process].pid,
					    .tid = stream->track,
					    .ts_ns = ts_ns };

	chrome_trace_span(&t->chrome, &event, id, ends);
}

static void ending_write(struct timeline *t)
{
	const struct ending *ending = &t->endings[--t->nr_endings];

	span_write(t, ending->stream, ending->ts_ns, ending->id, true);
}

static void ending_add(struct timeline *t, const struct stream *stream, uint64_t ts_ns)
{
	size_t at;

	if (t->nr_endings == MAX_ENDINGS)
		ending_write(t);
	for (at = t->nr_endings++; at && t->endings[at - 1].ts_ns < ts_ns; at--)
		t->endings[at] = t->endings[at - 1];
	t->endings[at] = (struct ending){ .ts_ns = ts_ns, .id = stream->id, .stream = stream };
}

static uint32_t shown_tid(const struct timeline *t, const struct gpu_trace_thread *thread)
{
	/* In a pid namespace the tid of the main thread differs from the pid that is shown. */
	return thread->tid == t->processes[thread->process].pid ? t->views[thread->process].pid
								: thread->tid;
}

static void flow_write(struct timeline *t, const struct gpu_trace_event *e, uint64_t id, bool ends)
{
	const struct gpu_trace_thread *thread = &t->threads[e->thread];
	const struct chrome_event event = { .name = "launch to sync",
					    .category = "flow",
					    .pid = t->views[thread->process].pid,
					    .tid = shown_tid(t, thread),
					    .ts_ns = e->begin_ns };

	chrome_trace_flow(&t->chrome, &event, id, ends);
}

/* Writes work that the host enqueued on a stream. */
static void enqueue(struct timeline *t, const struct gpu_trace_event *e,
		    const struct gpu_function *function, const char *name)
{
	struct stream *stream = stream_get(t, e, function);
	struct chrome_event event = { .name = name, .category = "enqueued", .ts_ns = e->begin_ns };

	if (!stream)
		return;
	event.pid = t->views[stream->key.process].pid;
	event.tid = stream->track;
	chrome_trace_instant(&t->chrome, &event);
	if (stream->open || !is_launch(function->wire.kind))
		return;
	stream->open = true;
	stream->begin_ns = e->begin_ns;
	stream->id = ++t->next_id;
	flow_write(t, e, stream->id, false);
	span_write(t, stream, e->begin_ns, stream->id, false);
}

static void stream_close(struct timeline *t, struct stream *stream, const struct gpu_trace_event *e)
{
	if (!stream || !stream->open || stream->begin_ns >= e->begin_ns)
		return;
	stream->open = false;
	flow_write(t, e, stream->id, true);
	ending_add(t, stream, e->begin_ns + e->ns);
}

/* The call has waited for the launches before it. The stream of an event is not known. */
static void wait_for(struct timeline *t, const struct gpu_trace_event *e,
		     const struct gpu_function *function)
{
	struct stream *stream;

	if (function->wire.kind == GPU_KIND_COPY || function->wire.stream) {
		stream_close(t, stream_get(t, e, function), e);
		return;
	}
	if (function->wire.handle)
		return;
	for (stream = t->views[t->threads[e->thread].process].streams; stream;
	     stream = stream->next)
		stream_close(t, stream, e);
}

static bool is_wait(const struct gpu_function *function)
{
	if (function->wire.kind == GPU_KIND_SYNC)
		return true;
	/* A copy within the device may go on after its return. */
	return function->wire.kind == GPU_KIND_COPY && function->wire.flags & BPFPROF_GPU_BLOCKS &&
	       (function->copy == GPU_COPY_HTOD || function->copy == GPU_COPY_DTOH);
}

static bool has_comm(uint32_t kind)
{
	return kind == GPU_KIND_COLLECTIVE || kind == GPU_KIND_COMM_INIT ||
	       kind == GPU_KIND_COMM_END;
}

/* Writes the effects of a call on streams, as far as the host knows them. */
static void call_effects(struct timeline *t, const struct gpu_trace_event *e,
			 const struct gpu_function *function, const char *kernel)
{
	uint32_t kind = function->wire.kind;
	bool returned = !(e->flags & GPU_TRACE_UNRETURNED);

	if (returned && e->result)
		return;
	if ((is_launch(kind) || kind == GPU_KIND_COPY || kind == GPU_KIND_SET) &&
	    !(e->flags & (GPU_TRACE_NESTED | GPU_TRACE_CAPTURED)))
		enqueue(t, e, function, kernel ? kernel : function->shown);
	if (returned && is_wait(function))
		wait_for(t, e, function);
}

static const char *category(const struct gpu_function *function)
{
	switch (function->wire.layer) {
	case GPU_LAYER_NCCL:
		return "nccl";
	case GPU_LAYER_PYTHON:
		return "python";
	default:
		return "cuda";
	}
}

static void call_write(struct timeline *t, const struct gpu_trace_event *e)
{
	const struct gpu_function *function = gpu_function(e->function);
	const struct gpu_trace_thread *thread = &t->threads[e->thread];
	const struct gpu_trace_process *process = &t->processes[thread->process];
	uint32_t kind = function->wire.kind;
	struct chrome_event event = { .name = function->shown ? function->shown : "?",
				      .category = category(function),
				      .pid = t->views[thread->process].pid,
				      .tid = shown_tid(t, thread),
				      .ts_ns = e->begin_ns,
				      .args = &t->args };
	struct gpu_timeline_comm comm = { 0 };
	struct bpfprof_gpu_key key;
	const char *kernel = NULL;
	char room[CALL_TABLE_KERNEL_TEXT];

	if (is_launch(kind) && kind != GPU_KIND_GRAPH) {
		key = call_table_kernel_at(t->ask->table, process->pid, process->start_ns,
					   e->handle, e->begin_ns);
		kernel = call_table_kernel_text(t->ask->table, &key, room);
	}
	if (has_comm(kind) && e->handle)
		t->ask->comm(t->ask->arg, process->pid, process->start_ns, e->handle, &comm);
	buf_reset(&t->args);
	gpu_call_args(&t->args, function, e, kernel, &comm);
	chrome_trace_slice(&t->chrome, &event, e->ns);
	call_effects(t, e, function, kernel);
}

static void title_set(struct timeline *t, uint32_t process, uint64_t title, uint64_t ts_ns)
{
	struct view *view = &t->views[process];
	const struct chrome_event event = { .name = gpu_trace_title_text(t->ask->trace, title),
					    .category = "ray",
					    .pid = view->pid,
					    .tid = TITLE_TRACK,
					    .ts_ns = ts_ns };

	if (!t->processes[process].nr_calls) /* the process is not in the trace */
		return;
	if (view->title)
		chrome_trace_end(&t->chrome, &event);
	if (title)
		chrome_trace_begin(&t->chrome, &event);
	view->title = title;
	view->titled |= title != 0;
}

static void event_write(struct timeline *t, const struct gpu_trace_event *e)
{
	while (t->nr_endings && t->endings[t->nr_endings - 1].ts_ns <= e->begin_ns)
		ending_write(t);
	if (e->flags & GPU_TRACE_TITLE)
		title_set(t, e->thread, e->handle, e->begin_ns);
	else
		call_write(t, e);
}

/* Closes all spans, for a new pass. The streams stay known. */
static void spans_reset(struct timeline *t)
{
	struct stream *stream;

	hash_table_each(&t->streams, stream)
		stream->open = false;
	t->nr_endings = 0;
}

/* Ends the skipping: events from here on are written, and open titles begin here. */
static void skip_end(struct timeline *t, uint64_t ts_ns)
{
	uint64_t title;
	uint32_t i;

	spans_reset(t);
	for (i = 0; i < t->nr_processes; i++) {
		title = t->views[i].title;
		t->views[i].title = 0;
		if (title)
			title_set(t, i, title, ts_ns);
	}
}

static int on_event(void *arg, const void *record)
{
	const struct gpu_trace_event *e = record;
	struct timeline *t = arg;

	event_write(t, e);
	if (!chrome_trace_skipped(&t->chrome))
		t->ask->facts.nr_kept += !(e->flags & GPU_TRACE_TITLE);
	else if (!t->chrome.skip_until)
		skip_end(t, e->begin_ns);
	return t->chrome.error;
}

/* Writes all events but the first skip_bytes bytes of them. */
static int pass(struct timeline *t, uint64_t skip_bytes)
{
	struct stream *stream;
	uint32_t i;
	int err;

	t->ask->facts.nr_kept = 0;
	chrome_trace_skip(&t->chrome, skip_bytes);
	t->next_id = 0;
	spans_reset(t);
	for (i = 0; i < t->nr_processes; i++)
		t->views[i].title = 0;
	err = gpu_trace_each(t->ask->trace, on_event, t);
	if (err)
		return err;
	if (t->chrome.skip_until) {
		chrome_trace_skip_end(&t->chrome);
		skip_end(t, t->ask->facts.end_ns);
	}
	while (t->nr_endings)
		ending_write(t);
	hash_table_each(&t->streams, stream)
		if (stream->open)
			span_write(t, stream, t->ask->facts.end_ns, stream->id, true);
	for (i = 0; i < t->nr_processes; i++)
		title_set(t, i, 0, t->ask->facts.end_ns);
	return t->chrome.error;
}

static void process_names(struct timeline *t, const struct view *view)
{
	const struct call_table_process *known = view->known;
	__cleanup(buf_fini) struct buf labels = { .max = MAX_TEXT_BYTES };

	if (known && known->rank && *known->rank)
		buf_printf(&labels, "rank %s", known->rank);
	if (known && known->pod && *known->pod)
		buf_printf(&labels, "%spod %s%s%s", labels.len ? ", " : "",
			   known->namespace ? known->namespace : "",
			   known->namespace && *known->namespace ? "/" : "", known->pod);
	buf_reset(&t->text);
	if (known && known->ray_task && *known->ray_task)
		buf_add_str(&t->text, known->ray_task);
	else if (known && known->name)
		buf_add_str(&t->text, known->name);
	chrome_trace_process(&t->chrome, view->pid, t->text.data ? t->text.data : "",
			     labels.len && !buf_error(&labels) ? labels.data : "");
	if (view->titled)
		chrome_trace_track(&t->chrome, view->pid, TITLE_TRACK, "Ray task", -1);
}

static void names_write(struct timeline *t)
{
	const struct gpu_trace_thread *thread;
	struct stream *stream;
	size_t i;

	for (i = 0; i < t->nr_processes; i++)
		if (t->processes[i].nr_calls)
			process_names(t, &t->views[i]);
	for (i = 0; i < t->nr_threads; i++) {
		thread = &t->threads[i];
		chrome_trace_track(&t->chrome, t->views[thread->process].pid, shown_tid(t, thread),
				   thread->name, 0);
	}
	hash_table_each(&t->streams, stream)
		chrome_trace_track(&t->chrome, t->views[stream->key.process].pid, stream->track,
				   stream_text(t, stream, ""),
				   (int)(stream->track - STREAM_TRACK) + 1);
}

static void other_fill(struct timeline *t, struct buf *dst)
{
	trace_facts_put(&t->ask->facts, NULL, NOTE, dst);
	if (t->streams_lost)
		json_key_number(dst, "streams_no_room", t->streams_lost);
	buf_add_char(dst, '}');
}

/* The number of bytes to skip; 0: all events fit. */
static uint64_t excess(struct timeline *t, uint64_t event_bytes)
{
	uint64_t rest = REST_BYTES, before = t->chrome.bytes;
	size_t i;

	names_write(t);
	rest += t->chrome.bytes - before;
	if (rest + event_bytes <= t->ask->facts.max_bytes)
		return 0;
	rest += t->streams.nr * AGAIN_BYTES;
	for (i = 0; i < t->nr_processes; i++)
		rest += t->views[i].titled ? AGAIN_BYTES : 0;
	if (rest >= t->ask->facts.max_bytes)
		return UINT64_MAX;
	return event_bytes - (t->ask->facts.max_bytes - rest);
}

static int views_make(struct timeline *t)
{
	const struct call_table_process *known;
	size_t i, k, nr;

	known = call_table_processes(t->ask->table, &nr);
	t->views = calloc(t->nr_processes + 1, sizeof(*t->views));
	if (!t->views)
		return -ENOMEM;
	for (i = 0; i < t->nr_processes; i++) {
		t->views[i].pid = t->processes[i].pid;
		for (k = 0; k < nr; k++)
			if (known[k].kernel_pid == t->processes[i].pid &&
			    known[k].start_ns == t->processes[i].start_ns)
				break;
		if (k == nr)
			continue;
		t->views[i].known = &known[k];
		if (known[k].pid)
			t->views[i].pid = known[k].pid;
	}
	return 0;
}

static int write_all(struct timeline *t, FILE *out)
{
	__cleanup(buf_fini) struct buf other = { .max = MAX_ARGS_BYTES };
	uint64_t skip;
	int err;

	chrome_trace_open(&t->chrome, NULL);
	err = views_make(t) ?: pass(t, 0);
	skip = excess(t, t->chrome.bytes);
	buf_fini(&t->chrome.line);
	if (err)
		return err;
	t->streams_lost = 0; /* the second pass counts them again */
	chrome_trace_open(&t->chrome, out);
	names_write(t);
	err = pass(t, skip);
	t->ask->facts.nr_dropped = gpu_trace_nr_calls(t->ask->trace) - t->ask->facts.nr_kept;
	other_fill(t, &other);
	return chrome_trace_close(&t->chrome, &other) ?: err ?: buf_error(&other);
}

int gpu_timeline_write(FILE *out, void *timeline)
{
	struct timeline *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return -ENOMEM;
	t->ask = timeline;
	hash_table_init(&t->streams, MAX_STREAMS, struct stream, key);
	t->processes = gpu_trace_processes(t->ask->trace, &t->nr_processes);
	t->threads = gpu_trace_threads(t->ask->trace, &t->nr_threads);
	buf_init(&t->args, MAX_ARGS_BYTES);
	buf_init(&t->text, MAX_TEXT_BYTES);
	err = write_all(t, out);
	hash_table_clear(&t->streams);
	buf_fini(&t->args);
	buf_fini(&t->text);
	free(t->views);
	free(t);
	return err;
}
