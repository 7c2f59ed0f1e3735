/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_REPORT_H
#define BPFPROF_GPU_REPORT_H

/*
 * The report of `bpfprof gpu`, written as a table for people and as JSON, which `report --nccl`
 * reads into the same structs (gpu/report_fields.h has the keys). All arrays are borrowed while the
 * report is written. A string may come from a target, and is made safe when it is written; "" means
 * not known, and no string is NULL unless its comment says so.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct stats_reason;

struct gpu_report_call {
	const char *function, *exported; /* the name as shown, and as the library exports it */
	uint64_t calls, bytes, ns, max_ns, errors; /* bytes: without captured calls */
	bool blocks; /* ns is time in which the thread was blocked */
};

struct gpu_report_launch {
	const char *kernel; /* demangled */
	uint64_t handle;
	const char *function, *exported;
	uint32_t grid[3], block[3];
	uint64_t stream, calls;
	/* "libcublas.so.12" and "cublasGemmEx", which made the launch; NULL or "": not known, or none. */
	const char *library, *entry;
	bool captured; /* the calls were written into a graph and run nothing */
	uint64_t recent; /* calls in the last recent_seconds */
};

/* Nodes of one kind in a graph. */
struct gpu_report_node {
	const char *function; /* the captured call */
	const char *kernel; /* NULL: the node is no launch */
	uint64_t count;
};

/* Launches of CUDA graphs with equal content, whatever their handles. */
struct gpu_report_graph {
	uint64_t content; /* the name of the content; 0: the content is not known */
	uint64_t launches;
	bool complete; /* nodes has all kernels */
	const struct gpu_report_node *nodes;
	size_t nr_nodes;
};

struct gpu_report_copy {
	const char *direction, *function;
	uint64_t stream, calls, bytes, ns;
	bool captured; /* as in a launch */
};

struct gpu_report_collective {
	const char *operation, *datatype;
	const char *extra_name, *extra; /* "op", "root" or "peer": "sum" or "3"; or both "" */
	uint64_t comm, stream, calls, bytes, ns, max_ns;
	bool captured; /* as in a launch */
};

/* Collectives of one kind and size: how many are complete, and how many are not yet. */
struct gpu_report_completion {
	const char *operation, *datatype, *extra_name, *extra;
	uint64_t comm;
	uint64_t bytes; /* of one collective */
	uint64_t count; /* complete ones */
	uint64_t ns, max_ns; /* from the call until the completion was noticed */
	uint64_t within_ns, within_max_ns; /* the completion may have been earlier by so much */
	uint64_t pending; /* not complete yet */
	uint64_t unknown; /* their completion will never be known */
	double pending_seconds; /* since the call of the oldest pending one */
	uint64_t pending_stream; /* the stream of the oldest pending one */
};

struct gpu_report_comm {
	uint64_t comm;
	bool known; /* hash, rank and size are known */
	uint64_t hash;
	uint32_t rank, size;
	uint64_t calls;
	const char *last; /* the last function called */
};

/* Collectives of one kind in a group. */
struct gpu_report_grouped {
	const char *operation, *datatype, *extra_name, *extra;
	uint64_t comm; /* UINT64_MAX: not known */
	uint64_t stream;
	uint64_t bytes; /* of one collective */
	uint64_t count;
};

/* The collectives that ncclGroupEnd waits for. */
struct gpu_report_group {
	bool known; /* the begin of the group was seen; if not, all else is 0 */
	bool complete; /* rows has all collectives of the group */
	uint64_t calls; /* collectives in the group */
	const struct gpu_report_grouped *rows;
	size_t nr;
};

/* A call that has not returned. */
struct gpu_report_open {
	uint32_t tid;
	const char *thread, *function;
	double seconds; /* since the call began */
	bool since_before; /* the call began before the hooks, and may have lasted longer */
	uint64_t stream, comm, bytes;
	const char *const *stack; /* leaf first */
	size_t nr_stack;
	bool arguments_unknown; /* stream, comm and bytes are 0 because they are not known */
	bool ends_group;
	struct gpu_report_group group;
	/* A collective: "bfloat16"; "sum"; "root" or "peer" and its number. NULL: not known, or none. */
	const char *datatype, *op, *extra_name, *extra;
};

struct gpu_report_memory {
	uint64_t live_bytes, peak_bytes, allocations, frees;
	uint64_t unknown_frees; /* of memory that was allocated before the hooks */
	bool device_known;
	uint64_t device_free, device_total; /* the answer to the last cuMemGetInfo of the process */
};

