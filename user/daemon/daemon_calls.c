// SPDX-License-Identifier: Apache-2.0
/*
 * --gpu: calls of CUDA and NCCL of each interval. The kernel counts from the start on. An interval
 * has the difference between its two boundaries. Counts of processes that ended are deleted from
 * the kernel at a boundary, or earlier if there are many.
 */
#include "daemon/daemon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/time.h"
#include "base/vec.h"
#include "cuda/functions.h"
#include "gpu/waits.h"
#include "kernel/probes/gpu_maps.h"
#include "kernel/probes/gpu_waits_map.h"
#include "kernel/tasks.h"
#include "proc/processes.h"
#include "profile/aggregate.h"
#include "profile/aggregate_stats.h"

#define AGGREGATE_BYTES (3U << 19) /* of stacks of one interval, of which there are two */
#define TALLY_SHARE 4 /* of the calls that `bpfprof gpu` keeps */
#define MAX_ENDED 16384 /* counts of processes that ended in the interval */
#define LOOK_NS (2 * NS_PER_SECOND)
#define LOOK_SHARE 100 /* looks take a hundredth of the time at most */
#define NAMES_NS (10 * 1000000ULL)

static int compare_keys(const void *a, const void *b)
{
	const struct call_table_count *x = a, *y = b;

	return memcmp(&x->key, &y->key, sizeof(x->key));
}

/* The count as it was when the interval began, or NULL. */
static const struct call_table_count *count_before(const struct daemon_calls *calls,
						   const struct call_table_count *now)
{
	if (!calls->nr_before)
		return NULL;
	return bsearch(now, calls->before, calls->nr_before, sizeof(*calls->before), compare_keys);
}

struct counts {
	struct call_table_count *all; /* one table with room for all parts */
	size_t nr;
};

static void add_part(void *arg, const struct call_table_count *part)
{
	struct counts *to = arg;

	to->all[to->nr++] = *part;
}

/* The growth of a count since the interval began. */
static struct call_table_count count_since(const struct daemon_calls *calls,
					   const struct call_table_count *now)
{
	struct call_table_count count = *now;
	const struct call_table_count *before = count_before(calls, now);

	if (!before)
		return count;
	count.count.calls -= before->count.calls;
	count.count.bytes -= before->count.bytes;
	/* The count is less than before if a call waited then and its return was missed. */
	count.count.ns -= before->count.ns < count.count.ns ? before->count.ns : count.count.ns;
	count.count.errors -= before->count.errors;
	return count;
}

/* The same by kernel, if several kernels had the same handle. */
static void parts_since(const struct daemon_calls *calls, const struct call_table_count *now,
			struct counts *to)
{
	const struct call_table_count *before = count_before(calls, now);
	struct call_table_count count = count_since(calls, now);

	call_table_split(calls->watch.table, &count, before ? before->count.calls : 0, add_part,
			 to);
	add_part(to, &count);
}

static bool has_ended(const struct daemon_calls *calls, uint32_t pid, uint64_t start_ns)
{
	return call_table_has_ended(calls->watch.table, pid, start_ns);
}

/*
 * All stacks of a process have arrived by the look after its end. A process that no filter wants by
 * then stays unwanted.
 */
static void ended_choose(struct daemon_calls *calls)
{
	size_t i;

	for (i = calls->nr_ended_wanted; i < calls->nr_ended; i++)
		if (gpu_monitor_wants(&calls->watch, &calls->ended[i].key))
			calls->ended[calls->nr_ended_wanted++] = calls->ended[i];
	calls->nr_ended = calls->nr_ended_wanted;
}

/*
 * Counts of processes that ended are moved here until the boundary, and make room for others in the
 * kernel.
 */
static void ended_take(struct daemon_calls *calls, struct gpu_snapshot *snapshot)
{
	size_t parts = call_table_nr_parts(calls->watch.table) + 1, i, left = 0;
	struct call_table_count *count;
	struct counts ended;

	for (i = 0; i < snapshot->nr_counts; i++) {
		count = &snapshot->counts[i];
		snapshot->counts[left++] = *count;
		if (!has_ended(calls, count->key.pid, count->key.start_ns) ||
		    calls->nr_ended >= MAX_ENDED ||
		    vec_grow(calls->ended, calls->nr_ended + parts, calls->cap_ended,
			     MAX_ENDED + parts))
			continue;
		ended = (struct counts){ .all = calls->ended, .nr = calls->nr_ended };
		parts_since(calls, count, &ended);
		calls->nr_ended = ended.nr;
		gpu_maps_count_delete(&calls->watch.sampler->reader.session, &count->key);
		left--;
	}
	snapshot->nr_counts = left;
}

