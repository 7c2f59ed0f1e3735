// SPDX-License-Identifier: Apache-2.0
#include "cmd/gpu_memory_moments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/hash_table.h"
#include "base/log.h"
#include "gpu/memory_layout.h"
#include "gpu/monitor.h"
#include "profile/stats.h"

/* Moments at equal distances; the one with the most memory is one more. */
#define NR_MOMENTS (MOMENTS_MAX - 50)
#define LEAST_STEP_NS 1000000

/* Memory of a stack, at the present place of the replay. */
struct held_stack {
	struct hash_node node;
	struct moment_key key;
	int64_t bytes;
};

/* An allocation, or its end. */
struct change {
	uint64_t ns;
	uint32_t allocation;
	bool ends;
};

/* A process of the table: does it count, and where does its memory without a stack belong? */
struct process_rows {
	bool counts, several; /* several devices */
	struct aggregate_call_at no_stack, cached;
};

struct replay {
	struct memory_moments *moments;
	struct gpu_memory_layout layout;
	struct change *changes; /* in the order of their times */
	size_t nr_changes, at;
	struct process_rows *rows; /* of the processes of the table */
	struct hash_table held;
	uint64_t total_bytes;
};

static int compare_changes(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return y->ends - x->ends;
}

static int changes_make(struct replay *replay)
{
	const struct gpu_allocation *one;
	uint32_t i;

	replay->changes = malloc((2 * replay->layout.nr + 1) * sizeof(*replay->changes));
	if (!replay->changes)
		return -ENOMEM;
	for (i = 0; i < replay->layout.nr; i++) {
		one = &replay->layout.all[i];
		if (replay->layout.places[i] & GPU_PLACE_OMIT || !replay->rows[one->process].counts)
			continue;
		replay->changes[replay->nr_changes++] =
			(struct change){ .ns = one->begin_ns, .allocation = i };
		if (one->end_ns)
			replay->changes[replay->nr_changes++] =
				(struct change){ .ns = one->end_ns, .allocation = i, .ends = true };
	}
	qsort(replay->changes, replay->nr_changes, sizeof(*replay->changes), compare_changes);
	return 0;
}

/* The rows of a process are where its stacks are, for those have its title. */
static int rows_make(struct replay *replay, const struct gpu_monitor *watch)
{
	const struct call_table_process *processes;
	const struct gpu_allocation *one;
	struct bpfprof_gpu_key key = { 0 };
	struct process_rows *rows;
	size_t nr, i, at;
	int err = 0;

	processes = call_table_processes(watch->table, &nr);
	replay->rows = calloc(nr + 1, sizeof(*replay->rows));
	if (!replay->rows)
		return -ENOMEM;
	for (i = 0; i < replay->layout.nr_processes && !err; i++) {
		at = replay->layout.processes[i].process;
		rows = &replay->rows[at];
		key.pid = processes[at].kernel_pid;
		key.start_ns = processes[at].start_ns;
		rows->several = replay->layout.processes[i].several;
		rows->counts = gpu_monitor_wants(watch, &key);
		if (rows->counts)
			err = call_table_row(watch->table, at, "[no stack]", &rows->no_stack)
				      ?: call_table_row(watch->table, at, GPU_MEMORY_CACHED,
							&rows->cached);
	}
	for (i = 0; i < replay->layout.nr && !err; i++) {
		one = &replay->layout.all[i];
		if (one->stack == GPU_MEMORY_NO_STACK)
			continue;
		replay->rows[one->process].no_stack.process = one->aggregate_process;
		replay->rows[one->process].cached.process = one->aggregate_process;
	}
	return err;
}

static int held_add(struct replay *replay, const struct aggregate_call_at *at, uint32_t gpu,
		    int64_t bytes)
{
	const struct moment_key key = { .process = at->process, .stack = at->stack, .gpu = gpu };
	struct held_stack *held = hash_table_get(&replay->held, &key);

	if (!held)
		return -ENOMEM;
	held->bytes += bytes;
	return 0;
}

static int change_make(struct replay *replay, const struct change *change)
{
	const struct gpu_allocation *one = &replay->layout.all[change->allocation];
	const struct process_rows *rows = &replay->rows[one->process];
	struct aggregate_call_at at = { .process = one->aggregate_process, .stack = one->stack };
	/* If the process uses several devices, each stack has its own. */
	uint32_t gpu = rows->several ? replay->layout.devices[change->allocation] + 1U : 0;
	int64_t bytes = change->ends ? -(int64_t)one->bytes : (int64_t)one->bytes;
	bool tensor = one->kind == GPU_MEMORY_TENSOR;

	if (one->stack == GPU_MEMORY_NO_STACK)
		at = rows->no_stack;
	if (!tensor && replay->layout.tensors[change->allocation])
		at = rows->cached;
	if (!tensor || replay->layout.places[change->allocation] & GPU_PLACE_OUTSIDE)
		replay->total_bytes += (uint64_t)bytes;
	else if (held_add(replay, &rows->cached, gpu, -bytes))
		return -ENOMEM;
	return held_add(replay, &at, gpu, bytes);
}

/* Makes all changes up to that time. */
static int changes_until(struct replay *replay, uint64_t ns)
{
	int err = 0;

	while (replay->at < replay->nr_changes && replay->changes[replay->at].ns <= ns && !err)
		err = change_make(replay, &replay->changes[replay->at++]);
	return err;
}

