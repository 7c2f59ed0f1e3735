/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_IDLE_H
#define BPFPROF_PROFILE_IDLE_H

/*
 * Threads that wait because there is nothing for them to do: idle workers of thread pools, pollers
 * of gRPC and Ray, event loops beside the main thread. In time that includes waiting they would be
 * most of the picture. Which they are is told by functions alone, never by a thread's name.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"

struct profile;
struct profile_stack;
struct stats_reasons;

#define IDLE_FRAME "[parked]"

struct idle_counts {
	uint64_t samples, ns; /* that were folded */
	uint32_t nr_stacks; /* different ones that they had */
};

extern const struct counter idle_counters[];
/*
 * Replaces the stack of every sample that tells of a parked thread by IDLE_FRAME alone; what is
 * alike then becomes one sample. Only of waits, never of a process's first thread. 0 or -ENOMEM,
 * then the profile is as it was.
 */
int profile_fold_idle(struct profile *profile, struct idle_counts *ret);
/* The same, which is counted in waits. 0 or -ENOMEM. */
int profile_fold_idle_counted(struct profile *profile, struct stats_reasons *waits);
/* Has a thread that waits with this stack nothing to do? May be the first one, whose loop is idle. */
bool profile_stack_is_idle(const struct profile *profile, const struct profile_stack *stack);

#endif
