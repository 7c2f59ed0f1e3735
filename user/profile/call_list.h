/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_CALL_LIST_H
#define BPFPROF_PROFILE_CALL_LIST_H

/*
 * The calls of an aggregate: the texts that describe them, each distinct description once, and
 * their samples. The memory comes out of the aggregate's budget.
 */

#include "base/vec.h"
#include "profile/aggregate.h"
#include "profile/piece_set.h"

struct call_list {
	struct strtab *labels; /* NULL until the first one */
	struct piece_set calls; /* struct profile_call */
	struct vec samples; /* struct aggregate_call_sample */
	uint64_t nr_lost; /* calls */
	uint64_t nr_unlabelled; /* descriptions for which there was no room */
};

void call_list_fini(struct call_list *list);
/* The id of the text, 0 for NULL and ""; without room that of STRTAB_OVERFLOW. */
uint32_t call_list_label(struct call_list *list, struct table_budget *budget, const char *text);
/* Index + 1, 0: no room. */
uint32_t call_list_add(struct call_list *list, struct table_budget *budget, uint64_t seed,
		       const struct aggregate_call_labels *labels);
/* 0, -E2BIG or -ENOMEM. */
int call_list_sample(struct call_list *list, struct table_budget *budget,
		     const struct aggregate_call_sample *sample);
void call_list_view(const struct call_list *list, struct aggregate_view *view);

#endif
