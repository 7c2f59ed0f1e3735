/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_GRAPHS_H
#define BPFPROF_GPU_GRAPHS_H

/*
 * What is in the CUDA graphs of all processes, as it was seen to be captured. Graphs of one process that
 * have the same in them are one, which has a name (bpf/gpu_calls.h). Bounded; what there was no room for
 * is counted, and makes its graph incomplete.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "gpu_calls.h"

struct gpu_graphs;
struct stats_reasons;

/* What one process has of the room: zeroed by its owner, and there as long as its graphs. */
struct gpu_graphs_share {
	uint32_t nr, nr_open, nr_nodes;
};

#define GPU_GRAPHS_MAX 8192 /* with those that are being captured */
#define GPU_GRAPHS_MAX_NODES 65536 /* kinds of nodes, of all graphs together */
#define GPU_GRAPHS_OF_ONE 4 /* this part of both is one process's */
#define GPU_GRAPHS_MAX_OPEN 64 /* captures of one process: more cannot be under way */

/* Nodes of one kind in one graph. */
struct gpu_graph_node {
	uint64_t handle; /* kernel, or 0 */
	uint32_t generation; /* of it (gpu/handle_generations.h) */
	uint32_t function; /* that captured it */
	uint32_t count, pad;
};

struct gpu_graph {
	const struct gpu_graph_node *nodes;
	size_t nr;
	bool complete; /* else there may be other kernels */
};

/* 0 or -ENOMEM. */
int gpu_graphs_new(struct gpu_graphs **ret);
void gpu_graphs_free(struct gpu_graphs *graphs);
/* What there is room for is divided by share, from the beginning on. */
void gpu_graphs_bound(struct gpu_graphs *graphs, unsigned int share);

/* What the stream tells, in its order. */
void gpu_graphs_event(struct gpu_graphs *graphs, const struct bpfprof_gpu_graph_event *event,
		      struct gpu_graphs_share *share);
/* Nodes of a kernel in what was captured until now are of that generation of its handle. */
void gpu_graphs_generation_end(struct gpu_graphs *graphs, uint32_t pid, uint64_t start_ns,
			       uint64_t handle, uint32_t generation);
/* Processes of which gone() says so. */
void gpu_graphs_forget(struct gpu_graphs *graphs,
		       bool (*gone)(const void *arg, uint32_t pid, uint64_t start_ns),
		       const void *arg);

/* False: nothing is known of it. Borrowed until the next call of another function. */
bool gpu_graphs_find(const struct gpu_graphs *graphs, uint32_t pid, uint64_t start_ns,
		     uint64_t content, struct gpu_graph *ret);
size_t gpu_graphs_nr_nodes(const struct gpu_graphs *graphs); /* kinds, of all */
extern const struct counter gpu_graphs_counters[];
void gpu_graphs_lost(const struct gpu_graphs *graphs, struct stats_reasons *dst);

#endif
