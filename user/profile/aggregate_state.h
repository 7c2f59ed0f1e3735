/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_AGGREGATE_STATE_H
#define BPFPROF_PROFILE_AGGREGATE_STATE_H

/* Inside of struct aggregate, for aggregate.c and aggregate_calls.c. */

#include "base/index.h"
#include "base/vec.h"
#include "profile/aggregate.h"
#include "profile/call_list.h"
#include "profile/piece_set.h"
#include "profile/seconds.h"
#include "profile/stack_set.h"
#include "profile/tag_list.h"

struct aggregate {
	bool threads;
	uint64_t seed; /* random seed of the hashes, as targets choose the keys */
	struct table_budget budget;
	struct vec processes, process_hashes, titles;
	struct index process_index;
	struct stack_set stacks; /* of frames */
	struct piece_set samples, thread_names, threads_seen;
	struct tag_list tags;
	struct call_list calls;
	uint64_t nr_table_full, nr_lost, nr_titles_over;
	struct sample_counts counts;
	bool may_forget;
	struct vec process_counts; /* counts of each process, if may_forget */
	struct seconds *seconds; /* NULL: not kept */
	uint64_t seconds_ns; /* when the first of them began */
};

/* The number of the stack of these frames above `caller`, if `kept` bytes of the budget stay free; or a negative error. */
int64_t aggregate_stack_keep(struct aggregate *a, uint32_t caller, const uint64_t *frames,
			     size_t nr, size_t kept);
int64_t aggregate_stack_get(struct aggregate *a, const uint64_t *frames, size_t nr);
/* Fills in the key except for the stack: 0, or -ENOMEM without room for the process. */
int aggregate_place_get(struct aggregate *a, const struct aggregate_input *input,
			struct aggregate_sample *key);

#endif
