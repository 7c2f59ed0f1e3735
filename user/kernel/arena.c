// SPDX-License-Identifier: Apache-2.0
#include "kernel/arena.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ORDERS 24
#define NONE UINT32_MAX

enum block_state { BLOCK_INNER, BLOCK_FREE, BLOCK_USED, BLOCK_RESTING };

/* One per smallest slice; only the first block of a slice is valid. */
struct block {
	uint32_t prev, next; /* in the free list of its order, or in the resting queue */
	uint64_t freed_ns;
	uint8_t order;
	uint8_t state;
};

struct arena {
	struct block *blocks;
	uint32_t nr_blocks;
	uint32_t min_slice;
	uint32_t nr_orders;
	uint32_t nr_used; /* blocks */
	uint32_t free_head[MAX_ORDERS];
	uint32_t rest_head, rest_tail; /* oldest first */
};

static void free_push(struct arena *arena, uint32_t b, uint32_t order)
{
	struct block *block = &arena->blocks[b];

	block->state = BLOCK_FREE;
	block->order = (uint8_t)order;
	block->prev = NONE;
	block->next = arena->free_head[order];
	if (block->next != NONE)
		arena->blocks[block->next].prev = b;
	arena->free_head[order] = b;
}

static void free_remove(struct arena *arena, uint32_t b)
{
	struct block *block = &arena->blocks[b];

	if (block->prev != NONE)
		arena->blocks[block->prev].next = block->next;
	else
		arena->free_head[block->order] = block->next;
	if (block->next != NONE)
		arena->blocks[block->next].prev = block->prev;
	block->state = BLOCK_INNER;
}

int arena_new(struct arena **ret, uint32_t nr, uint32_t min_slice)
{
	struct arena *arena;
	uint32_t order = 0, i;

	if (!min_slice || nr % min_slice)
		return -EINVAL;
	while (order < MAX_ORDERS - 1 && 1U << order < nr / min_slice)
		order++;
	if (1U << order != nr / min_slice)
		return -EINVAL;
	arena = calloc(1, sizeof(*arena));
	if (!arena)
		return -ENOMEM;
	arena->nr_blocks = nr / min_slice;
	arena->min_slice = min_slice;
	arena->nr_orders = order + 1;
	arena->blocks = calloc(arena->nr_blocks, sizeof(*arena->blocks));
	if (!arena->blocks) {
		free(arena);
		return -ENOMEM;
	}
	for (i = 0; i < MAX_ORDERS; i++)
		arena->free_head[i] = NONE;
	arena->rest_head = arena->rest_tail = NONE;
	free_push(arena, 0, order);
	*ret = arena;
	return 0;
}

void arena_free(struct arena *arena)
{
	if (!arena)
		return;
	free(arena->blocks);
	free(arena);
}

static void merge(struct arena *arena, uint32_t b)
{
	uint32_t order = arena->blocks[b].order, buddy;

	while (order + 1 < arena->nr_orders) {
		buddy = b ^ (1U << order);
		if (arena->blocks[buddy].state != BLOCK_FREE || arena->blocks[buddy].order != order)
			break;
		free_remove(arena, buddy);
		arena->blocks[b].state = BLOCK_INNER;
		b &= ~(1U << order);
		order++;
	}
	free_push(arena, b, order);
}

static void wake_rested(struct arena *arena, uint64_t now_ns)
{
	uint32_t b;

	while ((b = arena->rest_head) != NONE) {
		/* Callers' clocks may lag behind one another, so there is no subtraction. */
		if (now_ns < arena->blocks[b].freed_ns + ARENA_REST_NS)
			return;
		arena->rest_head = arena->blocks[b].next;
		if (arena->rest_head == NONE)
			arena->rest_tail = NONE;
		arena->nr_used -= 1U << arena->blocks[b].order;
		merge(arena, b);
	}
}

int64_t arena_take(struct arena *arena, uint32_t nr, uint64_t now_ns)
{
	uint32_t want = 0, order, b;

	wake_rested(arena, now_ns);
	while (want < arena->nr_orders && (uint64_t)arena->min_slice << want < nr)
		want++;
	for (order = want; order < arena->nr_orders; order++)
		if (arena->free_head[order] != NONE)
			break;
	if (order >= arena->nr_orders)
		return -ENOSPC;
	b = arena->free_head[order];
	free_remove(arena, b);
	while (order > want) {
		order--;
		free_push(arena, b + (1U << order), order);
	}
	arena->blocks[b].order = (uint8_t)want;
	arena->blocks[b].state = BLOCK_USED;
	arena->nr_used += 1U << want;
	return (int64_t)b * arena->min_slice;
}

void arena_give(struct arena *arena, uint32_t first, uint64_t now_ns)
{
	uint32_t b = first / arena->min_slice;
	struct block *block = &arena->blocks[b];

	assert(b < arena->nr_blocks && block->state == BLOCK_USED);
	block->state = BLOCK_RESTING;
	block->freed_ns = now_ns;
	block->next = NONE;
	if (arena->rest_tail != NONE)
		arena->blocks[arena->rest_tail].next = b;
	else
		arena->rest_head = b;
	arena->rest_tail = b;
}

uint32_t arena_nr_used(const struct arena *arena)
{
	return arena->nr_used * arena->min_slice;
}
