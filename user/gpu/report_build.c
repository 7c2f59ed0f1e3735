// SPDX-License-Identifier: Apache-2.0
/* Makes the report of gpu/report.h from a snapshot and from the facts about its processes. */
#include "gpu/report_build.h"

#include <errno.h>

#include "base/buf.h"
#include "base/host_name.h"
#include "cuda/functions.h"
#include "gpu/absent_ranks.h"
#include "gpu/gap_sampler.h"
#include "gpu/inflight.h"
#include "gpu/memory_log.h"
#include "gpu/job.h"
#include "gpu/recent.h"
#include "gpu/trace.h"
#include "gpu/waits.h"
#include "kernel/probes/gpu_probes.h"
#include "options/gpu_options.h"
#include "profile/stats.h"

#define MAX_TEXT_BYTES (4U << 20)

/* The communicator of a call that began before the hooks were attached, if no other call has it. */
static void inflight_comm_add(struct gpu_build *b, struct gpu_report_process *process,
			      const struct gpu_inflight_call *from)
{
	struct gpu_report_comm *comm = b->comms, *end = b->comms + process->nr_comms;

	if (!from->arguments.comm_known)
		return;
	for (; comm < end && comm->comm != from->arguments.info.comm; comm++)
		;
	if (comm == end) {
		*comm = (struct gpu_report_comm){ .comm = from->arguments.info.comm,
						  .last = from->function };
		process->nr_comms++;
	} else if (comm->known) {
		return;
	}
	comm->known = true;
	comm->hash = from->arguments.hash;
	comm->rank = from->arguments.rank;
	comm->size = from->arguments.size;
}

static void comm_add(struct gpu_build *b, struct gpu_report_process *process,
		     const struct gpu_comm_entry *from)
{
	const struct bpfprof_gpu_comm *comm = &from->comm;
	/* A rank beyond the size shows that the memory holds something else, or was freed. */
	bool known = comm->size && comm->rank < comm->size;

	b->comms[process->nr_comms++] =
		(struct gpu_report_comm){ .comm = from->key.comm,
					  .known = known,
					  .hash = known ? comm->hash : 0,
					  .rank = known ? comm->rank : 0,
					  .size = known ? comm->size : 0,
					  .calls = comm->calls,
					  .last = gpu_function(comm->last_function)->shown };
}

static bool is_of(const struct call_table_process *process, uint32_t pid, uint64_t start_ns)
{
	return process->kernel_pid == pid && process->start_ns == start_ns;
}

static const char *known(const char *text)
{
	return text ? text : "";
}

static struct gpu_report_memory memory_of(const struct call_table_process *process,
					  enum gpu_space space)
{
	const struct call_table_memory *memory = &process->memory[space];

	return (struct gpu_report_memory){ .live_bytes = memory->live_bytes,
					   .peak_bytes = memory->peak_bytes,
					   .allocations = memory->allocations,
					   .frees = memory->frees,
					   .unknown_frees = memory->unknown_frees };
}

/* The report borrows the strings of `from`, which may be NULL. */
static void where_fill(struct gpu_build *b, struct gpu_report_process *to,
		       const struct absent_rank *from)
{
	const struct absent_rank_thread *thread;
	size_t i;

	to->where = b->where;
	to->nr_where = from ? from->nr_threads : 0;
	for (i = 0; i < to->nr_where; i++) {
		thread = &from->threads[i];
		*b->where++ = (struct gpu_report_where){ .tid = thread->tid,
							 .thread = thread->name,
							 .was_in_nccl = thread->was_in_nccl,
							 .running = thread->running,
							 .stack = thread->frames,
							 .nr_stack = thread->nr_frames };
	}
}

/* The rows of the next process begin where those of this one end. */
static void rows_end(struct gpu_build *b, const struct gpu_report_process *process)
{
	b->calls += process->nr_calls;
	b->launches += process->nr_launches;
	b->graphs += process->nr_graphs;
	b->copies += process->nr_copies;
	b->collectives += process->nr_collectives;
	b->completions += process->nr_completions;
	b->comms += process->nr_comms;
	b->open += process->nr_open;
}

