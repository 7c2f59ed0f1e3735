// SPDX-License-Identifier: Apache-2.0
#include "memory/history.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/strtab.h"
#include "base/vec.h"
#include "memory/holders.h"
#include "memory/moments.h"
#include "memory/monitor.h"
#include "memory/process_row.h"
#include "profile/history.h"
#include "profile/profile.h"

#define MAX_FUNCTIONS 10 /* with a band of their own */

int memory_history_look(struct memory_monitor *m)
{
	const struct memory_answer *answer = &m->last;
	struct memory_label labels[MEMORY_NR_LABELS];
	struct aggregate_call_at at;
	size_t i, k;
	int err = 0, one;

	for (i = 0; i < answer->nr_rows && !err; i++)
		err = memory_moments_add(&m->moments, &answer->rows[i].at, 0,
					 (int64_t)answer->rows[i].bytes);
	for (i = 0; i < answer->nr_accounts; i++) {
		memory_account_labels(&answer->accounts[i], labels);
		for (k = 0; k < MEMORY_NR_LABELS; k++) {
			if (!labels[k].bytes)
				continue;
			one = process_row_add(m, &answer->accounts[i], labels[k].label, &at);
			one = one ?: memory_moments_add(&m->moments, &at, 0, labels[k].bytes);
			err = err ?: one;
		}
	}
	memory_moments_end(&m->moments, answer->ns, answer->anon_bytes + answer->swap_bytes);
	return err;
}

void memory_history_hold(struct memory_monitor *m)
{
	struct moment_line *line;

	hash_table_each(&m->moments.lines, line)
		aggregate_hold(m->aggregate, &line->at, PROFILE_NOT_ASLEEP);
}

/* A function with all its stacks, or a row without a stack. */
struct band {
	uint32_t name; /* of the holders */
	const char *text;
	int64_t most_kib; /* at any moment */
};

static int band_class(const struct band *band)
{
	if (*band->text != '[')
		return 1;
	return strcmp(band->text, MEMORY_DRIFT) ? 0 : 2;
}

/* Rows without a stack, then functions, those with the most first, then drift. */
static int band_compare(const void *a, const void *b)
{
	const struct band *x = a, *y = b;
	int class = band_class(x) - band_class(y);

	if (class)
		return class;
	if (x->most_kib != y->most_kib)
		return x->most_kib > y->most_kib ? -1 : 1;
	return strcmp(x->text, y->text);
}

/* A line with its function. */
struct named_line {
	const struct moment_line *line;
	uint32_t band; /* name of the holders */
};

static int named_compare(const void *a, const void *b)
{
	const struct named_line *x = a, *y = b;

	return x->band < y->band ? -1 : x->band > y->band;
}

static int64_t most_of(const struct profile_history *history, size_t first, size_t end)
{
	int64_t most = 0, sum;
	size_t moment, i;

	for (moment = 0; moment < history->nr_moments; moment++) {
		for (i = first, sum = 0; i < end; i++)
			sum += history->kib[i * history->nr_moments + moment];
		most = llabs(sum) > most ? llabs(sum) : most;
	}
	return most;
}

/* Room in the profile for the stacks of lines with a GPU. 0 or -ENOMEM. */
static int gpu_stacks_room(struct profile *profile, const struct memory_moments *moments)
{
	const struct moment_line *line;
	size_t nr = 0;

	hash_table_each(&moments->lines, line)
		nr += line->key.gpu != 0;
	if (nr && (profile_stacks_fit(profile, nr) ||
		   !vec_fit(profile->locations, profile->nr_locations + nr)))
		return -ENOMEM;
	return 0;
}

/* The location of a GPU, among those from `first` on. */
static uint32_t gpu_location(struct profile *profile, size_t first, uint32_t gpu)
{
	char text[32] = "[GPU not known]";
	uint32_t name;
	size_t i;

	if (gpu > 1)
		snprintf(text, sizeof(text), "[GPU %u]", gpu - 2);
	name = strtab_add(profile->strings, text);
	for (i = first; i < profile->nr_locations; i++)
		if (profile->locations[i].name == name)
			return (uint32_t)i;
	profile->locations[profile->nr_locations++] = (struct profile_location){
		.kind = LOCATION_CALL, .has_symbol = true, .name = name, .system_name = name
	};
	return (uint32_t)i;
}

/* Gives the stack of each line with a GPU that as its leaf, where gpu_stacks_room() has made room. */
static void gpu_stacks_add(struct profile_history *history, const struct named_line *lines,
			   struct profile *profile)
{
	size_t first = profile->nr_locations, i;
	uint32_t gpu;

