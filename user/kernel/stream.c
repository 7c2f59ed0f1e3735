// SPDX-License-Identifier: Apache-2.0
#include "kernel/stream.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/time.h"
#include "kernel/anon_code.h"
#include "kernel/liveness.h"
#include "kernel/python_maps.h"
#include "kernel/session.h"
#include "kernel/tables.h"
#include "kernel/walk.h"
#include "proc/processes.h"
#include "proc/title.h"
#include "python/codes.h"
#include "python/merge.h"
#include "python/pythons.h"
#include "bpfprof.skel.h"

#define POLL_MS 50
#define REREAD_DELAY_NS 1000000ULL /* the event comes just before the mapping is made */
#define YOUNG_NS NS_PER_SECOND /* a process this young still maps its libraries */
#define OLD_FACTOR 50
#define VERIFY_EVERY_NS 10000000000ULL
#define VERIFY_PER_SECOND 100
#define MAX_DUE 1024
#define IMAGES_LEFT_DELAY_NS (200 * 1000000ULL)
#define NO_PID 0U /* the key of jobs that belong to no process */

/* What decoding a record takes. The loop and the jobs have one each, as jobs pause half way. */
struct decoding {
	struct stream *stream;
	bool may_wait; /* for files and processes */
	bool apart; /* a job uses the process, so it cannot be looked at */
	uint64_t now_ns;
	char title[TITLE_MAX + 1]; /* of an unknown process */
	struct bpfprof_title_event title_event; /* its title padded with zeros */
	uint64_t frames[BPFPROF_MAX_FRAMES + BPFPROF_MAX_USER_FRAMES];
	uint64_t merged[2 * (BPFPROF_MAX_FRAMES + BPFPROF_MAX_USER_FRAMES) + 1];
};

struct stream {
	struct session *session;
	struct walker *walker;
	struct codes *codes;
	struct liveness *liveness;
	struct background *background; /* NULL: the loop does all itself */
	struct stream_handlers handlers;
	struct ring_buffer *ring;
	uint64_t verified_ns;
	uint64_t nr_malformed;
	uint64_t nr_ray, nr_bad_title, nr_torn_title;
	uint32_t due[MAX_DUE]; /* pids whose mappings will be read again */
	size_t nr_due;
	struct decoding here, job;
};

static void emit(const struct stream *stream, const struct event *event)
{
	stream->handlers.see(stream->handlers.arg, event);
}

static void reread_after(struct decoding *d, struct process *process, uint64_t delay_ns)
{
	struct stream *stream = d->stream;

	/* If there is no room, verify() reads them within 10 s, or a miss does. */
	if (process->reread_ns || stream->nr_due == MAX_DUE)
		return;
	process->reread_ns = d->now_ns + delay_ns;
	stream->due[stream->nr_due++] = process->pid;
}

static void reread_later(struct decoding *d, struct process *process, uint64_t delay_ns)
{
	bool young = d->now_ns - process->known_ns <= YOUNG_NS;

	reread_after(d, process, young ? delay_ns : delay_ns * OLD_FACTOR);
}

/*
 * Runs a job of a process in the background. False: there is no room for it, or no background, so that
 * the caller does the work or does without.
 */
static bool post(struct stream *stream, background_fn fn, uint32_t pid, const void *data,
		 size_t bytes)
{
	const struct process *process = processes_find(stream->walker->processes, pid);
	const struct background_job job = { .fn = fn,
					    .arg = stream,
					    .data = data,
					    .bytes = bytes,
					    .key = pid,
					    .tenant = process && process->tenant ? process->tenant
										 : pid };

	return stream->background && !background_post(stream->background, &job);
}

/* Begins a job for this process, which stays in the table meanwhile. */
static struct decoding *job_begin(struct stream *stream, uint32_t pid, bool late)
{
	struct decoding *d = &stream->job;

	d->now_ns = time_monotonic_ns();
	d->may_wait = !late;
	processes_pin(stream->walker->processes, pid);
	return d;
}

static void job_end(struct decoding *d, uint32_t pid)
{
	struct process *process = processes_find(d->stream->walker->processes, pid);

	processes_pin(d->stream->walker->processes, 0);
	if (!process || !process->images_left)
		return;
	process->images_left = false;
	d->now_ns = time_monotonic_ns();
	reread_after(d, process, IMAGES_LEFT_DELAY_NS);
}

