// SPDX-License-Identifier: Apache-2.0
#include "gpu/gaps.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash_table.h"
#include "gpu/shares.h"
#include "profile/aggregate.h"
#include "profile/aggregate_rollover.h"

struct stack {
	struct hash_node node;
	struct aggregate_call_at at;
	uint64_t open_ns; /* time seen in the gap that is not over */
	uint64_t short_ns; /* time seen in short gaps */
	uint64_t ns; /* idle time that the stack got */
};

struct gpu_gaps {
	struct gpu_gaps_room *room;
	struct hash_table stacks;
	uint64_t begin_ns; /* begin of the gap that open_ns belongs to, 0: none */
	bool timed; /* a part of the time in this gap was measured */
	uint64_t reported_ns; /* begin of the last gap that was shared out */
};

int gpu_gaps_new(struct gpu_gaps **ret, struct gpu_gaps_room *room)
{
	struct gpu_gaps *gaps = calloc(1, sizeof(*gaps));

	if (!gaps)
		return -ENOMEM;
	gaps->room = room;
	hash_table_init(&gaps->stacks, HASH_TABLE_BOUNDED, struct stack, at);
	*ret = gaps;
	return 0;
}

static void stack_remove(struct gpu_gaps *gaps, struct stack *stack)
{
	hash_table_remove(&gaps->stacks, stack);
	gaps->room->nr--;
}

void gpu_gaps_free(struct gpu_gaps *gaps)
{
	struct stack *stack;

	if (!gaps)
		return;
	hash_table_each(&gaps->stacks, stack)
		stack_remove(gaps, stack);
	free(gaps);
}

static struct stack *stack_get(struct gpu_gaps *gaps, const struct aggregate_call_at *at)
{
	struct stack *stack = hash_table_find(&gaps->stacks, at);

	if (stack)
		return stack;
	stack = gaps->room->nr < gaps->room->max ? hash_table_add(&gaps->stacks, at) : NULL;
	if (!stack) {
		gaps->room->lost++;
		return NULL;
	}
	gaps->room->nr++;
	return stack;
}

/* The gap was short: no launch will report it. */
static void open_forget(struct gpu_gaps *gaps)
{
	struct stack *stack;

	hash_table_each(&gaps->stacks, stack) {
		stack->short_ns += stack->open_ns;
		stack->open_ns = 0;
	}
	gaps->begin_ns = 0;
	gaps->timed = false;
}

void gpu_gaps_seen(struct gpu_gaps *gaps, const struct aggregate_call_at *at, uint64_t begin_ns,
		   uint64_t ns, bool timed)
{
	struct stack *stack;

	if (begin_ns == gaps->reported_ns)
		return;
	stack = stack_get(gaps, at);
	if (!stack)
		return;
	if (begin_ns > gaps->begin_ns) {
		open_forget(gaps);
		gaps->begin_ns = begin_ns;
	}
	if (begin_ns != gaps->begin_ns) { /* the record came late */
		stack->short_ns += ns;
		return;
	}
	stack->open_ns += ns;
	gaps->timed |= timed;
}

/*
 * Returns the part of ns that samples cover. A small missing part counts as covered: chance
 * explains it.
 */
static uint64_t covered(uint64_t ns, uint64_t seen_ns)
{
	if (!seen_ns)
		return 0;
	return seen_ns + GPU_GAPS_UNSURE_NS >= ns ? ns : seen_ns;
}

uint64_t gpu_gaps_end(struct gpu_gaps *gaps, uint64_t begin_ns, uint64_t ns)
{
	uint64_t seen_ns = 0, left, part;
	struct stack *stack;

	if (!begin_ns || begin_ns != gaps->begin_ns)
		return 0;
	if (ns < GPU_GAPS_LONG_NS && !gaps->timed) {
		open_forget(gaps);
		return 0;
	}
	hash_table_each(&gaps->stacks, stack)
		seen_ns += stack->open_ns;
	left = part = covered(ns, seen_ns);
	hash_table_each(&gaps->stacks, stack) {
		stack->ns += share_take(&left, &seen_ns, stack->open_ns);
		stack->open_ns = 0;
	}
	gaps->begin_ns = 0;
	gaps->timed = false;
	gaps->reported_ns = begin_ns;
	return part;
}

uint64_t gpu_gaps_share(struct gpu_gaps *gaps, uint64_t ns, uint64_t idle_ns)
{
	uint64_t seen_ns = 0, left, part;
	struct stack *stack;

	if (gaps->begin_ns && gaps->begin_ns != idle_ns)
		open_forget(gaps);
	hash_table_each(&gaps->stacks, stack)
		seen_ns += stack->short_ns;
	left = part = covered(ns, seen_ns);
	hash_table_each(&gaps->stacks, stack) {
		stack->ns += share_take(&left, &seen_ns, stack->short_ns);
		stack->short_ns = 0;
	}
	return part;
}

void gpu_gaps_each(const struct gpu_gaps *gaps,
		   void (*each)(void *arg, const struct aggregate_call_at *at, uint64_t ns),
		   void *arg)
{
	const struct stack *stack;

	hash_table_each(&gaps->stacks, stack)
		if (stack->ns)
			each(arg, &stack->at, stack->ns);
}

void gpu_gaps_next(struct gpu_gaps *gaps, const struct aggregate_view *from, struct aggregate *next,
		   size_t max_bytes)
{
	struct stack *stack;
	struct aggregate_call_at at;

	hash_table_each(&gaps->stacks, stack) {
		if (!stack->open_ns) {
			stack_remove(gaps, stack);
			continue;
		}
		if (aggregate_bytes(next) > max_bytes ||
		    aggregate_rollover(next, from, &stack->at, &at)) {
			gaps->room->lost++;
			stack_remove(gaps, stack);
			continue;
		}
		hash_table_rekey(&gaps->stacks, stack, &at);
		stack->ns = 0;
	}
}