	for (i = 0; i < history->nr_series; i++) {
		if (!lines[i].line->key.gpu)
			continue;
		gpu = gpu_location(profile, first, lines[i].line->key.gpu);
		history->series[i].stack =
			profile_stack_put(profile, history->series[i].stack, gpu);
	}
}

static int series_fill(struct profile_history *history, const struct memory_moments *moments,
		       const struct holders *holders, struct profile *profile)
{
	__cleanup(free_mem) struct named_line *lines =
		calloc(history->nr_series + 1, sizeof(*lines));
	const struct moment_line *line;
	size_t i = 0;

	if (!lines || gpu_stacks_room(profile, moments))
		return -ENOMEM;
	hash_table_each(&moments->lines, line)
		lines[i++] = (struct named_line){ .line = line,
						  .band = holders_name(holders, line->key.stack) };
	qsort(lines, i, sizeof(*lines), named_compare);
	for (i = 0; i < history->nr_series; i++) {
		line = lines[i].line;
		history->series[i] = (struct history_series){ .process = line->key.process,
							      .stack = line->key.stack,
							      .band = lines[i].band };
		memcpy(history->kib + i * history->nr_moments, line->kib,
		       history->nr_moments * sizeof(*line->kib));
	}
	gpu_stacks_add(history, lines, profile);
	return 0;
}

/* Chooses the bands, and renumbers those of the series, which are sorted by name. */
static int bands_fill(struct profile_history *history, const struct holders *holders,
		      struct profile *profile)
{
	__cleanup(free_mem) struct band *bands = calloc(history->nr_series + 1, sizeof(*bands));
	__cleanup(free_mem) uint32_t *numbers = malloc(holders->nr * sizeof(*numbers));
	struct history_series *series = history->series;
	size_t nr = 0, first, end, i, functions = 0;

	if (!bands || !numbers)
		return -ENOMEM;
	for (first = 0; first < history->nr_series; first = end) {
		for (end = first + 1; end < history->nr_series; end++)
			if (series[end].band != series[first].band)
				break;
		bands[nr++] = (struct band){
			.name = series[first].band,
			.text = strtab_get(holders->names, series[first].band),
			.most_kib = most_of(history, first, end),
		};
	}
	qsort(bands, nr, sizeof(*bands), band_compare);
	for (i = 0; i < nr; i++) {
		numbers[bands[i].name] = UINT32_MAX;
		if (band_class(&bands[i]) == 1 && functions++ >= MAX_FUNCTIONS)
			continue;
		numbers[bands[i].name] = (uint32_t)history->nr_bands;
		history->bands[history->nr_bands++] = strtab_add(profile->strings, bands[i].text);
	}
	for (i = 0; i < history->nr_series; i++) {
		series[i].band = numbers[series[i].band];
		if (series[i].band == UINT32_MAX)
			series[i].band = (uint32_t)history->nr_bands;
	}
	return 0;
}

void memory_moments_history(const struct memory_moments *moments, const char *subject,
			    const char *what, struct profile *profile)
{
	struct profile_history *history;
	struct holders holders;
	size_t i;
	int err;

	if (!moments->nr)
		return;
	history = profile_history_new(moments->nr, moments->lines.nr, moments->lines.nr);
	if (!history) {
		log_error("no room for the time line");
		return;
	}
	history->subject = subject;
	history->what = what;
	history->peak = moments->peak;
	for (i = 0; i < moments->nr; i++) {
		history->ns[i] = moments->ns[i];
		history->total_kib[i] = moments->total_kib[i];
	}
	err = holders_new(&holders, profile);
	if (!err)
		err = series_fill(history, moments, &holders, profile);
	if (!err)
		err = bands_fill(history, &holders, profile);
	holders_fini(&holders);
	profile->history = history; /* the profile frees it */
	if (!err)
		return;
	log_error("no room for the time line");
	profile_history_free(history);
	profile->history = NULL;
}

void memory_history_make(const struct memory_monitor *m, struct profile *profile)
{
	static const char *const whats[] = {
		[MEMORY_HELD] = "held at the end",
		[MEMORY_GROWN] = "held at the end, and not at the start",
		[MEMORY_PEAK] = "held at the peak",
		[MEMORY_LEAKS] = "leaks",
	};

	memory_moments_history(&m->moments, "Anonymous memory", whats[m->question], profile);
}