/* All wanted counts of the interval so far, to be freed. NULL: out of memory. */
static struct call_table_count *counts_since(const struct daemon_calls *calls,
					     const struct gpu_snapshot *snapshot, size_t *ret_nr)
{
	size_t parts = call_table_nr_parts(calls->watch.table), i;
	struct counts counts = { .all = calloc(snapshot->nr_counts + parts + calls->nr_ended + 1,
					       sizeof(*counts.all)) };

	if (!counts.all)
		return NULL;
	for (i = 0; i < snapshot->nr_counts; i++)
		if (gpu_monitor_wants(&calls->watch, &snapshot->counts[i].key))
			parts_since(calls, &snapshot->counts[i], &counts);
	for (i = 0; i < calls->nr_ended; i++)
		if (i < calls->nr_ended_wanted ||
		    gpu_monitor_wants(&calls->watch, &calls->ended[i].key))
			add_part(&counts, &calls->ended[i]);
	*ret_nr = counts.nr;
	return counts.all;
}

static void running_count(struct daemon_calls *calls, const struct gpu_snapshot *snapshot)
{
	struct call_table_count *counts;
	size_t nr;

	counts = counts_since(calls, snapshot, &nr);
	if (!counts)
		return;
	calls->nr_keys = snapshot->nr_counts;
	calls->running = (struct stats_reasons){ 0 };
	gpu_monitor_kinds(&calls->watch, counts, nr, &calls->running);
	calls->lost = (struct stats_reasons){ 0 };
	/* Names for kernels of this interval may still be found. */
	gpu_monitor_lost(&calls->watch, snapshot->counters, calls->nr_unknown, &calls->lost);
	free(counts);
}

static void look(struct daemon_calls *calls, uint64_t now_ns)
{
	struct gpu_snapshot snapshot = { 0 };
	uint64_t took_ns;

	if (!gpu_snapshot_take_all(&snapshot, &calls->watch)) {
		gpu_names_find(&calls->watch, &snapshot, NAMES_NS);
		gpu_monitor_find_ended(&calls->watch, &snapshot);
		ended_choose(calls);
		ended_take(calls, &snapshot);
		running_count(calls, &snapshot);
	}
	gpu_snapshot_fini(&snapshot);
	took_ns = time_monotonic_ns() - now_ns;
	calls->look_ns = now_ns + (took_ns * LOOK_SHARE > LOOK_NS ? took_ns * LOOK_SHARE : LOOK_NS);
}

bool calls_run(struct daemon *daemon, uint64_t now_ns)
{
	struct daemon_calls *calls = &daemon->calls;

	if (!daemon->options->capture.session.gpu)
		return false;
	if (now_ns >= calls->look_ns) {
		gpu_monitor_log_new(&calls->watch);
		look(calls, now_ns);
	}
	return gpu_monitor_run(&calls->watch, now_ns);
}

/*
 * At the boundary the counts of the kernel become the start of the next interval. A process that is
 * not wanted yet keeps its old start: if a stack shows later that it is wanted, all of its calls
 * count. Counts that are already in an interval do not count again.
 */
static void before_set(struct daemon_calls *calls, struct gpu_snapshot *snapshot)
{
	const struct call_table_count *before;
	size_t i, left = 0;

	calls->nr_keys = snapshot->nr_counts;
	for (i = 0; i < snapshot->nr_counts; i++) {
		before = count_before(calls, &snapshot->counts[i]);
		if (!before && !gpu_monitor_wants(&calls->watch, &snapshot->counts[i].key))
			continue;
		/* A thread that was killed in a call has waited there; its wait was reported before its end. */
		if (before && !before->kept && snapshot->counts[i].count.ns < before->count.ns) {
			snapshot->counts[i].count.ns = before->count.ns;
			snapshot->counts[i].kept = true;
		}
		snapshot->counts[left++] = snapshot->counts[i];
	}
	snapshot->nr_counts = left;
	free(calls->before);
	calls->before = snapshot->counts;
	calls->nr_before = snapshot->nr_counts;
	if (calls->nr_before)
		qsort(calls->before, calls->nr_before, sizeof(*calls->before), compare_keys);
	snapshot->counts = NULL;
	snapshot->nr_counts = snapshot->cap_counts = 0;
	calls->nr_ended = calls->nr_ended_wanted = 0;
}

