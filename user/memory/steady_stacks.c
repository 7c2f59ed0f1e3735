// SPDX-License-Identifier: Apache-2.0
#include "memory/steady_stacks.h"

#include "memory/answer.h"

#define MAX_STACKS 32768
#define FALL 10 /* a tenth */

struct stack_key {
	uint32_t process, stack;
};

struct steady_stack {
	struct hash_node node;
	struct stack_key key;
	bool fell;
	uint64_t look; /* number of the last look that found it */
	uint64_t bytes, most;
};

void steady_stacks_init(struct steady_stacks *stacks)
{
	*stacks = (struct steady_stacks){ 0 };
	hash_table_init(&stacks->table, MAX_STACKS, struct steady_stack, key);
}

void steady_stacks_fini(struct steady_stacks *stacks)
{
	hash_table_clear(&stacks->table);
}

static struct stack_key key_of(const struct held_row *row)
{
	return (struct stack_key){ .process = row->at.process, .stack = row->at.stack };
}

void steady_stacks_look(struct steady_stacks *stacks, const struct memory_answer *answer,
			uint64_t sample_bytes)
{
	bool other = sample_bytes != stacks->sample_bytes;
	struct steady_stack *stack;
	struct stack_key key;
	size_t i;

	stacks->nr_looks++;
	stacks->sample_bytes = sample_bytes;
	for (i = 0; i < answer->nr_rows; i++) {
		key = key_of(&answer->rows[i]);
		stack = hash_table_get(&stacks->table, &key);
		if (!stack) {
			stacks->nr_full++;
			continue;
		}
		if (stack->look != stacks->nr_looks)
			stack->bytes = 0;
		stack->look = stacks->nr_looks;
		stack->bytes += answer->rows[i].bytes;
	}
	hash_table_each(&stacks->table, stack) {
		if (stack->look != stacks->nr_looks)
			stack->bytes = 0;
		if (other)
			stack->most = stack->bytes;
		if (stack->bytes < stack->most - stack->most / FALL)
			stack->fell = true;
		if (stack->bytes > stack->most)
			stack->most = stack->bytes;
	}
}

bool steady_stacks_has(const struct steady_stacks *stacks, const struct held_row *row)
{
	struct stack_key key = key_of(row);
	const struct steady_stack *stack = hash_table_find(&stacks->table, &key);

	return stack && !stack->fell;
}
