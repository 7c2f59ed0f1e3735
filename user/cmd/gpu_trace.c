// SPDX-License-Identifier: Apache-2.0
/*
 * A trace among the files of `bpfprof gpu`: each call is stored when it ends, and written at the
 * end of the recording.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/host_name.h"
#include "base/log.h"
#include "base/time.h"
#include "cmd/gpu_parts.h"
#include "formats/output.h"
#include "formats/trace_place.h"
#include "gpu/job.h"
#include "gpu/timeline.h"
#include "gpu/trace.h"
#include "kernel/probes/gpu_maps.h"
#include "kernel/titles.h"
#include "options/gpu_options.h"
#include "profile/stats.h"

/* An event takes at least this many bytes of a trace. Its record in the spool takes no more. */
_Static_assert(sizeof(struct gpu_trace_event) <=
		       sizeof("{'ph':'X','pid':1,'tid':1,'ts':1.000,"
			      "'name':'cuMemFree','cat':'cuda','dur':1.000}"),
	       "the spool is no larger than the file");

static int open_in(void *arg, const char *folder)
{
	struct gpu_job *job = arg;

	return gpu_trace_new(&job->trace, folder, job->options->record.max_trace_bytes);
}

int gpu_trace_start(struct gpu_job *job, const char *path)
{
	return trace_place_open(path, open_in, job);
}

void gpu_trace_on_call(struct gpu_job *job, const struct bpfprof_gpu_trace *call)
{
	if (job->trace && !job->trace_closed)
		gpu_trace_call(job->trace, call);
}

void gpu_trace_on_title(struct gpu_job *job, const struct bpfprof_title_event *event)
{
	struct session *session = &job->sampler.reader.session;

	if (!job->trace || job->trace_closed)
		return;
	if (job->options->record.capture.nr_pids &&
	    !session_is_target(session, (pid_t)event->task.pid))
		return;
	titles_judge(session, event, true);
	gpu_trace_title(job->trace, event);
}

void gpu_trace_on_exit(struct gpu_job *job, const struct bpfprof_task_id *task)
{
	if (job->trace && !job->trace_closed)
		titles_forget(&job->sampler.reader.session, task->pid);
}

void gpu_trace_on_end(struct gpu_job *job, const struct bpfprof_task_id *task)
{
	uint64_t now_ns = time_monotonic_ns();
	struct gpu_map_walk walk;

	if (!job->trace || job->trace_closed)
		return;
	gpu_map_begin(&walk, &job->sampler.reader.session, GPU_MAP_THREADS);
	while (gpu_map_next(&walk))
		if (walk.value.thread.pid == task->pid &&
		    walk.value.thread.start_ns == task->start_ns)
			gpu_trace_leave(job->trace, walk.key.tid, &walk.value.thread, now_ns);
}

int gpu_trace_finish(struct gpu_job *job)
{
	struct gpu_map_walk walk;

	if (!job->trace)
		return 0;
	gpu_map_begin(&walk, &job->sampler.reader.session, GPU_MAP_THREADS);
	while (gpu_map_next(&walk))
		gpu_trace_note_open(job->trace, walk.key.tid, &walk.value.thread);
	sampler_run(&job->sampler);
	job->trace_closed = true;
	job->end_ns = time_monotonic_ns();
	return gpu_trace_close(job->trace, job->end_ns);
}

static bool comm_find(void *arg, uint32_t pid, uint64_t start_ns, uint64_t comm,
		      struct gpu_timeline_comm *ret)
{
	const struct bpfprof_gpu_key key = { .pid = pid, .start_ns = start_ns, .handle = comm };
	const struct gpu_comm_entry *entry = gpu_snapshot_comm(arg, &key);

	if (!entry)
		return false;
	ret->hash = entry->comm.hash;
	/* A rank beyond the size was read from a wrong address or from freed memory. */
	if (entry->comm.rank < entry->comm.size) {
		ret->rank = entry->comm.rank;
		ret->size = entry->comm.size;
	}
	return true;
}

int gpu_trace_write(struct gpu_job *job, const struct gpu_snapshot *snapshot, const char *path)
{
	char host[HOST_NAME_BYTES];
	struct stats_reasons lost = { 0 };
	struct gpu_timeline timeline = { .trace = job->trace,
					 .table = job->watch.table,
					 .comm = comm_find,
					 .arg = (void *)snapshot,
					 .facts = { .max_bytes =
							    job->options->record.max_trace_bytes,
						    .host = host,
						    .start_ns = job->start_ns,
						    .start_wall_ns = job->start_wall_ns,
						    .end_ns = job->end_ns,
						    .lost = &lost } };
	uint64_t ring;
	int err;

	host_name(host);
	gpu_lost(job, snapshot, &lost);
	err = output_write_by(path, gpu_timeline_write, &timeline);
	if (err)
		return err;
	trace_place_say_missing(path, &timeline.facts, gpu_trace_error(job->trace));
	ring = snapshot->counters[GPU_COUNT_TRACE_LOST];
	if (ring)
		log_warn("%s: %" PRIu64 " calls are missing: the ring buffer was full", path, ring);
	return 0;
}
