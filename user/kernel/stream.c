// SPDX-License-Identifier: Apache-2.0
#include "kernel/stream.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
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
#include "bpfprof.skel.h"

#define POLL_MS 50
#define REREAD_DELAY_NS 1000000ULL /* a mapping is announced just before it is made */
#define YOUNG_NS NS_PER_SECOND /* a process this young still maps its libraries */
#define OLD_FACTOR 50
#define VERIFY_EVERY_NS 10000000000ULL
#define VERIFY_PER_SECOND 100
#define MAX_DUE 1024

struct stream {
	struct session *session;
	struct walker *walker;
	struct codes *codes;
	struct stream_handlers handlers;
	struct ring_buffer *ring;
	uint64_t now_ns;
	uint64_t verified_ns;
	uint64_t nr_malformed;
	uint32_t due[MAX_DUE]; /* pids whose mappings are to be read again */
	size_t nr_due;
	uint64_t frames[BPFPROF_MAX_FRAMES + BPFPROF_MAX_USER_FRAMES];
	uint64_t merged[BPFPROF_MAX_FRAMES + BPFPROF_MAX_USER_FRAMES + 1];
};

static void reread_later(struct stream *stream, struct process *process, uint64_t delay_ns)
{
	if (process->reread_ns)
		return;
	if (stream->now_ns - process->known_ns > YOUNG_NS)
		delay_ns *= OLD_FACTOR;
	if (stream->nr_due == MAX_DUE) /* verified within 10 s, or when a sample misses */
		return;
	process->reread_ns = stream->now_ns + delay_ns;
	stream->due[stream->nr_due++] = process->pid;
}

static void run_due(struct stream *stream)
{
	struct process *process;
	size_t i, kept = 0;

	for (i = 0; i < stream->nr_due; i++) {
		process = processes_find(stream->walker->processes, stream->due[i]);
		if (!process || process->dead || !process->reread_ns)
			continue;
		if (process->reread_ns > stream->now_ns)
			stream->due[kept++] = stream->due[i];
		else
			walker_refresh(stream->walker, process, stream->now_ns);
	}
	stream->nr_due = kept;
}

/* Mappings made over others by MAP_FIXED send no event: look again every 10 s. */
static void run_verify(struct stream *stream)
{
	struct process *process;
	int nr = 0;

	if (stream->now_ns - stream->verified_ns < NS_PER_SECOND)
		return;
	stream->verified_ns = stream->now_ns;
	processes_expire(stream->walker->processes, stream->now_ns);
	python_maps_clean(stream->walker->python_maps, stream->walker->processes, stream->codes);
	for (process = processes_first(stream->walker->processes);
	     process && nr < VERIFY_PER_SECOND; process = process->hh.next) {
		if (process->dead || !process->sampled ||
		    stream->now_ns - process->read_ns < VERIFY_EVERY_NS)
			continue;
		process->sampled = false;
		walker_refresh(stream->walker, process, stream->now_ns);
		nr++;
	}
}

