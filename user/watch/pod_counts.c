// SPDX-License-Identifier: Apache-2.0
#include "watch/pod_counts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "watch/death.h"

static struct pod_count *row_of(struct pod_counts *counts, const char *name)
{
	struct pod_count *row, *oldest = counts->rows;

	for (row = counts->rows; row < counts->rows + counts->nr; row++) {
		if (!strcmp(row->pod, name))
			return row;
		if (row->last < oldest->last)
			oldest = row;
	}
	row = counts->nr < POD_COUNTS_MAX ? &counts->rows[counts->nr++] : oldest;
	*row = (struct pod_count){ 0 };
	snprintf(row->pod, sizeof(row->pod), "%s", name);
	return row;
}

void pod_counts_add(struct pod_counts *counts, const char *namespace, const char *pod)
{
	char name[POD_COUNTS_BYTES];
	struct pod_count *row;

	if (!pod || !*pod)
		return;
	snprintf(name, sizeof(name), "%s/%s", namespace ? namespace : "", pod);
	death_label_clean(name);
	row = row_of(counts, name);
	row->nr++;
	row->last = ++counts->nr_all;
}

void pod_counts_metric(struct buf *dst, const struct pod_counts *counts, const char *name,
		       const char *help)
{
	size_t i;

	buf_printf(dst, "# HELP %s %s\n# TYPE %s counter\n", name, help, name);
	for (i = 0; i < counts->nr; i++)
		buf_printf(dst, "%s{watched_pod=\"%s\"} %" PRIu64 "\n", name, counts->rows[i].pod,
			   counts->rows[i].nr);
}
