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
	bool counts = input->stop != BPFPROF_STOP_INVALID && !input->again;
	size_t nr_stack = 1;
	uint64_t root;
	int64_t stack;

	if (counts)
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
		if (counts)
			sample_counts_no_room(&a->counts, input);
		/* A label at the root says what the time is of. */
		root = frames[nr_leaves + nr_stack - 1];
		frames[nr_leaves] =
			aggregate_frame_kind(root) == BPFPROF_FRAME_LABEL ? root : label_frame(0);
		/* Such stacks are few, and without one the call would have no name. */
		stack = aggregate_stack_keep(a, 0, frames, nr_leaves + 1, a->budget.max_bytes / 16);
	}
	*ret = (struct aggregate_call_at){
		.process = key.process,
		.stack = stack < 0 ? AGGREGATE_NO_STACK : (uint32_t)stack,
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
	stack = aggregate_stack_keep(a, 0, &label, 1, a->budget.max_bytes / 16);
	*ret = (struct aggregate_call_at){ .process = key.process,
					   .stack =
						   stack < 0 ? AGGREGATE_NO_STACK : (uint32_t)stack,
					   .tid = key.tid,
					   .thread = key.thread };
	return 0;
}

uint32_t aggregate_stack_with(struct aggregate *a, uint32_t stack, uint64_t leaf)
{
	int64_t with;

	if (stack >= a->stacks.callers.nr ||
	    stack_depth(a->stacks.callers.data, stack) >= MAX_LEAVES + AGGREGATE_MAX_STACK)
		return stack;
	with = aggregate_stack_keep(a, stack, &leaf, 1, a->budget.max_bytes / 8);
	a->nr_table_full += with < 0;
	return with < 0 ? stack : (uint32_t)with;
}

int aggregate_call_sample(struct aggregate *a, const struct aggregate_call_at *at, uint32_t call,
			  const uint64_t values[PROFILE_NR_CALL_VALUES])
{
	struct aggregate_call_sample sample = { .at = *at, .call = call };
	int err;

	if (at->process >= a->processes.nr || at->stack >= a->stacks.callers.nr ||
	    at->thread >= a->thread_names.items.nr || call > a->calls.calls.items.nr)
		return -EINVAL;
	memcpy(sample.values, values, sizeof(sample.values));
	err = call_list_sample(&a->calls, &a->budget, &sample);
	if (err)
		a->calls.nr_lost += values[PROFILE_CALLS];
	return err ? -ENOMEM : 0;
}
