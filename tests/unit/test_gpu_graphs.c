// SPDX-License-Identifier: Apache-2.0
#include "gpu/graphs.h"

#include <criterion/criterion.h>
#include <string.h>

#include "profile/stats.h"

#define START_NS 1000

static struct gpu_graphs *graphs;
static struct gpu_graphs_share shares[9]; /* by pid */

static void setup(void)
{
	cr_assert_eq(gpu_graphs_new(&graphs), 0);
	memset(shares, 0, sizeof(shares));
}

static void teardown(void)
{
	gpu_graphs_free(graphs);
}

TestSuite(gpu_graphs, .init = setup, .fini = teardown, .timeout = 60);

static void send(uint32_t kind, uint32_t pid, uint32_t number, uint32_t function, uint64_t handle,
		 uint32_t nodes, uint32_t lost)
{
	const struct bpfprof_gpu_graph_event event = { .start_ns = START_NS,
						       .pid = pid,
						       .number = number,
						       .kind = kind,
						       .function = function,
						       .handle = handle,
						       .nodes = nodes,
						       .lost = lost };

	gpu_graphs_event(graphs, &event, &shares[pid]);
}

static void node(uint32_t pid, uint32_t number, uint32_t function, uint64_t handle)
{
	send(GPU_GRAPH_NODE, pid, number, function, handle, 0, 0);
}

static void made_of(uint32_t pid, uint32_t number, uint64_t content, uint32_t nodes)
{
	send(GPU_GRAPH_MADE, pid, number, 0, content, nodes, 0);
}

/* By default a capture is identified by its number. */
static void made(uint32_t pid, uint32_t number, uint32_t nodes)
{
	made_of(pid, number, number, nodes);
}

static void dropped(uint32_t pid, uint32_t number)
{
	send(GPU_GRAPH_DROPPED, pid, number, 0, 0, 0, 0);
}

static struct gpu_graph graph_at(uint32_t pid, uint32_t number)
{
	struct gpu_graph graph = { 0 };

	cr_assert(gpu_graphs_find(graphs, pid, START_NS, number, &graph), "%u", number);
	return graph;
}

static bool is_known(uint32_t pid, uint32_t number)
{
	struct gpu_graph graph;

	return gpu_graphs_find(graphs, pid, START_NS, number, &graph);
}

static uint32_t count_of(uint32_t pid, uint32_t number, uint32_t function, uint64_t handle)
{
	struct gpu_graph graph = graph_at(pid, number);
	uint32_t count = 0;

	for (size_t i = 0; i < graph.nr; i++)
		if (graph.nodes[i].function == function && graph.nodes[i].handle == handle)
			count += graph.nodes[i].count;
	return count;
}

static uint64_t lost(size_t reason)
{
	struct stats_reasons all = { 0 };

	gpu_graphs_lost(graphs, &all);
	cr_assert_eq(all.nr, 2);
	return all.reasons[reason].count;
}

Test(gpu_graphs, nodes_by_kind)
{
	node(7, 1, 3, 0x20);
	node(7, 1, 3, 0x10);
	node(7, 1, 2, 0x20);
	node(7, 1, 3, 0x20);
	node(7, 2, 3, 0x20);
	node(8, 1, 3, 0x20);
	cr_expect_not(is_known(7, 1), "it is still captured");
	made(7, 1, 4);
	made(7, 2, 1);
	made(8, 1, 1);
	cr_expect(graph_at(7, 1).complete);
	cr_expect_eq(graph_at(7, 1).nr, 3);
	cr_expect_eq(count_of(7, 1, 3, 0x20), 2);
	cr_expect_eq(count_of(7, 1, 3, 0x10), 1);
	cr_expect_eq(count_of(7, 1, 2, 0x20), 1);
	cr_expect_eq(count_of(7, 2, 3, 0x20), 1);
	cr_expect_eq(count_of(8, 1, 3, 0x20), 1);
	cr_expect_eq(gpu_graphs_nr_nodes(graphs), 5);
	cr_expect_not(is_known(7, 3));
	cr_expect_not(is_known(5, 1));
}

