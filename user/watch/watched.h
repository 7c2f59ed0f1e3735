/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_WATCHED_H
#define BPFPROF_WATCH_WATCHED_H

/*
 * The processes that may die, and what may explain their ends: names, signals of others, stacks. A process without
 * room takes the place of another one: of the oldest that is not wanted or was found ended, else of the one whose last
 * signal or stack is the oldest. A stack without room takes that of the oldest stack that is no LAST one; only a LAST
 * one takes that of a LAST one. The table owns its entries and stacks.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "base/process_map.h"
#include "watch/death.h"

struct aggregate_input;

#define WATCHED_MAX 4096
#define WATCHED_STACK_BYTES (2U << 20)

struct watched {
	struct hash_node node;
	struct process_key key;
	char program[32]; /* the base name of its first argument; "": not known */
	char script[64]; /* the script, if it is an interpreter */
	bool ray_worker; /* by its arguments: it may have no title yet */
	bool wanted; /* the filters want it */
	bool found_ended; /* it is gone, but its exit event was lost, or has not come yet */
	struct death_facts *facts; /* signals of others; NULL: none */
};

struct watched_stack_key {
	struct process_key process;
	uint64_t kind; /* enum death_stack_kind */
};

struct watched_stack {
	struct hash_node node;
	struct watched_stack_key key;
	struct bpfprof_sample sample;
	uint32_t stop, unmerged;
	size_t nr;
	uint64_t *frames;
};

struct watched_table {
	struct hash_table kept; /* wanted, and not found ended */
	struct hash_table spare; /* the others, which make room first */
	struct hash_table stacks;
	size_t stack_bytes;
	uint64_t nr_full, nr_stacks_full;
};

void watched_init(struct watched_table *table);
void watched_fini(struct watched_table *table);
/* NULL: none. */
struct watched *watched_find(const struct watched_table *table, uint32_t pid, uint64_t start_ns);
/* The entry, added if there is none. NULL: no memory. */
struct watched *watched_get(struct watched_table *table, uint32_t pid, uint64_t start_ns);
/* From now on it is wanted, or found ended. The entry moves: its new address. */
struct watched *watched_want(struct watched_table *table, struct watched *w);
struct watched *watched_end(struct watched_table *table, struct watched *w);
/* The facts of the entry for a new signal. NULL: no memory. */
struct death_facts *watched_facts(struct watched_table *table, struct watched *w);
/* Frees the stacks of the entry. */
void watched_forget_stacks(struct watched_table *table, struct watched *w);
/* Frees the entry, with its signals and stacks. */
void watched_remove(struct watched_table *table, struct watched *w);

/* Keeps the stack of a sample in place of an earlier one of this kind. */
void watched_stack_keep(struct watched_table *table, struct watched *w, enum death_stack_kind kind,
			const struct aggregate_input *input);
/* NULL: none. */
const struct watched_stack *watched_stack(const struct watched_table *table,
					  const struct watched *w, enum death_stack_kind kind);

#endif
