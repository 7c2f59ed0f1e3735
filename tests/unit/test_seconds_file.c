// SPDX-License-Identifier: Apache-2.0
#include "formats/seconds_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "formats/output.h"
#include "formats/profile_read.h"
#include "profile/parts.h"
#include "profile/seconds.h"
#include "made_profile.h"

TestSuite(seconds_file);

#define START_S 1706702400ULL /* of made_new() */

/*
 * The profile has three stacks under other numbers than the aggregate had: one was counted in each of the seconds 0 to 9,
 * one twice in second 3, and one has a count without a second.
 */
static struct profile *made(struct seconds **ret)
{
	struct profile *profile = made_new();
	uint32_t a = made_process(profile, 1, "a", ""), b = made_process(profile, 2, "b", "");
	uint32_t hot = made_native(profile, "hot", 0, 16),
		 rare = made_native(profile, "rare", 0, 32);
	uint32_t i, k;

	profile->processes[b].container = made_container(profile, "id1", "ml", "pod", "x", NULL);
	made_add(profile, a, 100, hot)->entry = 8;
	made_add(profile, b, 6, rare)->entry = 3;
	made_add(profile, b, 5, hot)->entry = 5;
	cr_assert_eq(seconds_new(ret, 1 << 16), 0);
	for (i = 0; i < 10; i++)
		for (k = 0; k < 10; k++)
			seconds_add(*ret, i, 7);
	for (i = 0; i < 6; i++)
		seconds_add(*ret, 3, 2);
	for (i = 0; i < 4; i++)
		seconds_add(*ret, 4, 4);
	seconds_add(*ret, 4, 11); /* of a sample that another profile has */
	seconds_flush(*ret);
	return profile;
}

static char *packed(const struct profile *profile, const struct seconds *seconds, size_t *ret_len)
{
	char *data = NULL;
	FILE *out = open_memstream(&data, ret_len);

	cr_assert(out);
	cr_assert_eq(seconds_write(out, profile, seconds), 0);
	fclose(out);
	return data;
}

struct result {
	uint64_t hot, rare; /* counts of the leaf in the profile that was read */
	struct profile_read read;
	struct profile profile;
	struct seconds_cut cut;
};

/* Reads the profile with those seconds of it. */
static void read_cut(struct result *r, const struct profile *profile, const char *data, size_t len,
		     uint64_t from_s, uint64_t until_s)
{
	struct buf why;
	size_t pprof_len, i;
	char *pprof = made_text(pprof_write, profile, NULL, &pprof_len);

	*r = (struct result){ .cut = { .from_s = from_s, .until_s = until_s } };
	buf_init(&why, 1024);
	cr_assert_eq(seconds_read(&r->cut, data, len, &why), 0, "%s", why.data);
	cr_assert_eq(profile_read_init(&r->read, NULL), 0);
	r->read.cut = &r->cut;
	cr_assert_eq(profile_read_add(&r->read, "x.pb.gz", pprof, pprof_len, &why), 0, "%s",
		     why.data);
	profile_read_finish(&r->read, &r->profile);
	for (i = 0; i < r->profile.nr_samples; i++) {
		const struct profile_sample *sample = &r->profile.samples[i];
		uint32_t name = profile_frame(&r->profile, sample->stack)->name;

		cr_expect_eq(sample->value_ns, sample->count * 10000000);
		if (!strcmp(strtab_get(r->profile.strings, name), "hot"))
			r->hot += sample->count;
		else
			r->rare += sample->count;
	}
	seconds_cut_fini(&r->cut);
	buf_fini(&why);
	free(pprof);
}

static void result_fini(struct result *r)
{
	profile_fini(&r->profile);
	profile_read_fini(&r->read);
}

