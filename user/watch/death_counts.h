/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_DEATH_COUNTS_H
#define BPFPROF_WATCH_DEATH_COUNTS_H

/*
 * Deaths by their signal and the process that ended them: the labels of bpfprof_deaths_total. A process chooses its
 * name: after DEATH_COUNTS_MAX_NAMED rows with names, new names count as "other", under their signal.
 */

#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"
#include "watch/death.h"
#include "watch/pod_counts.h"

#define DEATH_COUNTS_MAX_NAMED 64
/* And for each of 127 signals, and for exit: self, kernel and other. */
#define DEATH_COUNTS_MAX (DEATH_COUNTS_MAX_NAMED + 3 * 128)

struct death_count {
	char reason[DEATH_SIGNAL_BYTES], by[BPFPROF_COMM_LEN + 1];
	uint64_t nr;
};

struct death_counts {
	struct pod_counts pods; /* bpfprof_pod_deaths_total */
	struct death_count rows[DEATH_COUNTS_MAX];
	size_t nr, nr_named;
};

void death_counts_add(struct death_counts *counts, const struct death *death);

#endif