/* Times in which the device had no work, as far as its process could know. */
struct gpu_report_device_idle {
	bool known;
	uint64_t ns, max_ns, gaps; /* of the gaps that are over, without copy_ns */
	uint64_t copy_ns; /* in synchronous copies to the device during these gaps */
	double since_seconds; /* of the gap that is not over; 0: there is none */
};

/* Spans from a launch until the process knew that all its launches were done. */
struct gpu_report_spans {
	bool known;
	uint64_t count, ns, max_ns; /* of the spans that are over */
	double since_seconds; /* of the span that is not over; 0: there is none */
};

/* A thread of a process that has loaded NCCL and is in no call. */
struct gpu_report_where {
	uint32_t tid;
	const char *thread;
	bool was_in_nccl; /* it is the last thread of its process that was seen in NCCL */
	bool running; /* it is on a CPU; it has a stack if a sample met it */
	const char *const *stack; /* leaf first */
	size_t nr_stack;
};

struct gpu_report_process {
	uint32_t pid;
	const char *name, *container, *pod, *namespace, *ray_task, *rank;
	const struct gpu_report_call *calls;
	size_t nr_calls;
	const struct gpu_report_launch *launches;
	size_t nr_launches;
	const struct gpu_report_graph *graphs;
	size_t nr_graphs;
	const struct gpu_report_copy *copies;
	size_t nr_copies;
	const struct gpu_report_collective *collectives;
	size_t nr_collectives;
	const struct gpu_report_completion *completions;
	size_t nr_completions;
	const struct gpu_report_comm *comms;
	size_t nr_comms;
	const struct gpu_report_open *open;
	size_t nr_open;
	uint64_t recent_launches, recent_blocked_ns;
	struct gpu_report_memory memory;
	struct gpu_report_memory host_memory; /* page-locked memory of the host */
	bool tensors_known; /* --tensors was given */
	struct gpu_report_memory
		tensor_memory; /* the part of the device's that PyTorch handed out */
	struct gpu_report_device_idle device_idle;
	struct gpu_report_spans spans;
	/* Python's garbage collections, which are also among the calls. */
	uint64_t gc_calls, gc_ns, gc_max_ns;
	/* Only gpu_json() writes these threads; the main thread is first. None: not read. */
	const struct gpu_report_where *where;
	size_t nr_where;
};

struct gpu_report_library {
	const char *path;
	bool cuda, nccl, torch, python;
	uint32_t functions; /* hooked functions */
	const char *problem; /* why it is not hooked; NULL: it is */
};

struct gpu_report {
	const char *host;
	double seconds;
	double start_seconds; /* since 1970 */
	double recent_seconds; /* the time of the counts that are called recent; 0: there are none */
	const struct gpu_report_library *libraries;
	size_t nr_libraries;
	const struct gpu_report_process *processes;
	size_t nr_processes;
	/* Processes that have loaded NCCL, made no call, and were in no known call at the start. */
	const struct gpu_report_process *silent;
	size_t nr_silent;
	uint64_t stacks_taken, stacks_skipped; /* skipped: past stacks_hz */
	uint32_t stacks_hz; /* the most stacks of one thread in a second */
	const struct stats_reason *lost;
	size_t nr_lost;
};

struct gpu_report_options {
	size_t rows; /* per table, 0 = all */
	const char *sort; /* "calls", "bytes" or "blocked"; NULL: each table has its own order */
	size_t columns; /* 0 = 80 */
	size_t screen_rows; /* rows of the screen, which a first page fills; 0: no first page */
};

/* The communicator at that address in a process, or NULL. */
const struct gpu_report_comm *gpu_report_comm_of(const struct gpu_report_process *process,
						 uint64_t comm);

/* The order of two numbers or pointers for qsort(); several are chained with ?: */
#define GPU_ORDER(a, b) (((a) > (b)) - ((a) < (b)))

#define GPU_OVERVIEW_HEAD 5 /* lines at the top of the first page */

/*
 * Writes lines of at most options->columns, if the screen is not too narrow for the fixed ones.
 * Processes with calls that hang come first, in order of their longest call.
 */
void gpu_table(struct buf *dst, const struct gpu_report *report,
	       const struct gpu_report_options *options);
/* Writes one object, also with the silent processes. Ranks of processes and "op" are strings. */
void gpu_json(struct buf *dst, const struct gpu_report *report);

#endif