static void interval_fill(struct daemon_calls *calls, struct calls_interval *interval,
			  const struct gpu_snapshot *snapshot,
			  const struct call_table_count *counts, size_t nr)
{
	uint64_t stacks = call_table_nr_stacks(calls->watch.table);
	uint64_t skipped = snapshot->counters[GPU_COUNT_NO_TOKEN];
	struct stats_reasons lost = { 0 };

	*interval = (struct calls_interval){ .aggregate = calls->watch.aggregate,
					     .stacks = stacks - calls->stacks_before,
					     .skipped = skipped - calls->skipped_before };
	gpu_monitor_kinds(&calls->watch, counts, nr, &interval->calls);
	calls->nr_unknown += call_table_nr_unknown(calls->watch.table, counts, nr);
	gpu_monitor_lost(&calls->watch, snapshot->counters, calls->nr_unknown, &lost);
	interval->lost = lost;
	stats_reasons_since(&interval->lost, &calls->lost_before);
	calls->lost_before = lost;
	calls->lost = lost;
	calls->stacks_before = stacks;
	calls->skipped_before = skipped;
	stats_add_reasons(&calls->finished, &interval->calls);
	calls->running = (struct stats_reasons){ 0 };
}

void calls_rotate(struct daemon *daemon, struct interval *interval)
{
	struct daemon_calls *calls = &daemon->calls;
	struct gpu_snapshot snapshot = { 0 };
	struct call_table_count *counts = NULL;
	struct aggregate *next = NULL;
	size_t nr = 0;
	int err;

	if (!daemon->options->capture.session.gpu)
		return;
	err = gpu_snapshot_take_all(&snapshot, &calls->watch);
	if (!err)
		gpu_snapshot_waits(&snapshot, calls->watch.table, snapshot.counts,
				   snapshot.nr_counts);
	if (!err)
		counts = counts_since(calls, &snapshot, &nr);
	if (!err && (!counts || aggregate_new(&next, daemon->options->threads, AGGREGATE_BYTES)))
		err = -ENOMEM;
	if (err) {
		log_warn("calls of this interval go to the next one: %s", strerror(-err));
		goto out;
	}
	call_table_finish(calls->watch.table, counts, nr, gpu_snapshot_comm_text, &snapshot);
	interval_fill(calls, &interval->calls, &snapshot, counts, nr);
	gpu_monitor_forget_ended(&calls->watch, &snapshot);
	before_set(calls, &snapshot);
	gpu_monitor_next(&calls->watch, next, AGGREGATE_BYTES);
out:
	free(counts);
	gpu_snapshot_fini(&snapshot);
}

void calls_interval_stats(const struct calls_interval *interval, struct run_stats *stats)
{
	stats->gpu_calls = interval->calls;
	stats->gpu_lost = interval->lost;
	stats->gpu_stacks = interval->stacks;
	stats->gpu_stacks_skipped = interval->skipped;
}

void calls_profile_stats(const struct calls_interval *interval, struct run_stats *stats)
{
	struct run_stats samples = { 0 };
	struct aggregate_view view;

	aggregate_view_get(interval->aggregate, &view);
	aggregate_stats(&samples, &view);
	stats_set_samples(stats, &samples);
}

static bool counts(void *arg, const struct aggregate_input *input)
{
	struct daemon *daemon = arg;

	return process_filter_wants(&daemon->filter, &daemon->sampler, input);
}