static void refresh(struct decoding *d, struct process *process)
{
	if (!d->may_wait || walker_refresh(d->stream->walker, process, d->now_ns) == -EAGAIN) {
		process->reread_ns = 0;
		reread_after(d, process, OLD_FACTOR * REREAD_DELAY_NS);
	}
}

/* data: the pid. */
static void refresh_job(void *arg, const void *data, size_t bytes, bool late)
{
	struct stream *stream = arg;
	uint32_t pid = *(const uint32_t *)data;
	struct decoding *d = job_begin(stream, pid, late);
	struct process *process = processes_find(stream->walker->processes, pid);

	if (process && !process->dead)
		refresh(d, process);
	job_end(d, pid);
	(void)bytes;
}

static void run_due(struct decoding *d)
{
	struct stream *stream = d->stream;
	uint32_t pids[MAX_DUE];
	struct process *process;
	size_t i, nr = stream->nr_due;

	memcpy(pids, stream->due, nr * sizeof(*pids));
	stream->nr_due = 0;
	for (i = 0; i < nr; i++) {
		process = processes_find(stream->walker->processes, pids[i]);
		if (!process || process->dead || !process->reread_ns)
			continue;
		if (process->reread_ns > d->now_ns) {
			stream->due[stream->nr_due++] = pids[i];
			continue;
		}
		process->reread_ns = 0;
		if (!post(stream, refresh_job, pids[i], &pids[i], sizeof(pids[i])))
			refresh(d, process);
	}
}

/*
 * Reads all mappings again every 10 s: a mapping that MAP_FIXED puts over another one sends no
 * event.
 */
static void verify(struct decoding *d)
{
	struct stream *stream = d->stream;
	struct process *process;
	int nr = 0;

	liveness_run(stream->liveness);
	processes_expire(stream->walker->processes, d->now_ns);
	anon_code_expire(stream->walker->anon_code, d->now_ns);
	python_maps_clean(stream->walker->python_maps, stream->walker->processes, stream->codes);
	for (process = processes_first(stream->walker->processes);
	     process && nr < VERIFY_PER_SECOND; process = hash_table_next(process)) {
		if (process->dead || !process->sampled ||
		    d->now_ns - process->read_ns < VERIFY_EVERY_NS)
			continue;
		/* Without room for the job it stays marked. */
		process->sampled = stream->background && !post(stream, refresh_job, process->pid,
							       &process->pid, sizeof(process->pid));
		if (!stream->background)
			refresh(d, process);
		nr++;
	}
}

static void verify_job(void *arg, const void *data, size_t bytes, bool late)
{
	struct stream *stream = arg;

	verify(job_begin(stream, 0, late));
	(void)data;
	(void)bytes;
}

static void run_verify(struct decoding *d)
{
	struct stream *stream = d->stream;

	if (d->now_ns - stream->verified_ns < NS_PER_SECOND ||
	    background_has(stream->background, NO_PID))
		return;
	stream->verified_ns = d->now_ns;
	if (!stream->background)
		verify(d);
	else
		post(stream, verify_job, NO_PID, NULL, 0);
}

static void pages_mark_used(struct decoding *d, const struct sample_view *view)
{
	uint64_t frame, off;
	size_t i;

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
static void merge(struct decoding *d, const struct process *process, struct sample_view *view)
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
	size_t head = sizeof(*sample) + (nr + sample->title_words) * sizeof(*frames);
	size_t call = sample->flags & BPFPROF_SAMPLE_CALL ? sizeof(*view.call) : 0;
	bool is_miss = sample->rec.kind == BPFPROF_KIND_MISS;
	struct walker_miss miss;
	struct process *process;

	if (nr > BPFPROF_MAX_FRAMES || sample->skip > sample->nr_kernel || head + call > size ||
	    (is_miss && !miss_parse(&miss, sample, head + call, size))) {
		stream->nr_malformed++;
		return;
	}
	if (call)
		view.call = (const struct bpfprof_gpu_call *)(frames + nr + sample->title_words);
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
		merge(d, process, &view);
	if (sample->flags & BPFPROF_SAMPLE_RAY || (process && process->title))
		view.title = title_take(d, process, sample, (const char *)(frames + nr));
	emit(stream, &(struct event){ .kind = EVENT_SAMPLE, .view = &view });
}

