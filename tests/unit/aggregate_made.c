// SPDX-License-Identifier: Apache-2.0
#include "aggregate_made.h"

#include <criterion/criterion.h>
#include <stdio.h>

struct aggregate *made_aggregate;

void aggregate_make(bool threads, size_t max_bytes)
{
	cr_assert_eq(aggregate_new(&made_aggregate, threads, max_bytes), 0);
}

void aggregate_teardown(void)
{
	aggregate_free(made_aggregate);
	made_aggregate = NULL;
}

TestSuite(aggregate, .fini = aggregate_teardown);

struct bpfprof_sample aggregate_sample_of(uint32_t pid, uint32_t tid, const char *comm)
{
	struct bpfprof_sample sample = {
		.task = { .pid = pid, .tid = tid, .start_ns = 1000, .exec_id = 1 },
		.period_ns = 10,
	};

	snprintf(sample.comm, sizeof(sample.comm), "%s", comm);
	snprintf(sample.leader_comm, sizeof(sample.leader_comm), "leader");
	return sample;
}

void aggregate_add_one(const struct bpfprof_sample *sample, const uint64_t *user, size_t nr,
		       uint32_t stop)
{
	struct aggregate_input input = {
		.sample = sample, .user = user, .nr_user = nr, .stop = stop
	};

	aggregate_add(made_aggregate, &input);
}

uint64_t aggregate_count_in_all(const struct aggregate_view *view)
{
	uint64_t count = 0;

	for (size_t i = 0; i < view->nr_samples; i++)
		count += view->samples[i].count;
	return count;
}
