/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_POD_COUNTS_H
#define BPFPROF_WATCH_POD_COUNTS_H

/* Counts by pod, for metrics. Pods come and go: a new pod takes the row of the pod that was counted the longest ago. */

#include <stddef.h>
#include <stdint.h>

#define POD_COUNTS_MAX 128
#define POD_COUNTS_BYTES 320 /* a namespace of 63, a pod of 253 */

struct buf;

struct pod_count {
	char pod[POD_COUNTS_BYTES]; /* NAMESPACE/POD */
	uint64_t nr, last; /* last: the number of all counts at its last one */
};

struct pod_counts {
	struct pod_count rows[POD_COUNTS_MAX];
	size_t nr;
	uint64_t nr_all;
};

/* pod: "" or NULL: it is in none, and not counted. */
void pod_counts_add(struct pod_counts *counts, const char *namespace, const char *pod);
/* The rows of a metric: its label is watched_pod, as Prometheus itself sets pod, the agent's. */
void pod_counts_metric(struct buf *dst, const struct pod_counts *counts, const char *name,
		       const char *help);

#endif
