// SPDX-License-Identifier: Apache-2.0
#include "profile/history.h"

#include <stdlib.h>

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
