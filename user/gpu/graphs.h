/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_GRAPHS_H
#define BPFPROF_GPU_GRAPHS_H

/*
 * The content of the CUDA graphs of all processes, as it was captured. Graphs of one process with
 * equal content are one graph, whose name is a hash of it (bpf/gpu_calls.h). Bounded; a node
 * without room is counted and makes its graph incomplete.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "gpu_calls.h"

struct gpu_graphs;
struct stats_reasons;

/* The room that one process uses. The caller zeroes it and keeps it as long as its graphs. */
struct gpu_graphs_share {
	uint32_t nr, nr_open, nr_nodes;
};

#define GPU_GRAPHS_MAX 8192 /* with those in capture */
#define GPU_GRAPHS_MAX_NODES 65536 /* kinds of nodes, of all graphs together */
#define GPU_GRAPHS_OF_ONE 4 /* one process may use this part of both */
#define GPU_GRAPHS_MAX_OPEN 64 /* captures of one process at a time */

/* Nodes of one kind in one graph. */
struct gpu_graph_node {
	uint64_t handle; /* of the kernel, or 0 */
	uint32_t generation; /* of the handle (gpu/handle_generations.h) */
	uint32_t function; /* the captured call */
	uint32_t count, pad;
};

struct gpu_graph {
	const struct gpu_graph_node *nodes;
	size_t nr;
	bool complete; /* nodes has all kernels */
};

/* 0 or -ENOMEM. */
int gpu_graphs_new(struct gpu_graphs **ret);
void gpu_graphs_free(struct gpu_graphs *graphs);
/* Divides the limits by share. Called before all else. */
void gpu_graphs_bound(struct gpu_graphs *graphs, unsigned int share);

/* Takes in a record of the stream, in its order. */
void gpu_graphs_event(struct gpu_graphs *graphs, const struct bpfprof_gpu_graph_event *event,
		      struct gpu_graphs_share *share);
/* Nodes of the handle that were captured until now have that generation, which has ended. */
void gpu_graphs_generation_end(struct gpu_graphs *graphs, uint32_t pid, uint64_t start_ns,
			       uint64_t handle, uint32_t generation);
/* Forgets the graphs of processes for which has_ended() is true. */
void gpu_graphs_forget(struct gpu_graphs *graphs,
		       bool (*has_ended)(const void *arg, uint32_t pid, uint64_t start_ns),
		       const void *arg);

/*
 * The graph with that content, borrowed until the next call of another function. False: not known.
 */
bool gpu_graphs_find(const struct gpu_graphs *graphs, uint32_t pid, uint64_t start_ns,
		     uint64_t content, struct gpu_graph *ret);
size_t gpu_graphs_nr_nodes(const struct gpu_graphs *graphs); /* kinds of nodes in all graphs */
extern const struct counter gpu_graphs_counters[];
void gpu_graphs_lost(const struct gpu_graphs *graphs, struct stats_reasons *dst);

#endif
