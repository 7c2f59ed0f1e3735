/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_DEATH_COUNTS_H
#define BPFPROF_WATCH_DEATH_COUNTS_H

/*
 * Deaths by their signal and the process that ended them: the labels of bpfprof_deaths_total. A process chooses its
 * name: after DEATH_COUNTS_MAX_NAMED rows with names, new names count as "other", under their signal.
 * Deaths by pod: the labels of bpfprof_pod_deaths_total. Pods come and go: a new pod takes the row of the pod whose
 * last death is the longest ago.
 */

#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"
#include "watch/death.h"

#define DEATH_COUNTS_MAX_NAMED 64
/* And for each of 127 signals, and for exit: self, kernel and other. */
#define DEATH_COUNTS_MAX (DEATH_COUNTS_MAX_NAMED + 3 * 128)

struct death_count {
	char reason[DEATH_SIGNAL_BYTES], by[BPFPROF_COMM_LEN + 1];
	uint64_t nr;
};

#define DEATH_COUNTS_MAX_PODS 128
#define DEATH_POD_BYTES 320 /* a namespace of 63, a pod of 253 */

struct death_pod {
	char pod[DEATH_POD_BYTES]; /* NAMESPACE/POD */
	uint64_t nr, last; /* last: the number of all deaths at its last one */
};

struct death_counts {
	struct death_pod pods[DEATH_COUNTS_MAX_PODS];
	size_t nr_pods;
	uint64_t nr_all;
	struct death_count rows[DEATH_COUNTS_MAX];
	size_t nr, nr_named;
};

void death_counts_add(struct death_counts *counts, const struct death *death);

#endif