static int process_fill(struct gpu_build *b, struct gpu_report_process *to,
			const struct call_table_process *from)
{
	const struct gpu_snapshot *snapshot = b->snapshot;
	const struct gpu_inflight_call *inflight;
	size_t nr_inflight, i;
	int err = 0;

	*to = (struct gpu_report_process){
		.pid = from->pid ? from->pid : from->kernel_pid,
		.name = known(from->name),
		.container = known(from->container),
		.pod = known(from->pod),
		.namespace = known(from->namespace),
		.ray_task = known(from->ray_task),
		.rank = known(from->rank),
		.calls = b->calls,
		.launches = b->launches,
		.graphs = b->graphs,
		.copies = b->copies,
		.collectives = b->collectives,
		.completions = b->completions,
		.comms = b->comms,
		.open = b->open,
		.memory = memory_of(from, GPU_SPACE_DEVICE),
		.host_memory = memory_of(from, GPU_SPACE_HOST),
		.tensors_known = b->job->options->record.capture.session.gpu_tensors,
		.tensor_memory = memory_of(from, GPU_SPACE_TENSOR),
	};
	for (i = 0; i < snapshot->nr_counts; i++)
		if (is_of(from, snapshot->counts[i].key.pid, snapshot->counts[i].key.start_ns))
			gpu_build_count(b, to, &snapshot->counts[i]);
	gpu_build_completions(b, to, from);
	for (i = 0; i < snapshot->nr_comms; i++)
		if (is_of(from, snapshot->comms[i].key.pid, snapshot->comms[i].key.start_ns))
			comm_add(b, to, &snapshot->comms[i]);
	inflight = gpu_inflight_calls(b->job->inflight, &nr_inflight);
	for (i = 0; i < nr_inflight && !from->ended; i++)
		if (is_of(from, inflight[i].pid, inflight[i].start_ns))
			inflight_comm_add(b, to, &inflight[i]);
	for (i = 0; i < snapshot->nr_memory; i++) {
		if (!is_of(from, snapshot->memory[i].key.pid, snapshot->memory[i].key.start_ns))
			continue;
		to->memory.device_known = true;
		to->memory.device_free = snapshot->memory[i].memory.free_bytes;
		to->memory.device_total = snapshot->memory[i].memory.total_bytes;
	}
	gpu_build_times(b, to, from);
	for (i = 0; i < snapshot->nr_open && !from->ended && !err; i++)
		if (is_of(from, snapshot->open[i].open.key.pid,
			  snapshot->open[i].open.key.start_ns))
			err = gpu_build_open(b, to, &snapshot->open[i]);
	for (i = 0; i < nr_inflight && !from->ended; i++)
		if (is_of(from, inflight[i].pid, inflight[i].start_ns))
			gpu_build_inflight(b, to, &inflight[i]);
	where_fill(b, to, absent_ranks_of(b->job->absent_ranks, from->kernel_pid, from->start_ns));
	rows_end(b, to);
	return err;
}

void gpu_lost(struct gpu_job *job, const struct gpu_snapshot *snapshot, struct stats_reasons *lost)
{
	struct run_stats stats = { 0 };

	gpu_monitor_lost(
		&job->watch, snapshot->counters,
		call_table_nr_unknown(job->watch.table, snapshot->counts, snapshot->nr_counts),
		lost);
	sampler_stats(&job->sampler, &stats);
	stats_add_reasons(lost, &stats.lost);
	gpu_inflight_lost(job->inflight, lost);
	gap_sampler_lost(job->gap_sampler, lost);
	absent_ranks_lost(job->absent_ranks, lost);
	if (job->trace)
		gpu_trace_lost(job->trace, lost);
	if (job->memory_log)
		gpu_memory_log_lost(job->memory_log, lost);
}

static int libraries_fill(struct gpu_build *b)
{
	const struct gpu_probes_library *from;
	struct gpu_report_library *to;
	size_t nr, i;

	from = gpu_probes_libraries(b->job->watch.probes, &nr);
	to = gpu_arrays_add(&b->arrays, nr, sizeof(*to));
	if (!to)
		return -ENOMEM;
	b->report.libraries = to;
	b->report.nr_libraries = nr;
	for (i = 0; i < nr; i++)
		to[i] = (struct gpu_report_library){
			.path = from[i].path,
			.cuda = from[i].layers & 1U << GPU_LAYER_DRIVER,
			.nccl = from[i].layers & 1U << GPU_LAYER_NCCL,
			.torch = from[i].layers & 1U << GPU_LAYER_TORCH,
			.python = from[i].layers & 1U << GPU_LAYER_PYTHON,
			.functions = from[i].functions,
			.problem = from[i].problem,
		};
	return 0;
}

static bool has_something(const struct gpu_report_process *process)
{
	return process->nr_calls || process->nr_open || process->nr_comms;
}

