// SPDX-License-Identifier: Apache-2.0
#include "gpu/monitor.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/time.h"
#include "capture/container_filter.h"
#include "capture/sampler.h"
#include "cuda/functions.h"
#include "cuda/kernel_names.h"
#include "gpu/waits.h"
#include "kernel/probes/gpu_maps.h"
#include "kernel/probes/gpu_probes.h"
#include "kernel/probes/gpu_waits_map.h"
#include "kernel/probes/uprobe_multi.h"
#include "kernel/probes/uprobe_perf.h"
#include "profile/aggregate.h"
#include "profile/aggregate_stats.h"

#define SCAN_NS (20 * 1000000ULL) /* limit of one scan for libraries */
#define TICK_NS NS_PER_SECOND
#define NAMES_END_NS (2 * NS_PER_SECOND)
#define IDLE_NS (5 * NS_PER_SECOND)
#define GC_NAME "gc"
#define OTHER_NAME "other" /* for a kind that has no name */
#define CAPTURED_NAME "captured" /* any kind, written into a graph */

bool gpu_monitor_may_hook(void)
{
	return uprobe_multi_probe() || !uprobe_perf_probe();
}

int gpu_monitor_check(void)
{
	if (!gpu_monitor_may_hook()) {
		log_error("calls cannot be watched: this kernel lacks uprobe_multi links, and "
			  "refuses perf's uprobes; remedy: Linux 6.6 or newer, or CAP_SYS_ADMIN");
		return EXIT_PRIVILEGE;
	}
	/* This check forks, so it runs before any thread starts. */
	if (!uprobe_multi_returns_are_safe()) {
		log_error(
			"calls cannot be watched: this kernel would end programs under seccomp "
			"where their calls return; remedy: Linux 6.14 or newer, or a later stable "
			"version of this one");
		return EXIT_PRIVILEGE;
	}
	return EXIT_DONE;
}

static void on_call_stack(struct gpu_monitor *watch, const struct event *event)
{
	const struct bpfprof_gpu_key *key = &event->call_stack->key;

	if (!watch->counts || watch->counts(watch->arg, event->input))
		call_table_stack(watch->table, event->input, event->call_stack);
	else /* the end of the process must be noticed */
		call_table_process(watch->table, key->pid, key->start_ns);
}

/*
 * Adds the time of calls in which a thread was killed: it blocked in them until its process ended.
 */
static void last_calls_add(struct gpu_monitor *watch, uint32_t tid,
			   const struct bpfprof_gpu_thread *thread, uint64_t ended_ns)
{
	const struct bpfprof_gpu_open *open;
	uint32_t i;

	for (i = 0; i < thread->depth && i < BPFPROF_GPU_MAX_OPEN; i++) {
		open = &thread->open[i];
		if (!gpu_snapshot_is_waiting(open) || ended_ns <= open->begin_ns)
			continue;
		gpu_maps_count_add(&watch->sampler->reader.session, &open->key,
				   ended_ns - open->begin_ns);
		call_table_waited(watch->table, open, tid, ended_ns);
	}
}

static void threads_forget(struct gpu_monitor *watch, const struct bpfprof_task_id *task,
			   uint64_t ended_ns)
{
	struct gpu_map_walk walk;

	gpu_map_begin(&walk, &watch->sampler->reader.session, GPU_MAP_THREADS);
	while (gpu_map_next(&walk)) {
		if (walk.value.thread.pid != task->pid ||
		    walk.value.thread.start_ns != task->start_ns)
			continue;
		last_calls_add(watch, walk.key.tid, &walk.value.thread, ended_ns);
		gpu_maps_thread_delete(&watch->sampler->reader.session, walk.key.tid);
	}
}

/*
 * end: NULL if the time of the end is not known; then the time in the last open calls is not
 * counted.
 */
