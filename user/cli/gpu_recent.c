// SPDX-License-Identifier: Apache-2.0
#include "cli/gpu_recent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/gpu_watch.h"

struct counts {
	struct gpu_tally_count *counts; /* by key */
	size_t nr;
	uint64_t ts_ns;
};

struct gpu_recent {
	struct counts now, before;
};

static int compare(const void *a, const void *b)
{
	const struct gpu_tally_count *x = a, *y = b;

	return memcmp(&x->key, &y->key, sizeof(x->key));
}

int gpu_recent_new(struct gpu_recent **ret, uint64_t start_ns)
{
	struct gpu_recent *recent = calloc(1, sizeof(*recent));

	*ret = recent;
	if (!recent)
		return -ENOMEM;
	recent->now.ts_ns = recent->before.ts_ns = start_ns;
	return 0;
}

void gpu_recent_free(struct gpu_recent *recent)
{
	if (!recent)
		return;
	free(recent->now.counts);
	free(recent->before.counts);
	free(recent);
}

int gpu_recent_take(struct gpu_recent *recent, const struct gpu_picture *picture)
{
	struct counts now = { .nr = picture->nr_counts, .ts_ns = picture->ts_ns };

	now.counts = calloc(now.nr + 1, sizeof(*now.counts));
	if (!now.counts)
		return -ENOMEM;
	if (now.nr)
		memcpy(now.counts, picture->counts, now.nr * sizeof(*now.counts));
	gpu_picture_waits(picture, NULL, now.counts, now.nr);
	qsort(now.counts, now.nr, sizeof(*now.counts), compare);
	free(recent->before.counts);
	recent->before = recent->now;
	recent->now = now;
	return 0;
}

double gpu_recent_seconds(const struct gpu_recent *recent)
{
	return (double)(recent->now.ts_ns - recent->before.ts_ns) / 1e9;
}

static const struct bpfprof_gpu_count *find(const struct counts *in,
					    const struct bpfprof_gpu_key *key)
{
	static const struct bpfprof_gpu_count none;
	const struct gpu_tally_count wanted = { .key = *key };
	const struct gpu_tally_count *found = NULL;

	if (in->nr)
		found = bsearch(&wanted, in->counts, in->nr, sizeof(*in->counts), compare);
	return found ? &found->count : &none;
}

void gpu_recent_find(const struct gpu_recent *recent, const struct bpfprof_gpu_key *key,
		     uint64_t *ret_calls, uint64_t *ret_ns)
{
	const struct bpfprof_gpu_count *now = find(&recent->now, key);
	const struct bpfprof_gpu_count *before = find(&recent->before, key);

	*ret_calls = now->calls > before->calls ? now->calls - before->calls : 0;
	*ret_ns = now->ns > before->ns ? now->ns - before->ns : 0;
}
