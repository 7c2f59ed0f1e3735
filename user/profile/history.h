/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_HISTORY_H
#define BPFPROF_PROFILE_HISTORY_H

/*
 * What the stacks of a profile held at some moments of its run, for a time line. Stacks that hold nothing
 * in the profile itself may have a series, too. What the series leave of the total is of other stacks.
 */

#include <stddef.h>
#include <stdint.h>

/* Indexes in the profile. */
struct history_series {
	uint32_t process, stack;
	uint32_t band; /* index in bands; nr_bands: other functions */
};

struct profile_history {
	const char *subject; /* what the moments count: "Anonymous memory" */
	const char *what; /* the profile itself: "held at the end" */
	size_t nr_moments;
	uint64_t *ns; /* of each moment, since the start */
	uint64_t *total_kib;
	size_t peak; /* the moment with the largest total */
	struct history_series *series;
	size_t nr_series;
	int32_t *kib; /* nr_moments values of each series; drift may be less than 0 */
	uint32_t *
		bands; /* the largest functions, and rows without a stack, as strings of the profile */
	size_t nr_bands;
};

/* Room for that many moments, series and bands, all zero. NULL: no memory. */
struct profile_history *profile_history_new(size_t nr_moments, size_t nr_series, size_t nr_bands);
/*
 * The series of some processes. to_process, to_stack: by index of the whole profile, the index in the part + 1, 0: it is
 * not there. The totals are those of the series. NULL: no memory.
 */
struct profile_history *profile_history_part(const struct profile_history *whole,
					     const uint32_t *to_process, const uint32_t *to_stack);
void profile_history_free(struct profile_history *history);

#endif