static void on_exit_event(struct gpu_monitor *watch, const struct bpfprof_task_id *task,
			  const struct process_end *end)
{
	/* An exit without an event has no known time. */
	uint64_t ended_ns = end && end->cpu_ns ? end->ts_ns : 0;
	bool known = call_table_exit(watch->table, task, ended_ns);

	gpu_probes_exit(watch->probes, task->pid, task->start_ns);
	if (known && watch->ended)
		watch->ended(watch->arg, task);
	if (known) {
		threads_forget(watch, task, ended_ns);
		gpu_waits_map_forget(&watch->sampler->reader.session, task->pid, task->start_ns,
				     gpu_monitor_device_idle, watch);
	}
	if (watch->waits)
		gpu_waits_exit(watch->waits, task->pid, task->start_ns, ended_ns);
}

static void on_event(void *arg, const struct event *event)
{
	struct gpu_monitor *watch = arg;

	switch (event->kind) {
	case EVENT_EXIT:
		on_exit_event(watch, event->task, event->end);
		break;
	case EVENT_CALL_STACK:
		on_call_stack(watch, event);
		break;
	case EVENT_CALL:
		call_table_call(watch->table, event->call);
		break;
	case EVENT_KERNEL_NAME:
		call_table_name(watch->table, event->kernel_name);
		break;
	case EVENT_WAIT:
		if (watch->waits)
			gpu_waits_record(watch->waits, event->wait);
		break;
	case EVENT_GRAPH:
		call_table_graph(watch->table, event->graph);
		break;
	case EVENT_IMAGE_UNUSED:
		gpu_probes_unused(watch->probes, event->image);
		break;
	case EVENT_GAP:
		if (!watch->counts || watch->counts(watch->arg, event->input))
			call_table_gap(watch->table, event->input,
				       NS_PER_SECOND / watch->sampler->options->session.hz, false);
		break;
	default:
		break;
	}
}

static void on_complete(void *arg, const struct bpfprof_gpu_key *key, uint64_t ns)
{
	call_table_complete(arg, key, ns);
}

int gpu_monitor_open(struct gpu_monitor *watch, struct sampler *sampler, bool threads, size_t bytes)
{
	const struct capture_options *options = sampler->options;
	int err;

	*watch = (struct gpu_monitor){ .sampler = sampler };
	/*
	 * The kernel filters by pid only. The other filters are applied to the stack of each call,
	 * and each key has a stack.
	 */
	watch->chosen = options->nr_comms || options->nr_workers ||
			container_filter_is_set(&options->containers);
	err = aggregate_new(&watch->aggregate, threads, bytes);
	if (!err)
		err = call_table_new(&watch->table, watch->aggregate);
	if (!err && options->session.gpu_waits)
		err = gpu_waits_new(&watch->waits);
	if (watch->waits)
		gpu_waits_notify(watch->waits, on_complete, watch->table);
	if (!err)
		err = kernel_names_new(&watch->names);
	if (!err)
		err = gpu_probes_new(&watch->probes, &sampler->reader.session,
				     sampler->reader.images, sampler->reader.runner);
	if (!err && session_pids_are_the_nodes(&sampler->reader.session))
		call_table_pids_are_own(watch->table);
	if (!err) {
		sampler_observe(sampler, on_event, watch);
		return EXIT_DONE;
	}
	log_error("calls cannot be watched: %s", strerror(-err));
	gpu_monitor_close(watch);
	return EXIT_FAILED;
}

void gpu_monitor_close(struct gpu_monitor *watch)
{
	gpu_probes_free(watch->probes);
	call_table_free(watch->table);
	gpu_waits_free(watch->waits);
	kernel_names_free(watch->names);
	aggregate_free(watch->aggregate);
	*watch = (struct gpu_monitor){ 0 };
}

void gpu_monitor_start(struct gpu_monitor *watch)
{
	while (gpu_probes_scan(watch->probes, time_monotonic_ns(), NS_PER_SECOND))
		sampler_run(watch->sampler);
}

bool gpu_monitor_run(struct gpu_monitor *watch, uint64_t now_ns)
{
	bool more = gpu_probes_scan(watch->probes, now_ns, SCAN_NS);

	if (now_ns < watch->tick_ns)
		return more;
	watch->tick_ns = now_ns + TICK_NS;
	gpu_maps_sweep(&watch->sampler->reader.session, now_ns - IDLE_NS);
	return more;
}