static void pages_mark_used(struct stream *stream, const struct sample_view *view)
{
	uint64_t frame, off;
	size_t i;

	for (i = 0; i < view->nr_user; i++) {
		frame = view->user[i];
		if (frame >> BPFPROF_FRAME_SHIFT != BPFPROF_FRAME_NATIVE)
			continue;
		off = frame & BPFPROF_OFF_MASK;
		tables_page_used(stream->walker->tables,
				 (uint32_t)((frame & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS),
				 (uint32_t)(off >> BPFPROF_PAGE_SHIFT), stream->now_ns);
	}
}

static bool is_eval(void *arg, uint64_t frame)
{
	return frame >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_NATIVE &&
	       pythons_is_eval(arg, (uint32_t)((frame & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS),
			       frame & BPFPROF_OFF_MASK);
}

/* Native frames in view become the whole user stack. */
static void merge(struct stream *stream, const struct process *process, struct sample_view *view)
{
	const struct bpfprof_sample *sample = view->sample;
	const struct bpfprof_python_layout *layout = NULL;
	struct python_merge m = {
		.python = (const uint64_t *)(sample + 1) + sample->nr_kernel,
		.nr_python = sample->nr_python,
		.native = view->user,
		.nr_native = view->nr_user,
		.complete = view->stop == BPFPROF_STOP_COMPLETE,
		.is_eval = is_eval,
		.arg = stream->walker->pythons,
	};
	size_t i;

	if (process)
		layout = pythons_layout(stream->walker->pythons, process->python_layout);
	m.by_code = layout && layout->chain == PYTHON_CHAIN_OBJECTS;
	view->nr_user = python_merge(&m, stream->merged, &view->unmerged);
	view->user = stream->merged;
	for (i = 0; i < view->nr_user; i++)
		if (stream->merged[i] >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_PYTHON)
			stream->merged[i] = codes_frame(stream->codes, stream->merged[i],
							process ? process->python_id : 0);
}

static void on_sample(struct stream *stream, const struct bpfprof_sample *sample, size_t size)
{
	const struct bpfprof_miss *miss = NULL;
	const uint64_t *frames = (const uint64_t *)(sample + 1);
	struct sample_view view = { .sample = sample, .stop = sample->stop };
	size_t nr = (size_t)sample->nr_kernel + sample->nr_python + sample->nr_user;
	struct process *process;

	if (nr > BPFPROF_MAX_FRAMES || sample->skip > sample->nr_kernel ||
	    sizeof(*sample) + nr * sizeof(*frames) > size) {
		stream->nr_malformed++;
		return;
	}
	view.kernel = frames + sample->skip;
	view.nr_kernel = sample->nr_kernel - (size_t)sample->skip;
	view.user = frames + sample->nr_kernel + sample->nr_python;
	view.nr_user = sample->nr_user;
	if (sample->rec.kind == BPFPROF_KIND_MISS) {
		miss = (const struct bpfprof_miss *)sample;
		if (size < offsetof(struct bpfprof_miss, stack) ||
		    miss->stack_len > size - offsetof(struct bpfprof_miss, stack)) {
			stream->nr_malformed++;
			return;
		}
		memcpy(stream->frames, view.user, view.nr_user * sizeof(*frames));
		view.user = stream->frames;
		view.nr_user =
			walker_finish(stream->walker, miss, stream->frames, (uint32_t)view.nr_user,
				      BPFPROF_MAX_USER_FRAMES, &view.stop, stream->now_ns);
	} else {
		pages_mark_used(stream, &view);
	}
	process = processes_find(stream->walker->processes, sample->task.pid);
	if (process)
		process->sampled = true;
	if (sample->nr_python)
		merge(stream, process, &view);
	stream->handlers.sample(stream->handlers.arg, &view);
}

static void on_event(struct stream *stream, const struct bpfprof_process_event *e)
{
	struct processes *processes = stream->walker->processes;
	struct process *process;

	switch (e->rec.kind) {
	case BPFPROF_KIND_EXEC:
		process = processes_get(processes, &e->task);
		if (!process)
			return;
		process->known_ns = stream->now_ns;
		walker_refresh(stream->walker, process, stream->now_ns);
		/* By now only the program and its loader are mapped; the libraries follow. */
		reread_later(stream, process, 2 * REREAD_DELAY_NS);
		break;
	case BPFPROF_KIND_MMAP:
		process = processes_find(processes, e->task.pid);
		if (process && process->start_ns == e->task.start_ns)
			reread_later(stream, process, REREAD_DELAY_NS);
		break;
	case BPFPROF_KIND_EXIT:
		processes_exit(processes, &e->task, stream->now_ns);
		process = processes_find(processes, e->task.pid);
		if (process && process->dead) /* it has no memory any more */
			tables_retire(stream->walker->tables, process, stream->now_ns);
		if (stream->handlers.exit)
			stream->handlers.exit(stream->handlers.arg, &e->task, e->comm, e->cpu_ns);
		break;
	}
}

static void on_fork(struct stream *stream, const struct bpfprof_fork_event *e)
{
	struct process *child;

	processes_fork(stream->walker->processes, &e->parent, &e->child);
	child = processes_find(stream->walker->processes, e->child.pid);
	/* Python frames can be had in the kernel only: not even the first sample may miss. */
	if (child && child->start_ns == e->child.start_ns && child->python_layout &&
	    !child->published)
		walker_publish(stream->walker, child, stream->now_ns);
}

static void on_code(struct stream *stream, const struct bpfprof_python_code *piece, size_t size)
{
	const struct bpfprof_python_layout *layout;

	if (size < offsetof(struct bpfprof_python_code, data)) {
		stream->nr_malformed++;
		return;
	}
	layout = pythons_layout(stream->walker->pythons, piece->layout);
	if (!layout)
		return;
	codes_piece(stream->codes, piece, size, layout->lines);
	if (piece->part == PYTHON_PART_NAME)
		python_maps_code(stream->walker->python_maps);
}

static int on_record(void *arg, void *data, size_t size)
{
	struct stream *stream = arg;
	const struct bpfprof_record *rec = data;

	if (size < sizeof(*rec))
		goto malformed;
	switch (rec->kind) {
	case BPFPROF_KIND_SAMPLE:
	case BPFPROF_KIND_MISS:
		if (size < sizeof(struct bpfprof_sample))
			goto malformed;
		/* Reading mappings and files takes its time: "now" moves on. */
		if (rec->kind == BPFPROF_KIND_MISS)
			stream->now_ns = time_monotonic_ns();
		on_sample(stream, data, size);
		return 0;
	case BPFPROF_KIND_EXEC:
	case BPFPROF_KIND_EXIT:
	case BPFPROF_KIND_MMAP:
		if (size < sizeof(struct bpfprof_process_event))
			goto malformed;
		on_event(stream, data);
		return 0;
	case BPFPROF_KIND_FORK:
		if (size < sizeof(struct bpfprof_fork_event))
			goto malformed;
		on_fork(stream, data);
		return 0;
	case BPFPROF_KIND_PYTHON_CODE:
		on_code(stream, data, size);
		return 0;
	}
malformed:
	stream->nr_malformed++;
	return 0;
}

int stream_new(struct stream **ret, struct session *session, struct walker *walker,
	       struct codes *codes, const struct stream_handlers *handlers)
{
	struct stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return -ENOMEM;
	stream->session = session;
	stream->walker = walker;
	stream->codes = codes;
	stream->handlers = *handlers;
	stream->ring =
		ring_buffer__new(bpf_map__fd(session->skel->maps.ring), on_record, stream, NULL);
	if (!stream->ring) {
		free(stream);
		return -errno;
	}
	*ret = stream;
	return 0;
}

void stream_free(struct stream *stream)
{
	if (!stream)
		return;
	ring_buffer__free(stream->ring);
	free(stream);
}

int stream_fd(const struct stream *stream)
{
	return ring_buffer__epoll_fd(stream->ring);
}

int stream_run(struct stream *stream)
{
	stream->now_ns = time_monotonic_ns();
	ring_buffer__consume(stream->ring);
	stream->now_ns = time_monotonic_ns();
	run_due(stream);
	run_verify(stream);
	return stream->nr_due ? 1 : POLL_MS;
}

uint64_t stream_nr_malformed(const struct stream *stream)
{
	return stream->nr_malformed;
}
