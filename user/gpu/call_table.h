/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_CALL_TABLE_H
#define BPFPROF_GPU_CALL_TABLE_H

/*
 * Hooked calls by key: their stacks, the names of their kernels, and the memory that they allocated
 * and that is not freed yet. The kernel counts every call by its key and sends the stacks of some
 * calls. call_table_finish() shares the exact counts of a key out among its stacks, in proportion
 * to how often each stack was seen, so that the sums in a file are exact.
 *
 * Names, allocations and stacks are bounded, for one process and in all; each that has no room is
 * counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "cuda/functions.h"
#include "gpu/graphs.h"
#include "gpu_calls.h"

struct aggregate;
struct aggregate_call_at;
struct aggregate_input;
struct call_table;
struct gpu_memory_log;
struct stats_reasons;

#define CALL_TABLE_MAX_NAMES 32768 /* of all processes */
#define CALL_TABLE_MAX_PROCESS_NAMES 16384 /* of one process */
#define CALL_TABLE_NAME_BYTES (4U << 20) /* of all processes */
#define CALL_TABLE_PROCESS_NAME_BYTES (2U << 20)
#define CALL_TABLE_MAX_LIVE (1U << 16) /* allocations, and mappings of memory by handle */
#define CALL_TABLE_MAX_PROCESS_LIVE (1U << 15)
#define CALL_TABLE_MAX_STACKS (1U << 15) /* pairs of a key and a stack */
#define CALL_TABLE_MAX_PROCESS_STACKS (1U << 14)
#define CALL_TABLE_MAX_PROCESSES 4096
#define CALL_TABLE_MAX_GAP_STACKS 4096 /* stacks that were seen while devices had no work */

/*
 * A bit field in the flags of this table's keys: the generation of a launch's handle
 * (gpu/handle_generations.h). The kernel's keys have no generation.
 */
#define CALL_TABLE_GENERATION_SHIFT 4
#define CALL_TABLE_GENERATION(key) ((uint32_t)(key)->flags >> CALL_TABLE_GENERATION_SHIFT)

struct call_table_memory {
	uint64_t live_bytes, peak_bytes;
	uint64_t allocations, frees;
	uint64_t unknown_frees; /* of memory that was allocated before the hooks */
};

/* A process that made a call. It owns its strings; NULL or "" is not known. */
struct call_table_process {
	uint32_t kernel_pid; /* in the outermost pid namespace */
	uint32_t pid; /* in the pid namespace of this program; 0: not known */
	uint64_t start_ns;
	bool ended;
	uint32_t nccl_tid; /* the thread of the last stack of a call of NCCL; 0: there was none */
	char *name, *container, *pod, *namespace, *ray_task, *rank;
	struct call_table_memory memory[GPU_NR_SPACES];
};

/* Borrows aggregate until call_table_free(). 0 or -ENOMEM. */
int call_table_new(struct call_table **ret, struct aggregate *aggregate);
void call_table_free(struct call_table *table);

/* This program is in the outermost pid namespace: the pid of a process is known without a stack. */
void call_table_pids_are_own(struct call_table *table);

/*
 * Memory of the device is noted in the log from now on, too; it is borrowed. Stacks there are valid until
 * call_table_next().
 */
void call_table_log_memory(struct call_table *table, struct gpu_memory_log *log);

/* Records of the stream, in their order. */
void call_table_stack(struct call_table *table, const struct aggregate_input *input,
		      const struct bpfprof_gpu_call *call);
void call_table_call(struct call_table *table, const struct bpfprof_gpu_event *event);
void call_table_name(struct call_table *table, const struct bpfprof_gpu_name *name);
void call_table_graph(struct call_table *table, const struct bpfprof_gpu_graph_event *event);
/* end_ns: 0: not known. False: the process made no call. */
bool call_table_exit(struct call_table *table, const struct bpfprof_task_id *task, uint64_t end_ns);

/* Has a stack of the process come? */
bool call_table_is_described(const struct call_table *table, uint32_t pid, uint64_t start_ns);

/* Drops the idle time of the process's device until now; ns as in call_table_device_idle(). */
void call_table_device_idle_forget(struct call_table *table, uint32_t pid, uint64_t start_ns,
				   uint64_t ns);

/* Describes a process by an input that is no call. */
void call_table_describe(struct call_table *table, const struct aggregate_input *input);

/* Adds a process that the kernel counts, whether a record of it came or not. */
void call_table_process(struct call_table *table, uint32_t pid, uint64_t start_ns);

/*
 * Sets the whole time ns in which the device of a known process has been idle. The part of its
 * growth that no stack has is reported without a stack. idle_ns: the begin of the present gap, 0:
 * there is none.
 */
void call_table_device_idle(struct call_table *table, uint32_t pid, uint64_t start_ns, uint64_t ns,
			    uint64_t idle_ns);
/*
 * A thread was seen while the device of its process was idle, since gap_ns of the sample, which
 * stands for ns. The time until the launch that ends the gap is shared out among such stacks
 * (gaps.h). asleep: the thread slept for ns, else it ran.
 */
void call_table_gap(struct call_table *table, const struct aggregate_input *input, uint64_t ns,
		    bool asleep);

