/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_AGGREGATE_STATS_H
#define BPFPROF_PROFILE_AGGREGATE_STATS_H

#include "base/counters.h"

struct aggregate_view;
struct run_stats;

extern const struct counter aggregate_counters[];

/* Sets the counts of samples and stacks; adds the reasons for ends of stacks and lost samples. */
void aggregate_stats(struct run_stats *stats, const struct aggregate_view *view);

#endif