void gpu_monitor_next(struct gpu_monitor *watch, struct aggregate *next, size_t max_bytes)
{
	struct aggregate_view view;

	aggregate_view_get(watch->aggregate, &view);
	watch->nr_table_full += view.nr_table_full;
	call_table_next(watch->table, next, max_bytes);
	watch->aggregate = next;
}

void gpu_monitor_log_new(struct gpu_monitor *watch)
{
	const struct gpu_probes_library *libraries;
	size_t nr;

	libraries = gpu_probes_libraries(watch->probes, &nr);
	for (; watch->nr_reported < nr; watch->nr_reported++)
		if (libraries[watch->nr_reported].problem)
			log_warn("%s: not watched: %s", libraries[watch->nr_reported].path,
				 libraries[watch->nr_reported].problem);
}

void gpu_monitor_log(struct gpu_monitor *watch)
{
	const uint32_t calls = 1U << GPU_LAYER_DRIVER | 1U << GPU_LAYER_NCCL;
	const struct gpu_probes_library *libraries;
	size_t nr, i, hooked = 0;
	uint64_t functions = 0;
	bool any = false;

	gpu_monitor_log_new(watch);
	libraries = gpu_probes_libraries(watch->probes, &nr);
	for (i = 0; i < nr; i++) {
		hooked += !libraries[i].problem;
		functions += libraries[i].functions;
		any |= !libraries[i].problem && libraries[i].layers & calls;
	}
	log_info("watching %" PRIu64 " functions in %zu libraries", functions, hooked);
	if (!any)
		log_info("no process has loaded libcuda or libnccl yet");
}

/* The values that the rows read. */
struct lost {
	uint64_t counters[GPU_NR_COUNTERS];
	uint64_t unknown, table_full, refused, unsearched;
	uint64_t torch_bad, torch_without, python_bad, python_without;
	uint64_t late, steps_refused;
};

#define AT(field) offsetof(struct lost, field)
#define COUNT(counter) AT(counters[GPU_COUNT_##counter])

