// SPDX-License-Identifier: Apache-2.0
/*
 * Of most that hangs since before it was watched nobody knows for which others it waits: that can be
 * judged by people only. Most ranks of a job that hangs are at one place, and one of them is not. So
 * those at the same place are shown together, and the fewest processes first.
 */
#include "gpu/nccl_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "gpu/report_read.h"

#define MAX_ALIKE 8 /* of which each is named, unless all rows were asked for */
#define MAX_RANK 32 /* columns */
#define MAX_RANK_DIGITS 9

struct run {
	size_t first, nr; /* in the places */
	size_t nr_processes;
};

/* Calls, or processes, by their index in read. */
struct places {
	struct nccl_writer *w;
	uint32_t *at;
	size_t nr;
	struct run *runs; /* at the same place each */
	size_t nr_runs;
	int (*compare)(const struct gpu_read *read, uint32_t a, uint32_t b); /* 0: the same */
	const struct gpu_read_process *(*process_of)(const struct gpu_read *read, uint32_t at);
	/* What they are in, by the one of them that says most. */
	void (*add)(struct nccl_writer *w, const uint32_t *at, size_t nr);
};

static int compare_numbers(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* Equal strings are one, in read. */
static int compare_strings(const char *a, const char *b)
{
	return compare_numbers((uintptr_t)a, (uintptr_t)b);
}

static int compare_frames(const struct gpu_read *read, const struct gpu_read_range *a,
			  const struct gpu_read_range *b)
{
	int order = compare_numbers(a->nr, b->nr);
	size_t i;

	for (i = 0; i < a->nr && !order; i++)
		order = compare_strings(read->frames[a->first + i], read->frames[b->first + i]);
	return order;
}

static int compare_calls(const struct gpu_read *read, uint32_t first, uint32_t second)
{
	const struct gpu_read_open *a = &read->open[first], *b = &read->open[second];
	int order = compare_strings(a->function, b->function);

	if (!order)
		order = compare_numbers(a->bytes, b->bytes);
	if (!order)
		order = compare_numbers(!!a->group.nr, !!b->group.nr);
	if (!order)
		order = compare_frames(read, &a->frames, &b->frames);
	/* What a group has in it is of its process alone, and what has no stack is at no place. */
	return order || (!a->group.nr && a->frames.nr) ? order : compare_numbers(first, second);
}

static int compare_where(const struct gpu_read *read, uint32_t first, uint32_t second)
{
	const struct gpu_read_range *a = &read->processes[first].where,
				    *b = &read->processes[second].where;
	const struct gpu_read_where *at, *other;
	int order = compare_numbers(a->nr, b->nr);
	size_t i;

	/* Those of which it is not known are at no place. */
	if (!order && !a->nr)
		return compare_numbers(first, second);
	for (i = 0; i < a->nr && !order; i++) {
		at = &read->where[a->first + i];
		other = &read->where[b->first + i];
		order = compare_strings(at->thread, other->thread);
		if (!order)
			order = compare_numbers(at->running, other->running);
		if (!order)
			order = at->frames.nr || other->frames.nr
					? compare_frames(read, &at->frames, &other->frames)
					: compare_numbers(first, second);
	}
	return order;
}

static int compare_places(const void *first, const void *second, void *arg)
{
	const uint32_t *a = first, *b = second;
	const struct places *places = arg;
	int order = places->compare(places->w->read, *a, *b);

	return order ? order : compare_numbers(*a, *b);
}

/* The fewest first, else as they were told. */
static int compare_runs(const void *first, const void *second, void *arg)
{
	const struct run *a = first, *b = second;
	const struct places *places = arg;
	int order = compare_numbers(a->nr_processes, b->nr_processes);

	return order ? order : compare_numbers(places->at[a->first], places->at[b->first]);
}

/* Those of one process stand together. */
static bool is_next_process(const struct places *places, const struct run *run, size_t i)
{
	const struct gpu_read *read = places->w->read;

	return i == run->first || places->process_of(read, places->at[i]) !=
					  places->process_of(read, places->at[i - 1]);
}

static int runs_find(struct places *places)
{
	const struct gpu_read *read = places->w->read;
	struct run *run;
	size_t i;

	places->runs = calloc(places->nr + 1, sizeof(*places->runs));
	if (!places->runs)
		return -ENOMEM;
	qsort_r(places->at, places->nr, sizeof(*places->at), compare_places, places);
	for (i = 0; i < places->nr; i++) {
		if (!i || places->compare(read, places->at[i - 1], places->at[i]))
			places->runs[places->nr_runs++].first = i;
		run = &places->runs[places->nr_runs - 1];
		run->nr++;
		run->nr_processes += is_next_process(places, run, i);
	}
	qsort_r(places->runs, places->nr_runs, sizeof(*places->runs), compare_runs, places);
	return 0;
}

static bool rank_of(const struct gpu_read_process *process, uint32_t *ret)
{
	size_t len = strlen(process->rank);

	if (!len || len > MAX_RANK_DIGITS || strspn(process->rank, "0123456789") != len)
		return false;
	*ret = (uint32_t)strtoul(process->rank, NULL, 10);
	return true;
}

static int compare_ranks(const void *first, const void *second)
{
	const uint32_t *a = first, *b = second;

	return compare_numbers(*a, *b);
}

/* ", ranks 0-2, 5": by their environments, as far as these tell. 0 or -ENOMEM. */
static int add_ranks(const struct places *places, const struct run *run)
{
	__cleanup(free_mem) uint32_t *ranks = calloc(run->nr, sizeof(*ranks));
	struct nccl_ranges ranges = { .dst = places->w->dst };
	const struct gpu_read *read = places->w->read;
	size_t nr = 0, i, first;

	if (!ranks)
		return -ENOMEM;
	for (i = 0; i < run->nr; i++)
		nr += rank_of(places->process_of(read, places->at[run->first + i]), &ranks[nr]);
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
	if (*process->rank) {
		buf_add_str(w->dst, ", rank ");
		nccl_add_name(w, process->rank, MAX_RANK);
	}
	buf_add_char(w->dst, '\n');
}

static int run_write(const struct places *places, const struct run *run)
{
	struct nccl_writer *w = places->w;
	size_t max = w->rows == SIZE_MAX ? SIZE_MAX : MAX_ALIKE, nr = 0, i;
	const uint32_t *at = places->at + run->first;

	if (run->nr > 1) {
		buf_printf(w->dst, "  %zu at the same place", run->nr_processes);
		if (run->nr > run->nr_processes)
			buf_printf(w->dst, " with %zu threads", run->nr);
		if (add_ranks(places, run))
			return -ENOMEM;
		buf_add_str(w->dst, ":\n");
	}
	for (i = 0; i < run->nr && nr < max; i++) {
		if (!is_next_process(places, run, run->first + i))
			continue;
		add_process(w, places->process_of(w->read, at[i]));
		nr++;
	}
	if (nr < run->nr_processes)
		buf_printf(w->dst, "  ... and %zu more\n", run->nr_processes - nr);
	places->add(w, at, run->nr);
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

static const struct gpu_read_process *process_of_call(const struct gpu_read *read, uint32_t at)
{
	return &read->processes[read->open[at].process];
}

static const struct gpu_read_process *process_at(const struct gpu_read *read, uint32_t at)
{
	return &read->processes[at];
}

static void add_calls(struct nccl_writer *w, const uint32_t *at, size_t nr)
{
	const struct gpu_read_open *longest = &w->read->open[at[0]];
	size_t i;

	for (i = 1; i < nr; i++)
		if (w->read->open[at[i]].seconds > longest->seconds)
			longest = &w->read->open[at[i]];
	nccl_add_open(w, longest, nr > 1);
}

static void add_elsewhere(struct nccl_writer *w, const uint32_t *at, size_t nr)
{
	nccl_add_elsewhere(w, &w->read->processes[at[0]], nr > 1);
}

/* Does it hang in a way that says nothing of a communicator? */
static bool hangs(const struct gpu_read *read, const struct gpu_read_process *process)
{
	size_t i, nr_before = 0;

	for (i = 0; i < process->comms.nr; i++)
		if (read->comms[process->comms.first + i].known)
			return false;
	for (i = 0; i < process->open.nr; i++)
		nr_before += read->open[process->open.first + i].since_before;
	return nr_before > 0;
}

/* The most that can be said of a job of which no communicator is known. */
static void add_summary(struct nccl_writer *w, size_t nr_silent)
{
	size_t nr = 0, i;

	for (i = 0; i < w->read->nr_processes; i++)
		nr += hangs(w->read, &w->read->processes[i]);
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
	struct places calls = {
		.w = w, .compare = compare_calls, .process_of = process_of_call, .add = add_calls
	};
	struct places silent = {
		.w = w, .compare = compare_where, .process_of = process_at, .add = add_elsewhere
	};
	int err = -ENOMEM;
	uint32_t i;

	calls.at = calloc(read->nr_open + 1, sizeof(*calls.at));
	silent.at = calloc(read->nr_processes + 1, sizeof(*silent.at));
	if (calls.at && silent.at) {
		for (i = 0; i < read->nr_open; i++)
			if (read->open[i].since_before)
				calls.at[calls.nr++] = i;
		for (i = 0; i < read->nr_processes; i++)
			if (read->processes[i].silent)
				silent.at[silent.nr++] = i;
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
