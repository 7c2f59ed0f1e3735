// SPDX-License-Identifier: Apache-2.0
/* Decodes the records of the ring buffer, and passes on their events. */
#include "kernel/stream_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "kernel/python_maps.h"
#include "kernel/session.h"
#include "kernel/tables.h"
#include "kernel/walk.h"
#include "proc/processes.h"
#include "python/codes.h"
#include "python/merge.h"
#include "python/pythons.h"

#define REREAD_MIN_NS (NS_PER_SECOND / 1000) /* the event comes just before the mapping is made */
#define YOUNG_NS NS_PER_SECOND /* a process this young still maps its libraries */
#define REREAD_MAX_NS (10 * REREAD_MIN_NS)
#define OLD_DELAY_NS (50 * REREAD_MIN_NS)
#define MARKED_EVERY 5 /* samples; CPUs whose clocks are in step are mostly an even number */

static void emit(const struct stream *stream, const struct event *event)
{
	stream->handlers.see(stream->handlers.arg, event);
}

void stream_reread_after(struct decoding *d, struct process *process, uint64_t delay_ns)
{
	struct stream *stream = d->stream;

	/* If there is no room, verify() reads them within 10 s, or a miss does. */
	if (process->reread_ns || stream->nr_due == STREAM_MAX_DUE)
		return;
	process->reread_ns = d->now_ns + delay_ns;
	stream->due[stream->nr_due++] = process->pid;
}

/* Are the mappings of a process needed before its first sample? */
static bool libraries_are_hooked(const struct stream *stream)
{
	return stream->session->options.gpu || stream->session->options.gpu_windows ||
	       stream->session->options.allocations;
}

bool stream_has_clock_alone(const struct stream *stream)
{
	const struct session_options *options = &stream->session->options;

	return options->hz && !options->no_clock && options->waits == SESSION_NO_WAITS &&
	       !options->pages && !libraries_are_hooked(stream);
}

/*
 * Time until the process has mapped what it is about to map. With samples of the clock alone it may be half a
 * period: one read then serves all libraries of a program that starts, and a sample in a library that is not
 * known yet is a miss, which reads them at once.
 */
static uint64_t reread_delay_ns(const struct stream *stream)
{
	uint64_t half_ns;

	if (!stream_has_clock_alone(stream))
		return REREAD_MIN_NS;
	half_ns = NS_PER_SECOND / stream->session->options.hz / 2;
	if (half_ns < REREAD_MIN_NS)
		return REREAD_MIN_NS;
	return half_ns < REREAD_MAX_NS ? half_ns : REREAD_MAX_NS;
}

static void reread_later(struct decoding *d, struct process *process)
{
	bool young = d->now_ns - process->known_ns <= YOUNG_NS;

	stream_reread_after(d, process, young ? reread_delay_ns(d->stream) : OLD_DELAY_NS);
}