const struct counter gpu_monitor_counters[] = {
	{ COUNTER_GPU, "calls_no_room", COUNT(KEYS_FULL),
	  .help = "calls that are not counted: no room for their kind" },
	{ COUNTER_GPU, "calls_of_threads_no_room", COUNT(THREADS_FULL),
	  .help = "calls whose end was not followed: too many threads" },
	{ COUNTER_GPU, "calls_too_deep", COUNT(TOO_DEEP),
	  .help = "calls whose end was not followed: too many inside each other" },
	{ COUNTER_GPU, "returns_of_calls_not_seen", COUNT(RETURN_UNKNOWN),
	  .help = "calls that had begun before, and ended" },
	{ COUNTER_GPU, "stacks_scratch_busy", COUNT(SCRATCH_BUSY),
	  .help = "stacks of calls that were not taken, as the CPU took another sample" },
	{ COUNTER_GPU, "events_ring_full", COUNT(EVENTS_LOST),
	  .help = "events that the kernel wrote faster than bpfprof read" },
	{ COUNTER_GPU, "kernel_names_ring_full", COUNT(NAMES_LOST),
	  .help = "names of kernels that the kernel wrote faster than bpfprof read" },
	{ COUNTER_GPU, "arguments_unreadable", COUNT(ARGUMENT_FAULT),
	  .help = "arguments that point to no memory" },
	{ COUNTER_GPU, "communicators_no_room", COUNT(COMMS_FULL),
	  .help = "NCCL communicators over the limit" },
	{ COUNTER_GPU, "calls_without_detail", COUNT(OTHER),
	  .help = "calls counted by function only, past one process's share" },
	{ COUNTER_GPU, "traced_calls_ring_full", COUNT(TRACE_LOST),
	  .help = "calls of a trace that the kernel wrote faster than bpfprof read" },
	{ COUNTER_GPU, "processes_of_waits_no_room", COUNT(WAITS_FULL),
	  .help = "processes over the limit: the end of their work on the device is not known" },
	{ COUNTER_GPU, "streams_no_room", COUNT(STREAMS_FULL),
	  .help = "streams over the limit: the end of their work on the device is not known" },
	{ COUNTER_GPU, "cuda_events_no_room", COUNT(EVENTS_FULL),
	  .help = "CUDA events over the limit: the end of the work before them is not known" },
	{ COUNTER_GPU, "waits_ring_full", COUNT(WAITS_LOST),
	  .help = "waits that the kernel wrote faster than bpfprof read" },
	{ COUNTER_GPU, "calls_left_without_return", COUNT(LEFT),
	  .help = "calls that an exception or longjmp left" },
	{ COUNTER_GPU, "batches_of_copies_not_all_bytes", COUNT(BATCH_CUT),
	  .help = "batches of copies too long, or of arrays, for all their bytes" },
	{ COUNTER_GPU, "waits_between_streams_no_room", COUNT(AFTER_FULL),
	  .help = "waits of a stream for another one, over the limit" },
	{ COUNTER_GPU, "captured_streams_no_room", COUNT(CAPTURES_FULL),
	  .help = "streams that are captured into a CUDA graph, over the limit" },
	{ COUNTER_GPU, "kernel_handles_no_room", COUNT(KERNELS_FULL),
	  .help = "handles of kernels over the limit" },
	{ COUNTER_GPU, "graph_handles_no_room", COUNT(GRAPHS_FULL),
	  .help = "handles of CUDA graphs over the limit" },
	{ COUNTER_GPU, "nodes_of_graphs_ring_full", COUNT(NODES_LOST),
	  .help = "nodes of CUDA graphs that the kernel wrote faster than bpfprof read" },
	{ COUNTER_GPU, "kernel_names_of_launches", AT(unknown),
	  .help = "launches shown as `kernel@0x...`" },
	{ COUNTER_GPU, "stack_table_full", AT(table_full),
	  .help = "stacks of calls over the limit of a file" },
	{ COUNTER_GPU, "libraries_no_room", AT(refused), .help = "library files over the limit" },
	{ COUNTER_GPU, "libraries_not_searched_for_nccl", AT(unsearched),
	  .help = "libraries too large to be searched for an NCCL inside" },
	{ COUNTER_GPU, "pytorch_probes_not_understood", AT(torch_bad),
	  .help = "probes for tensors that are not as expected" },
	{ COUNTER_GPU, "pytorch_libraries_without_probes", AT(torch_without),
	  .help = "libraries of PyTorch without probes for tensors" },
	{ COUNTER_GPU, "python_probes_not_understood", AT(python_bad),
	  .help = "probes for garbage collections that are not as expected" },
	{ COUNTER_GPU, "pythons_without_probes", AT(python_without),
	  .help = "interpreters without probes for garbage collections" },
	{ COUNTER_GPU, "children_hooked_late", AT(late),
	  .help = "children that may have made calls before they were hooked" },
	{ COUNTER_GPU, "steps_no_room", AT(steps_refused), .help = "steps over the limit" },
	{ 0 },
};

void gpu_monitor_lost(const struct gpu_monitor *watch, const uint64_t counters[GPU_NR_COUNTERS],
		      uint64_t unknown, struct stats_reasons *dst)
{
	const struct gpu_probes_losses *losses = gpu_probes_losses(watch->probes);
	struct aggregate_view view;
	struct lost lost = {
		.unknown = unknown,
		.refused = losses->nr_refused,
		.unsearched = losses->nr_unsearched,
		.torch_bad = losses->nr_bad_sites[GPU_LAYER_TORCH],
		.torch_without = losses->nr_without_sites[GPU_LAYER_TORCH],
		.python_bad = losses->nr_bad_sites[GPU_LAYER_PYTHON],
		.python_without = losses->nr_without_sites[GPU_LAYER_PYTHON],
		.late = losses->nr_late,
		.steps_refused = losses->nr_steps_refused,
	};

	memcpy(lost.counters, counters, sizeof(lost.counters));
	aggregate_view_get(watch->aggregate, &view);
	lost.table_full = watch->nr_table_full + view.nr_table_full;
	stats_add_rows(dst, gpu_monitor_counters, &lost, true);
	call_table_lost(watch->table, dst);
	if (watch->waits)
		gpu_waits_lost(watch->waits, dst);
}

