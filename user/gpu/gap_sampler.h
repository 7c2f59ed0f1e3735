/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_GAP_SAMPLER_H
#define BPFPROF_GPU_GAP_SAMPLER_H

/*
 * Samples threads that sleep while the device of their process is idle, such as a thread that waits for a
 * data loader: the clock does not sample them. In each such process the thread likely to launch next is
 * checked every few milliseconds, and its stack is read once for each sleep.
 */

#include <stdint.h>

#include "base/counters.h"

struct gap_sampler;
struct gpu_monitor;
struct stats_reasons;

/* Borrows watch, whose sampler has the options gpu_waits and threads. 0 or -ENOMEM. */
int gap_sampler_new(struct gap_sampler **ret, struct gpu_monitor *watch);
void gap_sampler_free(struct gap_sampler *gaps); /* NULL is fine */

/* Looks, if it is time to. Milliseconds until it wants to be called again. */
int gap_sampler_run(struct gap_sampler *gaps, uint64_t now_ns);
/* Stacks that were not read: unreadable, or no time was left. */
extern const struct counter gap_sampler_counters[];
void gap_sampler_lost(const struct gap_sampler *gaps, struct stats_reasons *dst);

#endif