Test(seconds_file, cut)
{
	static const struct {
		uint64_t from_s, until_s, hot, rare, start_s, duration_s;
	} cases[] = {
		{ START_S, START_S + 10, 104, 6, START_S, 10 },
		{ 0, UINT64_MAX, 104, 6, START_S, 10 },
		{ START_S + 3, START_S + 4, 10, 6, START_S + 3, 1 },
		{ START_S + 4, START_S + 6, 24, 0, START_S + 4, 2 },
		{ START_S + 8, UINT64_MAX, 20, 0, START_S + 8, 2 },
		{ START_S - 5, START_S + 1, 10, 0, START_S, 1 },
	};
	struct seconds *seconds;
	struct profile *profile = made(&seconds);
	struct result r;
	size_t len, i;
	char *data = packed(profile, seconds, &len);

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		read_cut(&r, profile, data, len, cases[i].from_s, cases[i].until_s);
		cr_expect_not(r.cut.foreign);
		cr_expect_eq(r.hot, cases[i].hot, "%zu: %llu", i, (unsigned long long)r.hot);
		cr_expect_eq(r.rare, cases[i].rare, "%zu: %llu", i, (unsigned long long)r.rare);
		cr_expect_eq(r.cut.nr_left_out, 1);
		cr_expect_eq(r.profile.time_ns, cases[i].start_s * 1000000000);
		cr_expect_eq(r.profile.duration_ns, cases[i].duration_s * 1000000000);
		result_fini(&r);
	}
	free(data);
	seconds_free(seconds);
	made_free(profile);
}

/* The counters of a file that was cut: samples and stacks of the part, the rest of the whole interval. */
Test(seconds_file, counters)
{
	struct run_stats stats = { .samples = 111, .user = 111, .complete = 111 };
	struct seconds *seconds;
	struct profile *profile = made(&seconds);
	struct result r;
	size_t len;
	char *data = packed(profile, seconds, &len);

	stats_add(&stats.lost, "ring_full", 9);
	profile->stats = &stats;
	read_cut(&r, profile, data, len, START_S + 3, START_S + 4);
	cr_assert(r.profile.stats);
	cr_expect_eq(r.profile.stats->samples, 16);
	cr_expect_eq(r.profile.stats->complete, 16);
	cr_expect_eq(stats_total(&r.profile.stats->lost), 9);
	cr_expect_str_eq(r.profile.stats->rest_of, "interval");
	result_fini(&r);
	free(data);
	seconds_free(seconds);
	made_free(profile);
}

/* Each part has the seconds of its own samples. */
Test(seconds_file, parts)
{
	struct seconds *seconds;
	struct profile *profile = made(&seconds);
	struct profile_parts *parts;
	struct profile_part part;
	struct result r;
	size_t len;
	char *data;

	cr_assert_eq(profile_parts_new(&parts, profile, PROFILE_CUT_PODS), 0);
	cr_assert_eq(profile_parts_count(parts), 2);
	cr_assert_eq(profile_part_make(parts, 1, &part), 0);
	data = packed(&part.profile, seconds, &len);
	read_cut(&r, &part.profile, data, len, START_S + 3, START_S + 5);
	cr_expect_not(r.cut.foreign);
	cr_expect_eq(r.hot, 4);
	cr_expect_eq(r.rare, 6);
	result_fini(&r);
	free(data);
	profile_part_fini(&part);
	profile_parts_free(parts);
	seconds_free(seconds);
	made_free(profile);
}

/* Seconds of another profile are not used. */
Test(seconds_file, foreign)
{
	struct seconds *seconds;
	struct profile *profile = made(&seconds);
	struct result r;
	size_t len;
	char *data = packed(profile, seconds, &len);

	profile->samples[0].count--;
	profile->samples[0].value_ns -= 10000000;
	read_cut(&r, profile, data, len, START_S + 3, START_S + 4);
	cr_expect(r.cut.foreign);
	cr_expect_eq(r.hot + r.rare, 110);
	cr_expect_eq(r.profile.duration_ns, 10000000000);
	result_fini(&r);
	/* The sum is the same, but not the counts. */
	profile->samples[1].count++;
	profile->samples[1].value_ns += 10000000;
	read_cut(&r, profile, data, len, START_S + 3, START_S + 4);
	cr_expect(r.cut.foreign);
	result_fini(&r);
	profile->samples[0].count++;
	profile->samples[0].value_ns += 10000000;
	profile->samples[1].count--;
	profile->samples[1].value_ns -= 10000000;
	profile->nr_samples--;
	read_cut(&r, profile, data, len, START_S + 3, START_S + 4);
	cr_expect(r.cut.foreign);
	result_fini(&r);
	free(data);
	seconds_free(seconds);
	made_free(profile);
}

