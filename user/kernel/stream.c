// SPDX-License-Identifier: Apache-2.0
#include "kernel/stream_state.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/tenant.h"
#include "base/time.h"
#include "kernel/anon_code.h"
#include "kernel/liveness.h"
#include "kernel/python_maps.h"
#include "kernel/session.h"
#include "kernel/walk.h"
#include "proc/processes.h"
#include "python/codes.h"
#include "python/pythons.h"
#include "bpfprof.skel.h"

#define POLL_MS 50
/*
 * With samples of the clock alone, all that must be read at once wakes the loop, and so does a ring with an
 * eighth of its room taken. A wake-up costs as much as a few samples, and samples that are taken together
 * find warm caches.
 */
#define CLOCK_POLL_MS 200
#define REFRESH_AGAIN_NS (50 * 1000000ULL) /* after a read that had no time */
#define VERIFY_EVERY_NS 10000000000ULL
#define VERIFY_PER_SECOND 100
#define IMAGES_LEFT_DELAY_NS (200 * 1000000ULL)
#define NO_PID 0U /* the key of jobs that belong to no process */

static uint32_t tenant_of_pid(const struct stream *stream, uint32_t pid)
{
	const struct process *process = processes_find(stream->walker->processes, pid);

	return process && process->tenant ? process->tenant : tenant_of_process(pid);
}

/*
 * Runs a job of a process in the background, after the jobs of its parent (0: none). False: there is no room for it, or
 * no background, so that the caller does the work or does without.
 */
static bool post(struct stream *stream, background_fn fn, uint32_t pid, uint32_t parent,
		 const void *data, size_t bytes)
{
	const struct background_job job = { .fn = fn,
					    .arg = stream,
					    .data = data,
					    .bytes = bytes,
					    .key = pid,
					    .after = parent,
					    .tenant = tenant_of_pid(stream, parent ?: pid) };

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
	stream_reread_after(d, process, IMAGES_LEFT_DELAY_NS);
}

static void refresh(struct decoding *d, struct process *process)
{
	background_serve(tenant_of_pid(d->stream, process->pid));
	if (!d->may_wait || walker_refresh(d->stream->walker, process, d->now_ns) == -EAGAIN) {
		process->reread_ns = 0;
		stream_reread_after(d, process, REFRESH_AGAIN_NS);
	}
	background_serve(0);
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
	uint32_t pids[STREAM_MAX_DUE];
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
		if (!post(stream, refresh_job, pids[i], 0, &pids[i], sizeof(pids[i])))
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
		process->sampled = stream->background && !post(stream, refresh_job, process->pid, 0,
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
		post(stream, verify_job, NO_PID, 0, NULL, 0);
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
		stream_exit(d, &task, &end);
}

static void on_target_ended(void *arg, uint32_t pid)
{
	struct decoding *d = liveness_decoding(arg);
	const struct process_end end = { .ts_ns = d->now_ns };
	const struct bpfprof_task_id task = { .pid = pid, .tid = pid };

	stream_exit(d, &task, &end);
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

/* The process of a record, or NO_PID. */
static uint32_t record_pid(const struct bpfprof_record *rec)
{
	switch (rec->kind) {
	case BPFPROF_KIND_MISS:
	case BPFPROF_KIND_SAMPLE:
		return ((const struct bpfprof_sample *)rec)->task.pid;
	case BPFPROF_KIND_EXEC:
	case BPFPROF_KIND_EXIT:
	case BPFPROF_KIND_MMAP:
		return ((const struct bpfprof_process_event *)rec)->task.pid;
	case BPFPROF_KIND_TITLE:
		return ((const struct bpfprof_title_event *)rec)->task.pid;
	case BPFPROF_KIND_BLOCK_FREED: /* after the sample of the block */
		return ((const struct bpfprof_block_freed *)rec)->pid;
	case BPFPROF_KIND_FORK: /* the parent's facts can be read */
		return ((const struct bpfprof_fork_event *)rec)->child.pid;
	default:
		return NO_PID;
	}
}

/* The process that a record of another one needs to be known; 0: none. */
static uint32_t record_parent(const struct bpfprof_record *rec)
{
	return rec->kind == BPFPROF_KIND_FORK ? ((const struct bpfprof_fork_event *)rec)->parent.pid
					      : 0;
}

/* Must the record of that process wait for files and processes, or for earlier records of it that do? */
static bool record_waits(struct stream *stream, const struct bpfprof_record *rec, uint32_t pid)
{
	if (pid == NO_PID)
		return false;
	return rec->kind == BPFPROF_KIND_MISS || rec->kind == BPFPROF_KIND_EXEC ||
	       background_has(stream->background, pid) ||
	       (rec->kind == BPFPROF_KIND_FORK &&
		background_has(stream->background, record_parent(rec))) ||
	       (rec->kind == BPFPROF_KIND_SAMPLE && !sample_is_settled(stream, (const void *)rec));
}

/* data: the record. */
static void record_job(void *arg, const void *data, size_t bytes, bool late)
{
	struct stream *stream = arg;
	uint32_t pid = record_pid(data);
	struct decoding *d = job_begin(stream, pid, late);

	stream_decode(d, data, bytes);
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
	stream_decode(&stream->here, rec, size);
	stream->here.apart = false;
}

static int on_record(void *arg, void *data, size_t size)
{
	struct stream *stream = arg;
	const struct bpfprof_record *rec = data;
	uint32_t pid;

	if (!stream_record_is_valid(rec, size)) {
		stream->nr_malformed++;
		return 0;
	}
	pid = record_pid(rec);
	if (!stream->background) {
		background_serve(tenant_of_pid(stream, pid));
		stream_decode(&stream->here, rec, size);
		background_serve(0);
	} else if (!record_waits(stream, rec, pid)) {
		stream_decode(&stream->here, rec, size);
	} else if (!post(stream, record_job, pid, record_parent(rec), data, size)) {
		record_refused(stream, rec, size, pid);
	}
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

/* Time to the next poll or reading of mappings. */
static int time_to_poll_ms(struct stream *stream)
{
	uint64_t poll_ms = stream_has_clock_alone(stream) ? CLOCK_POLL_MS : POLL_MS;
	uint64_t poll_ns = poll_ms * NS_PER_SECOND / 1000, wait_ns = poll_ns, left_ns;
	uint64_t now_ns = stream->here.now_ns;
	const struct process *process;
	size_t i;

	for (i = 0; i < stream->nr_due; i++) {
		process = processes_find(stream->walker->processes, stream->due[i]);
		left_ns = process && process->reread_ns > now_ns ? process->reread_ns - now_ns : 0;
		if (left_ns < wait_ns)
			wait_ns = left_ns;
	}
	return (int)(wait_ns * 1000 / NS_PER_SECOND) + (wait_ns < poll_ns);
}

int stream_run(struct stream *stream)
{
	stream_take(stream);
	stream->here.now_ns = time_monotonic_ns();
	run_due(&stream->here);
	run_verify(&stream->here);
	return time_to_poll_ms(stream);
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
