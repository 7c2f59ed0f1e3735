// SPDX-License-Identifier: Apache-2.0
/* Kernels of launched CUDA graphs: a kernel in several graphs is one row. */
#include "gpu/report_writer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/capped.h"

#define GRAPHS_WIDTH 6

struct graph_kernel {
	const char *name;
	uint64_t runs;
	const struct gpu_report_graph *graph; /* the last one that has the kernel */
	size_t nr_graphs;
};

/* Sums over all graphs of a process. */
struct graph_sums {
	uint64_t launches, unknown;
	bool more; /* the graphs have kernels that are not known */
};

static uint64_t product(uint64_t a, uint64_t b)
{
	uint64_t ret;

	return __builtin_mul_overflow(a, b, &ret) ? UINT64_MAX : ret;
}

static int compare_kernels(const void *a, const void *b)
{
	const struct graph_kernel *x = a, *y = b;

	return strcmp(x->name, y->name) ?: GPU_ORDER(x->graph, y->graph);
}

/* Merges kernels of one name. Returns their number. */
static size_t kernels_merge(struct graph_kernel *kernels, size_t nr)
{
	struct graph_kernel *last;
	size_t merged = 0, i;

	qsort(kernels, nr, sizeof(*kernels), compare_kernels);
	for (i = 0; i < nr; i++) {
		if (!merged || strcmp(kernels[merged - 1].name, kernels[i].name)) {
			kernels[merged++] = kernels[i];
			continue;
		}
		last = &kernels[merged - 1];
		last->runs = capped_add(last->runs, kernels[i].runs);
		last->nr_graphs += last->graph != kernels[i].graph;
		last->graph = kernels[i].graph;
	}
	return merged;
}

static size_t kernels_fill(struct graph_kernel *kernels, const struct gpu_report_process *process,
			   struct graph_sums *sums)
{
	const struct gpu_report_graph *graph;
	const struct gpu_report_node *node;
	size_t nr = 0, i, k;
	uint64_t runs;

	for (i = 0; i < process->nr_graphs; i++) {
		graph = &process->graphs[i];
		sums->launches = capped_add(sums->launches, graph->launches);
		if (!graph->content || (!graph->complete && !graph->nr_nodes))
			sums->unknown = capped_add(sums->unknown, graph->launches);
		else
			sums->more |= !graph->complete;
		for (k = 0; k < graph->nr_nodes; k++) {
			node = &graph->nodes[k];
			if (!node->kernel)
				continue;
			runs = product(node->count, graph->launches);
			kernels[nr++] = (struct graph_kernel){
				.name = node->kernel, .runs = runs, .graph = graph, .nr_graphs = 1
			};
		}
	}
	return kernels_merge(kernels, nr);
}

static void add_kernels(struct gpu_writer *w, const struct graph_kernel *kernels, size_t nr)
{
	struct gpu_row *rows = gpu_rows_new(w, nr, sizeof(*rows));
	const struct graph_kernel *kernel;
	size_t shown, i;

	if (!rows)
		return;
	for (i = 0; i < nr; i++)
		rows[i] = (struct gpu_row){ .key = kernels[i].runs,
					    .name = kernels[i].name,
					    .index = i };
	shown = gpu_rows_sort(w, rows, nr);
	buf_printf(w->dst, "  %*s  %*s  ", GPU_CALLS_WIDTH, "Runs", GRAPHS_WIDTH, "Graphs");
	gpu_add_rest(w, "Kernel");
	for (i = 0; i < shown; i++) {
		kernel = &kernels[rows[i].index];
		buf_add_str(w->dst, "  ");
		gpu_add_count(w, GPU_CALLS_WIDTH, kernel->runs);
		gpu_add_count(w, GRAPHS_WIDTH, kernel->nr_graphs);
		gpu_add_rest(w, kernel->name);
	}
	gpu_add_more(w, nr, shown);
	free(rows);
}

void gpu_add_graphs(struct gpu_writer *w)
{
	const struct gpu_report_process *process = w->process;
	struct graph_sums sums = { 0 };
	struct graph_kernel *kernels;
	size_t nr = 0, i;

	if (!process->nr_graphs)
		return;
	for (i = 0; i < process->nr_graphs; i++)
		nr += process->graphs[i].nr_nodes;
	kernels = gpu_rows_new(w, nr + 1, sizeof(*kernels));
	if (!kernels)
		return;
	nr = kernels_fill(kernels, process, &sums);
	gpu_line_end(w);
	gpu_add_words(w, "  Graph launches: %" PRIu64 " (%.0f/s) of %zu kind%s of graphs",
		      sums.launches, gpu_rate(w, sums.launches), process->nr_graphs,
		      process->nr_graphs == 1 ? "" : "s");
	if (sums.unknown)
		gpu_add_words(w, "  The kernels of %" PRIu64 " of them are not known",
			      sums.unknown);
	if (sums.more)
		gpu_add_words(w, "  Some of them have more kernels than are known");
	if (nr)
		add_kernels(w, kernels, nr);
	free(kernels);
}
