// SPDX-License-Identifier: Apache-2.0
/* Calls and their labels in an aggregate. */
#include "profile/aggregate_state.h"

#include <errno.h>
#include <string.h>

#include "base/strtab.h"
#include "profile/sample_counts.h"
#include "profile/wire_stack.h"

#define MAX_LEAVES 8 /* labels on one stack */
#define NAMELESS "[unknown]"

static uint64_t label_frame(uint32_t id)
{
	return (uint64_t)BPFPROF_FRAME_LABEL << BPFPROF_FRAME_SHIFT | id;
}

uint64_t aggregate_label(struct aggregate *a, const char *text)
{
	/* Label 0 is `[no stack]`. */
	return label_frame(call_list_label(&a->calls, &a->budget, *text ? text : NAMELESS));
}

uint32_t aggregate_call(struct aggregate *a, const struct aggregate_call_labels *labels)
{
	return call_list_add(&a->calls, &a->budget, a->seed, labels);
}

int aggregate_add_call(struct aggregate *a, const struct aggregate_input *input,
		       const uint64_t *leaves, size_t nr_leaves, struct aggregate_call_at *ret)
{
	uint64_t frames[MAX_LEAVES + AGGREGATE_MAX_STACK];
	struct aggregate_sample key = { 0 };
	size_t nr_stack = 1;
	int64_t stack;

	if (input->stop != BPFPROF_STOP_INVALID && !input->again)
		sample_counts_add(&a->counts, input);
	if (aggregate_place_get(a, input, &key)) {
		a->calls.nr_lost++;
		return -ENOMEM;
	}
	if (nr_leaves > MAX_LEAVES)
		nr_leaves = MAX_LEAVES;
	memcpy(frames, leaves, nr_leaves * sizeof(*frames));
	if (input->nr_user)
		nr_stack = wire_stack_join(input, key.process, frames + nr_leaves);
	else
		frames[nr_leaves] = label_frame(0);
	stack = aggregate_stack_get(a, frames, nr_leaves + nr_stack);
	if (stack < 0) {
		a->nr_table_full++;
		frames[nr_leaves] = label_frame(0);
		/* Such stacks are few, and without one the call would have no name. */
		stack = aggregate_stack_keep(a, frames, nr_leaves + 1, a->budget.max_bytes / 16);
	}
	*ret = (struct aggregate_call_at){
		.process = key.process,
		.stack = stack < 0 ? 0 : (uint32_t)stack,
		.tid = key.tid,
		.thread = key.thread,
		.gil = key.gil,
	};
	return 0;
}

int aggregate_add_row(struct aggregate *a, const struct aggregate_input *input, uint64_t label,
		      struct aggregate_call_at *ret)
{
	struct aggregate_sample key = { 0 };
	int64_t stack;

	if (aggregate_place_get(a, input, &key)) {
		a->nr_lost++;
		return -ENOMEM;
	}
	stack = aggregate_stack_keep(a, &label, 1, a->budget.max_bytes / 16);
	*ret = (struct aggregate_call_at){ .process = key.process,
					   .stack = stack < 0 ? 0 : (uint32_t)stack,
					   .tid = key.tid,
					   .thread = key.thread };
	return 0;
}

uint32_t aggregate_stack_with(struct aggregate *a, uint32_t stack, uint64_t leaf)
{
	uint64_t frames[1 + MAX_LEAVES + AGGREGATE_MAX_STACK];
	const struct profile_stack *old = aggregate_stack_at(a, stack);
	int64_t found;

	if (stack >= a->stacks.stacks.nr || old->nr >= MAX_LEAVES + AGGREGATE_MAX_STACK)
		return stack;
	frames[0] = leaf;
	memcpy(frames + 1, aggregate_frames_at(a, old), old->nr * sizeof(*frames));
	found = aggregate_stack_get(a, frames, old->nr + 1);
	if (found >= 0)
		return (uint32_t)found;
	a->nr_table_full++;
	return stack;
}

int aggregate_call_sample(struct aggregate *a, const struct aggregate_call_at *at, uint32_t call,
			  const uint64_t values[PROFILE_NR_CALL_VALUES])
{
	struct aggregate_call_sample sample = { .at = *at, .call = call };
	int err;

	if (at->process >= a->processes.nr || at->stack >= a->stacks.stacks.nr ||
	    at->thread >= a->thread_names.items.nr || call > a->calls.calls.items.nr)
		return -EINVAL;
	memcpy(sample.values, values, sizeof(sample.values));
	err = call_list_sample(&a->calls, &a->budget, &sample);
	if (err)
		a->calls.nr_lost += values[PROFILE_CALLS];
	return err ? -ENOMEM : 0;
}
