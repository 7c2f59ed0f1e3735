// SPDX-License-Identifier: Apache-2.0
#include "watch/death_counts.h"

#include <stdio.h>
#include <string.h>

static struct death_count *row_find(struct death_counts *counts, const struct death_count *like)
{
	struct death_count *row;

	for (row = counts->rows; row < counts->rows + counts->nr; row++)
		if (!strcmp(row->reason, like->reason) && !strcmp(row->by, like->by))
			return row;
	return NULL;
}

void death_counts_add(struct death_counts *counts, const struct death *death)
{
	struct death_count new = { .nr = 1 }, *row;

	death_reason(new.reason, death);
	death_by(new.by, death);
	row = row_find(counts, &new);
	if (!row && death->kind == DEATH_KILLED && counts->nr_named == DEATH_COUNTS_MAX_NAMED) {
		snprintf(new.by, sizeof(new.by), "other");
		row = row_find(counts, &new);
	} else if (!row && death->kind == DEATH_KILLED) {
		counts->nr_named++;
	}
	if (row)
		row->nr++;
	else
		counts->rows[counts->nr++] = new;
}