/* Room for all rows of nr processes. */
static int rows_new(struct gpu_build *b, size_t nr)
{
	const struct gpu_snapshot *snapshot = b->snapshot;
	struct gpu_arrays *arrays = &b->arrays;
	size_t nr_counts = snapshot->nr_counts, nr_rows, nr_inflight;

	gpu_waits_poll(b->job->watch.waits);
	gpu_waits_rows(b->job->watch.waits, &nr_rows);
	gpu_inflight_calls(b->job->inflight, &nr_inflight);
	b->calls = gpu_arrays_add(arrays, nr_counts, sizeof(*b->calls));
	b->launches = gpu_arrays_add(arrays, nr_counts, sizeof(*b->launches));
	b->graphs = gpu_arrays_add(arrays, nr_counts, sizeof(*b->graphs));
	b->nodes =
		gpu_arrays_add(arrays, call_table_nr_nodes(b->job->watch.table), sizeof(*b->nodes));
	b->copies = gpu_arrays_add(arrays, nr_counts, sizeof(*b->copies));
	b->collectives = gpu_arrays_add(arrays, nr_counts, sizeof(*b->collectives));
	b->completions = gpu_arrays_add(arrays, nr_rows, sizeof(*b->completions));
	b->comms = gpu_arrays_add(arrays, snapshot->nr_comms + nr_inflight, sizeof(*b->comms));
	b->open = gpu_arrays_add(arrays, snapshot->nr_open + nr_inflight, sizeof(*b->open));
	b->frames = gpu_arrays_add(arrays, GPU_BUILD_MAX_FRAMES, sizeof(*b->frames));
	b->grouped = gpu_arrays_add(arrays, GPU_BUILD_MAX_GROUPED, sizeof(*b->grouped));
	b->where = gpu_arrays_add(arrays, nr * ABSENT_RANKS_THREADS, sizeof(*b->where));
	return arrays->failed ? -ENOMEM : 0;
}

static int processes_fill(struct gpu_build *b)
{
	const struct call_table_process *from;
	struct gpu_report_process *processes, *silent, *process;
	size_t nr, i;
	int err;

	from = call_table_processes(b->job->watch.table, &nr);
	b->report.processes = processes = gpu_arrays_add(&b->arrays, nr, sizeof(*processes));
	b->report.silent = silent = gpu_arrays_add(&b->arrays, nr, sizeof(*silent));
	err = rows_new(b, nr);
	for (i = 0; i < nr && !err; i++) {
		process = &processes[b->report.nr_processes];
		err = process_fill(b, process, &from[i]);
		if (has_something(process))
			b->report.nr_processes++;
		else if (!from[i].ended &&
			 gpu_inflight_was_silent(b->job->inflight, from[i].kernel_pid,
						 from[i].start_ns))
			silent[b->report.nr_silent++] = *process;
	}
	return err;
}

static int report_fill(struct gpu_build *b)
{
	int err = gpu_arrays_init(&b->arrays, MAX_TEXT_BYTES);

	if (!err)
		err = libraries_fill(b);
	if (!err)
		err = processes_fill(b);
	gpu_lost(b->job, b->snapshot, &b->lost);
	b->report.stacks_taken = call_table_nr_stacks(b->job->watch.table);
	b->report.stacks_skipped = b->snapshot->counters[GPU_COUNT_NO_TOKEN];
	b->report.stacks_hz = session_call_stacks_hz(&b->job->sampler.reader.session);
	b->report.lost = b->lost.reasons;
	b->report.nr_lost = b->lost.nr;
	return err;
}

int gpu_report_build(struct buf *dst, struct gpu_job *job, const struct gpu_snapshot *snapshot,
		     const struct gpu_report_how *how)
{
	const struct gpu_options *options = job->options;
	const struct gpu_report_options table = { .rows = options->rows,
						  .sort = how->sort ? how->sort : options->sort,
						  .columns = how->columns,
						  .screen_rows = how->screen_rows };
	struct gpu_build b = { .job = job, .snapshot = snapshot, .recent = how->recent };
	uint64_t end_ns = job->end_ns ? job->end_ns : snapshot->ts_ns;
	char host[HOST_NAME_BYTES];
	int err = report_fill(&b);

	host_name(host);
	b.report.host = host;
	b.report.seconds = (double)(end_ns - job->start_ns) / 1e9;
	b.report.start_seconds = (double)job->start_wall_ns / 1e9;
	if (how->recent)
		b.report.recent_seconds = gpu_recent_seconds(how->recent);
	if (!err && options->json)
		gpu_json(dst, &b.report);
	else if (!err)
		gpu_table(dst, &b.report, &table);
	gpu_arrays_fini(&b.arrays);
	return err ?: buf_error(dst);
}