int calls_open(struct daemon *daemon)
{
	struct daemon_calls *calls = &daemon->calls;
	int status = gpu_monitor_open(&calls->watch, &daemon->sampler, daemon->options->threads,
				      AGGREGATE_BYTES);

	if (status)
		return status;
	calls->watch.counts = counts;
	calls->watch.arg = daemon;
	call_table_bound(calls->watch.table, TALLY_SHARE);
	gpu_waits_no_rows(calls->watch.waits, TALLY_SHARE);
	return 0;
}

/* The filters see the process as it is now. */
static void process_choose(struct daemon *daemon, const struct call_table_process *process)
{
	struct session *session = &daemon->sampler.reader.session;
	const struct process *place =
		processes_find(daemon->sampler.reader.processes, process->kernel_pid);
	uint32_t own_pid = session_own_pid(session, process->kernel_pid,
					   place ? place->ns_context.agent_pid : process->pid);
	const struct tasks_choice choice = { .kernel_pid = process->kernel_pid,
					     .tids = &own_pid,
					     .nr = 1 };
	struct aggregate_input input;
	struct bpfprof_sample sample;
	struct tasks tasks;

	if (process->ended || !own_pid || tasks_read(&tasks, session, own_pid, &choice))
		return;
	if (tasks.states[0].task.start_ns == process->start_ns &&
	    sampler_thread_input(&daemon->sampler, &tasks.states[0], &sample, &input) &&
	    process_filter_wants(&daemon->filter, &daemon->sampler, &input))
		call_table_describe(daemon->calls.watch.table, &input);
	tasks_fini(&tasks);
}

static void on_unwanted_device_idle(void *arg, const struct bpfprof_gpu_waits *process)
{
	struct daemon_calls *calls = arg;

	if (calls->watch.chosen &&
	    !call_table_is_described(calls->watch.table, process->pid, process->start_ns))
		call_table_device_idle_forget(calls->watch.table, process->pid, process->start_ns,
					      process->device_idle_ns);
}

/* Calls of a process that the filters excluded count from now on. 0 or -ENOMEM. */
static int unwanted_forget(struct daemon_calls *calls, const struct session *session)
{
	struct gpu_snapshot snapshot = { 0 };
	const struct call_table_count *now;
	struct call_table_count *before;
	size_t nr = 0, i;
	int err = gpu_snapshot_take_all(&snapshot, &calls->watch);

	before = err ? NULL : calloc(calls->nr_before + snapshot.nr_counts + 1, sizeof(*before));
	if (!before) {
		gpu_snapshot_fini(&snapshot);
		return -ENOMEM;
	}
	gpu_snapshot_waits(&snapshot, NULL, snapshot.counts, snapshot.nr_counts);
	for (i = 0; i < calls->nr_before; i++)
		if (gpu_monitor_wants(&calls->watch, &calls->before[i].key))
			before[nr++] = calls->before[i];
	for (i = 0; i < snapshot.nr_counts; i++) {
		now = &snapshot.counts[i];
		if (!gpu_monitor_wants(&calls->watch, &now->key))
			before[nr++] = *now;
	}
	gpu_waits_map_each(session, on_unwanted_device_idle, calls);
	gpu_snapshot_fini(&snapshot);
	if (nr)
		qsort(before, nr, sizeof(*before), compare_keys);
	free(calls->before);
	calls->before = before;
	calls->nr_before = nr;
	return 0;
}

void calls_choose(struct daemon *daemon)
{
	struct call_table *tally = daemon->calls.watch.table;
	const struct call_table_process *processes;
	size_t nr, i;

	if (!daemon->options->capture.session.gpu)
		return;
	ended_choose(&daemon->calls);
	if (unwanted_forget(&daemon->calls, &daemon->sampler.reader.session))
		log_warn("calls from before the new filters are in this interval: %s",
			 strerror(ENOMEM));
	daemon->calls.watch.chosen = process_choice_is_set(&daemon->choice);
	call_table_undescribe(tally);
	/* A process that hangs in a call sends no more stacks. */
	processes = call_table_processes(tally, &nr);
	for (i = 0; i < nr && daemon->calls.watch.chosen; i++)
		process_choose(daemon, &processes[i]);
}

void calls_close(struct daemon *daemon)
{
	struct daemon_calls *calls = &daemon->calls;

	gpu_monitor_close(&calls->watch);
	free(calls->before);
	free(calls->ended);
}
