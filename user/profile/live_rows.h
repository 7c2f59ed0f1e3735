/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_LIVE_ROWS_H
#define BPFPROF_PROFILE_LIVE_ROWS_H

/*
 * The rows of a live table, found by process, text and kinds. At most LIVE_MAX_ROWS; when they are
 * full, half of them are evicted: those with the least time that did not run in this interval.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "profile/live.h"

struct counted_row;

/* live_rows_init() and live_rows_fini(). */
struct live_rows {
	struct live_row *list;
	struct counted_row *counted; /* of each row: what the present sample counted already */
	size_t nr, cap;
	struct map index;
	uint64_t sample; /* number of the present sample: the caller raises it */
	uint64_t nr_evicted;
};

/* The part of a row that a frame of a sample adds. */
struct live_amount {
	uint32_t views; /* bits: adds to the total times of these views */
	uint32_t leaf_views; /* bits: adds to the own times of these views */
	uint64_t ns;
};

void live_rows_init(struct live_rows *rows);
void live_rows_fini(struct live_rows *rows);
void live_rows_clear(struct live_rows *rows);
/* Without memory the amount is not counted. */
void live_rows_count(struct live_rows *rows, uint32_t process, uint32_t text, uint32_t kinds,
		     const struct live_amount *amount);
void live_rows_evict(struct live_rows *rows);
/* Evicts the rows of processes that are not in use. */
void live_rows_drop_orphans(struct live_rows *rows, const struct live_process *processes);
/* The caller has changed processes or texts of the rows. */
void live_rows_reindex(struct live_rows *rows);

#endif
