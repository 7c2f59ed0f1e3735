// SPDX-License-Identifier: Apache-2.0
#include "formats/profile_read.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/strtab.h"
#include "formats/output.h"
#include "formats/profile_reading.h"
#include "formats/seconds_file.h"
#include "formats/zip.h"
#include "profile/parts.h"

#define PREVIEW_BYTES 4096

int profile_read_init(struct profile_read *read, const char *sample_type)
{
	*read = (struct profile_read){ .sample_type = sample_type, .raw_only = true };
	return profile_builder_init(&read->builder, PROFILE_READ_BYTES);
}

void profile_read_fini(struct profile_read *read)
{
	profile_builder_fini(&read->builder);
	piece_set_fini(&read->identities);
	free(read->intervals.data);
	*read = (struct profile_read){ 0 };
}

static int refuse(struct buf *why, const char *reason)
{
	buf_add_str(why, reason);
	return -EBADMSG;
}

static int too_large(struct buf *why)
{
	buf_printf(why, "larger than can be read, %u MiB unpacked", PROFILE_READ_FILE_BYTES >> 20);
	return -E2BIG;
}

/* Is it text? A pprof has control characters early: its fields begin with them. */
static bool is_text(const char *data, size_t len)
{
	size_t i;

	for (i = 0; i < len && i < PREVIEW_BYTES; i++)
		if ((unsigned char)data[i] < ' ' && !strchr("\t\n\r\f\v\x1b\b", data[i]))
			return false;
		else if (!data[i])
			return false;
	return true;
}

/* Is it a picture? Frames may begin with `<`, too: `<module> (train.py:1)`. */
static bool is_picture(const char *text, size_t len)
{
	static const char *const starts[] = { "<!doctype", "<html", "<?xml", "<svg" };
	size_t i;

	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (len > strlen(starts[i]) && !strncasecmp(text, starts[i], strlen(starts[i])))
			return true;
	return false;
}

static int text_read(struct profile_read *read, const char *path, const char *text, size_t len,
		     struct buf *why)
{
	size_t i = 0;

	while (i < len && isspace((unsigned char)text[i]))
		i++;
	if (i == len)
		return refuse(why, output_has_suffix(path, ".raw")
					   ? "it is empty: it was cut off, or no Python ran"
					   : "it is empty: what wrote it was cut off");
	if (is_picture(text + i, len - i))
		return refuse(why, "a picture, which cannot be read back; the .pb.gz, .folded or "
				   ".raw of the same recording can");
	if (text[i] == '{')
		return refuse(why, "JSON, which is not read here; .pb.gz, .folded and .raw are, "
				   "and --nccl reads what gpu --once --json writes");
	return folded_read(read, path, text, len, why);
}

int profile_read_add(struct profile_read *read, const char *path, const char *data, size_t len,
		     struct buf *why)
{
	__cleanup(buf_fini) struct buf plain;
	int err;

	buf_init(&plain, PROFILE_READ_FILE_BYTES);
	if (len > PROFILE_READ_FILE_BYTES)
		return too_large(why);
	if (len >= 2 && !memcmp(data, "\x1f\x8b", 2)) {
		err = unzip(&plain, data, len, why);
		if (err)
			return err;
		data = plain.len ? plain.data : "";
		len = plain.len;
	}
	if (seconds_is(data, len))
		return refuse(why, "it belongs to the .pb.gz of its name, and is read with it when "
				   "--at or --last cuts the interval");
	if (is_text(data, len))
		err = text_read(read, path, data, len, why);
	else
		err = pprof_read(read, path, (const uint8_t *)data, len, why);
	if (err == -E2BIG && !why->len)
		buf_printf(why, "with the other files more than can be read, %zu MiB",
			   PROFILE_READ_BYTES >> 20);
	return err;
}

static int compare_intervals(const void *a, const void *b)
{
	const struct profile_read_interval *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Adds up intervals that follow each other; nodes at the same time took as long as one of them. */
static void times_join(struct profile_read *read, struct profile *profile)
{
	struct profile_read_interval *all = read->intervals.data;
	size_t nr = read->intervals.nr, i;
	uint64_t end = 0;

	profile->duration_ns = read->untimed_ns;
	if (!nr)
		return;
	qsort(all, nr, sizeof(*all), compare_intervals);
	profile->time_ns = all[0].start;
	for (i = 0; i < nr; i++) {
		if (all[i].end <= end)
			continue;
		profile->duration_ns += all[i].end - (all[i].start > end ? all[i].start : end);
		end = all[i].end;
	}
}

void profile_read_finish(struct profile_read *read, struct profile *ret)
{
	size_t i;

	profile_builder_finish(&read->builder, ret);
	times_join(read, ret);
	ret->hz = read->hz;
	ret->threads = read->threads;
	ret->value = read->value;
	ret->host = read->hosts_differ ? 0 : read->host;
	for (i = 0; i < ret->nr_processes && !read->hosts_differ; i++)
		ret->processes[i].host = 0;
	if (!read->has_stats)
		return;
	read->stats.duration_seconds = (double)ret->duration_ns / 1e9;
	ret->stats = &read->stats;
	if (!read->was_cut)
		return;
	profile_samples_count(&read->stats, ret);
	read->stats.rest_of = "interval";
}
