/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_TAG_LIST_H
#define BPFPROF_PROFILE_TAG_LIST_H

/*
 * The containers and ranks of the processes of an aggregate, each distinct one once. The memory comes out
 * of the aggregate's budget; the strings have a limit of their own.
 */

#include "base/vec.h"
#include "profile/aggregate.h"
#include "profile/piece_set.h"

struct tag_list {
	struct piece_set containers; /* struct aggregate_container */
	struct piece_set ranks; /* struct profile_ranks */
	struct strtab *strings; /* NULL until the first one */
	uint64_t nr_containers_full, nr_ranks_full; /* there was no room */
};

void tag_list_init(struct tag_list *tags);
void tag_list_fini(struct tag_list *tags);
/* Index + 1 of a copy, 0: no room. */
uint32_t tag_list_container(struct tag_list *tags, struct table_budget *budget, uint64_t seed,
			    const struct container *from);
uint32_t tag_list_ranks(struct tag_list *tags, struct table_budget *budget, uint64_t seed,
			const struct ranks *from);
void tag_list_view(const struct tag_list *tags, struct aggregate_view *view);

#endif
