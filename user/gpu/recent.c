// SPDX-License-Identifier: Apache-2.0
#include "gpu/recent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/monitor.h"

struct count {
	struct call_table_count at; /* as in the snapshot */
	uint64_t calls, ns; /* the part since the last snapshot */
};

struct counts {
	struct count *counts; /* by key, then by generation of the handle */
	size_t nr;
};

struct gpu_recent {
	struct counts now;
	uint64_t now_ns, before_ns;
};

/* The key without a generation, as in the kernel. */
static struct bpfprof_gpu_key whole_key(const struct bpfprof_gpu_key *key)
{
	struct bpfprof_gpu_key whole = *key;

	whole.flags &= (1U << CALL_TABLE_GENERATION_SHIFT) - 1;
	return whole;
}

/* The present generation, 0, is the last one. */
static int compare(const void *a, const void *b)
{
	const struct bpfprof_gpu_key *x = &((const struct count *)a)->at.key;
	const struct bpfprof_gpu_key *y = &((const struct count *)b)->at.key;
	const struct bpfprof_gpu_key whole_x = whole_key(x), whole_y = whole_key(y);
	uint32_t i = CALL_TABLE_GENERATION(x) - 1, k = CALL_TABLE_GENERATION(y) - 1;
	int by_key = memcmp(&whole_x, &whole_y, sizeof(whole_x));

	return by_key ? by_key : (i > k) - (i < k);
}

static const struct count *find(const struct counts *in, const struct bpfprof_gpu_key *key)
{
	const struct count wanted = { .at.key = *key };

	return in->nr ? bsearch(&wanted, in->counts, in->nr, sizeof(*in->counts), compare) : NULL;
}

static uint64_t more(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

/*
 * Finds what is new in now. Calls of a generation that has ended since `before` were counted
 * with the present generation there; so the old count is subtracted from the generations in
 * their order. Only launches have generations, and they have no time.
 */
static void compare_with(struct counts *now, const struct counts *before)
{
	struct bpfprof_gpu_key whole, last = { 0 };
	uint64_t left = 0; /* calls of `before` that are not subtracted yet */
	const struct count *same;
	struct count *count;
	size_t i;

	for (i = 0; i < now->nr; i++) {
		count = &now->counts[i];
		whole = whole_key(&count->at.key);
		if (!i || memcmp(&whole, &last, sizeof(whole)) != 0) {
			same = find(before, &whole);
			left = same ? same->at.count.calls : 0;
			last = whole;
		}
		same = find(before, &count->at.key);
		count->ns = more(count->at.count.ns, same ? same->at.count.ns : 0);
		if (same && CALL_TABLE_GENERATION(&count->at.key)) {
			count->calls = more(count->at.count.calls, same->at.count.calls);
			continue;
		}
		count->calls = more(count->at.count.calls, left);
		left = more(left, count->at.count.calls);
	}
}

int gpu_recent_new(struct gpu_recent **ret, uint64_t start_ns)
{
	struct gpu_recent *recent = calloc(1, sizeof(*recent));

	*ret = recent;
	if (!recent)
		return -ENOMEM;
	recent->now_ns = recent->before_ns = start_ns;
	return 0;
}

void gpu_recent_free(struct gpu_recent *recent)
{
	if (!recent)
		return;
	free(recent->now.counts);
	free(recent);
}

int gpu_recent_take(struct gpu_recent *recent, const struct gpu_snapshot *snapshot)
{
	struct counts now = { .nr = snapshot->nr_counts };
	struct call_table_count *waited = calloc(now.nr + 1, sizeof(*waited));
	size_t i;

	now.counts = calloc(now.nr + 1, sizeof(*now.counts));
	if (!now.counts || !waited) {
		free(now.counts);
		free(waited);
		return -ENOMEM;
	}
	if (now.nr)
		memcpy(waited, snapshot->counts, now.nr * sizeof(*waited));
	gpu_snapshot_waits(snapshot, NULL, waited, now.nr);
	for (i = 0; i < now.nr; i++)
		now.counts[i].at = waited[i];
	free(waited);
	qsort(now.counts, now.nr, sizeof(*now.counts), compare);
	compare_with(&now, &recent->now);
	free(recent->now.counts);
	recent->now = now;
	recent->before_ns = recent->now_ns;
	recent->now_ns = snapshot->ts_ns;
	return 0;
}

double gpu_recent_seconds(const struct gpu_recent *recent)
{
	return (double)(recent->now_ns - recent->before_ns) / 1e9;
}

void gpu_recent_find(const struct gpu_recent *recent, const struct bpfprof_gpu_key *key,
		     uint64_t *ret_calls, uint64_t *ret_ns)
{
	const struct count *count = find(&recent->now, key);

	*ret_calls = count ? count->calls : 0;
	*ret_ns = count ? count->ns : 0;
}
