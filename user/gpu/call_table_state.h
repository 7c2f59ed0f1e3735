/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_CALL_TABLE_STATE_H
#define BPFPROF_GPU_CALL_TABLE_STATE_H

/*
 * The state of a call table, for its own files alone: call_table.c takes in records,
 * call_table_memory.c keeps allocations, call_table_names.c names of kernels, call_table_finish.c
 * makes the samples of an interval and call_table_next.c begins the next interval.
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
	uint64_t device_idle_ns; /* all idle time of the device */
	uint64_t device_idle_seen_ns; /* the part of this interval that stacks have */
	uint64_t device_idle_reported_ns; /* the part that earlier intervals reported */
	uint64_t short_ns; /* the part of device_idle_seen_ns in short gaps */
	uint64_t short_left_ns; /* short gaps and time without a stack, still to be shared out */
	uint64_t short_all_ns; /* the sum of the shares in short_left_ns */
	uint64_t idle_ns; /* the begin of the present gap; 0: the device has work */
	struct gpu_gaps *gaps; /* NULL: no thread was seen in a gap */
};

struct handle_key {
	uint64_t start_ns;
	uint64_t value; /* the handle of a kernel, or an address */
	uint32_t pid;
	uint32_t space; /* of memory: enum gpu_space; of a kernel: its generation */
};

struct name_entry {
	struct hash_node node;
	struct handle_key key;
	char *name; /* demangled; "": launches of several kernels cannot be distinguished */
	bool unsettled; /* how many launches were of earlier kernels is not known yet */
};

struct key_entry;

struct stack_key {
	struct key_entry *of;
	uint32_t process, stack, tid, thread;
};

/* A stack that was sent with calls of a key. */
struct stack_entry {
	struct hash_node node;
	struct stack_entry *next; /* another stack of the same key */
	struct stack_key key;
	struct aggregate_call_at at;
	uint64_t seen; /* calls that had this stack */
	uint64_t bytes, ns; /* of the calls for which they are known */
	uint64_t live_bytes;
	uint64_t device_idle_ns; /* in long gaps */
	uint64_t short_ns; /* in short gaps */
	uint64_t before; /* the value of seen in the last interval with a stack of this key */
	bool kept; /* it stays for the next interval */
};

struct key_entry {
	struct hash_node node;
	struct bpfprof_gpu_key key;
	struct stack_entry *stacks;
	uint64_t completed, complete_ns; /* collectives that completed in this interval */
};

/* An allocation, by address or by handle. It lives while a reference or a mapping of it does. */
struct live_entry {
	struct hash_node node;
	struct handle_key key;
	uint64_t bytes;
	uint64_t serial; /* distinguishes it from earlier ones with the same key */
	uint32_t refs, nr_mapped;
	uint8_t device; /* as in the memory log */
	bool borrowed; /* allocated elsewhere or before the hooks: its bytes count 0 */
	uint32_t logged; /* number of the allocation in the memory log, or 0 */
	struct stack_entry *stack;
};

struct open_call {
	uint64_t begin_ns; /* 0: none */
	struct bpfprof_gpu_key key;
	struct stack_entry *stack;
};

/*
 * The calls of a thread: a call of the driver may be in one of NCCL, and that in a collection of
 * Python.
 */
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
	struct gpu_memory_log *memory_log; /* borrowed; NULL: no history of memory is wanted */
	struct gpu_gaps_room gaps_room;
	struct handle_generations *generations;
	uint64_t nr_stacks;
	unsigned int share; /* limits are divided by it */
	bool pids_are_own;
	uint64_t waits_ns; /* open calls are reported until then, in this interval */
	uint64_t waited_ns; /* the same of the interval before */
	uint64_t names_lost, live_lost, stacks_lost, processes_lost, calls_lost, completed_lost;
	uint64_t mappings_lost;
};

/* Sums over the stacks of a key. */
struct call_table_sums {
	uint64_t seen, bytes, ns;
};

/* call_table_processes.c */

/* NULL: not known. */
struct process_entry *call_table_process_find(const struct call_table *table, uint32_t pid,
					      uint64_t start_ns);
/* The same, added if it is not known. NULL: no room, which is counted. */
struct process_entry *call_table_process_get(struct call_table *table, uint32_t pid,
					     uint64_t start_ns);

/* call_table.c */

void call_table_process_free(struct call_table *table, struct process_entry *process);
/* Frees the strings. */
void call_table_process_clear(struct call_table_process *process);
/* A place, under a label, for calls without a stack. 0 or -errno. */
int call_table_nowhere(struct call_table *table, const struct bpfprof_gpu_key *key,
		       const char *label, struct aggregate_call_at *ret);
/* The same, under the function of the key. */
int call_table_no_stack(struct call_table *table, const struct bpfprof_gpu_key *key,
			struct aggregate_call_at *ret);

/* call_table_memory.c */

/* Takes in a call that has returned, if it allocates or frees. stack: its stack, or NULL. */
void call_table_memory_call(struct call_table *table, struct process_entry *process,
			    const struct bpfprof_gpu_call *call, struct stack_entry *stack);
/* Forgets all memory, or all mappings, of a process that ended at end_ns. */
void call_table_memory_forget(struct call_table *table, struct process_entry *process,
			      uint64_t end_ns);
void call_table_mappings_forget(struct call_table *table, struct process_entry *process,
				uint64_t end_ns);

/* call_table_names.c */

/*
 * The calls with a key until now, and their stacks, were launches of the handle's earlier kernel.
 */
void call_table_reused(struct call_table *table, const struct bpfprof_gpu_call *call);
void call_table_name_forget(struct call_table *table, struct name_entry *name);

/* call_table_finish.c */

struct call_table_sums call_table_sums(const struct stack_entry *stack);
/* The idle time of this interval that no stack has; 0 if stacks have more than is known yet. */
uint64_t call_table_device_idle_rest(const struct process_entry *process);

#endif