/* A collective with this key is complete, ns after its call; reported with the calls of the key. */
void call_table_complete(struct call_table *table, const struct bpfprof_gpu_key *key, uint64_t ns);

/*
 * Before call_table_finish(), for each call that has not returned: adds to its stack the time that
 * it has waited until now_ns, without the time that was added before. now_ns is the same for all
 * calls. The counts that the caller passes to call_table_finish() must have this time, too.
 */
void call_table_waits(struct call_table *table, const struct bpfprof_gpu_open *open, uint32_t tid,
		      uint64_t now_ns);
/* The same for a call that will never return, at any time. False: its stack is not known. */
bool call_table_waited(struct call_table *table, const struct bpfprof_gpu_open *open, uint32_t tid,
		       uint64_t now_ns);

/* The demangled name of a key's kernel, borrowed; NULL: not known. */
const char *call_table_kernel(const struct call_table *table, const struct bpfprof_gpu_key *key);
#define CALL_TABLE_KERNEL_TEXT 32
/* The same; "kernel@0x1f" in room if the name is not known. */
const char *call_table_kernel_text(const struct call_table *table,
				   const struct bpfprof_gpu_key *key,
				   char room[CALL_TABLE_KERNEL_TEXT]);
/* The key of launches of the kernel that had that handle at that time. */
struct bpfprof_gpu_key call_table_kernel_at(const struct call_table *table, uint32_t pid,
					    uint64_t start_ns, uint64_t handle, uint64_t ts_ns);
/* The content of the graph that calls with that key launched. False: not known. */
bool call_table_graph_of(const struct call_table *table, const struct bpfprof_gpu_key *key,
			 struct gpu_graph *ret);
size_t call_table_nr_nodes(const struct call_table *table); /* kinds of them, in all graphs */
/* Sets a mangled name that did not come with the stream. */
void call_table_kernel_set(struct call_table *table, const struct bpfprof_gpu_key *key,
			   const char *name);
/*
 * The index, in the aggregate, of the stack seen most with launches of a key. False: there is none.
 */
bool call_table_launch_stack(const struct call_table *table, const struct bpfprof_gpu_key *key,
			     uint32_t *ret_stack);
/* The stack of a call that has not returned. False: the kernel did not send it. */
bool call_table_open_stack(const struct call_table *table, uint32_t tid, uint64_t begin_ns,
			   uint32_t *ret_stack);

/*
 * The place, in the aggregate, of a value without a stack: its one frame is a label. process: index of
 * call_table_processes(). 0 or -ENOMEM.
 */
int call_table_row(struct call_table *table, size_t process, const char *label,
		   struct aggregate_call_at *ret);
/* All processes that made a call, in no order; borrowed until the next call. */
const struct call_table_process *call_table_processes(const struct call_table *table,
						      size_t *ret_nr);

/* One key as the kernel has counted it. */
struct call_table_count {
	struct bpfprof_gpu_key key;
	struct bpfprof_gpu_count count;
	bool kept; /* for the daemon: count.ns is that of an earlier interval boundary */
};

/*
 * Splits a count of the kernel by the generations of its handle: calls of kernels that had the
 * handle earlier are taken out of *count and passed to add(). count->calls are those after the
 * first `before` calls. All counts together have at most call_table_nr_parts() parts.
 */
void call_table_split(const struct call_table *table, struct call_table_count *count,
		      uint64_t before, void (*add)(void *arg, const struct call_table_count *part),
		      void *arg);
size_t call_table_nr_parts(const struct call_table *table);

/*
 * Adds the samples of all calls to the aggregate. comm_text() fills in the name and the rank of a
 * communicator; "" is not known.
 */
void call_table_finish(struct call_table *table, const struct call_table_count *counts, size_t nr,
		       void (*comm_text)(void *arg, const struct bpfprof_gpu_key *key,
					 char comm[24], char rank[16]),
		       void *arg);

/* For a program without an end: divides all limits by share. Called before all else. */
void call_table_bound(struct call_table *table, unsigned int share);
/*
 * After call_table_finish(): begins the next interval with another aggregate, which is borrowed in
 * place of the last one. Processes that have ended are dropped. The others keep their allocations,
 * open calls and names, and the last stacks of each key, for intervals in which the key has none.
 * Stacks may take half of max_bytes, the limit of the aggregate; each that is dropped for this is
 * counted. Described processes keep nothing of ended generations of handles, whose launches are all
 * reported.
 */
void call_table_next(struct call_table *table, struct aggregate *next, size_t max_bytes);
/* Forgets that stacks have come, for a caller that now wants other processes. */
void call_table_undescribe(struct call_table *table);
bool call_table_has_ended(const struct call_table *table, uint32_t pid, uint64_t start_ns);

/* The number of launches, among these calls, of kernels whose names are not known. */
uint64_t call_table_nr_unknown(const struct call_table *table,
			       const struct call_table_count *counts, size_t nr);

uint64_t call_table_nr_stacks(const struct call_table *table); /* stacks that came */
extern const struct counter call_table_counters[];
void call_table_lost(const struct call_table *table, struct stats_reasons *dst);

#endif
