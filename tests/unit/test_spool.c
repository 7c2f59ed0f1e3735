// SPDX-License-Identifier: Apache-2.0
#include "base/spool.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>

#define BLOCK 1024 /* records that the ring is made of */

struct record {
	uint64_t key, number;
	uint64_t rest[3];
};

static struct record made(uint64_t key, uint64_t number)
{
	return (struct record){ key, number, { ~key, ~number, key ^ number } };
}

static int compare(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

struct seen {
	uint64_t nr, last_key, least_number, sum, stop_after;
};

static int see(void *arg, const void *data)
{
	const struct record *record = data;
	struct record wanted = made(record->key, record->number);
	struct seen *seen = arg;

	cr_assert_eq(memcmp(record, &wanted, sizeof(wanted)), 0);
	cr_assert_geq(record->key, seen->last_key);
	seen->last_key = record->key;
	if (!seen->nr++ || record->number < seen->least_number)
		seen->least_number = record->number;
	seen->sum += record->number;
	return seen->stop_after && seen->nr == seen->stop_after ? 7 : 0;
}

static uint64_t mixed(uint64_t i)
{
	i = (i ^ i >> 31) * 0x9e3779b97f4a7c15ULL;
	return (i ^ i >> 29) % 1000003;
}

static void fill(struct spool *spool, uint64_t nr)
{
	struct record record;
	uint64_t i;

	for (i = 0; i < nr; i++) {
		record = made(mixed(i), i);
		spool_add(spool, &record);
	}
}

/* All of nr that were added, but for the oldest. Returns how many are left. */
static uint64_t expect_newest(struct spool *spool, uint64_t nr)
{
	uint64_t kept = nr - spool_nr_dropped(spool), i, sum = 0;
	struct seen seen = { 0 };

	cr_assert_eq(spool_nr_added(spool), nr);
	cr_assert_eq(spool_sort(spool, compare), 0);
	cr_assert_eq(spool_each(spool, see, &seen), 0);
	cr_assert_eq(seen.nr, kept);
	for (i = nr - kept; i < nr; i++)
		sum += i;
	cr_assert_eq(seen.sum, sum);
	if (kept)
		cr_assert_eq(seen.least_number, nr - kept);
	return kept;
}

Test(spool, all_in_order)
{
	/* In memory alone, a block, its edges, several runs of 64 blocks. */
	static const uint64_t counts[] = { 0, 1, 2, 1023, 1024, 1025, 65536, 65537, 300000 };
	struct spool *spool;
	size_t i;

	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		cr_assert_eq(spool_new(&spool, "/tmp", sizeof(struct record), 1ULL << 30), 0);
		fill(spool, counts[i]);
		cr_assert_eq(expect_newest(spool, counts[i]), counts[i]);
		cr_assert_eq(spool_error(spool), 0);
		spool_free(spool);
	}
	spool_free(NULL);
}

Test(spool, the_newest_are_kept)
{
	static const uint64_t counts[] = { 5000,	   10 * BLOCK, 10 * BLOCK + 1, 11 * BLOCK,
					   11 * BLOCK + 1, 99999,      200000 };
	struct spool *spool;
	uint64_t kept;
	size_t i;

	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		cr_assert_eq(spool_new(&spool, "/tmp", sizeof(struct record),
				       10 * BLOCK * sizeof(struct record)),
			     0);
		fill(spool, counts[i]);
		kept = expect_newest(spool, counts[i]);
		cr_assert(kept == counts[i] || (kept >= 10 * BLOCK && kept <= 11 * BLOCK));
		spool_free(spool);
	}
}

Test(spool, as_small_as_can_be)
{
	struct spool *spool;

	cr_assert_eq(spool_new(&spool, "/tmp", sizeof(struct record), 1), 0);
	fill(spool, 10 * BLOCK);
	cr_assert_geq(expect_newest(spool, 10 * BLOCK), BLOCK);
	spool_free(spool);
}

Test(spool, read_again_and_stopped)
{
	struct seen seen = { .stop_after = 70000 };
	struct spool *spool;
	int i;

	cr_assert_eq(spool_new(&spool, "/tmp", sizeof(struct record), 1ULL << 30), 0);
	fill(spool, 200000);
	cr_assert_eq(spool_sort(spool, compare), 0);
	for (i = 0; i < 3; i++) {
		seen = (struct seen){ .stop_after = 70000 };
		cr_assert_eq(spool_each(spool, see, &seen), 7);
		cr_assert_eq(seen.nr, 70000);
	}
	cr_assert_eq(expect_newest(spool, 200000), 200000);
	spool_free(spool);
}

/* The disk is full somewhere: the ring is as large as it is by then, and the newest are in it. */
Test(spool, no_more_room)
{
	const struct rlimit limit = { 20 * BLOCK * sizeof(struct record) + 1000, RLIM_INFINITY };
	struct spool *spool;
	uint64_t kept;

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(spool_new(&spool, "/tmp", sizeof(struct record), 1ULL << 30), 0);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	fill(spool, 123456);
	cr_assert_eq(spool_error(spool), -EFBIG);
	kept = expect_newest(spool, 123456);
	cr_assert(kept >= 20 * BLOCK && kept <= 21 * BLOCK, "%lu", (unsigned long)kept);
	spool_free(spool);
}

/* There is none at all: what is in memory is all there is. */
Test(spool, no_room)
{
	const struct rlimit limit = { 100, RLIM_INFINITY };
	struct spool *spool;

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(spool_new(&spool, "/tmp", sizeof(struct record), 1ULL << 30), 0);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	fill(spool, 5000);
	cr_assert_eq(spool_error(spool), -EFBIG);
	cr_assert_eq(expect_newest(spool, 5000), 5000 % BLOCK);
	spool_free(spool);
}

Test(spool, no_folder)
{
	struct spool *spool;

	cr_assert_eq(spool_new(&spool, "/tmp/no/such/folder", 8, 1 << 20), -ENOENT);
}
