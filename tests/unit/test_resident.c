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