/* A graph keeps the names of its kernels after another kernel got the handle. */
Test(gpu_graphs, handles_of_kernels_again)
{
	struct gpu_graph graph;

	node(7, 1, 3, 0x20);
	node(8, 1, 3, 0x20);
	made(7, 1, 1);
	node(7, 2, 3, 0x20);
	gpu_graphs_generation_end(graphs, 7, START_NS, 0x20, 1);
	node(7, 2, 3, 0x20);
	node(7, 2, 3, 0x20);
	gpu_graphs_generation_end(graphs, 7, START_NS, 0x20, 2);
	node(7, 2, 3, 0x20);
	node(7, 2, 3, 0x20);
	node(7, 2, 3, 0x20);
	made(7, 2, 6);
	made(8, 1, 1);
	cr_expect_eq(graph_at(7, 1).nodes[0].generation, 1);
	cr_expect_eq(graph_at(8, 1).nodes[0].generation, 0, "another process's");
	graph = graph_at(7, 2);
	cr_assert_eq(graph.nr, 3);
	cr_expect(graph.complete);
	for (size_t i = 0; i < 3; i++)
		cr_expect_eq(graph.nodes[i].count, graph.nodes[i].generation ?: 3);
	cr_expect_eq(gpu_graphs_nr_nodes(graphs), 5);
}

/* The same content is captured again; a complete capture replaces an incomplete one. */
Test(gpu_graphs, of_the_same)
{
	for (uint32_t i = 1; i <= GPU_GRAPHS_MAX + 5; i++) {
		node(7, i, 3, 0x20);
		made_of(7, i, 0xc0, 1);
	}
	cr_expect_eq(count_of(7, 0xc0, 3, 0x20), 1);
	cr_expect_eq(gpu_graphs_nr_nodes(graphs), 1);
	cr_expect_eq(lost(0), 0);
	made_of(7, 1, 0xc0, 1);
	cr_expect(graph_at(7, 0xc0).complete, "is what it was");
	node(7, 1, 3, 0x30);
	made_of(7, 1, 0xc1, 2);
	cr_expect_not(graph_at(7, 0xc1).complete);
	node(7, 2, 3, 0x30);
	node(7, 2, 3, 0x31);
	made_of(7, 2, 0xc1, 2);
	cr_expect(graph_at(7, 0xc1).complete);
	cr_expect_eq(graph_at(7, 0xc1).nr, 2);
	cr_expect_eq(gpu_graphs_nr_nodes(graphs), 3);
	cr_expect_eq(shares[7].nr, 2);
	cr_expect_eq(shares[7].nr_nodes, 3);
	cr_expect_eq(shares[7].nr_open, 0);
}

/* A number does not match a content of the same value, nor the other way round. */
Test(gpu_graphs, numbers_and_contents)
{
	node(7, 1, 3, 0x20);
	made_of(7, 1, 2, 1);
	node(7, 2, 3, 0x30);
	cr_expect_eq(count_of(7, 2, 3, 0x20), 1);
	cr_expect_eq(graph_at(7, 2).nr, 1);
	dropped(7, 2);
	cr_expect(is_known(7, 2));
	cr_expect_eq(gpu_graphs_nr_nodes(graphs), 1);
}

Test(gpu_graphs, without_nodes)
{
	made(7, 1, 0);
	cr_expect(graph_at(7, 1).complete);
	cr_expect_eq(graph_at(7, 1).nr, 0);
}

/* Records that did not arrive, and nodes that BPF missed. */
Test(gpu_graphs, lost_nodes)
{
	node(7, 1, 3, 0x20);
	made(7, 1, 2);
	cr_expect_not(graph_at(7, 1).complete);
	node(7, 2, 3, 0x20);
	send(GPU_GRAPH_MADE, 7, 2, 0, 2, 1, 1);
	cr_expect_not(graph_at(7, 2).complete);
	made(7, 3, 1);
	cr_expect_not(graph_at(7, 3).complete);
}

