/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_PARTS_H
#define BPFPROF_PROFILE_PARTS_H

/*
 * A profile cut into one part per pod, and one for what lives in no pod; or into one per process.
 * A part holds nothing of the others: no sample, process, location or mapping that its own
 * samples do not need. Making all of them takes time in proportion to the profile, not to the number
 * of parts times that.
 */

#include <stddef.h>

#include "profile/profile.h"
#include "profile/stats.h"

struct profile_parts;

enum profile_cut { PROFILE_CUT_PODS, PROFILE_CUT_PROCESSES };

struct profile_part {
	const char *namespace, *pod; /* by pod; both NULL: of no pod; live as long as the profile */
	uint32_t pid; /* by process; the kernel's for one that has none here */
	struct profile profile; /* its strings are those of the whole */
	struct run_stats stats; /* samples and stacks are its own, the rest the whole's */
};

/* Borrows profile until profile_parts_free(). 0 or -ENOMEM. */
int profile_parts_new(struct profile_parts **ret, const struct profile *profile,
		      enum profile_cut by);
void profile_parts_free(struct profile_parts *parts);

/* By pod at least 1: the first part is always that of no pod. The others have samples. */
size_t profile_parts_count(const struct profile_parts *parts);

/* Of that pod; 0: there is none. Looks at all of them. */
size_t profile_parts_find(const struct profile_parts *parts, const char *namespace,
			  const char *pod);

/* 0, then profile_part_fini() is due, or -ENOMEM. One at a time. */
int profile_part_make(struct profile_parts *parts, size_t index, struct profile_part *ret);
void profile_part_fini(struct profile_part *part);

#endif
