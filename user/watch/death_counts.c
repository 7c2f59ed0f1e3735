// SPDX-License-Identifier: Apache-2.0
#include "watch/death_counts.h"

#include <stdio.h>
#include <string.h>

#include "base/strtab.h"
#include "profile/aggregate.h"

static struct death_count *row_find(struct death_counts *counts, const struct death_count *like)
{
	struct death_count *row;

	for (row = counts->rows; row < counts->rows + counts->nr; row++)
		if (!strcmp(row->reason, like->reason) && !strcmp(row->by, like->by))
			return row;
	return NULL;
}

static void pod_count(struct death_counts *counts, const struct death *death)
{
	const struct aggregate_container *container;
	struct aggregate_view view;

	if (!death->aggregate)
		return;
	aggregate_view_get(death->aggregate, &view);
	if (!view.nr_processes || !view.processes[0].container)
		return;
	container = &view.containers[view.processes[0].container - 1];
	pod_counts_add(&counts->pods, strtab_get(view.strings, container->namespace),
		       strtab_get(view.strings, container->pod));
}

void death_counts_add(struct death_counts *counts, const struct death *death)
{
	struct death_count new = { .nr = 1 }, *row;

	pod_count(counts, death);
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