static int plain_read(const char *data, size_t len, struct buf *why)
{
	struct seconds_cut cut = { .until_s = UINT64_MAX };
	char *copy = malloc(len + !len);
	int err;

	memcpy(copy, data, len);
	buf_reset(why);
	err = seconds_read_plain(&cut, copy, len, why);
	cr_expect(!err || why->len, "an error without a reason");
	seconds_cut_fini(&cut);
	free(copy);
	return err;
}

Test(seconds_file, hostile)
{
#define HEAD "\x02\x09\x00" /* two samples, nine counts, from 1970 on */
#define FILE_OF(bytes) SECONDS_MAGIC bytes, sizeof(SECONDS_MAGIC bytes) - 1
	static const struct {
		const char *name, *data;
		size_t len;
		int err;
	} cases[] = {
		{ "whole", FILE_OF(HEAD "\x02\x05\x00\x03\x07\x00\x08"), 0 },
		{ "no runs", FILE_OF(HEAD "\x00\x00"), 0 },
		{ "nothing", "", 0, -EBADMSG },
		{ "half a magic", "bpfprof sec", 11, -EBADMSG },
		{ "no head", FILE_OF(""), -EBADMSG },
		{ "half a head", FILE_OF("\x02\x09"), -EBADMSG },
		{ "another version", "bpfprof seconds\002" HEAD "\x00\x00", 21, -EBADMSG },
		{ "no end", FILE_OF(HEAD "\x02\x05\x00\x03\x07"), -EBADMSG },
		{ "no sum", FILE_OF(HEAD "\x02\x05\x00\x03\x07\x00"), -EBADMSG },
		{ "another sum", FILE_OF(HEAD "\x02\x05\x00\x03\x07\x00\x09"), -EBADMSG },
		{ "more after it", FILE_OF(HEAD "\x02\x05\x00\x03\x07\x00\x08\x00"), -EBADMSG },
		{ "a sample too many", FILE_OF(HEAD "\x01\x05\x04\x00\x01"), -EBADMSG },
		{ "a cut run", FILE_OF(HEAD "\x02\x05\x00"), -EBADMSG },
		{ "very many samples", FILE_OF("\x81\x80\x80\x08\x09\x00\x00\x00"), -EBADMSG },
		{ "most samples", FILE_OF("\x80\x80\x80\x08\x09\x00\x00\x00"), 0 },
		{ "endless numbers", FILE_OF("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
		  -EBADMSG },
		{ "counts past 32 bits",
		  FILE_OF(HEAD "\x01\x05\x01\xff\xff\xff\xff\x0f\x01\x05\x01\xff\xff\xff\xff\x0f"
			       "\x00\xfe\xff\xff\xff\x1f"),
		  0 },
	};
	struct seconds_cut cut = { .until_s = UINT64_MAX };
	struct buf why;
	size_t i;
	int err;

	buf_init(&why, 1024);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		err = plain_read(cases[i].data, cases[i].len, &why);
		cr_expect_eq(err, cases[i].err, "%s: %d, %s", cases[i].name, err, why.data);
	}
	/* Two counts stay at the largest number instead of wrapping. */
	cr_expect_eq(seconds_read_plain(&cut, cases[16].data, cases[16].len, &why), 0);
	cr_expect_eq(cut.kept[0], UINT32_MAX);
	seconds_cut_fini(&cut);
	/* Each beginning of a whole file is cut off. */
	for (i = 0; i < cases[0].len; i++)
		cr_expect_eq(plain_read(cases[0].data, i, &why), -EBADMSG, "%zu", i);
	buf_reset(&why);
	cr_expect_eq(seconds_read(&cut, cases[0].data, cases[0].len, &why), -EBADMSG);
	seconds_cut_fini(&cut);
	buf_fini(&why);
}

/* As a profile it is refused with a reason. */
Test(seconds_file, is_no_profile)
{
	struct seconds *seconds;
	struct profile *profile = made(&seconds);
	struct profile_read read;
	struct buf why;
	size_t len;
	char *data = packed(profile, seconds, &len);

	buf_init(&why, 1024);
	cr_assert_eq(profile_read_init(&read, NULL), 0);
	cr_expect_eq(profile_read_add(&read, "x.seconds.gz", data, len, &why), -EBADMSG);
	cr_expect(strstr(why.data, "belongs to the .pb.gz"), "%s", why.data);
	profile_read_fini(&read);
	buf_fini(&why);
	free(data);
	seconds_free(seconds);
	made_free(profile);
}
