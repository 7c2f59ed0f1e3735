// SPDX-License-Identifier: Apache-2.0
#include "profile/live_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vec.h"

struct counted_row {
	uint64_t sample; /* the last sample that counted for the row */
	uint32_t views; /* the sample was added to the total times of these views */
};

void live_rows_init(struct live_rows *rows)
{
	*rows = (struct live_rows){ 0 };
	map_init(&rows->index, LIVE_MAX_ROWS);
}

void live_rows_fini(struct live_rows *rows)
{
	map_fini(&rows->index);
	free(rows->list);
	free(rows->counted);
}

void live_rows_clear(struct live_rows *rows)
{
	rows->nr = 0;
	map_clear(&rows->index);
}

static uint64_t row_key(uint32_t process, uint32_t text, uint32_t kinds)
{
	return (uint64_t)process << 34 | (uint64_t)text << 2 | kinds;
}

void live_rows_reindex(struct live_rows *rows)
{
	const struct live_row *row;
	size_t i;

	map_clear(&rows->index);
	for (i = 0; i < rows->nr; i++) {
		row = &rows->list[i];
		if (map_set(&rows->index, row_key(row->process, row->text, row->kinds),
			    (uint32_t)i))
			break;
	}
}

void live_rows_drop_orphans(struct live_rows *rows, const struct live_process *processes)
{
	size_t i, nr = 0;

	for (i = 0; i < rows->nr; i++) {
		if (!processes[rows->list[i].process].kernel_pid)
			continue;
		rows->list[nr] = rows->list[i];
		rows->counted[nr++] = rows->counted[i];
	}
	rows->nr_evicted += rows->nr - nr;
	rows->nr = nr;
	live_rows_reindex(rows);
}

struct rank {
	uint64_t ns;
	size_t row;
};

static int compare_rank(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	return x->ns < y->ns ? 1 : x->ns > y->ns ? -1 : 0;
}

static uint64_t row_weight(const struct live_row *row)
{
	uint64_t weight = 0;
	size_t view;

	for (view = 0; view < LIVE_NR_VIEWS; view++) {
		weight = row->ever.total_ns[view] > weight ? row->ever.total_ns[view] : weight;
		if (row->now.total_ns[view])
			return UINT64_MAX;
	}
	return weight;
}

void live_rows_evict(struct live_rows *rows)
{
	size_t i, keep = rows->nr / 2;
	__cleanup(free_mem) struct rank *ranks = malloc((rows->nr + 1) * sizeof(*ranks));
	__cleanup(free_mem) struct live_row *kept = malloc((keep + 1) * sizeof(*kept));
	__cleanup(free_mem) struct counted_row *counted = malloc((keep + 1) * sizeof(*counted));

	if (!ranks || !kept || !counted)
		return;
	for (i = 0; i < rows->nr; i++)
		ranks[i] = (struct rank){ row_weight(&rows->list[i]), i };
	qsort(ranks, rows->nr, sizeof(*ranks), compare_rank);
	for (i = 0; i < keep; i++) {
		kept[i] = rows->list[ranks[i].row];
		counted[i] = rows->counted[ranks[i].row];
	}
	memcpy(rows->list, kept, keep * sizeof(*kept));
	memcpy(rows->counted, counted, keep * sizeof(*counted));
	rows->nr_evicted += rows->nr - keep;
	rows->nr = keep;
	live_rows_reindex(rows);
}

static int rows_reserve(struct live_rows *rows)
{
	size_t cap = rows->cap;
	int err = vec_grow(rows->list, rows->nr + 1, cap, VEC_BOUNDED);

	return err ? err : vec_grow(rows->counted, rows->nr + 1, rows->cap, VEC_BOUNDED);
}

void live_rows_count(struct live_rows *rows, uint32_t process, uint32_t text, uint32_t kinds,
		     const struct live_amount *amount)
{
	uint64_t key = row_key(process, text, kinds);
	struct live_row *row;
	uint32_t at, view;

	if (!map_find(&rows->index, key, &at)) {
		if (rows->nr == LIVE_MAX_ROWS)
			live_rows_evict(rows);
		if (rows_reserve(rows))
			return;
		at = (uint32_t)rows->nr;
		if (map_set(&rows->index, key, at))
			return;
		rows->nr++;
		rows->list[at] =
			(struct live_row){ .process = process, .text = text, .kinds = kinds };
		rows->counted[at] = (struct counted_row){ 0 };
	}
	row = &rows->list[at];
	if (rows->counted[at].sample != rows->sample)
		rows->counted[at] = (struct counted_row){ .sample = rows->sample };
	for (view = 0; view < LIVE_NR_VIEWS; view++) {
		if (amount->leaf_views >> view & 1) {
			row->now.own_ns[view] += amount->ns;
			row->ever.own_ns[view] += amount->ns;
		}
		if ((amount->views & ~rows->counted[at].views) >> view & 1) {
			row->now.total_ns[view] += amount->ns;
			row->ever.total_ns[view] += amount->ns;
		}
	}
	rows->counted[at].views |= amount->views;
}
