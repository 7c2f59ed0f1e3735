/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_IDLE_H
#define BPFPROF_PROFILE_IDLE_H

/*
 * Recognizes idle threads: workers of thread pools, pollers of gRPC and Ray, event loops beside the first
 * thread, which wait because they have nothing to do. In time that includes waiting they would be most
 * of the picture. Only functions on the stack count, never the name of a thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"

struct profile;
struct stats_reasons;

#define IDLE_FRAME "[parked]"

struct idle_counts {
	uint64_t samples, ns; /* folded */
	uint32_t nr_stacks; /* different stacks of these samples */
};

extern const struct counter idle_counters[];
/*
 * Replaces the stack of every sample of an idle thread by IDLE_FRAME alone and joins samples that become
 * equal. Only waits count, and never the first thread of a process. 0; -ENOMEM: the profile stays as it
 * was.
 */
int profile_fold_idle(struct profile *profile, struct idle_counts *ret);
/* The same, and adds the counts to waits. 0 or -ENOMEM. */
int profile_fold_idle_counted(struct profile *profile, struct stats_reasons *waits);
/* Is a thread that waits with this stack idle? It may be the first thread, in an idle loop. */
bool profile_stack_is_idle(const struct profile *profile, uint32_t stack);

#endif
