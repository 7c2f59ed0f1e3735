// SPDX-License-Identifier: Apache-2.0
#include "profile/sample_counts.h"

#include "profile/aggregate.h"

void sample_counts_add(struct sample_counts *counts, const struct aggregate_input *input)
{
	const struct bpfprof_sample *s = input->sample;

	counts->nr_taken++;
	if (input->stop < BPFPROF_NR_STOPS)
		counts->stops[input->stop]++;
	if (input->stop == BPFPROF_STOP_NO_USER)
		counts->nr_kernel_only++;
	else
		counts->nr_user++;
	counts->nr_python += s->nr_python > 0;
	if (input->unmerged < PYTHON_NR_UNMERGED)
		counts->unmerged[input->unmerged]++;
	if (s->python_stop < PYTHON_NR_STOPS)
		counts->python_stops[s->python_stop]++;
	if (s->await_stop < AWAIT_NR_STOPS)
		counts->await_stops[s->await_stop]++;
	counts->nr_several += s->await_flags & BPFPROF_AWAIT_SEVERAL;
}

void sample_counts_no_room(struct sample_counts *counts, const struct aggregate_input *input)
{
	bool complete = input->stop == BPFPROF_STOP_COMPLETE || input->stop == BPFPROF_STOP_NO_USER;

	counts->nr_no_room += complete && input->unmerged == PYTHON_MERGED;
}

void sample_counts_take(struct sample_counts *all, struct sample_counts *of)
{
	uint64_t *from = (uint64_t *)all, *words = (uint64_t *)of;
	size_t i;

	_Static_assert(sizeof(*all) % sizeof(*from) == 0, "words");
	for (i = 0; i < sizeof(*all) / sizeof(*from); i++) {
		from[i] -= words[i];
		words[i] = 0;
	}
}
