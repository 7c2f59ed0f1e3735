/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_CALL_TABLE_H
#define BPFPROF_GPU_CALL_TABLE_H

/*
 * Hooked calls, put together: which stacks they came from, what their kernels are called, what
 * they allocated and is not freed yet. The kernel counts every call by its key and sends the stacks of
 * some; call_table_finish() shares the exact counts of a key out among the stacks that were seen with
 * it, in the proportion in which they were seen, so that a file of them adds up.
 *
 * Names, allocations and stacks are each bounded, for one process and in all; what there was no
 * room for is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "cuda/functions.h"
#include "gpu/graphs.h"
#include "gpu_calls.h"

struct aggregate;
struct aggregate_input;
struct call_table;
struct stats_reasons;

#define CALL_TABLE_MAX_NAMES 32768 /* of all processes, */
#define CALL_TABLE_MAX_PROCESS_NAMES 16384 /* of one */
#define CALL_TABLE_NAME_BYTES (4U << 20) /* all of them */
#define CALL_TABLE_PROCESS_NAME_BYTES (2U << 20)
#define CALL_TABLE_MAX_LIVE (1U << 16) /* allocations; of memory by handle mappings, too */
#define CALL_TABLE_MAX_PROCESS_LIVE (1U << 15)
#define CALL_TABLE_MAX_STACKS (1U << 15) /* pairs of a key and a stack */
#define CALL_TABLE_MAX_PROCESS_STACKS (1U << 14)
#define CALL_TABLE_MAX_PROCESSES 4096
#define CALL_TABLE_MAX_GAP_STACKS 4096 /* that were seen while devices had nothing to do */

/*
 * In flags of keys of our own: which generation of its handle a launch is of (gpu/handle_generations.h). The kernel
 * counts all generations by one key, which has none.
 */
#define CALL_TABLE_GENERATION_SHIFT 4
#define CALL_TABLE_GENERATION(key) ((uint32_t)(key)->flags >> CALL_TABLE_GENERATION_SHIFT)

struct call_table_memory {
	uint64_t live_bytes, peak_bytes;
	uint64_t allocations, frees;
	uint64_t unknown_frees; /* of what was allocated before our time */
};

/* What is known of a process that made a call; strings owned, "" = not known. */
struct call_table_process {
	uint32_t kernel_pid, pid; /* in the outermost and in our own pid namespace, 0 = not known */
	uint64_t start_ns;
	bool ended;
	uint32_t nccl_tid; /* thread whose stack came last of those of calls of NCCL, 0: none did */
	char *name, *container, *pod, *namespace, *ray_task, *rank;
	struct call_table_memory memory[GPU_NR_SPACES];
};

/* Borrows aggregate, which must be there as long. 0 or -ENOMEM. */
int call_table_new(struct call_table **ret, struct aggregate *aggregate);
void call_table_free(struct call_table *table);

/* We are in the outermost pid namespace: pids are known of those, too, of which no stack comes. */
void call_table_pids_are_own(struct call_table *table);

/* What the stream tells, in its order. */
void call_table_stack(struct call_table *table, const struct aggregate_input *input,
		      const struct bpfprof_gpu_call *call);
void call_table_call(struct call_table *table, const struct bpfprof_gpu_event *event);
void call_table_name(struct call_table *table, const struct bpfprof_gpu_name *name);
void call_table_graph(struct call_table *table, const struct bpfprof_gpu_graph_event *event);
/* Was it one that made a call? */
bool call_table_exit(struct call_table *table, const struct bpfprof_task_id *task);

/* Has a stack of it come? */
bool call_table_is_described(const struct call_table *table, uint32_t pid, uint64_t start_ns);

/* All that its device had nothing to do until now, ns as in call_table_device_idle(), is not to be told. */
void call_table_device_idle_forget(struct call_table *table, uint32_t pid, uint64_t start_ns,
				   uint64_t ns);

/* A process is known by other means than a call. */
void call_table_describe(struct call_table *table, const struct aggregate_input *input);

/* A process that is counted in the kernel, whether a record of it came or not. */
void call_table_process(struct call_table *table, uint32_t pid, uint64_t start_ns);

/*
 * How long the device of a process that is known had nothing to do in all, since it was met: what no
 * stack has of what is new of that is told without one. idle_ns: since when it has had nothing now, 0:
 * it has.
 */
void call_table_device_idle(struct call_table *table, uint32_t pid, uint64_t start_ns, uint64_t ns,
			    uint64_t idle_ns);
/*
 * A thread was seen while the device of its process had nothing to do, since gap_ns of the sample, which
 * stands for ns: the time until the launch that ends that is told of such stacks (gaps.h). It ran, or
 * it slept so long.
 */
void call_table_gap(struct call_table *table, const struct aggregate_input *input, uint64_t ns,
		    bool asleep);

