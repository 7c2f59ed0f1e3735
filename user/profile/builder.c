// SPDX-License-Identifier: Apache-2.0
#include "profile/builder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/capped.h"
#include "base/hash_seed.h"
#include "base/strtab.h"

#define MAX_FRAMES (1ULL << 28) /* of the stacks of all samples */
#define STRINGS_SHARE 4 /* a fourth of the bytes is for texts */

int profile_builder_init(struct profile_builder *b, size_t max_bytes)
{
	*b = (struct profile_builder){ .budget.max_bytes = max_bytes };
	b->seed = hash_seed();
	if (strtab_new(&b->strings, max_bytes / STRINGS_SHARE))
		return -ENOMEM;
	/* Never NULL: readers of a profile point into it, even at stacks without frames. */
	if (!vec_reserve(&b->budget, &b->stacks.elements, 1, sizeof(uint32_t)))
		return 0;
	profile_builder_fini(b);
	return -ENOMEM;
}

void profile_builder_fini(struct profile_builder *b)
{
	strtab_free(b->strings);
	piece_set_fini(&b->mappings);
	piece_set_fini(&b->locations);
	piece_set_fini(&b->containers);
	piece_set_fini(&b->processes);
	piece_set_fini(&b->calls);
	piece_set_fini(&b->samples);
	stack_set_fini(&b->stacks);
	free(b->call_values.data);
	*b = (struct profile_builder){ 0 };
}

int profile_builder_piece(struct profile_builder *b, struct piece_set *set, const void *item,
			  size_t size, uint32_t *ret)
{
	const struct piece_type type = { .bytes = size, .key_bytes = size };
	int err = piece_set_add(set, &b->budget, b->seed, item, type, ret);

	return err < 0 ? err : 0;
}

int profile_builder_mapping(struct profile_builder *b, const struct profile_mapping *mapping,
			    uint32_t *ret)
{
	int err = profile_builder_piece(b, &b->mappings, mapping, sizeof(*mapping), ret);

	*ret += !err;
	return err;
}

int profile_builder_location(struct profile_builder *b, const struct profile_location *location,
			     uint32_t *ret)
{
	return profile_builder_piece(b, &b->locations, location, sizeof(*location), ret);
}

int profile_builder_container(struct profile_builder *b, const struct profile_container *container,
			      uint32_t *ret)
{
	int err = profile_builder_piece(b, &b->containers, container, sizeof(*container), ret);

	*ret += !err;
	return err;
}

int profile_builder_process(struct profile_builder *b, const struct profile_process *process,
			    uint32_t *ret)
{
	return profile_builder_piece(b, &b->processes, process, sizeof(*process), ret);
}

int profile_builder_call(struct profile_builder *b, const struct profile_call *call, uint32_t *ret)
{
	int err = profile_builder_piece(b, &b->calls, call, sizeof(*call), ret);

	*ret += !err;
	return err;
}

int profile_builder_stack(struct profile_builder *b, const uint32_t *locations, uint32_t nr,
			  uint32_t *ret)
{
	b->nr_frames += nr;
	if (b->nr_frames > MAX_FRAMES)
		return -E2BIG;
	return stack_set_add(&b->stacks, &b->budget, b->seed, 0, locations, sizeof(*locations), nr,
			     ret);
}

static int values_add(struct profile_builder *b, uint32_t sample,
		      const uint64_t values[PROFILE_NR_CALL_VALUES])
{
	uint64_t(*all)[PROFILE_NR_CALL_VALUES];
	size_t have = b->call_values.nr, want = b->samples.items.nr, i;
	int err;

	if (want > have) {
		err = vec_reserve(&b->budget, &b->call_values, want - have, sizeof(*all));
		if (err)
			return err;
		all = b->call_values.data;
		memset(all + have, 0, (want - have) * sizeof(*all));
		b->call_values.nr = want;
	}
	all = b->call_values.data;
	for (i = 0; i < PROFILE_NR_CALL_VALUES; i++)
		all[sample][i] = capped_add(all[sample][i], values[i]);
	return 0;
}

int profile_builder_sample(struct profile_builder *b, const struct profile_sample *sample,
			   const uint64_t values[PROFILE_NR_CALL_VALUES])
{
	const struct piece_type type = { .bytes = sizeof(*sample),
					 .key_bytes = offsetof(struct profile_sample, count) };
	struct profile_sample *to;
	uint32_t at;
	int err;

	_Static_assert(offsetof(struct profile_sample, count) == 6 * sizeof(uint32_t),
		       "the numbers come last");
	err = piece_set_add(&b->samples, &b->budget, b->seed, sample, type, &at);
	if (err < 0)
		return err;
	if (!err) {
		to = (struct profile_sample *)b->samples.items.data + at;
		to->count = capped_add(to->count, sample->count);
		to->value_ns = capped_add(to->value_ns, sample->value_ns);
	}
	return values || b->call_values.nr
		       ? values_add(b, at,
				    values ? values : (uint64_t[PROFILE_NR_CALL_VALUES]){ 0 })
		       : 0;
}

static void *take(struct vec *vec, size_t *nr)
{
	void *data = vec->data;

	if (nr)
		*nr = vec->nr;
	*vec = (struct vec){ 0 };
	return data;
}

void profile_builder_finish(struct profile_builder *b, struct profile *ret)
{
	*ret = (struct profile){ .strings = b->strings };
	ret->mappings = take(&b->mappings.items, &ret->nr_mappings);
	ret->locations = take(&b->locations.items, &ret->nr_locations);
	ret->stack_locations = take(&b->stacks.elements, NULL);
	ret->stack_callers = take(&b->stacks.callers, &ret->nr_stacks);
	ret->processes = take(&b->processes.items, &ret->nr_processes);
	ret->containers = take(&b->containers.items, &ret->nr_containers);
	ret->samples = take(&b->samples.items, &ret->nr_samples);
	ret->calls = take(&b->calls.items, &ret->nr_calls);
	ret->call_values = take(&b->call_values, NULL);
	b->strings = NULL;
	profile_builder_fini(b);
}
