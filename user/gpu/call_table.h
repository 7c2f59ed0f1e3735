/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_CALL_TABLE_H
#define BPFPROF_GPU_CALL_TABLE_H

/*
 * Hooked calls, put together: which stacks they came from, what their kernels are called, what
 * they allocated and is not freed yet. The kernel counts every call by its key and sends the stacks of
 * some; gpu_tally_finish() shares the exact counts of a key out among the stacks that were seen with
 * it, in the proportion in which they were seen, so that a file of them adds up.
 *
 * Names, allocations and stacks are each bounded, for one process and in all; what there was no
 * room for is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/functions.h"
#include "gpu/graphs.h"
#include "gpu_calls.h"

struct aggregate;
struct aggregate_input;
struct gpu_tally;
struct stats_reasons;

#define GPU_TALLY_MAX_NAMES 32768 /* of all processes, */
#define GPU_TALLY_MAX_PROCESS_NAMES 16384 /* of one */
#define GPU_TALLY_NAME_BYTES (4U << 20) /* all of them */
#define GPU_TALLY_PROCESS_NAME_BYTES (2U << 20)
#define GPU_TALLY_MAX_LIVE (1U << 16) /* allocations; of memory by handle mappings, too */
#define GPU_TALLY_MAX_PROCESS_LIVE (1U << 15)
#define GPU_TALLY_MAX_STACKS (1U << 15) /* pairs of a key and a stack */
#define GPU_TALLY_MAX_PROCESS_STACKS (1U << 14)
#define GPU_TALLY_MAX_PROCESSES 4096
#define GPU_TALLY_MAX_GAP_STACKS 4096 /* that were seen while devices had nothing to do */

/*
 * In flags of keys of our own: which generation of its handle a launch is of (gpu/handle_generations.h). The kernel
 * counts all generations by one key, which has none.
 */
#define GPU_TALLY_GENERATION_SHIFT 4
#define GPU_TALLY_GENERATION(key) ((uint32_t)(key)->flags >> GPU_TALLY_GENERATION_SHIFT)

struct gpu_tally_memory {
	uint64_t live_bytes, peak_bytes;
	uint64_t allocations, frees;
	uint64_t unknown_frees; /* of what was allocated before our time */
};

/* What is known of a process that made a call; strings owned, "" = not known. */
struct gpu_tally_process {
	uint32_t kernel_pid, pid; /* in the outermost and in our own pid namespace, 0 = not known */
	uint64_t start_ns;
	bool ended;
	uint32_t nccl_tid; /* thread whose stack came last of those of calls of NCCL, 0: none did */
	char *name, *container, *pod, *namespace, *ray_task, *rank;
	struct gpu_tally_memory memory[GPU_NR_SPACES];
};

/* Borrows aggregate, which must be there as long. 0 or -ENOMEM. */
int gpu_tally_new(struct gpu_tally **ret, struct aggregate *aggregate);
void gpu_tally_free(struct gpu_tally *tally);

/* We are in the outermost pid namespace: pids are known of those, too, of which no stack comes. */
void gpu_tally_pids_are_own(struct gpu_tally *tally);

/* What the stream tells, in its order. */
void gpu_tally_stack(struct gpu_tally *tally, const struct aggregate_input *input,
		     const struct bpfprof_gpu_call *call);
void gpu_tally_call(struct gpu_tally *tally, const struct bpfprof_gpu_event *event);
void gpu_tally_name(struct gpu_tally *tally, const struct bpfprof_gpu_name *name);
void gpu_tally_graph(struct gpu_tally *tally, const struct bpfprof_gpu_graph_event *event);
/* Was it one that made a call? */
bool gpu_tally_exit(struct gpu_tally *tally, const struct bpfprof_task_id *task);

/* Has a stack of it come? */
bool gpu_tally_is_described(const struct gpu_tally *tally, uint32_t pid, uint64_t start_ns);

/* All that its device had nothing to do until now, ns as in gpu_tally_starved(), is not to be told. */
void gpu_tally_starved_forget(struct gpu_tally *tally, uint32_t pid, uint64_t start_ns,
			      uint64_t ns);

/* A process is known by other means than a call. */
void gpu_tally_describe(struct gpu_tally *tally, const struct aggregate_input *input);

/* A process that is counted in the kernel, whether a record of it came or not. */
void gpu_tally_process(struct gpu_tally *tally, uint32_t pid, uint64_t start_ns);

/*
 * How long the device of a process that is known had nothing to do in all, since it was met: what no
 * stack has of what is new of that is told without one. idle_ns: since when it has had nothing now, 0:
 * it has.
 */
void gpu_tally_starved(struct gpu_tally *tally, uint32_t pid, uint64_t start_ns, uint64_t ns,
		       uint64_t idle_ns);
/*
 * A thread was seen while the device of its process had nothing to do, since gap_ns of the sample, which
 * stands for ns: the time until the launch that ends that is told of such stacks (gaps.h). It ran, or
 * it slept so long.
 */