static void on_exit_event(struct decoding *d, const struct bpfprof_task_id *task,
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

/* verify() runs in the background, if there is one. */
static struct decoding *liveness_decoding(struct stream *stream)
{
	return stream->background ? &stream->job : &stream->here;
}

static void on_process_ended(void *arg, struct process *process)
{
	struct stream *stream = arg;
	struct decoding *d = liveness_decoding(stream);
	const struct process_end end = { .ts_ns = d->now_ns };
	const struct bpfprof_task_id task = { .pid = process->pid,
					      .tid = process->pid,
					      .start_ns = process->start_ns,
					      .exec_id = process->exec_id };

	if (!background_has(stream->background, process->pid)) /* its exit event may wait there */
		on_exit_event(d, &task, &end);
}

static void on_target_ended(void *arg, uint32_t pid)
{
	struct decoding *d = liveness_decoding(arg);
	const struct process_end end = { .ts_ns = d->now_ns };
	const struct bpfprof_task_id task = { .pid = pid, .tid = pid };

	on_exit_event(d, &task, &end);
}

static void on_event(struct decoding *d, const struct bpfprof_process_event *e)
{
	struct stream *stream = d->stream;
	struct processes *processes = stream->walker->processes;
	const struct process_end end = { .ts_ns = e->rec.ts_ns, .cpu_ns = e->cpu_ns };
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
		reread_later(d, process, 2 * REREAD_DELAY_NS);
		break;
	case BPFPROF_KIND_MMAP:
		process = processes_find(processes, e->task.pid);
		if (process && process->start_ns == e->task.start_ns)
			reread_later(d, process, REREAD_DELAY_NS);
		break;
	case BPFPROF_KIND_EXIT:
		on_exit_event(d, &e->task, &end);
		break;
	}
}

