// SPDX-License-Identifier: Apache-2.0
/*
 * Groups the ranks of a job that hangs by their stack. For most calls that began before the hooks
 * nothing shows which ranks they wait for; people have to judge that. Usually most ranks are at one
 * place in the code, and one rank is elsewhere. So calls at the same place are shown together, and
 * the place with the fewest processes comes first.
 */
#include "gpu/nccl_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "gpu/report_read.h"

#define MAX_ALIKE 8 /* named processes at one place, unless all rows are asked for */
#define MAX_RANK 32 /* columns */

/* An open call; or a process without a call. */
struct place {
	const struct gpu_read_process *process;
	const struct gpu_report_open *open; /* or NULL */
};

struct run {
	size_t first, nr; /* range in the array of places */
	size_t nr_processes;
};

struct places {
	struct nccl_writer *w;
	struct place *at;
	size_t nr;
	struct run *runs; /* each run is at one place */
	size_t nr_runs;
};

/* Equal strings have one address. */
static int compare_frames(const char *const *a, size_t nr_a, const char *const *b, size_t nr_b)
{
	int order = GPU_ORDER(nr_a, nr_b);
	size_t i;

	for (i = 0; i < nr_a && !order; i++)
		order = GPU_ORDER(a[i], b[i]);
	return order;
}

/* Keeps the order of the files. */
static int compare_order(const struct place *a, const struct place *b)
{
	return GPU_ORDER(a->process, b->process) ?: GPU_ORDER(a->open, b->open);
}

static int compare_calls(const struct place *first, const struct place *second)
{
	const struct gpu_report_open *a = first->open, *b = second->open;
	int order = GPU_ORDER(a->function, b->function) ?: GPU_ORDER(a->bytes, b->bytes) ?:
	       GPU_ORDER(!!a->group.nr, !!b->group.nr) ?:
	       compare_frames(a->stack, a->nr_stack, b->stack, b->nr_stack);

	/*
	 * A call without a stack has no place. A group's content belongs to its process, so it has
	 * none either.
	 */
	return order || (!a->group.nr && a->nr_stack) ? order : compare_order(first, second);
}

static int compare_where(const struct place *first, const struct place *second)
{
	const struct gpu_report_process *a = first->process->report, *b = second->process->report;
	const struct gpu_report_where *at, *other;
	int order = GPU_ORDER(a->nr_where, b->nr_where);
	size_t i;

	/* A process without threads has no place. */
	if (!order && !a->nr_where)
		return compare_order(first, second);
	for (i = 0; i < a->nr_where && !order; i++) {
		at = &a->where[i];
		other = &b->where[i];
		order = GPU_ORDER(at->thread, other->thread)
				?: GPU_ORDER(at->running, other->running);
		if (!order)
			order = at->nr_stack || other->nr_stack
					? compare_frames(at->stack, at->nr_stack, other->stack,
							 other->nr_stack)
					: compare_order(first, second);
	}
	return order;
}

/* 0: both are at the same place. */
static int compare_place(const struct place *a, const struct place *b)
{
	return a->open ? compare_calls(a, b) : compare_where(a, b);
}

static int compare_places(const void *first, const void *second)
{
	return compare_place(first, second) ?: compare_order(first, second);
}

/* Puts the fewest processes first; equal numbers keep the order of the files. */
static int compare_runs(const void *first, const void *second, void *arg)
{
	const struct run *a = first, *b = second;
	const struct places *places = arg;

	return GPU_ORDER(a->nr_processes, b->nr_processes)
		       ?: compare_order(&places->at[a->first], &places->at[b->first]);
}

/* Places of one process are next to each other. */
static bool is_next_process(const struct places *places, const struct run *run, size_t i)
{
	return i == run->first || places->at[i].process != places->at[i - 1].process;
}

static int runs_find(struct places *places)
{
	struct run *run;
	size_t i;

	places->runs = calloc(places->nr + 1, sizeof(*places->runs));
	if (!places->runs)
		return -ENOMEM;
	qsort(places->at, places->nr, sizeof(*places->at), compare_places);
	for (i = 0; i < places->nr; i++) {
		if (!i || compare_place(&places->at[i - 1], &places->at[i]))
			places->runs[places->nr_runs++].first = i;
		run = &places->runs[places->nr_runs - 1];
		run->nr++;
		run->nr_processes += is_next_process(places, run, i);
	}
	qsort_r(places->runs, places->nr_runs, sizeof(*places->runs), compare_runs, places);
	return 0;
}

static int compare_ranks(const void *first, const void *second)
{
	const uint32_t *a = first, *b = second;

	return GPU_ORDER(*a, *b);
}

