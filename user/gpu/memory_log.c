// SPDX-License-Identifier: Apache-2.0
#include "gpu/memory_log.h"

#include <errno.h>
#include <stdlib.h>

#include "base/vec.h"
#include "profile/stats.h"

_Static_assert(GPU_MEMORY_LOG_MAX_BYTES <= INT64_MAX / GPU_MEMORY_LOG_MAX, "sums do not overflow");

struct gpu_memory_log {
	struct gpu_allocation *all;
	size_t nr, cap;
	uint32_t first, last; /* of those that make room, index + 1, 0: none */
	uint64_t complete_ns, left_ns;
	uint64_t dropped, implausible;
};

int gpu_memory_log_new(struct gpu_memory_log **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

void gpu_memory_log_free(struct gpu_memory_log *log)
{
	if (!log)
		return;
	free(log->all);
	free(log);
}

/* The place of a new allocation, NULL: all that are kept are in use. */
static struct gpu_allocation *place_find(struct gpu_memory_log *log)
{
	struct gpu_allocation *oldest;
	uint64_t *gap_ns;

	if (log->nr < GPU_MEMORY_LOG_MAX &&
	    !vec_grow(log->all, log->nr + 1, log->cap, GPU_MEMORY_LOG_MAX))
		return &log->all[log->nr++];
	log->dropped++;
	if (!log->first)
		return NULL;
	oldest = &log->all[log->first - 1];
	log->first = oldest->next;
	if (!log->first)
		log->last = 0;
	gap_ns = gpu_memory_log_is_freed(oldest) ? &log->complete_ns : &log->left_ns;
	if (oldest->end_ns > *gap_ns)
		*gap_ns = oldest->end_ns;
	return oldest;
}

uint32_t gpu_memory_log_add(struct gpu_memory_log *log, const struct gpu_allocation *allocation)
{
	struct gpu_allocation *place;

	if (!allocation->bytes || allocation->bytes > GPU_MEMORY_LOG_MAX_BYTES ||
	    allocation->va > GPU_MEMORY_LOG_MAX_VA - allocation->bytes) {
		log->implausible++;
		return 0;
	}
	place = place_find(log);
	if (!place)
		return 0;
	*place = *allocation;
	if (place->stream > GPU_MEMORY_LOG_MAX_VA)
		place->stream = 0;
	place->end_ns = 0;
	place->next = 0;
	return (uint32_t)(place - log->all) + 1;
}

static void makes_room(struct gpu_memory_log *log, uint32_t nr)
{
	if (log->last)
		log->all[log->last - 1].next = nr;
	else
		log->first = nr;
	log->last = nr;
}

void gpu_memory_log_end(struct gpu_memory_log *log, uint32_t nr, uint64_t now_ns, uint32_t stack)
{
	struct gpu_allocation *allocation;

	if (!nr || nr > log->nr)
		return;
	allocation = &log->all[nr - 1];
	if (allocation->end_ns)
		return;
	allocation->end_ns = now_ns > allocation->begin_ns ? now_ns : allocation->begin_ns + 1;
	allocation->end_stack = stack;
	makes_room(log, nr);
}

void gpu_memory_log_leave(struct gpu_memory_log *log, uint32_t nr, uint64_t now_ns)
{
	gpu_memory_log_end(log, nr, now_ns, GPU_MEMORY_LEFT);
}

bool gpu_memory_log_is_freed(const struct gpu_allocation *allocation)
{
	return allocation->end_ns && allocation->end_stack != GPU_MEMORY_LEFT;
}

const struct gpu_allocation *gpu_memory_log_all(const struct gpu_memory_log *log, size_t *ret_nr)
{
	*ret_nr = log->nr;
	return log->all;
}

uint64_t gpu_memory_log_complete_ns(const struct gpu_memory_log *log)
{
	return log->complete_ns;
}

uint64_t gpu_memory_log_left_ns(const struct gpu_memory_log *log)
{
	return log->left_ns;
}

uint64_t gpu_memory_log_nr_dropped(const struct gpu_memory_log *log)
{
	return log->dropped;
}

#define AT(field) offsetof(struct gpu_memory_log, field)

const struct counter gpu_memory_log_counters[] = {
	{ COUNTER_GPU, "memory_history_no_room", AT(dropped),
	  .help = "allocations that are not in a file of memory over time (`-o x.pickle`, the time "
		  "line of `-o x.html`), over the limit: "
		  "the ones that were freed first, or whose process ended first" },
	{ COUNTER_GPU, "memory_history_implausible", AT(implausible),
	  .help = "allocations that are not in it: no device has such addresses or sizes" },
	{ 0 },
};

void gpu_memory_log_lost(const struct gpu_memory_log *log, struct stats_reasons *dst)
{
	stats_add_rows(dst, gpu_memory_log_counters, log, true);
}
