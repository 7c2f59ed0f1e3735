// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "gpu/call_table.h"
#include "gpu/monitor.h"
#include "gpu/recent.h"

#define MAX_ROWS 8

/* The key of a kernel's handle with a generation. */
static struct call_table_count launches(uint64_t handle, uint32_t generation, uint64_t calls)
{
	const uint16_t flags = (uint16_t)(generation << CALL_TABLE_GENERATION_SHIFT);

	return (struct call_table_count){
		.key = { .start_ns = 7, .pid = 1, .function = 3, .handle = handle, .flags = flags },
		.count.calls = calls,
	};
}

static void take(struct gpu_recent *recent, uint64_t ts_ns, const struct call_table_count *rows,
		 size_t nr)
{
	struct call_table_count counts[MAX_ROWS];
	const struct gpu_snapshot picture = { .counts = counts, .nr_counts = nr, .ts_ns = ts_ns };
	size_t i;

	for (i = 0; i < nr; i++)
		counts[i] = rows[i];
	cr_assert_eq(gpu_recent_take(recent, &picture), 0);
}
#define TAKE(recent, ts_ns, ...)                                                                   \
	do {                                                                                       \
		const struct call_table_count rows_[] = { __VA_ARGS__ };                           \
		take(recent, ts_ns, rows_, sizeof(rows_) / sizeof(rows_[0]));                      \
	} while (0)

static uint64_t calls_of(const struct gpu_recent *recent, uint64_t handle, uint32_t generation)
{
	const struct call_table_count row = launches(handle, generation, 0);
	uint64_t calls, ns;

	gpu_recent_find(recent, &row.key, &calls, &ns);
	return calls;
}

static struct gpu_recent *begin(void)
{
	struct gpu_recent *recent;

	cr_assert_eq(gpu_recent_new(&recent, 1000000000), 0);
	return recent;
}

Test(gpu_recent, since_the_picture_before)
{
	struct gpu_recent *recent = begin();
	uint64_t calls, ns;

	TAKE(recent, 3000000000,
	     { .key = { .pid = 1, .stream = 1 }, .count = { .calls = 5, .ns = 50 } },
	     { .key = { .pid = 1, .stream = 2 }, .count = { .calls = 7, .ns = 70 } });
	cr_expect_float_eq(gpu_recent_seconds(recent), 2, 1e-9);
	gpu_recent_find(recent, &(struct bpfprof_gpu_key){ .pid = 1, .stream = 2 }, &calls, &ns);
	cr_expect(calls == 7 && ns == 70, "all since the start");
	TAKE(recent, 3500000000,
	     { .key = { .pid = 1, .stream = 2 }, .count = { .calls = 9, .ns = 75 } },
	     { .key = { .pid = 1, .stream = 3 }, .count = { .calls = 4, .ns = 40 } },
	     { .key = { .pid = 1, .stream = 1 }, .count = { .calls = 5, .ns = 49 } });
	cr_expect_float_eq(gpu_recent_seconds(recent), 0.5, 1e-9);
	gpu_recent_find(recent, &(struct bpfprof_gpu_key){ .pid = 1, .stream = 1 }, &calls, &ns);
	cr_expect(calls == 0 && ns == 0, "nothing, and not less");
	gpu_recent_find(recent, &(struct bpfprof_gpu_key){ .pid = 1, .stream = 2 }, &calls, &ns);
	cr_expect(calls == 2 && ns == 5, "some more");
	gpu_recent_find(recent, &(struct bpfprof_gpu_key){ .pid = 1, .stream = 3 }, &calls, &ns);
	cr_expect(calls == 4 && ns == 40, "a new one");
	gpu_recent_find(recent, &(struct bpfprof_gpu_key){ .pid = 2, .stream = 3 }, &calls, &ns);
	cr_expect(calls == 0 && ns == 0, "one that was never seen");
	gpu_recent_free(recent);
}

/* Calls that moved to an ended generation are not new. */
Test(gpu_recent, handle_used_again)
{
	struct gpu_recent *recent = begin();

	TAKE(recent, 2000000000, launches(1, 0, 10000000), launches(2, 0, 50));
	TAKE(recent, 3000000000, launches(2, 0, 60), launches(1, 0, 30), launches(1, 1, 10000020));
	cr_expect_eq(calls_of(recent, 1, 1), 20);
	cr_expect_eq(calls_of(recent, 1, 0), 30);
	cr_expect_eq(calls_of(recent, 2, 0), 10);
	TAKE(recent, 4000000000, launches(1, 1, 10000020), launches(1, 0, 45), launches(2, 0, 61));
	cr_expect_eq(calls_of(recent, 1, 1), 0);
	cr_expect_eq(calls_of(recent, 1, 0), 15);
	gpu_recent_free(recent);
}

/* The new kernel has more launches than the old one ever had. */
Test(gpu_recent, used_again_more_often)
{
	struct gpu_recent *recent = begin();

	TAKE(recent, 2000000000, launches(1, 0, 100));
	TAKE(recent, 3000000000, launches(1, 1, 150), launches(1, 0, 120));
	cr_expect_eq(calls_of(recent, 1, 1), 50);
	cr_expect_eq(calls_of(recent, 1, 0), 120);
	gpu_recent_free(recent);
}

/* Several times between two pictures, and before any; the last kernel has not been launched yet. */
Test(gpu_recent, used_again_several_times)
{
	struct gpu_recent *recent = begin();

	TAKE(recent, 2000000000, launches(1, 1, 10), launches(1, 0, 100));
	cr_expect_eq(calls_of(recent, 1, 1), 10);
	cr_expect_eq(calls_of(recent, 1, 0), 100);
	TAKE(recent, 3000000000, launches(1, 3, 7), launches(1, 1, 10), launches(1, 2, 105));
	cr_expect_eq(calls_of(recent, 1, 1), 0);
	cr_expect_eq(calls_of(recent, 1, 2), 5);
	cr_expect_eq(calls_of(recent, 1, 3), 7);
	cr_expect_eq(calls_of(recent, 1, 0), 0);
	gpu_recent_free(recent);
}

/*
 * The end of the generation is reported late: some launches of the new kernel counted for the old
 * one; they are new only once.
 */
Test(gpu_recent, end_reported_late)
{
	struct gpu_recent *recent = begin();

	TAKE(recent, 2000000000, launches(1, 0, 130));
	TAKE(recent, 3000000000, launches(1, 1, 100), launches(1, 0, 45));
	cr_expect_eq(calls_of(recent, 1, 1), 0);
	cr_expect_eq(calls_of(recent, 1, 0), 15);
	gpu_recent_free(recent);
}