void gpu_monitor_kinds(const struct gpu_monitor *watch, const struct call_table_count *counts,
		       size_t nr, struct stats_reasons *dst)
{
	const struct capture_options *options = watch->sampler->options;
	static const char *const names[GPU_NR_KINDS] = {
		[GPU_KIND_LAUNCH] = "launch",
		[GPU_KIND_LAUNCH_CONFIG] = "launch",
		[GPU_KIND_GRAPH] = "graph",
		[GPU_KIND_COPY] = "copy",
		[GPU_KIND_SET] = "set",
		[GPU_KIND_ALLOC] = "alloc",
		[GPU_KIND_FREE] = "free",
		[GPU_KIND_SYNC] = "sync",
		[GPU_KIND_COLLECTIVE] = "collective",
		[GPU_KIND_GROUP_END] = "group",
		[GPU_KIND_COMM_INIT] = "communicator",
		[GPU_KIND_COMM_END] = "communicator",
	};
	/* Names for memory that is not the device's own memory. */
	static const char *const others[GPU_NR_SPACES][GPU_NR_KINDS] = {
		[GPU_SPACE_HOST] = { [GPU_KIND_ALLOC] = "host_alloc",
				     [GPU_KIND_FREE] = "host_free" },
		[GPU_SPACE_TENSOR] = { [GPU_KIND_ALLOC] = "tensor_alloc",
				       [GPU_KIND_FREE] = "tensor_free" },
	};
	const struct gpu_function *function;
	size_t i;
	const char *name;
	uint32_t kind;

	for (kind = 0; kind < GPU_NR_KINDS; kind++) {
		if (names[kind])
			stats_add(dst, names[kind], 0);
		if (others[GPU_SPACE_HOST][kind])
			stats_add(dst, others[GPU_SPACE_HOST][kind], 0);
		if (options->session.gpu_tensors && others[GPU_SPACE_TENSOR][kind])
			stats_add(dst, others[GPU_SPACE_TENSOR][kind], 0);
	}
	stats_add(dst, CAPTURED_NAME, 0);
	if (options->session.gpu_gc)
		stats_add(dst, GC_NAME, 0);
	for (i = 0; i < nr; i++) {
		function = gpu_function(counts[i].key.function);
		name = (function->space ? others[function->space] : names)[function->wire.kind];
		if (function->wire.kind == GPU_KIND_GC)
			name = GC_NAME;
		if (counts[i].key.flags & BPFPROF_KEY_CAPTURED)
			name = CAPTURED_NAME;
		stats_add(dst, name ? name : OTHER_NAME, counts[i].count.calls);
	}
}

static void gpu_stats_fill(const struct gpu_monitor *watch, const struct gpu_snapshot *snapshot,
			   struct run_stats *stats)
{
	gpu_monitor_kinds(watch, snapshot->counts, snapshot->nr_counts, &stats->gpu_calls);
	gpu_monitor_lost(watch, snapshot->counters,
			 call_table_nr_unknown(watch->table, snapshot->counts, snapshot->nr_counts),
			 &stats->gpu_lost);
	stats->gpu_stacks = call_table_nr_stacks(watch->table);
	stats->gpu_stacks_skipped = snapshot->counters[GPU_COUNT_NO_TOKEN];
}

int gpu_monitor_profile_make(struct gpu_monitor *watch, const struct gpu_snapshot *snapshot,
			     struct gpu_monitor_profile *ret)
{
	__cleanup(free_mem) struct call_table_count *counts =
		calloc(snapshot->nr_counts + 1, sizeof(*counts));
	struct run_stats *stats = &ret->stats;
	struct aggregate_view view;
	int hidden = 0, err;