/* The first time with the most memory, 0: there was none. The replay is at its begin again. */
static int peak_find(struct replay *replay, uint64_t start_ns, uint64_t end_ns, uint64_t *ret_ns)
{
	uint64_t most = 0, ns;
	int err = 0;

	*ret_ns = 0;
	while (!err && replay->at < replay->nr_changes) {
		ns = replay->changes[replay->at].ns;
		err = changes_until(replay, ns);
		if (ns <= end_ns && replay->total_bytes > most) {
			most = replay->total_bytes;
			*ret_ns = ns > start_ns ? ns : start_ns;
		}
	}
	hash_table_clear(&replay->held);
	replay->at = 0;
	replay->total_bytes = 0;
	return err;
}

static int moment_add(struct replay *replay, uint64_t ns)
{
	const struct held_stack *held;
	int err = changes_until(replay, ns);

	hash_table_each(&replay->held, held) {
		const struct aggregate_call_at at = { .process = held->key.process,
						      .stack = held->key.stack };

		if (!err && held->bytes)
			err = memory_moments_add(replay->moments, &at, held->key.gpu, held->bytes);
	}
	memory_moments_end(replay->moments, ns, replay->total_bytes);
	return err;
}

/* From when on is everything known? */
static uint64_t first_of(const struct gpu_memory_log *log, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t complete_ns = gpu_memory_log_complete_ns(log),
		 left_ns = gpu_memory_log_left_ns(log);
	uint64_t first_ns = complete_ns > left_ns ? complete_ns : left_ns;

	first_ns = first_ns > start_ns ? first_ns : start_ns;
	return first_ns < end_ns ? first_ns : end_ns;
}

static int moments_add(struct replay *replay, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t step_ns = (end_ns - start_ns) / NR_MOMENTS, peak_ns, ns = start_ns;
	int err = peak_find(replay, start_ns, end_ns, &peak_ns);

	if (step_ns < LEAST_STEP_NS)
		step_ns = LEAST_STEP_NS;
	if (!peak_ns)
		return err;
	while (!err) {
		err = moment_add(replay, ns);
		if (ns >= end_ns)
			break;
		if (ns < peak_ns && peak_ns < ns + step_ns && peak_ns < end_ns && !err)
			err = moment_add(replay, peak_ns);
		ns = ns + step_ns < end_ns ? ns + step_ns : end_ns;
	}
	return err;
}

void gpu_memory_log_say(const struct gpu_memory_log *log, const char *file, uint64_t nr_omitted)
{
	uint64_t dropped = gpu_memory_log_nr_dropped(log);

	if (dropped)
		log_warn("%s: %" PRIu64 " allocations are missing: it has room for %u, and the "
			 "ones that were freed first make room for new ones",
			 file, dropped, GPU_MEMORY_LOG_MAX);
	if (nr_omitted)
		log_warn("%s: %" PRIu64 " allocations are missing: they contradict others, since "
			 "events were lost",
			 file, nr_omitted);
}

struct moments_counts {
	uint64_t omitted, over;
};

#define AT(field) offsetof(struct moments_counts, field)

const struct counter gpu_memory_moments_counters[] = {
	{ COUNTER_GPU, "memory_timeline_omitted", AT(omitted),
	  .help = "allocations that the time line of `-o x.html` does not have: they contradict "
		  "others, since events were lost" },
	{ COUNTER_GPU, "memory_timeline_no_room", AT(over),
	  .help = "stacks that it has in `other`: over the limit" },
	{ 0 },
};

static void losses_add(const struct replay *replay, const struct gpu_memory_log *log,
		       struct stats_reasons *lost)
{
	const struct moments_counts counts = { .omitted = replay->layout.nr_omitted,
					       .over = replay->moments->nr_over };

	gpu_memory_log_lost(log, lost);
	stats_add_rows(lost, gpu_memory_moments_counters, &counts, false);
	gpu_memory_log_say(log, "the time line of GPU memory", counts.omitted);
	if (counts.over)
		log_warn("the time line of GPU memory: stacks beyond the %d that held the most are "
			 "`[other stacks]`",
			 MOMENTS_MAX_LINES);
}

void gpu_memory_moments_fill(struct memory_moments *moments, const struct gpu_monitor *watch,
			     const struct gpu_memory_log *log, uint64_t start_ns, uint64_t end_ns,
			     struct stats_reasons *lost)
{
	struct replay replay = { .moments = moments };
	int err;

	memory_moments_init(moments);
	memory_moments_begin(moments, start_ns);
	hash_table_init(&replay.held, HASH_TABLE_BOUNDED, struct held_stack, key);
	err = gpu_memory_layout_init(&replay.layout, log);
	if (!err)
		err = rows_make(&replay, watch);
	if (!err)
		err = changes_make(&replay);
	if (!err)
		err = moments_add(&replay, first_of(log, start_ns, end_ns), end_ns);
	if (err) {
		log_error("no room for the time line");
		memory_moments_begin(moments, start_ns);
	}
	losses_add(&replay, log, lost);
	hash_table_clear(&replay.held);
	free(replay.changes);
	free(replay.rows);
	gpu_memory_layout_fini(&replay.layout);
}