/* Some samples suffice to find the pages that none uses any more. */
static void pages_mark_used(struct decoding *d, const struct sample_view *view)
{
	uint64_t frame, off;
	size_t i;

	if (d->nr_samples++ % MARKED_EVERY != 0)
		return;
	for (i = 0; i < view->nr_user; i++) {
		frame = view->user[i];
		if (frame >> BPFPROF_FRAME_SHIFT != BPFPROF_FRAME_NATIVE)
			continue;
		off = frame & BPFPROF_OFF_MASK;
		tables_page_used(d->stream->walker->tables,
				 (uint32_t)((frame & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS),
				 (uint32_t)(off >> BPFPROF_PAGE_SHIFT), d->now_ns);
	}
}

/* Replaces the native frames in view by the whole user stack. */
static void merge(struct decoding *d, const struct process *process, struct sample_view *view,
		  const uint64_t *awaiters)
{
	struct stream *stream = d->stream;
	const struct bpfprof_sample *sample = view->sample;
	struct python_merge m = {
		.python = (const uint64_t *)(sample + 1) + sample->nr_kernel,
		.nr_python = sample->nr_python,
		.native = view->user,
		.nr_native = view->nr_user,
		.complete = view->stop == BPFPROF_STOP_COMPLETE,
		.deep = view->stop == BPFPROF_STOP_DEPTH,
		.python_complete = sample->python_stop == PYTHON_STOP_COMPLETE,
		.by_number = sample->python_flags & BPFPROF_PYTHON_OBJECTS,
		.kind = walker_frame_kind,
		.arg = stream->walker,
	};
	struct python_merged merged;
	size_t i;

	merged = python_merge(&m, d->merged);
	if (sample->nr_awaiters)
		python_awaiters_insert(d->merged, &merged.nr, sample->await_at, awaiters,
				       sample->nr_awaiters);
	view->nr_user = merged.nr;
	view->unmerged = merged.unmerged;
	if (merged.ended)
		view->stop = BPFPROF_STOP_COMPLETE;
	else if (m.complete && (merged.cut || merged.broken))
		view->stop = merged.cut ? BPFPROF_STOP_PYTHON : BPFPROF_STOP_PYTHON_BROKEN;
	view->user = d->merged;
	for (i = 0; i < view->nr_user; i++)
		if (d->merged[i] >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_PYTHON)
			d->merged[i] = codes_frame(stream->codes, d->merged[i],
						   process ? process->tables->python_id : 0);
}

/* The title of a Ray worker's sample. The last good title replaces a bad one. */
static const char *title_take(struct decoding *d, struct process *process,
			      const struct bpfprof_sample *sample, const char *raw)
{
	struct stream *stream = d->stream;
	size_t len = sample->title_words * sizeof(uint64_t);
	bool known = process && process->start_ns == sample->task.start_ns &&
		     process->exec_id == sample->task.exec_id;
	bool was_ray = known && process->title;
	int err;

	/* The kernel does not see a worker, as its name differs: the title comes from /proc. */
	if (!(sample->flags & BPFPROF_SAMPLE_RAY)) {
		stream->nr_ray += was_ray;
		return was_ray ? process->title : NULL;
	}
	stream->nr_ray++;
	err = known ? process_title_set(process, raw, len) : title_parse(d->title, raw, len);
	/* A process that exits has no memory any more. */
	stream->nr_bad_title += err && err != -EAGAIN && !(sample->flags & BPFPROF_SAMPLE_KTHREAD);
	stream->nr_torn_title += err == -EAGAIN;
	if (!known)
		return err ? NULL : d->title;
	if (!was_ray && process->title)
		tables_set_ray(stream->walker->tables, process);
	return process->title;
}

/* Finds the parts behind the sample, whose frames end at `head`. False: the record is too short. */
static bool miss_parse(struct walker_miss *ret, const struct bpfprof_sample *sample, size_t head,
		       size_t size)
{
	const uint8_t *at = (const uint8_t *)sample + head;
	size_t entries;

	ret->sample = sample;
	ret->at = (const struct bpfprof_miss_point *)at;
	if (size < head + sizeof(*ret->at) || ret->at->nr_entries > BPFPROF_MAX_PYTHON_ENTRIES)
		return false;
	ret->entries = (const struct bpfprof_python_entry *)(ret->at + 1);
	entries = ret->at->nr_entries * sizeof(*ret->entries);
	ret->stack = (const uint8_t *)ret->entries + entries;
	return head + sizeof(*ret->at) + entries + ret->at->stack_len <= size;
}

/* A miss has the namespaces of its process, so they are known even if the process has exited. */
static void ns_context_take(struct sample_view *view, struct process *process,
			    const struct walker_miss *miss)
{
	if (miss)
		view->ns_context = miss->at->ns_context;
	if (!process || process->start_ns != view->sample->task.start_ns)
		return;
	process_ns_context_set(process, &view->ns_context);
	view->process = process;
	view->ns_context = process->ns_context;
}

static void on_sample(struct decoding *d, const struct bpfprof_sample *sample, size_t size)
{
	struct stream *stream = d->stream;
	const uint64_t *frames = (const uint64_t *)(sample + 1);
	struct sample_view view = { .sample = sample, .stop = sample->stop };
	size_t nr = (size_t)sample->nr_kernel + sample->nr_python + sample->nr_user;
	const uint64_t *title = frames + nr + sample->nr_awaiters;
	size_t head = sizeof(*sample) +
		      (nr + sample->nr_awaiters + sample->title_words) * sizeof(*frames);
	size_t call = sample->flags & BPFPROF_SAMPLE_CALL ? sizeof(*view.call) : 0;
	bool is_miss = sample->rec.kind == BPFPROF_KIND_MISS;
	struct walker_miss miss;
	struct process *process;

	if (nr > BPFPROF_MAX_FRAMES || sample->nr_awaiters > BPFPROF_MAX_AWAITERS ||
	    sample->skip > sample->nr_kernel || head + call > size ||
	    (is_miss && !miss_parse(&miss, sample, head + call, size))) {
		stream->nr_malformed++;
		return;
	}
	if (call)
		view.call = (const struct bpfprof_gpu_call *)(title + sample->title_words);
	view.kernel = frames + sample->skip;
	view.nr_kernel = sample->nr_kernel - (size_t)sample->skip;
	view.user = frames + sample->nr_kernel + sample->nr_python;
	view.nr_user = sample->nr_user;
	if (is_miss && d->may_wait) {
		memcpy(d->frames, view.user, view.nr_user * sizeof(*frames));
		view.user = d->frames;
		view.nr_user =
			walker_finish(stream->walker, &miss, d->frames, (uint32_t)view.nr_user,
				      BPFPROF_MAX_USER_FRAMES, &view.stop, d->now_ns);
	} else if (is_miss) {
		view.stop = BPFPROF_STOP_MISS_RATE;
	} else {
		pages_mark_used(d, &view);
	}
	process = d->apart ? NULL : processes_find(stream->walker->processes, sample->task.pid);
	if (process)
		process->sampled = true;
	ns_context_take(&view, process, is_miss ? &miss : NULL);
	if (sample->nr_python || (process && process->pythons->nr))
		merge(d, process, &view, frames + nr);
	if (sample->flags & BPFPROF_SAMPLE_RAY || (process && process->title))
		view.title = title_take(d, process, sample, (const char *)title);
	emit(stream, &(struct event){ .kind = EVENT_SAMPLE, .view = &view });
}

void stream_exit(struct decoding *d, const struct bpfprof_task_id *task,
		 const struct process_end *end)
{
	struct stream *stream = d->stream;
	struct process *process;

	processes_exit(stream->walker->processes, task, d->now_ns);
	process = processes_find(stream->walker->processes, task->pid);
	if (process && process->dead) /* a dead process has no memory */
		tables_retire(stream->walker->tables, process, d->now_ns);
	emit(stream, &(struct event){ .kind = EVENT_EXIT, .task = task, .end = end });
}

static void on_event(struct decoding *d, const struct bpfprof_process_event *e)
{
	struct stream *stream = d->stream;
	struct processes *processes = stream->walker->processes;
	struct process_end end = { .ts_ns = e->rec.ts_ns,
				   .cpu_ns = e->cpu_ns,
				   .known = true,
				   .status = (uint32_t)e->va,
				   .parent = e->parent };
	struct process *process;

	switch (e->rec.kind) {
	case BPFPROF_KIND_EXEC:
		process = processes_get(processes, &e->task);
		if (!process)
			return;
		process->known_ns = d->now_ns;
		process_ns_context_set(process, &e->ns_context);
		/*
		 * The listener comes first, then the mappings: the process may end soon, and its
		 * container with it.
		 */
		emit(stream, &(struct event){ .kind = EVENT_EXEC, .process = process });
		if (d->may_wait)
			walker_refresh(stream->walker, process, d->now_ns);
		/* Only the program and its loader are mapped now; the libraries follow. */
		reread_later(d, process);
		break;
	case BPFPROF_KIND_MMAP:
		process = processes_find(processes, e->task.pid);
		if (process && process->start_ns == e->task.start_ns)
			reread_later(d, process);
		break;
	case BPFPROF_KIND_EXIT:
		memcpy(end.comm, e->comm, sizeof(end.comm));
		stream_exit(d, &e->task, &end);
		break;
	}
}

static void on_fork(struct decoding *d, const struct bpfprof_fork_event *e)
{
	struct stream *stream = d->stream;
	bool hooked = libraries_are_hooked(stream);
	struct process *child, *parent;

	processes_fork(stream->walker->processes, &e->parent, &e->child);
	child = processes_find(stream->walker->processes, e->child.pid);
	/* Its only sample may come when it ends, too late to read its namespaces. */
	if (!child && processes_count(stream->walker->processes) < PROCESSES_MAX / 2)
		child = processes_get(stream->walker->processes, &e->child);
	if (!child || child->start_ns != e->child.start_ns)
		return;
	process_ns_context_set(child, &e->ns_context);
	parent = processes_find(stream->walker->processes, e->parent.pid);
	if (parent && !child->tenant)
		child->tenant = parent->tenant;
	if (parent && parent->start_ns == e->parent.start_ns && child->mappings_known)
		walker_forked(stream->walker, parent, child);
	/* Only the kernel can read Python frames, so the first sample must not miss. */
	if ((child->pythons->nr || hooked) && child->mappings_known && !child->tables->published)
		walker_publish(stream->walker, child, d->now_ns);
	/* Mappings made before the hooks were attached raised no event. */
	if (hooked) {
		child->known_ns = d->now_ns;
		reread_later(d, child);
	}
}

static void on_title(struct decoding *d, const void *data, size_t size)
{
	struct stream *stream = d->stream;
	struct bpfprof_title_event *e = &d->title_event;
	struct process *process;

	size = size < sizeof(*e) ? size : sizeof(*e);
	memcpy(e, data, size);
	memset((char *)e + size, 0, sizeof(*e) - size);
	process = processes_get(stream->walker->processes, &e->task);
	if (process)
		process_ns_context_set(process, &e->ns_context);
	emit(stream, &(struct event){ .kind = EVENT_TITLE, .title = e, .process = process });
}

/* The tenant of the process with that id of Python. */
static uint32_t python_tenant(const struct stream *stream, uint32_t python)
{
	const struct process *process;

	for (process = processes_first(stream->walker->processes); process;
	     process = hash_table_next(process))
		if (process->tables->python_id == python)
			return process->tenant;
	return 0;
}

static void on_code(struct stream *stream, const struct bpfprof_python_code *piece, size_t size)
{
	const struct bpfprof_python_layout *layout;

	layout = pythons_layout(stream->walker->pythons, piece->layout);
	if (!layout)
		return;
	if (!codes_has(stream->codes, piece->python))
		codes_set_tenant(stream->codes, piece->python,
				 python_tenant(stream, piece->python));
	codes_piece(stream->codes, piece, size, layout->lines);
	if (piece->part == PYTHON_PART_NAME)
		python_maps_code(stream->walker->python_maps);
}

/*
 * By kind of record: the least size, and the event to pass on, for records that need no more work.
 */
static const struct {
	size_t least;
	enum event_kind event;
} records[] = {
	[BPFPROF_KIND_SAMPLE] = { .least = sizeof(struct bpfprof_sample) },
	[BPFPROF_KIND_MISS] = { .least = sizeof(struct bpfprof_sample) },
	[BPFPROF_KIND_EXEC] = { .least = sizeof(struct bpfprof_process_event) },
	[BPFPROF_KIND_EXIT] = { .least = sizeof(struct bpfprof_process_event) },
	[BPFPROF_KIND_MMAP] = { .least = sizeof(struct bpfprof_process_event) },
	[BPFPROF_KIND_FORK] = { .least = sizeof(struct bpfprof_fork_event) },
	[BPFPROF_KIND_PYTHON_CODE] = { .least = offsetof(struct bpfprof_python_code, data) },
	[BPFPROF_KIND_TITLE] = { .least = offsetof(struct bpfprof_title_event, title) },
	[BPFPROF_KIND_GPU_CALL] = { sizeof(struct bpfprof_gpu_event), EVENT_CALL },
	[BPFPROF_KIND_GPU_NAME] = { sizeof(struct bpfprof_gpu_name), EVENT_KERNEL_NAME },
	[BPFPROF_KIND_GPU_TRACE] = { sizeof(struct bpfprof_gpu_trace), EVENT_TRACED_CALL },
	[BPFPROF_KIND_GPU_WAIT] = { sizeof(struct bpfprof_gpu_wait), EVENT_WAIT },
	[BPFPROF_KIND_GPU_GRAPH] = { sizeof(struct bpfprof_gpu_graph_event), EVENT_GRAPH },
	[BPFPROF_KIND_WAITER] = { sizeof(struct bpfprof_waiter_event), EVENT_WAITER },
	[BPFPROF_KIND_PAGE_MOVED] = { sizeof(struct bpfprof_page_moved), EVENT_PAGE_MOVED },
	[BPFPROF_KIND_BLOCK_FREED] = { sizeof(struct bpfprof_block_freed), EVENT_BLOCK_FREED },
	[BPFPROF_KIND_KILL] = { sizeof(struct bpfprof_kill_event), EVENT_KILL },
	[BPFPROF_KIND_WINDOW] = { sizeof(struct bpfprof_window_event), EVENT_WINDOW },
};

bool stream_record_is_valid(const struct bpfprof_record *rec, size_t size)
{
	return size >= sizeof(*rec) && rec->kind < sizeof(records) / sizeof(records[0]) &&
	       records[rec->kind].least && size >= records[rec->kind].least;
}

void stream_decode(struct decoding *d, const struct bpfprof_record *rec, size_t size)
{
	switch (rec->kind) {
	case BPFPROF_KIND_MISS:
		/* Reading mappings and files takes time: "now" moves on. */
		d->now_ns = time_monotonic_ns();
		on_sample(d, (const void *)rec, size);
		break;
	case BPFPROF_KIND_SAMPLE:
		on_sample(d, (const void *)rec, size);
		break;
	case BPFPROF_KIND_EXEC:
	case BPFPROF_KIND_EXIT:
	case BPFPROF_KIND_MMAP:
		on_event(d, (const void *)rec);
		break;
	case BPFPROF_KIND_FORK:
		on_fork(d, (const void *)rec);
		break;
	case BPFPROF_KIND_PYTHON_CODE:
		on_code(d->stream, (const void *)rec, size);
		break;
	case BPFPROF_KIND_TITLE:
		on_title(d, rec, size);
		break;
	default:
		emit(d->stream, &(struct event){ .kind = records[rec->kind].event, .record = rec });
	}
}
