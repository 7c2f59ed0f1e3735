// SPDX-License-Identifier: Apache-2.0
#include "watch/watched.h"

#include <stdlib.h>
#include <string.h>

#include "profile/aggregate.h"

void watched_init(struct watched_table *table)
{
	*table = (struct watched_table){ 0 };
	hash_table_init(&table->kept, WATCHED_MAX, struct watched, key);
	hash_table_init(&table->spare, WATCHED_MAX, struct watched, key);
	hash_table_init(&table->stacks, HASH_TABLE_BOUNDED, struct watched_stack, key);
}

static size_t stack_bytes(size_t nr)
{
	return sizeof(struct watched_stack) + nr * sizeof(uint64_t);
}

static void stack_free(struct watched_table *table, struct watched_stack *stack)
{
	table->stack_bytes -= stack_bytes(stack->nr);
	free(stack->frames);
	hash_table_remove(&table->stacks, stack);
}

static struct watched_stack *stack_find(const struct watched_table *table, const struct watched *w,
					enum death_stack_kind kind)
{
	const struct watched_stack_key key = { .process = w->key, .kind = kind };

	return hash_table_find(&table->stacks, &key);
}

const struct watched_stack *watched_stack(const struct watched_table *table,
					  const struct watched *w, enum death_stack_kind kind)
{
	return stack_find(table, w, kind);
}

static struct hash_table *place_of(struct watched_table *table, const struct watched *w)
{
	return w->wanted && !w->found_ended ? &table->kept : &table->spare;
}

/* The entry explains an end now: others make room before it. */
static void touch(struct watched_table *table, struct watched *w)
{
	hash_table_touch(place_of(table, w), w);
}

void watched_forget_stacks(struct watched_table *table, struct watched *w)
{
	struct watched_stack *stack;

	for (int kind = 0; kind < DEATH_NR_STACKS; kind++) {
		stack = stack_find(table, w, kind);
		if (stack)
			stack_free(table, stack);
	}
}

void watched_remove(struct watched_table *table, struct watched *w)
{
	watched_forget_stacks(table, w);
	free(w->facts);
	hash_table_remove(place_of(table, w), w);
}

void watched_fini(struct watched_table *table)
{
	struct watched *w;

	hash_table_each(&table->spare, w)
		watched_remove(table, w);
	hash_table_each(&table->kept, w)
		watched_remove(table, w);
	hash_table_clear(&table->spare);
	hash_table_clear(&table->kept);
	hash_table_clear(&table->stacks);
}

struct watched *watched_find(const struct watched_table *table, uint32_t pid, uint64_t start_ns)
{
	return process_map_find(&table->kept, pid, start_ns)
		       ?: process_map_find(&table->spare, pid, start_ns);
}

static void make_room(struct watched_table *table)
{
	struct hash_node *oldest = table->spare.oldest ?: table->kept.oldest;

	if (table->spare.nr + table->kept.nr < WATCHED_MAX)
		return;
	table->nr_full++;
	watched_remove(table, (struct watched *)oldest);
}

struct watched *watched_get(struct watched_table *table, uint32_t pid, uint64_t start_ns)
{
	struct watched *w = watched_find(table, pid, start_ns);

	if (w)
		return w;
	make_room(table);
	return process_map_add(&table->spare, pid, start_ns);
}

/* Without memory the entry stays as it is. */
static struct watched *set(struct watched_table *table, struct watched *w, bool wanted,
			   bool found_ended)
{
	struct watched new = *w, *moved;
	struct hash_table *from = place_of(table, w), *to;

	new.wanted = wanted;
	new.found_ended = found_ended;
	to = place_of(table, &new);
	if (from == to) {
		w->wanted = wanted;
		w->found_ended = found_ended;
		return w;
	}
	moved = process_map_add(to, w->key.pid, w->key.start_ns);
	if (!moved)
		return w;
	new.node = moved->node;
	*moved = new;
	hash_table_remove(from, w);
	return moved;
}

struct watched *watched_want(struct watched_table *table, struct watched *w)
{
	return set(table, w, true, w->found_ended);
}

struct watched *watched_end(struct watched_table *table, struct watched *w)
{
	return set(table, w, w->wanted, true);
}

struct death_facts *watched_facts(struct watched_table *table, struct watched *w)
{
	touch(table, w);
	if (!w->facts)
		w->facts = calloc(1, sizeof(*w->facts));
	return w->facts;
}

/* The process of a LAST stack is about to end, so only another LAST one takes its room. */
static bool stacks_make_room(struct watched_table *table, enum death_stack_kind kind, size_t bytes)
{
	struct watched_stack *stack;

	hash_table_each(&table->stacks, stack) {
		if (table->stack_bytes + bytes <= WATCHED_STACK_BYTES)
			return true;
		if (stack->key.kind == DEATH_STACK_LAST && kind != DEATH_STACK_LAST)
			continue;
		table->nr_stacks_full++;
		stack_free(table, stack);
	}
	return table->stack_bytes + bytes <= WATCHED_STACK_BYTES;
}

void watched_stack_keep(struct watched_table *table, struct watched *w, enum death_stack_kind kind,
			const struct aggregate_input *input)
{
	const struct watched_stack_key key = { .process = w->key, .kind = kind };
	size_t bytes = stack_bytes(input->nr_user);
	struct watched_stack *stack = stack_find(table, w, kind);
	uint64_t *frames = malloc(input->nr_user * sizeof(uint64_t) + 1);

	touch(table, w);
	if (stack)
		stack_free(table, stack);
	stack = frames && stacks_make_room(table, kind, bytes)
			? hash_table_add(&table->stacks, &key)
			: NULL;
	if (!stack) {
		table->nr_stacks_full++;
		free(frames);
		return;
	}
	stack->sample = *input->sample;
	stack->stop = input->stop;
	stack->unmerged = input->unmerged;
	stack->nr = input->nr_user;
	stack->frames = frames;
	if (stack->nr)
		memcpy(frames, input->user, stack->nr * sizeof(uint64_t));
	table->stack_bytes += bytes;
}
