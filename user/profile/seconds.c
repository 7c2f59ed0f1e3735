// SPDX-License-Identifier: Apache-2.0
#include "profile/seconds.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/sorted.h"
#include "base/varint.h"

#define RUN_BYTES (SECONDS_RUN_MAX * 2UL * VARINT_BYTES) /* more than the runs of one flush take */

struct seconds {
	struct buf log; /* coded runs */
	struct buf coded; /* those of the samples that waited */
	uint64_t waiting[SECONDS_RUN_MAX]; /* second << 32 | entry */
	uint32_t nr_waiting;
	bool full;
	uint64_t nr_lost;
	struct seconds_run run;
};

int seconds_new(struct seconds **ret, size_t max_bytes)
{
	struct seconds *seconds = calloc(1, sizeof(*seconds));

	if (!seconds)
		return -ENOMEM;
	buf_init(&seconds->log, max_bytes);
	buf_init(&seconds->coded, RUN_BYTES);
	*ret = seconds;
	return 0;
}

void seconds_free(struct seconds *seconds)
{
	if (!seconds)
		return;
	buf_fini(&seconds->log);
	buf_fini(&seconds->coded);
	free(seconds);
}

void seconds_run_add(struct buf *dst, const struct seconds_run *run)
{
	uint32_t before = 0, i;
	const struct seconds_pair *pair;

	varint_add(dst, run->nr);
	varint_add(dst, run->second);
	for (i = 0; i < run->nr; i++) {
		pair = &run->pairs[i];
		varint_add(dst, (uint64_t)(pair->entry - before) << 1 | (pair->count > 1));
		if (pair->count > 1)
			varint_add(dst, pair->count);
		before = pair->entry;
	}
}

/* False: the number is malformed, or has more than 32 bits. */
static bool number_take(const uint8_t **at, const uint8_t *end, uint32_t *ret)
{
	uint64_t number;

	if (varint_take(at, end, &number) != 1 || number > UINT32_MAX)
		return false;
	*ret = (uint32_t)number;
	return true;
}

static bool pair_take(const uint8_t **at, const uint8_t *end, struct seconds_pair *ret)
{
	uint64_t number;

	if (varint_take(at, end, &number) != 1 || number >> 1 > UINT32_MAX)
		return false;
	ret->entry = (uint32_t)(number >> 1);
	ret->count = 1;
	return !(number & 1) || (number_take(at, end, &ret->count) && ret->count > 1);
}

int seconds_run_take(const uint8_t **at, const uint8_t *end, struct seconds_run *run)
{
	struct seconds_pair *pair;
	uint32_t before = 0, i;

	run->nr = 0;
	if (*at == end)
		return 0;
	if (!number_take(at, end, &run->nr) || run->nr > SECONDS_RUN_MAX)
		return -EBADMSG;
	if (!run->nr)
		return 0;
	if (!number_take(at, end, &run->second))
		return -EBADMSG;
	for (i = 0; i < run->nr; i++) {
		pair = &run->pairs[i];
		if (!pair_take(at, end, pair) || (i && !pair->entry) ||
		    pair->entry > UINT32_MAX - before)
			return -EBADMSG;
		pair->entry += before;
		before = pair->entry;
	}
	return 1;
}

/* Codes the samples from `first` on that are of one second. Returns the end of them. */
static uint32_t second_code(struct seconds *seconds, uint32_t first)
{
	struct seconds_run *run = &seconds->run;
	const uint64_t *waiting = seconds->waiting;
	uint32_t at;

	run->second = (uint32_t)(waiting[first] >> 32);
	run->nr = 0;
	for (at = first; at < seconds->nr_waiting && waiting[at] >> 32 == run->second; at++) {
		if (at == first || waiting[at] != waiting[at - 1])
			run->pairs[run->nr++] =
				(struct seconds_pair){ .entry = (uint32_t)waiting[at] };
		run->pairs[run->nr - 1].count++;
	}
	seconds_run_add(&seconds->coded, run);
	return at;
}

void seconds_flush(struct seconds *seconds)
{
	struct buf *log = &seconds->log, *coded = &seconds->coded;
	uint32_t at = 0;

	if (!seconds->nr_waiting)
		return;
	qsort(seconds->waiting, seconds->nr_waiting, sizeof(*seconds->waiting), sorted_by_u64);
	buf_reset(coded);
	while (at < seconds->nr_waiting)
		at = second_code(seconds, at);
	/* A gap in the middle would be harder to explain than an end. */
	seconds->full |= buf_error(coded) || coded->len > log->max - log->len;
	if (!seconds->full) {
		buf_add(log, coded->data, coded->len);
		seconds->full = buf_error(log);
	}
	if (seconds->full)
		seconds->nr_lost += seconds->nr_waiting;
	seconds->nr_waiting = 0;
}

void seconds_add(struct seconds *seconds, uint32_t second, uint32_t entry)
{
	if (seconds->full) {
		seconds->nr_lost++;
		return;
	}
	seconds->waiting[seconds->nr_waiting++] = (uint64_t)second << 32 | entry;
	if (seconds->nr_waiting == SECONDS_RUN_MAX)
		seconds_flush(seconds);
}

void seconds_freeze(struct seconds *seconds)
{
	seconds->log.max = seconds->log.len;
}

size_t seconds_bytes(const struct seconds *seconds)
{
	return sizeof(*seconds) + seconds->log.cap + seconds->coded.cap;
}

uint64_t seconds_nr_lost(const struct seconds *seconds)
{
	return seconds->nr_lost;
}

const uint8_t *seconds_runs(const struct seconds *seconds, const uint8_t **ret_end)
{
	const uint8_t *runs = (const uint8_t *)seconds->log.data;

	*ret_end = runs ? runs + seconds->log.len : NULL;
	return runs;
}
