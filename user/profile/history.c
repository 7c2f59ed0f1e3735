// SPDX-License-Identifier: Apache-2.0
#include "profile/history.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct profile_history *profile_history_new(size_t nr_moments, size_t nr_series, size_t nr_bands)
{
	struct profile_history *history = calloc(1, sizeof(*history));

	if (!history)
		return NULL;
	history->ns = calloc(nr_moments + 1, sizeof(*history->ns));
	history->total_kib = calloc(nr_moments + 1, sizeof(*history->total_kib));
	history->series = calloc(nr_series + 1, sizeof(*history->series));
	history->kib = calloc(nr_moments * nr_series + 1, sizeof(*history->kib));
	history->bands = calloc(nr_bands + 1, sizeof(*history->bands));
	history->nr_moments = nr_moments;
	history->nr_series = nr_series;
	if (history->ns && history->total_kib && history->series && history->kib && history->bands)
		return history;
	profile_history_free(history);
	return NULL;
}

void profile_history_free(struct profile_history *history)
{
	if (!history)
		return;
	free(history->ns);
	free(history->total_kib);
	free(history->series);
	free(history->kib);
	free(history->bands);
	free(history);
}

/* Copies the bands that a series of the part has, in their order. to_band: as to_process. */
static void bands_copy(struct profile_history *part, const struct profile_history *whole,
		       uint32_t *to_band)
{
	size_t i;

	for (i = 0; i < part->nr_series; i++)
		to_band[part->series[i].band] = 1;
	for (i = 0; i < whole->nr_bands; i++) {
		if (!to_band[i])
			continue;
		part->bands[part->nr_bands++] = whole->bands[i];
		to_band[i] = (uint32_t)part->nr_bands;
	}
	to_band[whole->nr_bands] = (uint32_t)part->nr_bands + 1;
	for (i = 0; i < part->nr_series; i++)
		part->series[i].band = to_band[part->series[i].band] - 1;
}

static void totals_add(struct profile_history *part)
{
	size_t moment, i;
	int64_t sum;

	for (moment = 0; moment < part->nr_moments; moment++) {
		for (i = 0, sum = 0; i < part->nr_series; i++)
			sum += part->kib[i * part->nr_moments + moment];
		part->total_kib[moment] = sum > 0 ? (uint64_t)sum : 0;
		if (part->total_kib[moment] > part->total_kib[part->peak])
			part->peak = moment;
	}
}

struct profile_history *profile_history_part(const struct profile_history *whole,
					     const uint32_t *to_process, const uint32_t *to_stack)
{
	__cleanup(free_mem) uint32_t *to_band = calloc(whole->nr_bands + 1, sizeof(*to_band));
	const struct history_series *from = whole->series;
	struct profile_history *part;
	size_t moments = whole->nr_moments, nr = 0, i;

	for (i = 0; i < whole->nr_series; i++)
		nr += to_process[from[i].process] != 0;
	part = to_band ? profile_history_new(moments, nr, whole->nr_bands) : NULL;
	if (!part)
		return NULL;
	part->subject = whole->subject;
	part->what = whole->what;
	memcpy(part->ns, whole->ns, moments * sizeof(*part->ns));
	for (i = 0, nr = 0; i < whole->nr_series; i++) {
		if (!to_process[from[i].process])
			continue;
		memcpy(part->kib + nr * moments, whole->kib + i * moments,
		       moments * sizeof(*part->kib));
		part->series[nr++] =
			(struct history_series){ .process = to_process[from[i].process] - 1,
						 .stack = to_stack[from[i].stack],
						 .band = from[i].band };
	}
	bands_copy(part, whole, to_band);
	totals_add(part);
	return part;
}
