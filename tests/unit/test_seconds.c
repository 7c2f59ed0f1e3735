// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "profile/seconds.h"

TestSuite(seconds);

#define NR_SECONDS 70
#define NR_ENTRIES 3000

static uint32_t wanted[NR_SECONDS][NR_ENTRIES], found[NR_SECONDS][NR_ENTRIES];
static struct seconds_run run;

/* Adds up all runs. Returns the number of samples. */
static uint64_t read_all(const struct seconds *seconds)
{
	const uint8_t *end, *at = seconds_runs(seconds, &end);
	uint64_t nr = 0;
	uint32_t i;
	int got;

	while ((got = seconds_run_take(&at, end, &run)) == 1)
		for (i = 0; i < run.nr; i++) {
			cr_assert(run.second < NR_SECONDS && run.pairs[i].entry < NR_ENTRIES);
			cr_assert(!i || run.pairs[i].entry > run.pairs[i - 1].entry);
			found[run.second][run.pairs[i].entry] += run.pairs[i].count;
			nr += run.pairs[i].count;
		}
	cr_expect_eq(got, 0);
	cr_expect_eq(at, end);
	return nr;
}

/* Hot and rare entries, a second late now and then: what goes in comes out. */
Test(seconds, round_trip)
{
	struct seconds *seconds;
	uint64_t nr = 0, chance = 88172645463325252ULL;
	uint32_t second, entry, i;

	cr_assert_eq(seconds_new(&seconds, 1 << 20), 0);
	for (i = 0; i < NR_SECONDS * 900; i++, nr++) {
		chance ^= chance << 13;
		chance ^= chance >> 7;
		chance ^= chance << 17;
		second = i / 900;
		if (second && chance % 11 == 0)
			second--;
		entry = chance % 3 ? (chance >> 8) % 7 : (chance >> 8) % NR_ENTRIES;
		wanted[second][entry]++;
		seconds_add(seconds, second, entry);
	}
	seconds_flush(seconds);
	seconds_flush(seconds);
	cr_expect_eq(read_all(seconds), nr);
	cr_expect_eq(memcmp(wanted, found, sizeof(wanted)), 0);
	cr_expect_eq(seconds_nr_lost(seconds), 0);
	/* Two thirds of the samples share seven entries. */
	cr_expect_lt(seconds_bytes(seconds), nr, "less than a byte per sample");
	seconds_free(seconds);
}

Test(seconds, none)
{
	struct seconds *seconds;

	cr_assert_eq(seconds_new(&seconds, 1000), 0);
	seconds_flush(seconds);
	cr_expect_eq(read_all(seconds), 0);
	seconds_free(seconds);
	seconds_free(NULL);
}

/* Without room the beginning is kept, and the rest counted; no run is half there. */
Test(seconds, full)
{
	struct seconds *seconds;
	uint64_t kept;
	uint32_t i;

	cr_assert_eq(seconds_new(&seconds, 5000), 0);
	for (i = 0; i < 20000; i++)
		seconds_add(seconds, i / 1000, i % NR_ENTRIES);
	seconds_flush(seconds);
	kept = read_all(seconds);
	cr_expect_eq(kept + seconds_nr_lost(seconds), 20000);
	cr_expect_eq(kept, 2 * SECONDS_RUN_MAX, "%llu", (unsigned long long)kept);
	cr_expect_eq(found[0][0], 1);
	cr_expect_eq(found[5][5000 % NR_ENTRIES], 0);
	seconds_free(seconds);
}

Test(seconds, frozen)
{
	struct seconds *seconds;
	uint32_t i;

	cr_assert_eq(seconds_new(&seconds, 1 << 20), 0);
	for (i = 0; i < SECONDS_RUN_MAX + 10; i++)
		seconds_add(seconds, 1, i % 5);
	seconds_freeze(seconds);
	seconds_add(seconds, 2, 1);
	seconds_flush(seconds);
	cr_expect_eq(read_all(seconds), SECONDS_RUN_MAX);
	cr_expect_eq(seconds_nr_lost(seconds), 11);
	seconds_free(seconds);
}

/* Bytes that no coder makes. */
Test(seconds, malformed)
{
	static const struct {
		const char *name, *bytes;
		size_t len;
		int got;
	} cases[] = {
		{ "nothing", "", 0, 0 },
		{ "no entries", "\0", 1, 0 },
		{ "the smallest", "\x01\x00\x00", 3, 1 },
		{ "the largest entry", "\x01\x00\xfe\xff\xff\xff\x1f", 7, 1 },
		{ "a larger entry", "\x01\x00\x80\x80\x80\x80\x20", 7, -EBADMSG },
		{ "past the largest entry", "\x02\x00\xfe\xff\xff\xff\x1f\x02", 8, -EBADMSG },
		{ "an entry twice", "\x02\x00\x02\x00", 4, -EBADMSG },
		{ "one entry is missing", "\x02\x00\x02", 3, -EBADMSG },
		{ "no second", "\x01", 1, -EBADMSG },
		{ "a cut number", "\x01\x80", 2, -EBADMSG },
		{ "a second of 33 bits", "\x01\x80\x80\x80\x80\x10\x00", 7, -EBADMSG },
		{ "a count", "\x01\x00\x01\x02", 4, 1 },
		{ "no count", "\x01\x00\x01", 3, -EBADMSG },
		{ "a count of 1 in two bytes", "\x01\x00\x01\x01", 4, -EBADMSG },
		{ "a count of 0", "\x01\x00\x01\x00", 4, -EBADMSG },
		{ "the largest count", "\x01\x00\x01\xff\xff\xff\xff\x0f", 8, 1 },
		{ "a larger count", "\x01\x00\x01\x80\x80\x80\x80\x10", 8, -EBADMSG },
		{ "too many entries", "\x81\x10\x00\x00", 4, -EBADMSG },
		{ "endless digits", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11, -EBADMSG },
	};
	const uint8_t *at;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		/* A copy of the exact size: sanitizers see reads past it. */
		uint8_t *copy = malloc(cases[i].len + !cases[i].len);

		memcpy(copy, cases[i].bytes, cases[i].len);
		at = copy;
		cr_expect_eq(seconds_run_take(&at, copy + cases[i].len, &run), cases[i].got, "%s",
			     cases[i].name);
		if (cases[i].got >= 0)
			cr_expect_eq(at, copy + cases[i].len, "%s", cases[i].name);
		free(copy);
	}
}
