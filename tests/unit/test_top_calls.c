// SPDX-License-Identifier: Apache-2.0
#include "cli/top_calls.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/time.h"
#include "gpu/functions.h"

static struct bpfprof_gpu_open open_of(const char *name, uint64_t begin_ns)
{
	struct bpfprof_gpu_open open = { .begin_ns = begin_ns };
	const struct gpu_function *all;
	size_t nr, i;

	all = gpu_functions(&nr);
	for (i = 1; i < nr; i++)
		if (!strcmp(all[i].name, name))
			open.key.function = (uint32_t)i;
	cr_assert(open.key.function, "no function %s", name);
	return open;
}

/* Ticks of a second, in the middle of which the call began. */
Test(top_calls, hang_by_tick)
{
	const uint64_t s = NS_PER_SECOND, begin_ns = 10 * s + s / 2;
	const struct bpfprof_gpu_open open = open_of("ncclAllReduce", begin_ns);

	cr_expect_eq(top_calls_hung_ns(&open, 10 * s, 11 * s), 0);
	cr_expect_eq(top_calls_hung_ns(&open, 11 * s, 12 * s), s / 2);
	cr_expect_eq(top_calls_hung_ns(&open, 12 * s, 13 * s), s);
	cr_expect_eq(top_calls_hung_ns(&open, 13 * s, 14 * s), s);
	cr_expect_eq(top_calls_hung_ns(&open, 10 * s, 14 * s), 2 * s + s / 2);
	cr_expect_eq(top_calls_hung_ns(&open, 10 * s, begin_ns), 0);
}

/* The time of others is counted, or nobody's waiting. */
Test(top_calls, hang_in_nccl_alone)
{
	const struct bpfprof_gpu_open sync = open_of("cuStreamSynchronize", 0);
	const struct bpfprof_gpu_open group = open_of("ncclGroupEnd", 0);
	const struct bpfprof_gpu_open launch = open_of("cuLaunchKernel", 0);
	struct bpfprof_gpu_open unknown = open_of("ncclAllReduce", 0);

	unknown.key.function = UINT16_MAX;
	cr_expect_eq(top_calls_hung_ns(&sync, 0, 9 * NS_PER_SECOND), 0);
	cr_expect_eq(top_calls_hung_ns(&group, 0, 9 * NS_PER_SECOND), 0);
	cr_expect_eq(top_calls_hung_ns(&launch, 0, 9 * NS_PER_SECOND), 0);
	cr_expect_eq(top_calls_hung_ns(&unknown, 0, 9 * NS_PER_SECOND), 0);
}
