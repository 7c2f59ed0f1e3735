// SPDX-License-Identifier: Apache-2.0
#include "memory/resident.h"

#include <criterion/criterion.h>

TestSuite(resident, .timeout = 60);

#define MIB (1ULL << 20)

static void settle(struct resident *resident, uint64_t anon_mib, uint64_t freed_mib)
{
	resident->rss.anon_bytes = anon_mib * MIB;
	resident_settle(resident, freed_mib * MIB);
}

/* What was there before keeps its true size, falls as it is freed, and hides no drift. */
Test(resident, before)
{
	struct resident r = { .begin = RESIDENT_BEFORE };

	settle(&r, 100, 0);
	cr_expect_eq(resident_old(&r), 100 * MIB);
	cr_expect_eq(resident_drift(&r), 0);
	r.held_bytes = r.first_bytes = 50 * MIB;
	settle(&r, 152, 0);
	cr_expect_eq(resident_old(&r), 100 * MIB);
	cr_expect_eq(resident_drift(&r), (int64_t)(2 * MIB));
	settle(&r, 120, 30);
	cr_expect_eq(resident_old(&r), 70 * MIB);
	cr_expect_eq(resident_drift(&r), 0);
	r.lost_bytes = 4 * MIB;
	cr_expect_eq(resident_drift(&r), -(int64_t)(4 * MIB));
	settle(&r, 54, 130); /* an estimate may be more than there was */
	cr_expect_eq(resident_old(&r), 0);
}

/* An old process that is met late: what is held by then is not old. */
Test(resident, before_is_met_late)
{
	struct resident r = { .begin = RESIDENT_BEFORE, .held_bytes = 10 * MIB };

	settle(&r, 60, 5);
	cr_expect_eq(resident_old(&r), 50 * MIB);
	cr_expect_eq(resident_drift(&r), 0);
	settle(&r, 60, 15);
	cr_expect_eq(resident_old(&r), 40 * MIB);
}

/* Copies of shared pages take their place; first touches come on top. */
Test(resident, fork)
{
	struct resident r = { .begin = RESIDENT_FORK,
			      .held_bytes = 30 * MIB,
			      .first_bytes = 10 * MIB,
			      .copied_bytes = 20 * MIB };

	settle(&r, 110, 0);
	cr_expect_eq(resident_old(&r), 80 * MIB);
	cr_expect_eq(resident_drift(&r), 0);
	r.held_bytes = 15 * MIB; /* it gave 15 of its copies back */
	r.first_bytes = 10 * MIB;
	settle(&r, 95, 0);
	cr_expect_eq(resident_old(&r), 80 * MIB);
	cr_expect_eq(resident_drift(&r), 0);
}

Test(resident, exec)
{
	struct resident r = { .begin = RESIDENT_FORK, .held_bytes = 5 * MIB };

	settle(&r, 100, 0);
	resident_execute(&r);
	resident_begin(&r);
	cr_expect_eq(r.held_bytes, 0);
	cr_expect(!r.alive); /* it has no pid that can be read */
	r.held_bytes = 8 * MIB;
	r.copied_bytes = 3 * MIB;
	settle(&r, 8, 0);
	cr_expect_eq(resident_old(&r), 0);
	cr_expect_eq(resident_drift(&r), 0);
}

/* Moved pages take what the kernel's count leaves, and no more. */
Test(resident, moved)
{
	struct resident r = { .begin = RESIDENT_EXEC, .settled = true, .held_bytes = 10 * MIB };

	r.moved_bytes = 40 * MIB;
	settle(&r, 30, 0);
	cr_expect_eq(resident_moved_share(&r), 0.5);
	cr_expect_eq(r.held_bytes, 30 * MIB);
	cr_expect_eq(resident_moved_share(&r), 0); /* nothing is left */
	r.held_bytes = 10 * MIB;
	settle(&r, 90, 0);
	cr_expect_eq(resident_moved_share(&r), 1);
	cr_expect_eq(resident_drift(&r), (int64_t)(40 * MIB));
	settle(&r, 20, 0);
	cr_expect_eq(resident_moved_share(&r), 0);
}

static void settle_swap(struct resident *resident, uint64_t anon_mib, uint64_t swap_mib)
{
	resident->rss.swap_bytes = swap_mib * MIB;
	settle(resident, anon_mib, 0);
}

static void expect(const struct resident *resident, uint64_t old_mib, int64_t drift_mib)
{
	cr_expect_eq(resident_old(resident), old_mib * MIB, "%zu MiB old",
		     (size_t)(resident_old(resident) / MIB));
	cr_expect_eq(resident_drift(resident), drift_mib * (int64_t)MIB, "drift of %zd MiB",
		     (ssize_t)(resident_drift(resident) / (int64_t)MIB));
}

/* Pages that come back out of the swap cache are memory from before; more than these is drift. */
Test(resident, swapped)
{
	struct resident r = { .begin = RESIDENT_BEFORE, .held_bytes = 0 };

	settle_swap(&r, 60, 40);
	settle_swap(&r, 85, 10);
	expect(&r, 85, 0);
	settle_swap(&r, 95, 10);
	expect(&r, 90, 5);
	r.held_bytes = 35 * MIB; /* it came back from the disk */
	settle_swap(&r, 95, 10);
	expect(&r, 60, 0);
}

/* Old memory that is swapped out counts in swap alone, and as what it is when it comes back. */
Test(resident, swapped_while_watched)
{
	struct resident r = { .begin = RESIDENT_BEFORE };

	settle_swap(&r, 300, 0);
	settle_swap(&r, 10, 290);
	expect(&r, 10, 0);
	settle_swap(&r, 5, 290); /* more is gone than was swapped out */
	expect(&r, 10, -5);
	settle_swap(&r, 110, 190); /* the swap cache still had it */
	expect(&r, 110, 0);
	r.held_bytes = 100 * MIB; /* it was read from the disk */
	settle_swap(&r, 110, 190);
	expect(&r, 10, 0);
	settle_swap(&r, 110, 0); /* freed in swap */
	expect(&r, 10, 0);
}

/* Swap of the parent is shared, also what goes there later. */
Test(resident, swapped_fork)
{
	struct resident r = { .begin = RESIDENT_FORK };

	settle_swap(&r, 50, 100);
	expect(&r, 50, 0);
	cr_expect_eq(resident_shared_swap(&r), 100 * MIB);
	settle_swap(&r, 20, 130);
	expect(&r, 20, 0);
	cr_expect_eq(resident_shared_swap(&r), 130 * MIB);
	settle_swap(&r, 20, 150); /* 20 MiB of its own */
	cr_expect_eq(resident_shared_swap(&r), 130 * MIB);
	settle_swap(&r, 90, 60);
	expect(&r, 90, 0);
	cr_expect_eq(resident_shared_swap(&r), 60 * MIB);
	r.begin = RESIDENT_BEFORE;
	cr_expect_eq(resident_shared_swap(&r), 0);
}

/* The bytes that left swap were read from the disk, and are held: the rest is of pages that were moved. */
Test(resident, swapped_and_moved)
{
	struct resident r = { .begin = RESIDENT_BEFORE };

	settle_swap(&r, 100, 1000);
	r.held_bytes = 1000 * MIB;
	r.moved_bytes = 200 * MIB;
	settle_swap(&r, 1300, 0);
	cr_expect_eq(resident_moved_share(&r), 1);
	expect(&r, 100, 0);
	settle_swap(&r, 1320, 0);
	expect(&r, 100, 20);
}
