/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_PARTS_H
#define BPFPROF_PROFILE_PARTS_H

/*
 * Cuts a profile into one part per pod, and one for processes without a pod; or into one per process. A
 * part holds only the samples, processes, locations and mappings that its own samples need. The time to
 * make all parts grows with the profile, not with the number of parts.
 */

#include <stdbool.h>
#include <stddef.h>

#include "profile/profile.h"
#include "profile/stats.h"

struct profile_parts;

enum profile_cut { PROFILE_CUT_PODS, PROFILE_CUT_PROCESSES };

struct profile_part {
	const char *namespace,
		*pod; /* by pod; both NULL: no pod; they live as long as the profile */
	uint32_t pid; /* by process; the kernel's if it has none in our pid namespace */
	struct profile profile; /* it shares the strings of the whole profile */
	struct run_stats stats; /* samples and stacks of the part, all else of the whole profile */
};

/* Sets the counts of samples and stacks to those of the profile, as its frames show them. */
void profile_samples_count(struct run_stats *stats, const struct profile *profile);

/* Borrows profile until profile_parts_free(). 0 or -ENOMEM. */
int profile_parts_new(struct profile_parts **ret, const struct profile *profile,
		      enum profile_cut by);
void profile_parts_free(struct profile_parts *parts);

/* By pod at least 1: the first part is always the one without a pod. The others have samples. */
size_t profile_parts_count(const struct profile_parts *parts);

/* The index of the part of that pod, 0: there is none. Searches all parts. */
size_t profile_parts_find(const struct profile_parts *parts, const char *namespace,
			  const char *pod);

/* The part of a process, by the kernel's pid. False: there is none. Cut by process. */
bool profile_parts_find_process(const struct profile_parts *parts, uint32_t kernel_pid,
				size_t *ret);

/* Makes one part; there may be one at a time. 0, then profile_part_fini() is due, or -ENOMEM. */
int profile_part_make(struct profile_parts *parts, size_t index, struct profile_part *ret);
void profile_part_fini(struct profile_part *part);

#endif
