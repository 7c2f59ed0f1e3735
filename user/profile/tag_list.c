// SPDX-License-Identifier: Apache-2.0
#include "profile/tag_list.h"

#include "base/strtab.h"
#include "container/containers.h"
#include "proc/ranks.h"

#define MAX_STRING_BYTES (4U << 20)

void tag_list_init(struct tag_list *tags)
{
	*tags = (struct tag_list){ 0 };
	tags->containers.max = AGGREGATE_MAX_CONTAINERS;
	tags->ranks.max = AGGREGATE_MAX_RANKS;
}

void tag_list_fini(struct tag_list *tags)
{
	piece_set_fini(&tags->containers);
	piece_set_fini(&tags->ranks);
	strtab_free(tags->strings);
}

uint32_t tag_list_container(struct tag_list *tags, struct table_budget *budget, uint64_t seed,
			    const struct container *from)
{
	struct aggregate_container copy;
	uint32_t index;
	size_t i;

	if (!tags->strings && strtab_new(&tags->strings, MAX_STRING_BYTES))
		return 0;
	copy = (struct aggregate_container){
		.id = strtab_add(tags->strings, from->id),
		.name = strtab_add(tags->strings, from->name),
		.pod = strtab_add(tags->strings, from->pod),
		.namespace = strtab_add(tags->strings, from->namespace),
		.pod_uid = strtab_add(tags->strings, from->pod_uid),
		.image = strtab_add(tags->strings, from->image),
		.ray_cluster = strtab_add(tags->strings, from->ray_cluster),
		.ray_group = strtab_add(tags->strings, from->ray_group),
		.ray_node_type = strtab_add(tags->strings, from->ray_node_type),
	};
	for (i = 0; i < RANKS_NR; i++)
		copy.ranks.texts[i] = strtab_add(tags->strings, from->ranks[i]);
	if (piece_set_add(&tags->containers, budget, seed, &copy, PIECE_TYPE(copy), &index) < 0) {
		tags->nr_containers_full++;
		return 0;
	}
	return index + 1;
}

uint32_t tag_list_ranks(struct tag_list *tags, struct table_budget *budget, uint64_t seed,
			const struct ranks *from)
{
	struct profile_ranks copy;
	uint32_t index;
	size_t i;

	if (!tags->strings && strtab_new(&tags->strings, MAX_STRING_BYTES))
		return 0;
	for (i = 0; i < RANKS_NR; i++)
		copy.texts[i] = strtab_add(tags->strings, from->texts[i]);
	if (piece_set_add(&tags->ranks, budget, seed, &copy, PIECE_TYPE(copy), &index) < 0) {
		tags->nr_ranks_full++;
		return 0;
	}
	return index + 1;
}

void tag_list_view(const struct tag_list *tags, struct aggregate_view *view)
{
	view->containers = tags->containers.items.data;
	view->nr_containers = tags->containers.items.nr;
	view->ranks = tags->ranks.items.data;
	view->nr_ranks = tags->ranks.items.nr;
	view->strings = tags->strings;
	view->nr_containers_full = tags->nr_containers_full;
	view->nr_ranks_full = tags->nr_ranks_full;
}
