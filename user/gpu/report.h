/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_REPORT_H
#define BPFPROF_GPU_REPORT_H

/*
 * What `bpfprof gpu` reports of CUDA and NCCL, as a table for people and as JSON, which
 * `report --nccl` reads into the same structs (gpu/report_fields.h has the keys). Plain arrays,
 * borrowed while the report is written. Every string may come from a target and is made safe when it is
 * written; "" is not known, and no string is NULL unless its comment says so.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct stats_reason;

struct gpu_report_call {
	const char *function, *exported; /* as shown, and as the library calls it */
	uint64_t calls, bytes, ns, max_ns, errors; /* bytes: without what is only captured */
	bool blocks; /* ns counts as blocked */
};

struct gpu_report_launch {
	const char *kernel; /* demangled */
	uint64_t handle;
	const char *function, *exported;
	uint32_t grid[3], block[3];
	uint64_t stream, calls;
	/* That it came through, "libcublas.so.12" and "cublasGemmEx"; NULL or "": not known, or none. */
	const char *library, *entry;
	bool captured; /* written into a graph: these calls run nothing */
	uint64_t recent; /* calls of the last recent_seconds */
};

/* Nodes of one kind in a graph. */
struct gpu_report_node {
	const char *function; /* that captured it */
	const char *kernel; /* of launches; else NULL */
	uint64_t count;
};

/* Launches of CUDA graphs with the same in them, whatever their handles. */
struct gpu_report_graph {
	uint64_t content; /* names that; 0: it is not known */
	uint64_t launches;
	bool complete; /* there are no other kernels in them */
	const struct gpu_report_node *nodes;
	size_t nr_nodes;
};

struct gpu_report_copy {
	const char *direction, *function;
	uint64_t stream, calls, bytes, ns;
	bool captured; /* as of launches */
};

struct gpu_report_collective {
	const char *operation, *datatype;
	const char *extra_name, *extra; /* "op", "root" or "peer": "sum" or "3"; or both "" */
	uint64_t comm, stream, calls, bytes, ns, max_ns;
	bool captured; /* as of launches */
};

/* Collectives of one size that are known to be complete, or not yet. */
struct gpu_report_completion {
	const char *operation, *datatype, *extra_name, *extra;
	uint64_t comm, bytes; /* of one */
	uint64_t count, ns, max_ns; /* from the call until it was known: at most */
	uint64_t within_ns, within_max_ns; /* by how much it may have been earlier */
	uint64_t pending, unknown; /* not complete yet; nobody will ever know */
	double pending_seconds; /* since the oldest of these was called, */
	uint64_t pending_stream; /* and what it was put on */
};

struct gpu_report_comm {
	uint64_t comm;
	bool known; /* hash, rank and size are */
	uint64_t hash;
	uint32_t rank, size;
	uint64_t calls;
	const char *last; /* function */
};

/* Collectives of one kind in a group. */
struct gpu_report_grouped {
	const char *operation, *datatype, *extra_name, *extra;
	uint64_t comm; /* UINT64_MAX: not known */
	uint64_t stream, bytes; /* of one */
	uint64_t count;
};

/* What ncclGroupEnd waits for. */
struct gpu_report_group {
	bool known; /* where the group began, and so all that follows; else that is 0 */
	bool complete; /* nothing else is in it than these */
	uint64_t calls; /* in it */
	const struct gpu_report_grouped *rows;
	size_t nr;
};

/* A call that has not returned. */
struct gpu_report_open {
	uint32_t tid;
	const char *thread, *function;
	double seconds; /* since it began, */
	bool since_before; /* or at least so long, before we came */
	uint64_t stream, comm, bytes;
	const char *const *stack; /* leaf first */
	size_t nr_stack;
	bool arguments_unknown; /* stream, comm and bytes: then these are 0 */
	bool ends_group;
	struct gpu_report_group group;
	/* Of a collective: "bfloat16"; "sum"; "root" or "peer" and its number. NULL: not known, or none. */
	const char *datatype, *op, *extra_name, *extra;
};

struct gpu_report_memory {
	uint64_t live_bytes, peak_bytes, allocations, frees;
	uint64_t unknown_frees; /* of what was allocated before we came */
	bool device_known;
	uint64_t device_free, device_total; /* as the process last asked itself */
};

/* The device had nothing to do, as far as its process could know. */
struct gpu_report_device_idle {
	bool known;
	uint64_t ns, max_ns, gaps; /* that are over, without */
	uint64_t copy_ns; /* the time in synchronous copies to the device in them */
	double since_seconds; /* one that is not over; 0: none */
};

/* From a launch to when its process knew that all it had launched was done. */
struct gpu_report_spans {
	bool known;
	uint64_t count, ns, max_ns; /* that are over, without */
	double since_seconds; /* one that is not; 0: none */
};

/* A thread of a process that has NCCL and is in no call. */
struct gpu_report_where {
	uint32_t tid;
	const char *thread;
	bool was_in_nccl; /* as the last of its process that was seen there */
	bool running; /* on a CPU: without a stack if no sample met it */
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
	struct gpu_report_memory host_memory; /* page-locked; without the device's */
	bool tensors_known; /* were asked for */
	struct gpu_report_memory tensor_memory; /* what PyTorch handed out of the device's */
	struct gpu_report_device_idle device_idle;
	struct gpu_report_spans spans;
	uint64_t gc_calls, gc_ns,
		gc_max_ns; /* Python's collections, which are among the calls, too */
	/* gpu_json() alone shows them; the main thread is the first. None: not read. */
	const struct gpu_report_where *where;
	size_t nr_where;
};

struct gpu_report_library {
	const char *path;
	bool cuda, nccl, torch, python;
	uint32_t functions; /* that are hooked */
	const char *problem; /* NULL: none */
};

struct gpu_report {
	const char *host;
	double seconds;
	double recent_seconds; /* until now, of what is recent; 0: nothing is known to be */
	const struct gpu_report_library *libraries;
	size_t nr_libraries;
	const struct gpu_report_process *processes;
	size_t nr_processes;
	/* That have NCCL, made no call, and were in none that is known when we came: who they are. */
	const struct gpu_report_process *silent;
	size_t nr_silent;
	uint64_t stacks_taken, stacks_skipped; /* skipped: over */
	uint32_t stacks_hz; /* that each thread may have taken in a second */
	const struct stats_reason *lost;
	size_t nr_lost;
};

struct gpu_report_options {
	size_t rows; /* per table, 0 = all */
	const char *sort; /* "calls", "bytes" or "blocked"; NULL: what says most of each table */
	size_t columns; /* 0 = 80 */
	size_t screen_rows; /* of a screen for a first page, before all; 0: none */
};

/* The communicator at that address in a process, or NULL. */
const struct gpu_report_comm *gpu_report_comm_of(const struct gpu_report_process *process,
						 uint64_t comm);

/* The order of two numbers or pointers for qsort(); several are chained with ?: */
#define GPU_ORDER(a, b) (((a) > (b)) - ((a) < (b)))

#define GPU_OVERVIEW_HEAD 5 /* lines at its top that are always there */

/*
 * Whole lines of at most that many columns, but for what a narrow screen has no room for. Processes with
 * calls that hang come first, the longest before all.
 */
void gpu_table(struct buf *dst, const struct gpu_report *report,
	       const struct gpu_report_options *options);
/* One object. Only this has the silent ones. The rank of a process and an "op" are strings; what is not known is null. */
void gpu_json(struct buf *dst, const struct gpu_report *report);

#endif
