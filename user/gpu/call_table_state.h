/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_CALL_TABLE_STATE_H
#define BPFPROF_GPU_CALL_TABLE_STATE_H

/*
 * What a table keeps: shared by call_table.c, which takes in what comes, call_table_memory.c and
 * call_table_names.c, which know what is allocated and what kernels are called, call_table_finish.c, which
 * makes samples of an interval, and call_table_next.c, which begins the next; and by nobody else.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/process_map.h"
#include "cuda/functions.h"
#include "gpu/call_table.h"
#include "gpu/gaps.h"
#include "gpu/graphs.h"
#include "gpu/mappings.h"
#include "profile/aggregate.h"
#include "gpu_calls.h"

struct process_entry {
	struct hash_node node;
	struct process_key key;
	uint32_t index; /* in processes */
	uint32_t nr_names, nr_live, nr_stacks;
	size_t name_bytes;
	struct gpu_graphs_share graphs;
	struct gpu_mappings mappings;
	uint64_t device_idle_ns; /* in all, */
	uint64_t device_idle_seen_ns; /* that stacks have, of this interval, */
	uint64_t device_idle_reported_ns; /* and that was told in those before */
	uint64_t short_ns; /* of what stacks have: short gaps, which gaps may have a part of, */
	uint64_t short_left_ns; /* and what is left of these, and of what no stack has, */
	uint64_t short_all_ns; /* for stacks that all of them together have so much of */
	uint64_t idle_ns; /* its device has had nothing to do since then, 0: it has */
	struct gpu_gaps *gaps; /* NULL: nobody was seen in any */
};

struct handle_key {
	uint64_t start_ns;
	uint64_t value; /* of a kernel, or an address */
	uint32_t pid;
	uint32_t space; /* enum gpu_space of memory; of kernels: generation */
};

struct name_entry {
	struct hash_node node;
	struct handle_key key;
	char *name; /* demangled; "": launches of several kernels cannot be told apart */
	bool untold; /* it is not, or not yet, known how many launches were of those before */
};

struct key_entry;

struct stack_key {
	struct key_entry *of;
	uint32_t process, stack, tid, thread;
};

/* What a stack that was sent says of a key. */
struct stack_entry {
	struct hash_node node;
	struct stack_entry *next; /* of the same key */
	struct stack_key key;
	struct aggregate_call_at at;
	uint64_t seen; /* calls that had this stack */
	uint64_t bytes, ns; /* of those of which it is known */
	uint64_t live_bytes;
	uint64_t device_idle_ns; /* in long gaps, */
	uint64_t short_ns; /* and in short ones */
	uint64_t before; /* what seen was, when some stack of its key was seen last */
	bool kept; /* for the next interval */
};

struct key_entry {
	struct hash_node node;
	struct bpfprof_gpu_key key;
	struct stack_entry *stacks;
	uint64_t completed, complete_ns; /* in this interval, whenever they were called */
};

/* By address or by handle. It lives until nothing refers to it and it is mapped nowhere. */
struct live_entry {
	struct hash_node node;
	struct handle_key key;
	uint64_t bytes;
	uint64_t serial; /* others had the same key before */
	uint32_t refs, nr_mapped;
	bool borrowed; /* not allocated here, or before our time: without bytes */
	struct stack_entry *stack;
};

struct open_call {
	uint64_t begin_ns; /* 0: none */
	struct bpfprof_gpu_key key;
	struct stack_entry *stack;
};

/* Of a thread: the driver's calls may be in NCCL's, and both in a collection of Python's. */
struct open_entry {
	struct hash_node node;
	uint32_t tid;
	struct open_call calls[BPFPROF_GPU_MAX_OPEN];
};

struct call_table {
	struct aggregate *aggregate;
	struct hash_table by_process, names, keys, stacks, live, open;
	struct call_table_process *processes;
	size_t nr_processes;
	size_t name_bytes;
	uint64_t nr_serials;
	size_t nr_mappings;
	struct gpu_graphs *graphs;
	struct gpu_gaps_room gaps_room;
	struct handle_generations *generations;
	uint64_t nr_stacks;
	unsigned int share; /* by which limits are divided */
	bool pids_are_own;
	/* Until then calls that had not returned are told, in this interval and in those before. */
	uint64_t waits_ns, waited_ns;
	uint64_t names_lost, live_lost, stacks_lost, processes_lost, calls_lost, completed_lost;
	uint64_t mappings_lost;
};

/* Of stacks of a key. */
struct call_table_sums {
	uint64_t seen, bytes, ns;
};

/* call_table_processes.c */

/* NULL: it is not known. */
struct process_entry *call_table_process_find(const struct call_table *table, uint32_t pid,
					      uint64_t start_ns);
/* The same, made as needed. NULL if there is no room, which is counted. */
struct process_entry *call_table_process_get(struct call_table *table, uint32_t pid,
					     uint64_t start_ns);

/* call_table.c */

void call_table_process_free(struct call_table *table, struct process_entry *process);
/* Frees the strings. */
void call_table_process_clear(struct call_table_process *process);
/* A place for what no stack came of, under a label; 0, or -errno. */
int call_table_nowhere(struct call_table *table, const struct bpfprof_gpu_key *key,
		       const char *label, struct aggregate_call_at *ret);
/* The same of calls. */
int call_table_no_stack(struct call_table *table, const struct bpfprof_gpu_key *key,
			struct aggregate_call_at *ret);

/* call_table_memory.c */

/* A call that is told whole, if it allocates or frees; stack: where it was made, or NULL. */
void call_table_memory_call(struct call_table *table, struct process_entry *process,
			    const struct bpfprof_gpu_call *call, struct stack_entry *stack);
/* All that a process has. */
void call_table_memory_forget(struct call_table *table, struct process_entry *process);
void call_table_mappings_forget(struct call_table *table, struct process_entry *process);

/* call_table_names.c */

/* So many calls with a key were of the kernel before, and so are all stacks that came. */
void call_table_reused(struct call_table *table, const struct bpfprof_gpu_call *call);
void call_table_name_forget(struct call_table *table, struct name_entry *name);

/* call_table_finish.c */

struct call_table_sums call_table_sums(const struct stack_entry *stack);
/* Starved time that is new and that no stack has; 0 if they have more than is known of yet. */
uint64_t call_table_device_idle_rest(const struct process_entry *process);

#endif
