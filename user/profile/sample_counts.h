/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_SAMPLE_COUNTS_H
#define BPFPROF_PROFILE_SAMPLE_COUNTS_H

/* Counts of samples, by the kind and the end of their stacks. */

#include <stdint.h>

#include "bpfprof.h"
#include "python/merge.h"

struct aggregate_input;

struct sample_counts {
	uint64_t nr_taken, nr_user, nr_kernel_only, nr_python;
	uint64_t unmerged[PYTHON_NR_UNMERGED]; /* complete stacks that did not pair up, by reason */
	uint64_t stops[BPFPROF_NR_STOPS]; /* by end of the user stack */
	uint64_t python_stops[PYTHON_NR_STOPS]; /* by end of the Python part */
	uint64_t await_stops[AWAIT_NR_STOPS]; /* by end of the awaiting tasks */
	uint64_t nr_no_room; /* complete stacks for which there was no room */
	uint64_t nr_several; /* a task of the stack is awaited by several */
};

/* Counts one sample. */
void sample_counts_add(struct sample_counts *counts, const struct aggregate_input *input);
/* There was no room for the stack of a sample that was counted. */
void sample_counts_no_room(struct sample_counts *counts, const struct aggregate_input *input);
/* Subtracts `of` from all, and sets it to 0. */
void sample_counts_take(struct sample_counts *all, struct sample_counts *of);

#endif