/* ", ranks 0-2, 5": the RANKs of the environments that have one. 0 or -ENOMEM. */
static int add_ranks(const struct places *places, const struct run *run)
{
	__cleanup(free_mem) uint32_t *ranks = calloc(run->nr, sizeof(*ranks));
	struct nccl_ranges ranges = { .dst = places->w->dst };
	size_t nr = 0, i, first;

	if (!ranks)
		return -ENOMEM;
	for (i = 0; i < run->nr; i++)
		nr += gpu_read_number(places->at[run->first + i].process->report->rank, &ranks[nr]);
	if (!nr)
		return 0;
	qsort(ranks, nr, sizeof(*ranks), compare_ranks);
	buf_add_str(places->w->dst, ranks[0] == ranks[nr - 1] ? ", rank " : ", ranks ");
	for (i = 1, first = 0; i <= nr; i++) {
		if (i < nr && ranks[i] <= ranks[i - 1] + 1)
			continue;
		nccl_range_add(&ranges, ranks[first], ranks[i - 1]);
		first = i;
	}
	return 0;
}

static void add_process(struct nccl_writer *w, const struct gpu_read_process *process)
{
	buf_add_str(w->dst, "  ");
	nccl_add_process(w, process);
	if (*process->report->rank) {
		buf_add_str(w->dst, ", rank ");
		nccl_add_name(w, process->report->rank, MAX_RANK);
	}
	buf_add_char(w->dst, '\n');
}

static int run_write(const struct places *places, const struct run *run)
{
	struct nccl_writer *w = places->w;
	size_t max = w->rows == SIZE_MAX ? SIZE_MAX : MAX_ALIKE, nr = 0, i;
	const struct place *at = places->at + run->first, *longest = at;

	if (run->nr > 1) {
		buf_printf(w->dst, "  %zu at the same place", run->nr_processes);
		if (run->nr > run->nr_processes)
			buf_printf(w->dst, " with %zu threads", run->nr);
		if (add_ranks(places, run))
			return -ENOMEM;
		buf_add_str(w->dst, ":\n");
	}
	for (i = 1; i < run->nr && at->open; i++)
		if (at[i].open->seconds > longest->open->seconds)
			longest = &at[i];
	for (i = 0; i < run->nr && nr < max; i++) {
		if (!is_next_process(places, run, run->first + i))
			continue;
		add_process(w, at[i].process);
		nr++;
	}
	if (nr < run->nr_processes)
		buf_printf(w->dst, "  ... and %zu more\n", run->nr_processes - nr);
	if (at->open)
		nccl_add_open(w, longest->process, longest->open, run->nr > 1);
	else
		nccl_add_elsewhere(w, at->process, run->nr > 1);
	return 0;
}

/* 0 or -ENOMEM. */
static int places_write(struct places *places, const char *title)
{
	size_t i, nr = 0;
	int err = places->nr ? runs_find(places) : 0;

	if (places->nr)
		buf_add_str(places->w->dst, title);
	for (i = 0; i < places->nr_runs && i < places->w->rows && !err; i++) {
		err = run_write(places, &places->runs[i]);
		nr += places->runs[i].nr;
	}
	if (!err && nr < places->nr)
		buf_printf(places->w->dst, "  ... and %zu more\n", places->nr - nr);
	free(places->runs);
	return err;
}

/* Does the process hang, without a known communicator? */
static bool hangs(const struct gpu_report_process *process)
{
	size_t i, nr_before = 0;

	for (i = 0; i < process->nr_comms; i++)
		if (process->comms[i].known)
			return false;
	for (i = 0; i < process->nr_open; i++)
		nr_before += process->open[i].since_before;
	return nr_before > 0;
}

/* A summary for a job without a known communicator. */
static void add_summary(struct nccl_writer *w, size_t nr_silent)
{
	size_t nr = 0, i;

	for (i = 0; i < w->read->nr_processes; i++)
		nr += hangs(w->read->processes[i].report);
	if (!nr || !nr_silent)
		return;
	buf_printf(w->dst,
		   "\n%zu %s in calls since before %s watched, %zu with NCCL %s in none that is "
		   "known:\n%s what the others wait for\n",
		   nr, nr == 1 ? "process is" : "processes are", nr == 1 ? "it was" : "they were",
		   nr_silent, nr_silent == 1 ? "is" : "are",
		   nr_silent == 1 ? "  it may be" : "  one of these may be");
}

int nccl_add_places(struct nccl_writer *w)
{
	const struct gpu_read *read = w->read;
	struct places calls = { .w = w }, silent = { .w = w };
	const struct gpu_read_process *process;
	int err = -ENOMEM;
	size_t i, k;

	calls.at = calloc(read->nr_open + 1, sizeof(*calls.at));
	silent.at = calloc(read->nr_processes + 1, sizeof(*silent.at));
	for (i = 0; calls.at && silent.at && i < read->nr_processes; i++) {
		process = &read->processes[i];
		if (process->silent)
			silent.at[silent.nr++].process = process;
		for (k = 0; k < process->report->nr_open; k++)
			if (process->report->open[k].since_before)
				calls.at[calls.nr++] =
					(struct place){ process, &process->report->open[k] };
	}
	if (calls.at && silent.at) {
		add_summary(w, silent.nr);
		err = places_write(&calls, "\nCalls that began before they were watched:\n");
		if (!err)
			err = places_write(
				&silent,
				"\nWith NCCL, but without a call while they were watched, and in "
				"none before, as far as is known:\n");
	}
	free(calls.at);
	free(silent.at);
	return err;
}
