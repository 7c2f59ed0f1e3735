// SPDX-License-Identifier: Apache-2.0
#include "python/id_tally.h"

#include <errno.h>
#include <stdlib.h>

#include "base/sorted.h"
#include "base/vec.h"

int id_tally_add(struct id_tally *tally, uint32_t id)
{
	if (vec_grow(tally->counts, tally->nr + 1, tally->cap, VEC_BOUNDED))
		return -ENOMEM;
	tally->counts[tally->nr++] = (struct id_count){ .id = id };
	return 0;
}

void id_tally_sort(struct id_tally *tally)
{
	if (tally->nr)
		qsort(tally->counts, tally->nr, sizeof(*tally->counts), sorted_by_u32);
}

struct id_count *id_tally_find(const struct id_tally *tally, uint32_t id)
{
	const struct id_count key = { .id = id };

	if (!tally->nr)
		return NULL;
	return bsearch(&key, tally->counts, tally->nr, sizeof(key), sorted_by_u32);
}

void id_tally_fini(struct id_tally *tally)
{
	free(tally->counts);
	*tally = (struct id_tally){ 0 };
}
