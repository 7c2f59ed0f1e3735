// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "cuda/functions.h"
#include "gpu/call_table.h"
#include "gpu/monitor.h"
#include "profile/aggregate.h"

#define NOW_NS 10000

static uint32_t function_nr(const char *name)
{
	const struct gpu_function *all;
	size_t nr, i;

	all = gpu_functions(&nr);
	for (i = 1; i < nr; i++)
		if (!strcmp(all[i].name, name))
			return (uint32_t)i;
	cr_assert(false, "no function %s", name);
	return 0;
}

static struct bpfprof_gpu_key key_of(uint32_t pid, const char *function, uint64_t stream)
{
	return (struct bpfprof_gpu_key){
		.start_ns = 7, .pid = pid, .function = function_nr(function), .stream = stream
	};
}

static struct gpu_open_call open_of(struct bpfprof_gpu_key key, uint32_t tid, uint64_t begin_ns)
{
	return (struct gpu_open_call){ .tid = tid, .open = { .key = key, .begin_ns = begin_ns } };
}

/* Each open call adds to the count with its key, and to no other, in the right process. */
Test(gpu_snapshot, waits_by_key)
{
	struct call_table_count counts[] = {
		{ .key = key_of(1, "cuStreamSynchronize", 1), .count.ns = 5 },
		{ .key = key_of(3, "cuLaunchKernel", 1) }, /* does not block */
		{ .key = key_of(3, "cuStreamSynchronize", 2) },
		{ .key = key_of(3, "cuStreamSynchronize", 1) },
		{ .key = key_of(4, "ncclGroupEnd", 0) },
		{ .key = key_of(4, "cuCtxSynchronize", 0) },
		{ .key = key_of(6, "cuStreamSynchronize", 1) },
	};
	struct gpu_open_call waiting[] = {
		open_of(key_of(2, "cuStreamSynchronize", 1), 2, 1000), /* not counted */
		open_of(key_of(3, "cuStreamSynchronize", 1), 31, 1000),
		open_of(key_of(3, "cuStreamSynchronize", 9), 33, 1000), /* not counted */
		open_of(key_of(3, "cuStreamSynchronize", 1), 32, 4000),
		open_of(key_of(4, "ncclGroupEnd", 0), 4, 9000),
		open_of(key_of(4, "cuCtxSynchronize", 0), 4, 9500), /* in that */
		open_of(key_of(4, "ncclGroupEnd", 0), 5, NOW_NS), /* these began after it */
		open_of(key_of(7, "cuStreamSynchronize", 1), 7, 1000), /* not counted */
	};
	const struct gpu_snapshot snapshot = { .waiting = waiting,
					       .nr_waiting = sizeof(waiting) / sizeof(waiting[0]),
					       .ts_ns = NOW_NS };
	const uint64_t wanted[] = { 5, 0, 0, 9000 + 6000, 1000, 500, 0 };
	struct call_table *table;
	struct aggregate *a;
	size_t i;

	cr_assert_eq(aggregate_new(&a, false, 1U << 20), 0);
	cr_assert_eq(call_table_new(&table, a), 0);
	gpu_snapshot_waits(&snapshot, table, counts, sizeof(counts) / sizeof(counts[0]));
	for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		cr_expect_eq(counts[i].count.ns, wanted[i], "%zu: %llu", i,
			     (unsigned long long)counts[i].count.ns);
	gpu_snapshot_waits(&snapshot, table, counts, 0);
	call_table_free(table);
	aggregate_free(a);
}