	if (!counts)
		return -ENOMEM;
	if (snapshot->nr_counts)
		memcpy(counts, snapshot->counts, snapshot->nr_counts * sizeof(*counts));
	gpu_snapshot_waits(snapshot, watch->table, counts, snapshot->nr_counts);
	call_table_finish(watch->table, counts, snapshot->nr_counts, gpu_snapshot_comm_text,
			  (void *)snapshot);
	err = sampler_profile(watch->sampler, watch->aggregate, false, &ret->profile, &stats->files,
			      &hidden);
	if (!err)
		err = profile_of_calls(&ret->profile);
	if (err)
		return err;
	sampler_stats(watch->sampler, stats);
	sampler_own_usage(watch->sampler, stats);
	stats->bpf_map_bytes += watch->other_map_bytes;
	stats->memory_bytes += watch->other_map_bytes;
	aggregate_view_get(watch->aggregate, &view);
	aggregate_stats(stats, &view);
	gpu_stats_fill(watch, snapshot, stats);
	ret->profile.hz = 0;
	ret->profile.stats = stats;
	return 0;
}

int gpu_monitor_finish(struct gpu_monitor *watch, struct gpu_monitor_profile *ret,
		       struct run_stats *stats)
{
	struct gpu_snapshot snapshot = { 0 };
	int err;

	err = gpu_snapshot_take(&snapshot, watch);
	if (!err) {
		gpu_names_find(watch, &snapshot, NAMES_END_NS);
		err = gpu_monitor_profile_make(watch, &snapshot, ret);
	}
	if (!err && stats)
		gpu_stats_fill(watch, &snapshot, stats);
	gpu_snapshot_fini(&snapshot);
	return err;
}

static bool has_ended(const struct gpu_monitor *watch, uint32_t pid, uint64_t start_ns)
{
	return call_table_has_ended(watch->table, pid, start_ns);
}

void gpu_monitor_find_ended(struct gpu_monitor *watch, const struct gpu_snapshot *snapshot)
{
	struct bpfprof_task_id task = { 0 };
	size_t i;

	for (i = 0; i < snapshot->nr_counts; i++) {
		const struct bpfprof_gpu_key *key = &snapshot->counts[i].key;

		if (key->pid == task.pid && key->start_ns == task.start_ns)
			continue;
		task.pid = key->pid;
		task.start_ns = key->start_ns;
		if (!has_ended(watch, key->pid, key->start_ns) &&
		    gpu_maps_process_has_ended(&watch->sampler->reader.session, key->pid))
			on_exit_event(watch, &task, NULL);
	}
}

void gpu_monitor_forget_ended(struct gpu_monitor *watch, struct gpu_snapshot *snapshot)
{
	const struct session *session = &watch->sampler->reader.session;
	const struct call_table_process *processes;
	size_t nr, i, left = 0;

	for (i = 0; i < snapshot->nr_counts; i++) {
		const struct bpfprof_gpu_key *key = &snapshot->counts[i].key;

		if (has_ended(watch, key->pid, key->start_ns))
			gpu_maps_count_delete(session, key);
		else
			snapshot->counts[left++] = snapshot->counts[i];
	}
	snapshot->nr_counts = left;
	for (i = 0; i < snapshot->nr_comms; i++)
		if (has_ended(watch, snapshot->comms[i].key.pid, snapshot->comms[i].key.start_ns))
			gpu_maps_comm_delete(session, &snapshot->comms[i].key);
	for (i = 0; i < snapshot->nr_memory; i++)
		if (has_ended(watch, snapshot->memory[i].key.pid, snapshot->memory[i].key.start_ns))
			gpu_maps_memory_delete(session, &snapshot->memory[i].key);
	processes = call_table_processes(watch->table, &nr);
	for (i = 0; i < nr; i++)
		if (processes[i].ended)
			gpu_maps_process_delete(session, &(struct bpfprof_gpu_process_key){
								 .start_ns = processes[i].start_ns,
								 .pid = processes[i].kernel_pid });
}