void gpu_tally_gap(struct gpu_tally *tally, const struct aggregate_input *input, uint64_t ns,
		   bool asleep);

/* A collective with this key is known to be complete, ns after its call; told with its key's calls. */
void gpu_tally_complete(struct gpu_tally *tally, const struct bpfprof_gpu_key *key, uint64_t ns);

/*
 * Before gpu_tally_finish(), of a call that has not returned by now_ns, which is the same for all: that
 * it has waited is told with its stack, what has been told before is not told again. The counts that are
 * given to gpu_tally_finish() have it, too.
 */
void gpu_tally_waits(struct gpu_tally *tally, const struct bpfprof_gpu_open *open, uint32_t tid,
		     uint64_t now_ns);
/* The same of one that will never return, at any time. False: no stack of it is known. */
bool gpu_tally_waited(struct gpu_tally *tally, const struct bpfprof_gpu_open *open, uint32_t tid,
		      uint64_t now_ns);

/* What the kernel of a key is called, demangled: borrowed; NULL if that is not known. */
const char *gpu_tally_kernel(const struct gpu_tally *tally, const struct bpfprof_gpu_key *key);
/* The key of launches of that kernel at that time. */
struct bpfprof_gpu_key gpu_tally_kernel_at(const struct gpu_tally *tally, uint32_t pid,
					   uint64_t start_ns, uint64_t handle, uint64_t ts_ns);
/* What is in the graph that calls with that key launched. False: that is not known. */
bool gpu_tally_graph_of(const struct gpu_tally *tally, const struct bpfprof_gpu_key *key,
			struct gpu_graph *ret);
size_t gpu_tally_nr_nodes(const struct gpu_tally *tally); /* kinds of them, in all graphs */
/* A name that was found elsewhere, mangled. */
void gpu_tally_kernel_set(struct gpu_tally *tally, const struct bpfprof_gpu_key *key,
			  const char *name);
/* The stack of the aggregate (its index) seen most with a launch of this kernel. False: there is none. */
bool gpu_tally_launch_stack(const struct gpu_tally *tally, const struct bpfprof_gpu_key *key,
			    uint32_t *ret_stack);
/* Stack of a call that has not returned. False: it was not sent. */
bool gpu_tally_open_stack(const struct gpu_tally *tally, uint32_t tid, uint64_t begin_ns,
			  uint32_t *ret_stack);

/* Of all processes that made a call, in no order; borrowed until the next call. */
const struct gpu_tally_process *gpu_tally_processes(const struct gpu_tally *tally, size_t *ret_nr);

/* One key as the kernel has counted it. */
struct gpu_tally_count {
	struct bpfprof_gpu_key key;
	struct bpfprof_gpu_count count;
	bool kept; /* of the daemon: count.ns is that of one border before */
};

/*
 * Of a count as the kernel has it, calls being those since there were `before`: takes out of it, and adds, what
 * was launched of other kernels that had the handle. There are at most gpu_tally_nr_parts() in all.
 */
void gpu_tally_split(const struct gpu_tally *tally, struct gpu_tally_count *count, uint64_t before,
		     void (*add)(void *arg, const struct gpu_tally_count *part), void *arg);
size_t gpu_tally_nr_parts(const struct gpu_tally *tally);

/*
 * Adds to the aggregate what its profile is to show of the calls. comm_text() tells of a communicator
 * its name and its rank, as text; "" = not known. 0 or -ENOMEM.
 */
int gpu_tally_finish(struct gpu_tally *tally, const struct gpu_tally_count *counts, size_t nr,
		     void (*comm_text)(void *arg, const struct bpfprof_gpu_key *key, char comm[24],
				       char rank[16]),
		     void *arg);

/*
 * For who runs for ever: what there is room for is divided by share, from the beginning on.
 */
void gpu_tally_bound(struct gpu_tally *tally, unsigned int share);
/*
 * After gpu_tally_finish(): the next interval begins, with another aggregate, which is borrowed from
 * now on instead of the one before. Processes that have ended are forgotten; of the others what is
 * allocated and in use, calls that have not returned, names, and where calls were made, for keys of
 * which no stack comes: but not past half of what the aggregate may hold (max_bytes), and what goes
 * for that is counted. What was launched of kernels whose handle is another's now has been told: of processes
 * that are described nothing of that is kept.
 */
void gpu_tally_next(struct gpu_tally *tally, struct aggregate *next, size_t max_bytes);
/* As if no stack had come: for who wants others than before. */
void gpu_tally_undescribe(struct gpu_tally *tally);
bool gpu_tally_has_ended(const struct gpu_tally *tally, uint32_t pid, uint64_t start_ns);

/* How many of these calls launched a kernel whose name is not known. */
uint64_t gpu_tally_nr_unknown(const struct gpu_tally *tally, const struct gpu_tally_count *counts,
			      size_t nr);

uint64_t gpu_tally_nr_stacks(const struct gpu_tally *tally); /* that came */
void gpu_tally_lost(const struct gpu_tally *tally, struct stats_reasons *dst);

#endif
