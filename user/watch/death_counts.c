// SPDX-License-Identifier: Apache-2.0
#include "watch/death_counts.h"

#include <stdbool.h>
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

/* False: the process was in no pod. */
static bool pod_name(char dst[DEATH_POD_BYTES], const struct death *death)
{
	const struct aggregate_container *container;
	struct aggregate_view view;

	if (!death->aggregate)
		return false;
	aggregate_view_get(death->aggregate, &view);
	if (!view.nr_processes || !view.processes[0].container)
		return false;
	container = &view.containers[view.processes[0].container - 1];
	snprintf(dst, DEATH_POD_BYTES, "%s/%s", strtab_get(view.strings, container->namespace),
		 strtab_get(view.strings, container->pod));
	death_label_clean(dst);
	return *strtab_get(view.strings, container->pod);
}

static struct death_pod *pod_find(struct death_counts *counts, const char *name)
{
	struct death_pod *pod, *oldest = counts->pods;

	for (pod = counts->pods; pod < counts->pods + counts->nr_pods; pod++) {
		if (!strcmp(pod->pod, name))
			return pod;
		if (pod->last < oldest->last)
			oldest = pod;
	}
	pod = counts->nr_pods < DEATH_COUNTS_MAX_PODS ? &counts->pods[counts->nr_pods++] : oldest;
	*pod = (struct death_pod){ 0 };
	snprintf(pod->pod, sizeof(pod->pod), "%s", name);
	return pod;
}

static void pod_count(struct death_counts *counts, const struct death *death)
{
	char name[DEATH_POD_BYTES];
	struct death_pod *pod;

	counts->nr_all++;
	if (!pod_name(name, death))
		return;
	pod = pod_find(counts, name);
	pod->nr++;
	pod->last = counts->nr_all;
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
