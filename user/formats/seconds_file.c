// SPDX-License-Identifier: Apache-2.0
#include "formats/seconds_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/capped.h"
#include "base/cleanup.h"
#include "base/sorted.h"
#include "base/time.h"
#include "base/varint.h"
#include "formats/profile_read.h"
#include "formats/zip.h"
#include "profile/profile.h"
#include "profile/seconds.h"

#define MAGIC_BYTES (sizeof(SECONDS_MAGIC) - 1)
#define MAX_SAMPLES (1U << 24)
#define MAX_TEXT_BYTES (1U << 20) /* of one run */

struct writer {
	struct zip zip;
	struct buf text;
	uint32_t *samples; /* by entry: index + 1, 0: not in this profile */
	uint32_t nr_entries;
	struct seconds_run run;
	uint64_t placed;
};

static void text_flush(struct writer *w)
{
	if (buf_error(&w->text) && !w->zip.error)
		w->zip.error = buf_error(&w->text);
	zip_add(&w->zip, w->text.data, w->text.len);
	buf_reset(&w->text);
}

static int samples_find(struct writer *w, const struct profile *profile)
{
	size_t i;

	for (i = 0; i < profile->nr_samples; i++)
		if (profile->samples[i].entry > w->nr_entries)
			w->nr_entries = profile->samples[i].entry;
	w->samples = calloc(w->nr_entries + 1UL, sizeof(*w->samples));
	if (!w->samples)
		return -ENOMEM;
	for (i = 0; i < profile->nr_samples; i++)
		if (profile->samples[i].entry)
			w->samples[profile->samples[i].entry - 1] = (uint32_t)i + 1;
	return 0;
}

static void head_write(struct writer *w, const struct profile *profile)
{
	uint64_t total = 0;
	size_t i;

	for (i = 0; i < profile->nr_samples; i++)
		total += profile->samples[i].count;
	buf_add(&w->text, SECONDS_MAGIC, MAGIC_BYTES);
	varint_add(&w->text, profile->nr_samples);
	varint_add(&w->text, total);
	varint_add(&w->text, profile->time_ns / NS_PER_SECOND);
	text_flush(w);
}

/* Entries become samples of the profile; other profiles have the rest. */
static void run_write(struct writer *w)
{
	struct seconds_run *run = &w->run;
	uint32_t nr = 0, sample, i;

	for (i = 0; i < run->nr; i++) {
		sample = run->pairs[i].entry < w->nr_entries ? w->samples[run->pairs[i].entry] : 0;
		if (!sample)
			continue;
		w->placed += run->pairs[i].count;
		run->pairs[nr++] = (struct seconds_pair){ sample - 1, run->pairs[i].count };
	}
	run->nr = nr;
	if (!nr)
		return;
	qsort(run->pairs, nr, sizeof(*run->pairs), sorted_by_u32);
	seconds_run_add(&w->text, run);
	text_flush(w);
}

int seconds_write(FILE *out, const struct profile *profile, const struct seconds *seconds)
{
	struct writer *w = calloc(1, sizeof(*w));
	const uint8_t *end, *at = seconds_runs(seconds, &end);
	int err = w ? samples_find(w, profile) : -ENOMEM;

	if (w)
		buf_init(&w->text, MAX_TEXT_BYTES);
	if (!err)
		err = zip_init(&w->zip, out);
	if (!err) {
		head_write(w, profile);
		while (seconds_run_take(&at, end, &w->run) == 1)
			run_write(w);
		varint_add(&w->text, 0);
		varint_add(&w->text, w->placed);
		text_flush(w);
		zip_end(&w->zip);
		err = w->zip.error;
	}
	if (w) {
		zip_fini(&w->zip);
		buf_fini(&w->text);
		free(w->samples);
	}
	free(w);
	return err;
}

bool seconds_is(const char *data, size_t len)
{
	return len >= MAGIC_BYTES && !memcmp(data, SECONDS_MAGIC, MAGIC_BYTES - 1);
}

void seconds_cut_fini(struct seconds_cut *cut)
{
	free(cut->kept);
	free(cut->placed);
	cut->kept = cut->placed = NULL;
}

static int damaged(struct buf *why, const char *what)
{
	buf_printf(why, "no seconds of a profile, or damaged ones: %s", what);
	return -EBADMSG;
}

static uint32_t count_add(uint32_t a, uint32_t b)
{
	return a + b < a ? UINT32_MAX : a + b;
}

/* Counts the run. False: it has a sample that is not there. */
static bool run_count(struct seconds_cut *cut, const struct seconds_run *run, uint64_t start_s,
		      uint64_t *placed)
{
	uint64_t second = capped_add(start_s, run->second);
	bool wanted = second >= cut->from_s && second < cut->until_s;
	const struct seconds_pair *pair;

	for (pair = run->pairs; pair < run->pairs + run->nr; pair++) {
		if (pair->entry >= cut->nr_samples)
			return false;
		cut->placed[pair->entry] = count_add(cut->placed[pair->entry], pair->count);
		if (wanted)
			cut->kept[pair->entry] = count_add(cut->kept[pair->entry], pair->count);
		*placed = capped_add(*placed, pair->count);
	}
	return true;
}

static int runs_read(struct seconds_cut *cut, const uint8_t *at, const uint8_t *end,
		     uint64_t start_s, struct buf *why)
{
	__cleanup(free_mem) struct seconds_run *run = malloc(sizeof(*run));
	uint64_t placed = 0, wanted;
	int got;

	if (!run)
		return -ENOMEM;
	while ((got = seconds_run_take(&at, end, run)) == 1)
		if (!run_count(cut, run, start_s, &placed))
			return damaged(why, "a sample that is not there");
	if (got)
		return damaged(why, "an unusable run");
	if (varint_take(&at, end, &wanted) != 1)
		return damaged(why, "they are cut off");
	if (at != end || wanted != placed)
		return damaged(why, "the sum is another one");
	return 0;
}

int seconds_read_plain(struct seconds_cut *cut, const char *data, size_t len, struct buf *why)
{
	const uint8_t *at = (const uint8_t *)data, *end = at + len;
	uint64_t nr, start_s;

	if (!seconds_is(data, len))
		return damaged(why, "another file");
	if (data[MAGIC_BYTES - 1] != SECONDS_MAGIC[MAGIC_BYTES - 1]) {
		buf_add_str(why, "seconds of a profile in a form of another version of bpfprof");
		return -EBADMSG;
	}
	at += MAGIC_BYTES;
	if (varint_take(&at, end, &nr) != 1 || varint_take(&at, end, &cut->total) != 1 ||
	    varint_take(&at, end, &start_s) != 1)
		return damaged(why, "the head is cut off");
	if (nr > MAX_SAMPLES)
		return damaged(why, "too many samples");
	cut->nr_samples = (uint32_t)nr;
	cut->kept = calloc(nr + 1, sizeof(*cut->kept));
	cut->placed = calloc(nr + 1, sizeof(*cut->placed));
	if (!cut->kept || !cut->placed)
		return -ENOMEM;
	return runs_read(cut, at, end, start_s, why);
}

int seconds_read(struct seconds_cut *cut, const char *data, size_t len, struct buf *why)
{
	__cleanup(buf_fini) struct buf plain = { .max = PROFILE_READ_FILE_BYTES };
	int err = unzip(&plain, data, len, why);

	return err ? err : seconds_read_plain(cut, plain.len ? plain.data : "", plain.len, why);
}
