// SPDX-License-Identifier: Apache-2.0
#include "memory/moments.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

void memory_moments_init(struct memory_moments *moments)
{
	*moments = (struct memory_moments){ 0 };
	hash_table_init(&moments->lines, MOMENTS_MAX_LINES, struct moment_line, key);
}

void memory_moments_fini(struct memory_moments *moments)
{
	hash_table_clear(&moments->lines);
	free(moments->rest);
	moments->rest = NULL;
	moments->nr_rest = moments->cap_rest = 0;
}

void memory_moments_begin(struct memory_moments *moments, uint64_t now_ns)
{
	memory_moments_fini(moments);
	moments->start_ns = now_ns;
	moments->nr = moments->peak = 0;
	moments->interval_ns = 0;
}

static struct moment_key key_of(const struct aggregate_call_at *at, uint32_t gpu)
{
	return (struct moment_key){ .process = at->process, .stack = at->stack, .gpu = gpu };
}

static int32_t kib_of(int64_t bytes)
{
	int64_t kib = (bytes + (bytes < 0 ? -512 : 512)) / 1024;

	if (kib > INT32_MAX)
		return INT32_MAX;
	return kib < INT32_MIN ? INT32_MIN : (int32_t)kib;
}

int memory_moments_add(struct memory_moments *moments, const struct aggregate_call_at *at,
		       uint32_t gpu, int64_t bytes)
{
	struct moment_key key = key_of(at, gpu);
	struct moment_line *line = hash_table_get(&moments->lines, &key);
	int err;

	if (line) {
		line->at = *at;
		line->now += bytes;
		return 0;
	}
	err = vec_grow(moments->rest, moments->nr_rest + 1, moments->cap_rest, VEC_BOUNDED);
	if (!err)
		moments->rest[moments->nr_rest++] =
			(struct moment_rest){ .at = *at, .gpu = gpu, .bytes = bytes };
	return err;
}

static int rest_by_key(const void *a, const void *b)
{
	const struct moment_rest *x = a, *y = b;

	if (x->at.process != y->at.process)
		return x->at.process < y->at.process ? -1 : 1;
	if (x->at.stack != y->at.stack)
		return x->at.stack < y->at.stack ? -1 : 1;
	return (x->gpu > y->gpu) - (x->gpu < y->gpu);
}

static int rest_by_bytes(const void *a, const void *b)
{
	const struct moment_rest *x = a, *y = b;

	return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

static struct moment_line *line_of_least(struct memory_moments *moments)
{
	struct moment_line *line, *least = NULL;

	hash_table_each(&moments->lines, line)
		if (!least || line->most_kib < least->most_kib)
			least = line;
	return least;
}

/* The largest ones take the places of lines that never held as much. */
static void rest_admit(struct memory_moments *moments)
{
	struct moment_rest *rest = moments->rest;
	struct moment_line *least;
	struct moment_key key;
	size_t nr = 0, i;

	if (!moments->nr_rest)
		return;
	qsort(rest, moments->nr_rest, sizeof(*rest), rest_by_key);
	for (i = 0; i < moments->nr_rest; i++) {
		if (nr && !rest_by_key(&rest[nr - 1], &rest[i]))
			rest[nr - 1].bytes += rest[i].bytes;
		else
			rest[nr++] = rest[i];
	}
	qsort(rest, nr, sizeof(*rest), rest_by_bytes);
	for (i = 0; i < nr; i++) {
		least = line_of_least(moments);
		if (!least || kib_of(rest[i].bytes) <= least->most_kib)
			break;
		hash_table_remove(&moments->lines, least);
		key = key_of(&rest[i].at, rest[i].gpu);
		least = hash_table_add(&moments->lines, &key);
		if (!least)
			break;
		least->at = rest[i].at;
		least->now = rest[i].bytes;
		least->most_kib = kib_of(least->now);
		moments->nr_over++; /* the one that went */
	}
	moments->nr_over += nr - i;
	moments->nr_rest = 0;
}

static void moment_move(struct memory_moments *moments, size_t from, size_t to)
{
	struct moment_line *line;

	moments->ns[to] = moments->ns[from];
	moments->total_kib[to] = moments->total_kib[from];
	hash_table_each(&moments->lines, line)
		line->kib[to] = line->kib[from];
	if (moments->peak == from)
		moments->peak = to;
}

/* Makes room: doubles the interval, and drops moments in between. */
static void moments_thin(struct memory_moments *moments)
{
	uint64_t span_ns = moments->ns[moments->nr - 1] - moments->ns[0];
	size_t nr = 1, i;

	moments->interval_ns = span_ns / (MOMENTS_MAX / 2);
	for (i = 1; i < moments->nr; i++)
		if (i == moments->peak ||
		    moments->ns[i] - moments->ns[nr - 1] >= moments->interval_ns)
			moment_move(moments, i, nr++);
	moments->nr = nr;
}

/* The place of the next moment. The last one is dropped if it is too close to the one before. */
static size_t moment_place(struct memory_moments *moments, bool is_peak)
{
	size_t nr = moments->nr;

	if (nr > 1 && moments->ns[nr - 1] - moments->ns[nr - 2] < moments->interval_ns &&
	    (is_peak || moments->peak != nr - 1))
		return nr - 1;
	if (nr == MOMENTS_MAX)
		moments_thin(moments);
	return moments->nr++;
}

void memory_moments_end(struct memory_moments *moments, uint64_t ns, uint64_t total_bytes)
{
	uint64_t total_kib = total_bytes / 1024;
	bool is_peak = !moments->nr || total_kib > moments->total_kib[moments->peak];
	struct moment_line *line;
	size_t at;

	hash_table_each(&moments->lines, line)
		if (kib_of(line->now) > line->most_kib)
			line->most_kib = kib_of(line->now);
	rest_admit(moments);
	at = moment_place(moments, is_peak);
	moments->ns[at] = ns - moments->start_ns;
	moments->total_kib[at] = total_kib;
	if (is_peak)
		moments->peak = at;
	hash_table_each(&moments->lines, line) {
		line->kib[at] = kib_of(line->now);
		line->now = 0;
	}
}
