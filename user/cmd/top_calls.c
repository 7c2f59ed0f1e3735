// SPDX-License-Identifier: Apache-2.0
#include "cmd/top_calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "cuda/functions.h"
#include "profile/aggregate.h"

#define AGGREGATE_BYTES (1U << 20) /* for stacks: only their process is read */
#define TALLY_SHARE 4

struct top_calls_process {
	uint32_t pid;
	uint64_t start_ns;
	uint64_t launches, blocked_ns;
};

int top_calls_open(struct top_calls *calls, struct sampler *sampler)
{
	int status = gpu_monitor_open(&calls->watch, sampler, false, AGGREGATE_BYTES);

	if (!status)
		call_table_bound(calls->watch.table, TALLY_SHARE);
	calls->before_ns = time_monotonic_ns();
	return status;
}

void top_calls_close(struct top_calls *calls)
{
	gpu_monitor_close(&calls->watch);
	free(calls->before);
	free(calls->rows);
	*calls = (struct top_calls){ 0 };
}

static bool is_of(const struct top_calls_process *process, const struct bpfprof_gpu_key *key)
{
	return process->pid == key->pid && process->start_ns == key->start_ns;
}

static bool blocks(uint32_t function)
{
	return gpu_function(function)->wire.flags & BPFPROF_GPU_BLOCKS;
}

static bool launches(uint32_t function)
{
	uint32_t kind = gpu_function(function)->wire.kind;

	return BPFPROF_GPU_IS_LAUNCH(kind) || kind == GPU_KIND_GRAPH;
}

/* Sums the calls of each process since the start. Counts and open calls are sorted by process. */
static size_t processes_sum(const struct top_calls *calls, const struct gpu_snapshot *snapshot,
			    struct top_calls_process *processes)
{
	struct top_calls_process *process = NULL;
	size_t nr = 0, i, k = 0;

	for (i = 0; i < snapshot->nr_counts; i++) {
		const struct call_table_count *count = &snapshot->counts[i];

		if (!gpu_monitor_wants(&calls->watch, &count->key))
			continue;
		if (!process || !is_of(process, &count->key)) {
			process = &processes[nr++];
			*process = (struct top_calls_process){ .pid = count->key.pid,
							       .start_ns = count->key.start_ns };
		}
		if (launches(count->key.function) && !(count->key.flags & BPFPROF_KEY_CAPTURED))
			process->launches += count->count.calls;
		if (blocks(count->key.function))
			process->blocked_ns += count->count.ns;
	}
	/* Open calls have waited until now. */
	for (i = 0; i < snapshot->nr_open; i++) {
		const struct bpfprof_gpu_open *open = &snapshot->open[i].open;

		for (k = 0; k < nr && !is_of(&processes[k], &open->key); k++)
			;
		if (k == nr)
			continue;
		if (blocks(open->key.function) && snapshot->ts_ns > open->begin_ns)
			processes[k].blocked_ns += snapshot->ts_ns - open->begin_ns;
	}
	return nr;
}

static int compare_blocked(const void *a, const void *b)
{
	const struct table_calls *x = a, *y = b;

	if (x->blocked != y->blocked)
		return x->blocked > y->blocked ? -1 : 1;
	if (x->launches != y->launches)
		return x->launches > y->launches ? -1 : 1;
	return x->kernel_pid < y->kernel_pid ? -1 : x->kernel_pid > y->kernel_pid;
}

static uint64_t since(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static void row_fill(struct top_calls *calls, struct table_calls *row,
		     const struct top_calls_process *now, uint64_t interval_ns)
{
	const struct call_table_process *known;
	struct top_calls_process before = { 0 };
	size_t nr, i;

	for (i = 0; i < calls->nr_before; i++)
		if (calls->before[i].pid == now->pid && calls->before[i].start_ns == now->start_ns)
			before = calls->before[i];
	*row = (struct table_calls){
		.kernel_pid = now->pid,
		.pid = now->pid,
		.start_ns = now->start_ns,
		.launches =
			(double)since(now->launches, before.launches) * 1e9 / (double)interval_ns,
		.blocked = (double)since(now->blocked_ns, before.blocked_ns) * 100 /
			   (double)interval_ns,
	};
	known = call_table_processes(calls->watch.table, &nr);
	for (i = 0; i < nr; i++) {
		if (known[i].kernel_pid != now->pid || known[i].start_ns != now->start_ns)
			continue;
		snprintf(row->name, sizeof(row->name), "%s",
			 known[i].ray_task ?: known[i].name ?: "");
		row->pid = known[i].pid ? known[i].pid : now->pid;
	}
}

static int rows_make(struct top_calls *calls, const struct gpu_snapshot *snapshot)
{
	uint64_t interval_ns = since(snapshot->ts_ns, calls->before_ns);
	struct top_calls_process *now = calloc(snapshot->nr_counts + 1, sizeof(*now));
	struct table_calls *rows = calloc(snapshot->nr_counts + 1, sizeof(*rows));
	size_t nr, i;

	if (!now || !rows) {
		free(now);
		free(rows);
		return -ENOMEM;
	}
	nr = processes_sum(calls, snapshot, now);
	for (i = 0; i < nr; i++)
		row_fill(calls, &rows[i], &now[i], interval_ns ? interval_ns : 1);
	if (nr)
		qsort(rows, nr, sizeof(*rows), compare_blocked);
	free(calls->before);
	free(calls->rows);
	calls->before = now;
	calls->nr_before = calls->nr_rows = nr;
	calls->before_ns = snapshot->ts_ns;
	calls->rows = rows;
	return 0;
}

int top_calls_update(struct top_calls *calls)
{
	struct aggregate *next = NULL, *last = calls->watch.aggregate;
	struct gpu_snapshot snapshot = { 0 };
	int err;

	err = gpu_snapshot_take_all(&snapshot, &calls->watch);
	if (!err)
		err = rows_make(calls, &snapshot);
	if (!err)
		err = aggregate_new(&next, false, AGGREGATE_BYTES);
	if (!err) {
		gpu_monitor_find_ended(&calls->watch, &snapshot);
		gpu_monitor_forget_ended(&calls->watch, &snapshot);
		gpu_monitor_next(&calls->watch, next, AGGREGATE_BYTES);
		aggregate_free(last);
	}
	gpu_snapshot_fini(&snapshot);
	return err;
}