/* A collective with this key is known to be complete, ns after its call; told with its key's calls. */
void call_table_complete(struct call_table *table, const struct bpfprof_gpu_key *key, uint64_t ns);

/*
 * Before call_table_finish(), of a call that has not returned by now_ns, which is the same for all: that
 * it has waited is told with its stack, what has been told before is not told again. The counts that are
 * given to call_table_finish() have it, too.
 */
void call_table_waits(struct call_table *table, const struct bpfprof_gpu_open *open, uint32_t tid,
		      uint64_t now_ns);
/* The same of one that will never return, at any time. False: no stack of it is known. */
bool call_table_waited(struct call_table *table, const struct bpfprof_gpu_open *open, uint32_t tid,
		       uint64_t now_ns);

/* What the kernel of a key is called, demangled: borrowed; NULL if that is not known. */
const char *call_table_kernel(const struct call_table *table, const struct bpfprof_gpu_key *key);
#define CALL_TABLE_KERNEL_TEXT 32
/* The same; "kernel@0x1f" in room if the name is not known. */
const char *call_table_kernel_text(const struct call_table *table,
				   const struct bpfprof_gpu_key *key,
				   char room[CALL_TABLE_KERNEL_TEXT]);
/* The key of launches of that kernel at that time. */
struct bpfprof_gpu_key call_table_kernel_at(const struct call_table *table, uint32_t pid,
					    uint64_t start_ns, uint64_t handle, uint64_t ts_ns);
/* What is in the graph that calls with that key launched. False: that is not known. */
bool call_table_graph_of(const struct call_table *table, const struct bpfprof_gpu_key *key,
			 struct gpu_graph *ret);
size_t call_table_nr_nodes(const struct call_table *table); /* kinds of them, in all graphs */
/* A name that was found elsewhere, mangled. */
void call_table_kernel_set(struct call_table *table, const struct bpfprof_gpu_key *key,
			   const char *name);
/* The stack of the aggregate (its index) seen most with a launch of this kernel. False: there is none. */
bool call_table_launch_stack(const struct call_table *table, const struct bpfprof_gpu_key *key,
			     uint32_t *ret_stack);
/* Stack of a call that has not returned. False: it was not sent. */
bool call_table_open_stack(const struct call_table *table, uint32_t tid, uint64_t begin_ns,
			   uint32_t *ret_stack);

/* Of all processes that made a call, in no order; borrowed until the next call. */
const struct call_table_process *call_table_processes(const struct call_table *table,
						      size_t *ret_nr);

/* One key as the kernel has counted it. */
struct call_table_count {
	struct bpfprof_gpu_key key;
	struct bpfprof_gpu_count count;
	bool kept; /* of the daemon: count.ns is that of one border before */
};

/*
 * Of a count as the kernel has it, calls being those since there were `before`: takes out of it, and adds, what
 * was launched of other kernels that had the handle. There are at most call_table_nr_parts() in all.
 */
void call_table_split(const struct call_table *table, struct call_table_count *count,
		      uint64_t before, void (*add)(void *arg, const struct call_table_count *part),
		      void *arg);
size_t call_table_nr_parts(const struct call_table *table);

/*
 * Adds to the aggregate what its profile is to show of the calls. comm_text() tells of a communicator
 * its name and its rank, as text; "" = not known. 0 or -ENOMEM.
 */
int call_table_finish(struct call_table *table, const struct call_table_count *counts, size_t nr,
		      void (*comm_text)(void *arg, const struct bpfprof_gpu_key *key, char comm[24],
					char rank[16]),
		      void *arg);

/*
 * For who runs for ever: what there is room for is divided by share, from the beginning on.
 */
void call_table_bound(struct call_table *table, unsigned int share);
/*
 * After call_table_finish(): the next interval begins, with another aggregate, which is borrowed from
 * now on instead of the one before. Processes that have ended are forgotten; of the others what is
 * allocated and in use, calls that have not returned, names, and where calls were made, for keys of
 * which no stack comes: but not past half of what the aggregate may hold (max_bytes), and what goes
 * for that is counted. What was launched of kernels whose handle is another's now has been told: of processes
 * that are described nothing of that is kept.
 */
void call_table_next(struct call_table *table, struct aggregate *next, size_t max_bytes);
/* As if no stack had come: for who wants others than before. */
void call_table_undescribe(struct call_table *table);
bool call_table_has_ended(const struct call_table *table, uint32_t pid, uint64_t start_ns);

/* How many of these calls launched a kernel whose name is not known. */
uint64_t call_table_nr_unknown(const struct call_table *table,
			       const struct call_table_count *counts, size_t nr);

uint64_t call_table_nr_stacks(const struct call_table *table); /* that came */
extern const struct counter call_table_counters[];
void call_table_lost(const struct call_table *table, struct stats_reasons *dst);

#endif
