// SPDX-License-Identifier: Apache-2.0
#include "memory/resident.h"

#include "base/time.h"
#include "proc/cgroup_limits.h"

#define LIMIT_MIN (1U << 20)

static uint64_t less(uint64_t bytes, uint64_t by)
{
	return bytes > by ? bytes - by : 0;
}

void resident_begin(struct resident *resident)
{
	resident->held_bytes = resident->first_bytes = resident->lost_bytes = 0;
	resident->moved_bytes = 0;
	resident->rss_ns = time_monotonic_ns();
	resident->alive =
		resident->own_pid && !proc_rss_read(&resident->rss, (pid_t)resident->own_pid);
	if (resident->alive)
		memory_series_add(&resident->series, resident->rss_ns, resident->rss.anon_bytes);
}

void resident_settle(struct resident *resident, uint64_t freed_bytes)
{
	resident->freed_bytes = freed_bytes;
	if (resident->rss.swap_bytes > resident->swap_most_bytes)
		resident->swap_most_bytes = resident->rss.swap_bytes;
	if (resident->settled)
		return;
	resident->settled = true;
	resident->swap_bytes = resident->rss.swap_bytes;
	/* A copy takes the place of a page that counted already. */
	if (resident->begin == RESIDENT_FORK)
		resident->old_bytes = less(resident->rss.anon_bytes, resident->first_bytes);
	else if (resident->begin == RESIDENT_BEFORE)
		resident->old_bytes =
			less(resident->rss.anon_bytes, resident->held_bytes) + freed_bytes;
}

/* The cgroup of a process that exits cannot be read any more. */
void resident_limit(struct resident *resident, const char *host_root)
{
	struct cgroup_memory memory = { 0 };
	struct cgroup_limits limits;

	if (resident->limit_known || resident->rss.anon_bytes < LIMIT_MIN)
		return;
	resident->limit_known = true;
	if (!cgroup_limits_find(&limits, host_root ?: "", (pid_t)resident->own_pid) &&
	    *limits.memory)
		cgroup_memory_read(&memory, limits.memory);
	resident->limit_bytes = memory.max_bytes;
}

void resident_execute(struct resident *resident)
{
	resident->begin = RESIDENT_EXEC;
	resident->settled = true;
	resident->old_bytes = resident->copied_bytes = 0;
	resident->swap_bytes = resident->swap_most_bytes = 0;
	resident->series = (struct memory_series){ 0 };
}

static uint64_t old_left(const struct resident *resident)
{
	uint64_t gone = resident->freed_bytes;

	if (resident->begin == RESIDENT_FORK)
		gone += resident->copied_bytes;
	return less(resident->old_bytes, gone);
}

/* RssAnon less all that is resident and known of. */
static int64_t rest_of(const struct resident *resident)
{
	return (int64_t)(resident->rss.anon_bytes - old_left(resident) - resident->held_bytes -
			 resident->lost_bytes);
}

double resident_moved_share(struct resident *resident)
{
	int64_t left = rest_of(resident);
	double share;

	if (!resident->settled || left <= 0 || !resident->moved_bytes)
		return 0;
	share = (double)left / (double)resident->moved_bytes;
	share = share < 1 ? share : 1;
	resident->held_bytes += (uint64_t)(share * (double)resident->moved_bytes);
	return share;
}

/*
 * Old bytes that went to swap since the begin; negative: that came back out of the swap cache. Neither raises an event, so they
 * are what the rest shows, at most as much as the kernel's count of swap allows. Bytes that were read from the disk
 * have left swap, too, and are held.
 */
static int64_t swapped(const struct resident *resident)
{
	uint64_t out = less(resident->swap_most_bytes, resident->swap_bytes);
	uint64_t back =
		less(less(resident->swap_bytes, resident->rss.swap_bytes), resident->held_bytes);
	int64_t rest = rest_of(resident);

	out = out < old_left(resident) ? out : old_left(resident);
	if (-rest > (int64_t)out)
		return (int64_t)out;
	return rest > (int64_t)back ? -(int64_t)back : -rest;
}

uint64_t resident_old(const struct resident *resident)
{
	return old_left(resident) - (uint64_t)swapped(resident);
}

int64_t resident_drift(const struct resident *resident)
{
	return rest_of(resident) + swapped(resident);
}

uint64_t resident_shared_swap(const struct resident *resident)
{
	uint64_t bytes = resident->swap_bytes + (uint64_t)swapped(resident);

	if (resident->begin != RESIDENT_FORK)
		return 0;
	return bytes < resident->rss.swap_bytes ? bytes : resident->rss.swap_bytes;
}