/* Are the mappings of a process needed before its first sample? */
static bool libraries_are_hooked(const struct stream *stream)
{
	return stream->session->options.gpu || stream->session->options.gpu_windows;
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
		reread_later(d, child, 2 * REREAD_DELAY_NS);
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

static void on_code(struct stream *stream, const struct bpfprof_python_code *piece, size_t size)
{
	const struct bpfprof_python_layout *layout;

	layout = pythons_layout(stream->walker->pythons, piece->layout);
	if (!layout)
		return;
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
	[BPFPROF_KIND_WINDOW] = { sizeof(struct bpfprof_window_event), EVENT_WINDOW },
};

/* Decodes a record whose kind and size are checked. */
static void record_decode(struct decoding *d, const struct bpfprof_record *rec, size_t size)
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

/* Does all that this sample needs lie in memory? */
static bool sample_is_settled(struct stream *stream, const struct bpfprof_sample *sample)
{
	struct process *process = processes_find(stream->walker->processes, sample->task.pid);

	if (!process || process->start_ns != sample->task.start_ns ||
	    process->exec_id != sample->task.exec_id)
		return true; /* nothing is known of it, and a miss alone brings more */
	return process->mappings_known &&
	       stream->handlers.is_settled(stream->handlers.arg, process, sample);
}

/*
 * Must the record wait for files and processes, or for earlier records of its process that do? Then *ret_pid
 * is the process whose jobs it follows.
 */
static bool record_waits(struct stream *stream, const struct bpfprof_record *rec, uint32_t *ret_pid)
{
	const struct bpfprof_process_event *event = (const void *)rec;
	const struct bpfprof_sample *sample = (const void *)rec;
	const struct bpfprof_title_event *title = (const void *)rec;
	const struct bpfprof_fork_event *fork = (const void *)rec;

	switch (rec->kind) {
	case BPFPROF_KIND_MISS:
		*ret_pid = sample->task.pid;
		return true;
	case BPFPROF_KIND_SAMPLE:
		*ret_pid = sample->task.pid;
		return background_has(stream->background, *ret_pid) ||
		       !sample_is_settled(stream, sample);
	case BPFPROF_KIND_EXEC:
		*ret_pid = event->task.pid;
		return true;
	case BPFPROF_KIND_EXIT:
	case BPFPROF_KIND_MMAP:
		*ret_pid = event->task.pid;
		break;
	case BPFPROF_KIND_TITLE:
		*ret_pid = title->task.pid;
		break;
	case BPFPROF_KIND_FORK:
		*ret_pid =
			fork->child.pid; /* of an earlier process; the parent's facts can be read */
		break;
	default:
		return false;
	}
	return background_has(stream->background, *ret_pid);
}

/* data: the record. */
static void record_job(void *arg, const void *data, size_t bytes, bool late)
{
	struct stream *stream = arg;
	struct decoding *d;
	uint32_t pid = NO_PID;

	record_waits(stream, data, &pid);
	d = job_begin(stream, pid, late);
	record_decode(d, data, bytes);
	job_end(d, pid);
}

/* There is no room for a job: does what can be done without. */
static void record_refused(struct stream *stream, const struct bpfprof_record *rec, size_t size,
			   uint32_t pid)
{
	bool busy = background_has(stream->background, pid);

	/* An event of a process that a job uses is lost, as one for which the ring has no room. */
	if (busy && rec->kind != BPFPROF_KIND_SAMPLE && rec->kind != BPFPROF_KIND_MISS)
		return;
	stream->here.apart = busy;
	record_decode(&stream->here, rec, size);
	stream->here.apart = false;
}

static int on_record(void *arg, void *data, size_t size)
{
	struct stream *stream = arg;
	const struct bpfprof_record *rec = data;
	uint32_t pid;

	if (size < sizeof(*rec) || rec->kind >= sizeof(records) / sizeof(records[0]) ||
	    !records[rec->kind].least || size < records[rec->kind].least) {
		stream->nr_malformed++;
		return 0;
	}
	if (!stream->background || !record_waits(stream, rec, &pid))
		record_decode(&stream->here, rec, size);
	else if (!post(stream, record_job, pid, data, size))
		record_refused(stream, rec, size, pid);
	return 0;
}

int stream_new(struct stream **ret, struct session *session, struct walker *walker,
	       struct codes *codes, struct background *background,
	       const struct stream_handlers *handlers)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	const struct liveness_handlers ended = { .process = on_process_ended,
						 .target = on_target_ended,
						 .arg = stream };
	int err;

	if (!stream)
		return -ENOMEM;
	stream->session = session;
	stream->walker = walker;
	stream->codes = codes;
	stream->background = background;
	stream->handlers = *handlers;
	stream->here.stream = stream->job.stream = stream;
	stream->here.may_wait = !background;
	stream->ring =
		ring_buffer__new(bpf_map__fd(session->skel->maps.ring), on_record, stream, NULL);
	err = stream->ring ? liveness_new(&stream->liveness, session, walker->processes, &ended)
			   : -errno;
	if (err) {
		stream_free(stream);
		return err;
	}
	*ret = stream;
	return 0;
}

void stream_free(struct stream *stream)
{
	if (!stream)
		return;
	ring_buffer__free(stream->ring);
	liveness_free(stream->liveness);
	free(stream);
}

int stream_fd(const struct stream *stream)
{
	return ring_buffer__epoll_fd(stream->ring);
}

void stream_take(struct stream *stream)
{
	stream->here.now_ns = time_monotonic_ns();
	ring_buffer__consume(stream->ring);
}

int stream_run(struct stream *stream)
{
	stream_take(stream);
	stream->here.now_ns = time_monotonic_ns();
	run_due(&stream->here);
	run_verify(&stream->here);
	return stream->nr_due ? 1 : POLL_MS;
}

uint64_t stream_nr_ray(const struct stream *stream)
{
	return stream->nr_ray;
}

uint64_t stream_nr_bad_title(const struct stream *stream)
{
	return stream->nr_bad_title;
}

uint64_t stream_nr_torn_title(const struct stream *stream)
{
	return stream->nr_torn_title;
}

uint64_t stream_nr_found_ended(const struct stream *stream)
{
	return liveness_count(stream->liveness);
}

uint64_t stream_nr_malformed(const struct stream *stream)
{
	return stream->nr_malformed;
}
