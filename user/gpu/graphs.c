// SPDX-License-Identifier: Apache-2.0
#include "gpu/graphs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash_table.h"
#include "base/vec.h"
#include "profile/stats.h"

struct graph_key {
	uint64_t start_ns;
	uint64_t name; /* hash of the content, or number of the capture */
	uint32_t pid;
	uint32_t made; /* 1: the capture is over */
};

struct graph {
	struct hash_node node;
	struct graph_key key;
	struct gpu_graphs_share *of;
	struct gpu_graph_node *nodes; /* by function and handle; the present generation is first */
	uint64_t received; /* nodes */
	uint32_t nr, cap;
	bool cut;
};

struct gpu_graphs {
	struct hash_table all;
	size_t nr_nodes;
	unsigned int share;
	uint64_t graphs_lost, nodes_lost;
};

static struct graph *graph_find(const struct gpu_graphs *graphs, uint32_t pid, uint64_t start_ns,
				uint64_t name, bool made)
{
	struct graph_key key = { .start_ns = start_ns, .name = name, .pid = pid, .made = made };

	return hash_table_find(&graphs->all, &key);
}

static void graph_free(struct gpu_graphs *graphs, struct graph *graph)
{
	graphs->nr_nodes -= graph->nr;
	graph->of->nr_nodes -= graph->nr;
	graph->of->nr--;
	graph->of->nr_open -= !graph->key.made;
	free(graph->nodes);
	hash_table_remove(&graphs->all, graph);
}

/* Some captures end without a record. Past the limit the oldest open capture is removed. */
static void open_bound(struct gpu_graphs *graphs, const struct gpu_graphs_share *share)
{
	struct graph *graph;

	if (share->nr_open < GPU_GRAPHS_MAX_OPEN)
		return;
	hash_table_each(&graphs->all, graph) {
		if (graph->of != share || graph->key.made)
			continue;
		graph_free(graphs, graph);
		return;
	}
}

/* The graph of a capture. NULL: there is no room. */
static struct graph *graph_add(struct gpu_graphs *graphs,
			       const struct bpfprof_gpu_graph_event *event,
			       struct gpu_graphs_share *share)
{
	const struct graph_key key = { .start_ns = event->start_ns,
				       .name = event->number,
				       .pid = event->pid };
	struct graph *graph = NULL;

	open_bound(graphs, share);
	if (share->nr < graphs->all.max / GPU_GRAPHS_OF_ONE)
		graph = hash_table_add(&graphs->all, &key);
	if (!graph)
		return NULL;
	graph->of = share;
	share->nr++;
	share->nr_open++;
	return graph;
}