Test(gpu_graphs, dropped)
{
	node(7, 1, 3, 0x20);
	dropped(7, 1);
	cr_expect_not(is_known(7, 1));
	cr_expect_eq(gpu_graphs_nr_nodes(graphs), 0);
	dropped(7, 1);
	send(GPU_GRAPH_INVALID, 7, 1, 0, 0, 0, 0);
	send(99, 7, 1, 0, 0, 0, 0);
	cr_expect_not(is_known(7, 1));
	cr_expect_eq(shares[7].nr, 0);
}

static bool is_pid(const void *arg, uint32_t pid, uint64_t start_ns)
{
	return pid == *(const uint32_t *)arg && start_ns == START_NS;
}

Test(gpu_graphs, of_processes_that_are_gone)
{
	uint32_t gone = 7;

	node(7, 1, 3, 0x20);
	made(7, 1, 1);
	node(7, 2, 3, 0x20);
	node(8, 1, 3, 0x20);
	made(8, 1, 1);
	gpu_graphs_forget(graphs, is_pid, &gone);
	cr_expect_not(is_known(7, 1));
	cr_expect_eq(count_of(8, 1, 3, 0x20), 1);
	cr_expect_eq(gpu_graphs_nr_nodes(graphs), 1);
	cr_expect(!shares[7].nr && !shares[7].nr_open && !shares[7].nr_nodes);
}

/*
 * A graph without room for its nodes is incomplete, its other nodes still count, and other
 * processes have their own room.
 */
Test(gpu_graphs, nodes_without_room)
{
	const uint32_t room = GPU_GRAPHS_MAX_NODES / 4 / GPU_GRAPHS_OF_ONE;

	gpu_graphs_bound(graphs, 4);
	for (uint32_t i = 0; i < room + 3; i++)
		node(7, 1, 3, i);
	node(7, 1, 3, 5);
	made(7, 1, room + 4);
	cr_expect_eq(graph_at(7, 1).nr, room);
	cr_expect_eq(count_of(7, 1, 3, 5), 2);
	cr_expect_not(graph_at(7, 1).complete);
	cr_expect_eq(lost(1), 3);
	node(8, 2, 3, 5);
	made(8, 2, 1);
	cr_expect(graph_at(8, 2).complete);
}

/* A graph that had no room is not complete because there is room at its end. */
Test(gpu_graphs, graphs_without_room)
{
	const uint32_t room = GPU_GRAPHS_MAX / GPU_GRAPHS_OF_ONE;

	for (uint32_t i = 1; i <= room + 2; i++)
		made(7, i, 0);
	cr_expect(is_known(7, room));
	cr_expect_not(is_known(7, room + 1));
	cr_expect_eq(lost(0), 2);
	node(7, room + 1, 3, 1);
	cr_expect_eq(lost(0), 2, "it is counted when it is made");
	made_of(7, room + 1, 5, 0);
	cr_expect_eq(lost(0), 2, "it is known what is in it");
	made(8, 1, 0);
	cr_expect(graph_at(8, 1).complete, "another one's");
}

Test(gpu_graphs, room_in_the_midst)
{
	const uint32_t room = GPU_GRAPHS_MAX / GPU_GRAPHS_OF_ONE;

	for (uint32_t i = 1; i < room; i++)
		made(7, i, 0);
	node(7, room, 3, 1);
	node(7, room + 1, 3, 1);
	dropped(7, room);
	node(7, room + 1, 3, 1);
	made(7, room + 1, 2);
	cr_expect_not(graph_at(7, room + 1).complete);
	cr_expect_eq(count_of(7, room + 1, 3, 1), 1);
}

Test(gpu_graphs, captures_without_an_end)
{
	for (uint32_t i = 1; i <= GPU_GRAPHS_MAX_OPEN + 3; i++)
		node(7, i, 3, i);
	cr_expect_eq(shares[7].nr_open, GPU_GRAPHS_MAX_OPEN);
	cr_expect_eq(gpu_graphs_nr_nodes(graphs), GPU_GRAPHS_MAX_OPEN);
	made(7, GPU_GRAPHS_MAX_OPEN + 3, 1);
	made(7, 4, 1);
	cr_expect(graph_at(7, 4).complete && graph_at(7, GPU_GRAPHS_MAX_OPEN + 3).complete);
	made(7, 3, 1);
	cr_expect_not(graph_at(7, 3).complete);
}