/* The index of a kind of node in a graph, or the index at which it belongs. */
static size_t node_place(const struct graph *graph, uint32_t function, uint64_t handle)
{
	size_t from = 0, to = graph->nr, middle;
	const struct gpu_graph_node *node;

	while (from < to) {
		middle = from + (to - from) / 2;
		node = &graph->nodes[middle];
		if (node->function < function ||
		    (node->function == function && node->handle < handle))
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* False: there is no room. */
static bool node_add(struct gpu_graphs *graphs, struct graph *graph, size_t at, uint32_t function,
		     uint64_t handle)
{
	uint32_t room = GPU_GRAPHS_MAX_NODES / graphs->share;

	if (graphs->nr_nodes >= room || graph->of->nr_nodes >= room / GPU_GRAPHS_OF_ONE ||
	    vec_grow(graph->nodes, graph->nr + 1, graph->cap, GPU_GRAPHS_MAX_NODES))
		return false;
	memmove(&graph->nodes[at + 1], &graph->nodes[at], (graph->nr - at) * sizeof(*graph->nodes));
	graph->nodes[at] = (struct gpu_graph_node){ .handle = handle, .function = function };
	graph->nr++;
	graph->of->nr_nodes++;
	graphs->nr_nodes++;
	return true;
}

static void on_node(struct gpu_graphs *graphs, const struct bpfprof_gpu_graph_event *event,
		    struct gpu_graphs_share *share)
{
	struct graph *graph = graph_find(graphs, event->pid, event->start_ns, event->number, false);
	struct gpu_graph_node *node;
	size_t at;

	if (!graph)
		graph = graph_add(graphs, event, share);
	if (!graph) /* on_made() notices and counts this */
		return;
	at = node_place(graph, event->function, event->handle);
	node = at < graph->nr ? &graph->nodes[at] : NULL;
	if ((!node || node->function != event->function || node->handle != event->handle ||
	     node->generation) &&
	    !node_add(graphs, graph, at, event->function, event->handle)) {
		graphs->nodes_lost++;
		return;
	}
	node = &graph->nodes[at];
	if (node->count == UINT32_MAX)
		return;
	node->count++;
	graph->received++;
}

/* A capture has ended. An earlier capture may have had the same content. */
static void on_made(struct gpu_graphs *graphs, const struct bpfprof_gpu_graph_event *event,
		    struct gpu_graphs_share *share)
{
	struct graph *graph = graph_find(graphs, event->pid, event->start_ns, event->number, false);
	struct graph *before = graph_find(graphs, event->pid, event->start_ns, event->handle, true);
	struct graph_key key;

	if (!graph)
		graph = graph_add(graphs, event, share);
	if (!graph) {
		graphs->graphs_lost += !before || before->cut;
		return;
	}
	graph->cut = event->lost || graph->received != event->nodes;
	if (before && (graph->cut || !before->cut)) {
		graph_free(graphs, graph);
		return;
	}
	if (before)
		graph_free(graphs, before);
	key = graph->key;
	key.name = event->handle;
	key.made = true;
	graph->of->nr_open--;
	hash_table_rekey(&graphs->all, graph, &key);
}

void gpu_graphs_event(struct gpu_graphs *graphs, const struct bpfprof_gpu_graph_event *event,
		      struct gpu_graphs_share *share)
{
	struct graph *graph;

	switch (event->kind) {
	case GPU_GRAPH_NODE:
		on_node(graphs, event, share);
		break;
	case GPU_GRAPH_MADE:
		on_made(graphs, event, share);
		break;
	case GPU_GRAPH_DROPPED:
		graph = graph_find(graphs, event->pid, event->start_ns, event->number, false);
		if (graph)
			graph_free(graphs, graph);
		break;
	}
}

void gpu_graphs_generation_end(struct gpu_graphs *graphs, uint32_t pid, uint64_t start_ns,
			       uint64_t handle, uint32_t generation)
{
	struct gpu_graph_node *node;
	struct graph *graph;

	hash_table_each(&graphs->all, graph) {
		if (graph->key.pid != pid || graph->key.start_ns != start_ns)
			continue;
		for (node = graph->nodes; node < graph->nodes + graph->nr; node++)
			if (node->handle == handle && !node->generation)
				node->generation = generation;
	}
}

void gpu_graphs_forget(struct gpu_graphs *graphs,
		       bool (*has_ended)(const void *arg, uint32_t pid, uint64_t start_ns),
		       const void *arg)
{
	struct graph *graph;

	hash_table_each(&graphs->all, graph)
		if (has_ended(arg, graph->key.pid, graph->key.start_ns))
			graph_free(graphs, graph);
}

bool gpu_graphs_find(const struct gpu_graphs *graphs, uint32_t pid, uint64_t start_ns,
		     uint64_t content, struct gpu_graph *ret)
{
	const struct graph *graph = graph_find(graphs, pid, start_ns, content, true);

	if (!graph)
		return false;
	*ret = (struct gpu_graph){ .nodes = graph->nodes,
				   .nr = graph->nr,
				   .complete = !graph->cut };
	return true;
}

size_t gpu_graphs_nr_nodes(const struct gpu_graphs *graphs)
{
	return graphs->nr_nodes;
}

#define AT(field) offsetof(struct gpu_graphs, field)

const struct counter gpu_graphs_counters[] = {
	{ COUNTER_GPU, "graphs_no_room", AT(graphs_lost), .help = "CUDA graphs over the limit" },
	{ COUNTER_GPU, "nodes_of_graphs_no_room", AT(nodes_lost),
	  .help = "kinds of nodes of CUDA graphs over the limit" },
	{ 0 },
};

void gpu_graphs_lost(const struct gpu_graphs *graphs, struct stats_reasons *dst)
{
	stats_add_rows(dst, gpu_graphs_counters, graphs, true);
}

int gpu_graphs_new(struct gpu_graphs **ret)
{
	struct gpu_graphs *graphs = calloc(1, sizeof(*graphs));

	if (!graphs)
		return -ENOMEM;
	graphs->share = 1;
	hash_table_init(&graphs->all, GPU_GRAPHS_MAX, struct graph, key);
	*ret = graphs;
	return 0;
}

void gpu_graphs_bound(struct gpu_graphs *graphs, unsigned int share)
{
	graphs->share = share;
	graphs->all.max = GPU_GRAPHS_MAX / share;
}

void gpu_graphs_free(struct gpu_graphs *graphs)
{
	struct graph *graph;

	if (!graphs)
		return;
	hash_table_each(&graphs->all, graph)
		graph_free(graphs, graph);
	free(graphs);
}
