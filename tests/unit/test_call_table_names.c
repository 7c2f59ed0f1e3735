// SPDX-License-Identifier: Apache-2.0
/* Names of kernels and handles that are given again. */
#include "gpu/call_table.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gpu/handle_generations.h"
#include "profile/aggregate.h"
#include "call_table_made.h"

/* A look-up by another name: that many calls with the key belong to the earlier kernel. */
static void reused_send(struct bpfprof_gpu_key key, uint64_t calls)
{
	struct bpfprof_gpu_call call = { .key = key, .bytes = calls, .flags = BPFPROF_CALL_REUSED };

	send_call(&call, 7);
}

/* The last record of the counts: all came, or they cannot be separated. */
static void counts_end(uint32_t pid, uint64_t handle, bool all)
{
	struct bpfprof_gpu_key key = { .start_ns = START_NS, .pid = pid, .handle = handle };

	reused_send(key, all);
}

/* A look-up by another name when nothing was launched of the one before. */
static void renamed_send(uint32_t pid, uint64_t handle, const char *name)
{
	name_send_as(BPFPROF_NAME_REUSED, pid, handle, 0, name);
	counts_end(pid, handle, true);
}

Test(call_table, names_and_aliases)
{
	const struct call_table_process *process;
	struct bpfprof_gpu_key key;

	cr_expect_str_eq(kernel_name(7, 1), "(none)");
	name_send(7, 1, 0, "_Z4gemmPKfPf");
	cr_expect_str_eq(kernel_name(7, 1), "gemm");
	cr_expect_str_eq(kernel_name(8, 1), "(none)", "a handle is its process's");
	name_send(7, 2, 1, "ignored");
	cr_expect_str_eq(kernel_name(7, 2), "gemm");
	name_send(8, 2, 1, "ignored");
	cr_expect_str_eq(kernel_name(8, 2), "(none)", "an alias of what is not known");
	name_send(7, 1, 0, "plain");
	cr_expect_str_eq(kernel_name(7, 1), "gemm", "another thread's word of it is still to come");
	renamed_send(7, 1, "plain");
	cr_expect_str_eq(kernel_name(7, 1), "plain", "of the one before nothing was launched");
	cr_expect_str_eq(kernel_name(7, 2), "gemm");
	name_send(7, 2, 2, "");
	cr_expect_str_eq(kernel_name(7, 2), "gemm", "of itself");
	name_send(7, 3, 0, "");
	cr_expect_str_eq(kernel_name(7, 3), "(none)");
	name_send(7, 1, 0, "");
	cr_expect_str_eq(kernel_name(7, 1), "plain");
	name_send(7, 0, 0, "null");
	cr_expect_str_eq(kernel_name(7, 0), "(none)");
	/*
	 * A process that only looks names up has elements in maps, too, and is forgotten when it
	 * ends.
	 */
	name_send(10, 1, 0, "");
	cr_expect_not_null(process_at(10, START_NS));
	key = launch_of(9, 5);
	call_table_kernel_set(table, &key, "_Z3addi");
	cr_expect_str_eq(kernel_name(9, 5), "add");
	process = process_at(9, START_NS);
	cr_assert_not_null(process);
	cr_expect(!process->name && !process->pid, "nothing is known of it");
	cr_expect_eq(table_lost("kernel_names_no_room"), 0);
}

static struct call_table_count parts[16];
static size_t nr_parts;

static void add_part(void *arg, const struct call_table_count *part)
{
	(void)arg;
	cr_assert(nr_parts < 16 && nr_parts < call_table_nr_parts(table));
	parts[nr_parts++] = *part;
}

/* The parts of the count between before and now; the last part is the present kernel. */
static void split(struct bpfprof_gpu_key key, uint64_t before, uint64_t now)
{
	struct call_table_count count = { .key = key, .count.calls = now - before };

	nr_parts = 0;
	call_table_split(table, &count, before, add_part, NULL);
	parts[nr_parts++] = count;
}

static void expect_part(size_t at, uint64_t calls, const char *name)
{
	const char *found = call_table_kernel(table, &parts[at].key);

	cr_assert_lt(at, nr_parts);
	cr_expect_eq(parts[at].count.calls, calls, "%zu: %" PRIu64, at,
		     (uint64_t)parts[at].count.calls);
	cr_expect_str_eq(found ? found : "(none)", name);
	cr_expect_eq(parts[at].key.handle, 1, "it is shown");
}

/* Launches keep the name of their kernel, and their stacks, after another kernel got the handle. */
Test(call_table, handles_of_kernels_again)
{
	struct bpfprof_gpu_key key = launch_of(7, 1), other = launch_of(7, 1);
	struct bpfprof_gpu_call call = call_of(key);
	struct aggregate_view view;

	other.dims[0] = 4;
	send_stack(&call, 7, 1); /* by a name that is not known */
	name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, "first");
	reused_send(key, 10);
	counts_end(7, 1, true);
	call = call_of(key);
	send_stack(&call, 7, 2);
	name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, "second");
	reused_send(key, 30);
	reused_send(other, 5);
	cr_expect_str_eq(kernel_name(7, 1), "(none)", "more may follow");
	counts_end(7, 1, true);
	cr_expect_str_eq(kernel_name(7, 1), "second");
	call = call_of(key);
	send_stack(&call, 7, 3);
	split(key, 0, 60);
	cr_assert_eq(nr_parts, 3);
	expect_part(0, 10, "(none)");
	expect_part(1, 20, "first");
	expect_part(2, 30, "second");
	cr_expect_eq(call_table_nr_unknown(table, parts, nr_parts), 10);
	table_finish(parts, nr_parts, &view);
	cr_assert_eq(view.nr_call_samples, 3);
	for (size_t i = 0; i < 3; i++)
		cr_expect_str_eq(label_at(&view, i, 0),
				 ((const char *[]){ "kernel@0x1", "first", "second" })[i]);
	cr_expect_eq(values_at(&view, 2, 1)[PROFILE_CALLS], 10);
	cr_expect_eq(values_at(&view, 2, 2)[PROFILE_CALLS], 20);
	cr_expect_eq(values_at(&view, 2, 3)[PROFILE_CALLS], 30);
	/* The split also holds within an interval, and for the counts at its end. */
	split(key, 4, 12);
	cr_assert_eq(nr_parts, 3);
	expect_part(0, 6, "(none)");
	expect_part(1, 2, "first");
	expect_part(2, 0, "second");
	split(key, 30, 31);
	cr_assert_eq(nr_parts, 1);
	expect_part(0, 1, "second");
	split(other, 0, 6);
	cr_assert_eq(nr_parts, 2);
	expect_part(0, 5, "first");
	expect_part(1, 1, "second");
	other.stream = 9; /* it had no count at that time */
	split(other, 0, 6);
	cr_assert_eq(nr_parts, 1);
	expect_part(0, 6, "second");
	cr_expect_eq(table_lost("kernel_handles_reused_no_room"), 0);
}

/* The time of a launch shows which kernel had the handle. */
Test(call_table, kernels_at_a_time)
{
	uint64_t times[3];
	struct bpfprof_gpu_key key;
	const char *const names[] = { "first", "second", "third" };

	for (size_t i = 0; i < 3; i++) {
		if (i)
			renamed_send(7, 1, names[i]);
		else
			name_send(7, 1, 0, names[i]);
		times[i] = made_clock_ns++;
	}
	for (size_t i = 0; i < 3; i++) {
		key = call_table_kernel_at(table, 7, START_NS, 1, times[i]);
		cr_expect_str_eq(call_table_kernel(table, &key), names[i]);
	}
	key = call_table_kernel_at(table, 7, START_NS, 2, 0);
	cr_expect_null(call_table_kernel(table, &key));
}

/* If two kernels cannot be distinguished, neither name is given. */
Test(call_table, kernels_that_are_mixed)
{
	struct bpfprof_gpu_key key = launch_of(7, 1);

	name_send(7, 1, 0, "first");
	name_send_as(BPFPROF_NAME_UNSEEN, 7, 1, 0, "first");
	cr_expect_str_eq(kernel_name(7, 1), "first", "it was the same");
	name_send(7, 9, 1, "");
	cr_expect_str_eq(kernel_name(7, 9), "first");
	name_send_as(BPFPROF_NAME_UNSEEN, 7, 1, 0, "second");
	cr_expect_str_eq(kernel_name(7, 1), "(none)");
	call_table_kernel_set(table, &key, "third");
	cr_expect_str_eq(kernel_name(7, 1), "(none)", "of one of them at most");
	/* Later look-ups do not change that, whatever they report. */
	name_send(7, 1, 0, "second");
	name_send_as(BPFPROF_NAME_UNSEEN, 7, 1, 0, "second");
	cr_expect_str_eq(kernel_name(7, 1), "(none)");
	name_send(7, 9, 1, "");
	cr_expect_str_eq(kernel_name(7, 9), "(none)", "an alias of it");
	name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, "fourth");
	reused_send(key, 10);
	counts_end(7, 1, true);
	split(key, 0, 15);
	cr_assert_eq(nr_parts, 2);
	expect_part(0, 10, "(none)");
	expect_part(1, 5, "fourth");
	/* A part of the counts is lost. */
	name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, "fifth");
	counts_end(7, 1, false);
	name_send(7, 1, 0, "fifth");
	split(key, 0, 20);
	cr_assert_eq(nr_parts, 2);
	expect_part(1, 10, "(none)");
	/*
	 * After one more look-up, launches of both kernels have no name; later launches have the
	 * new name.
	 */
	name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, "fifth");
	reused_send(key, 30);
	counts_end(7, 1, true);
	split(key, 0, 35);
	cr_assert_eq(nr_parts, 3);
	expect_part(1, 20, "(none)");
	expect_part(2, 5, "fifth");
	/* By a handle that is not known. */
	name_send(7, 2, 0, "known");
	name_send_as(BPFPROF_NAME_REUSED, 7, 2, 99, "");
	cr_expect_str_eq(kernel_name(7, 2), "(none)");
	/* The end of a key whose handle has no end. */
	reused_send(launch_of(7, 3), 10);
	name_send(7, 3, 0, "again");
	cr_expect_eq(call_table_nr_parts(table), 6);
}

/* The record of the reuse, or its end, does not come: no name is guessed. */
Test(call_table, kernels_whose_names_are_lost)
{
	struct bpfprof_gpu_key key = launch_of(7, 1);

	name_send(7, 1, 0, "first");
	counts_end(7, 1, false);
	cr_expect_str_eq(kernel_name(7, 1), "(none)");
	name_send(7, 1, 0, "second");
	cr_expect_str_eq(kernel_name(7, 1), "(none)", "some launches may be of the first");
	name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, "second");
	reused_send(key, 10);
	call_table_kernel_set(table, &key, "third");
	name_send(7, 1, 0, "second");
	cr_expect_str_eq(kernel_name(7, 1), "(none)", "others may not be reported");
	name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, "fourth");
	counts_end(7, 1, true);
	split(key, 0, 15);
	cr_assert_eq(nr_parts, 2);
	expect_part(0, 10, "(none)");
	expect_part(1, 5, "fourth");
	/* The same holds for a handle that was not known before. */
	counts_end(7, 2, false);
	name_send_as(BPFPROF_NAME_UNSEEN, 7, 2, 0, "first");
	cr_expect_str_eq(kernel_name(7, 2), "(none)");
}

/* Two threads look up the new kernel at once: the one that did not notice may be heard first, or last. */
Test(call_table, kernels_named_by_two_threads)
{
	struct bpfprof_gpu_key key = launch_of(7, 1);

	name_send(7, 1, 0, "first");
	name_send(7, 1, 0, "second");
	name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, "second");
	name_send(7, 1, 0, "second");
	reused_send(key, 10);
	call_table_kernel_set(table, &key, "third"); /* a stack reports this one meanwhile */
	counts_end(7, 1, true);
	split(key, 0, 15);
	cr_assert_eq(nr_parts, 2);
	expect_part(0, 10, "first");
	expect_part(1, 5, "second");
}

/* An interval forgets ended generations; the next one counts from its own boundary. */
Test(call_table, handles_again_in_intervals)
{
	struct bpfprof_gpu_key key = launch_of(7, 1), unknown = launch_of(8, 1);
	struct bpfprof_gpu_call call = call_of(key);
	struct aggregate *next;
	char name[32] = "k0";

	send_stack(&call, 7, 1);
	name_send(7, 1, 0, "k0");
	for (uint64_t i = 1; i < 3 * CALL_TABLE_MAX_PROCESS_NAMES; i++) {
		snprintf(name, sizeof(name), "k%" PRIu64, i);
		name_send_as(BPFPROF_NAME_REUSED, 7, 1, 0, name);
		reused_send(key, 10 * i);
		counts_end(7, 1, true);
		if (i % 1000)
			continue;
		cr_assert_eq(aggregate_new(&next, false, 16 * MIB), 0);
		call_table_next(table, next, 16 * MIB);
		aggregate_free(table_aggregate);
		table_aggregate = next;
		cr_assert_eq(call_table_nr_parts(table), 0);
		split(key, 10 * i, 10 * i + 3);
		cr_assert_eq(nr_parts, 1);
		expect_part(0, 3, name);
	}
	cr_expect_eq(table_lost("kernel_names_no_room"), 0);
	cr_expect_eq(table_lost("kernel_handles_reused_no_room"), 0);
	/* The names of a process that is not described yet may still be needed. */
	name_send(8, 1, 0, "first");
	name_send_as(BPFPROF_NAME_REUSED, 8, 1, 0, "second");
	reused_send(unknown, 5);
	cr_assert_eq(aggregate_new(&next, false, 16 * MIB), 0);
	call_table_next(table, next, 16 * MIB);
	aggregate_free(table_aggregate);
	table_aggregate = next;
	split(unknown, 0, 7);
	cr_assert_eq(nr_parts, 2);
	expect_part(0, 5, "first");
}

/*
 * A process that reuses handles without end takes no room of others; its launches then have no
 * name.
 */
Test(call_table, handles_again_are_bounded)
{
	struct bpfprof_gpu_key key = launch_of(7, 1);
	uint64_t most = HANDLE_GENERATIONS_MAX / HANDLE_GENERATIONS_OF_ONE, i;

	for (i = 1; i <= HANDLE_GENERATION_MAX; i++)
		renamed_send(7, 1, "first");
	cr_expect_str_eq(kernel_name(7, 1), "first");
	renamed_send(7, 1, "second");
	name_send(7, 1, 0, "second");
	cr_expect_str_eq(kernel_name(7, 1), "(none)");
	cr_expect_eq(table_lost("kernel_handles_reused_no_room"), 1);
	name_send(7, 2, 0, "first");
	for (; i <= most; i++)
		renamed_send(7, 2 + i % 2, "second");
	cr_expect_str_eq(kernel_name(7, 2), "second");
	cr_expect_eq(table_lost("kernel_handles_reused_no_room"), 1);
	key.handle = 2;
	reused_send(key, 10);
	counts_end(7, 2, true);
	cr_expect_str_eq(kernel_name(7, 2), "(none)");
	cr_expect_eq(table_lost("kernel_handles_reused_no_room"), 2);
	name_send_as(BPFPROF_NAME_REUSED, 8, 1, 0, "other");
	reused_send(launch_of(8, 1), 10);
	counts_end(8, 1, true);
	cr_expect_str_eq(kernel_name(8, 1), "other");
	cr_expect_eq(table_lost("kernel_handles_reused_no_room"), 2);
}

/* The kernels of a launched graph are a frame; a graph without known content has no such frame. */
Test(call_table, graphs)
{
	struct call_table_count counts[4];
	struct bpfprof_gpu_graph_event event = { .start_ns = START_NS, .pid = 7, .number = 1 };
	struct aggregate_view view;
	struct gpu_graph graph;
	size_t i;

	event.kind = GPU_GRAPH_NODE;
	event.function = function_nr("cuLaunchKernel");
	for (i = 0; i < 3; i++)
		call_table_graph(table, &event);
	event.number = 2;
	call_table_graph(table, &event);
	event.function = function_nr("cuGraphLaunch");
	call_table_graph(table, &event);
	event.function = function_nr("cuMemsetD8Async");
	event.number = 1;
	call_table_graph(table, &event);
	event.kind = GPU_GRAPH_MADE;
	event.handle = 0xc1;
	event.nodes = 4;
	call_table_graph(table, &event);
	event.number = 2;
	event.handle = 0xc2;
	event.nodes = 2;
	call_table_graph(table, &event);
	for (i = 0; i < 4; i++) {
		counts[i] = (struct call_table_count){ .key = key_of(7, "cuGraphLaunch"),
						       .count = { .calls = 1U << i } };
		counts[i].key.handle = 0xc0 + i;
	}
	cr_expect_eq(call_table_nr_nodes(table), 4);
	cr_expect(call_table_graph_of(table, &counts[1].key, &graph) && graph.complete);
	cr_expect(call_table_graph_of(table, &counts[2].key, &graph) && !graph.complete,
		  "another graph is in it");
	cr_expect_not(call_table_graph_of(table, &counts[3].key, &graph));
	counts[0].key.handle = 0;
	cr_expect_not(call_table_graph_of(table, &counts[0].key, &graph));
	table_finish(counts, 4, &view);
	cr_assert_eq(view.nr_call_samples, 4);
	for (i = 0; i < 4; i++) {
		uint64_t nr = view.call_samples[i].values[PROFILE_CALLS];
		const char *leaf = label_at(&view, i, 0);

		if (nr == 2)
			cr_expect_str_eq(leaf, "graph of 3 kernels");
		else if (nr == 4)
			cr_expect_str_eq(leaf, "graph of at least 1 kernel");
		else
			cr_expect_str_eq(leaf, "cuGraphLaunch");
	}
}

Test(call_table, names_without_an_end)
{
	struct bpfprof_gpu_name e = { .task = { .pid = 7, .tid = 7, .start_ns = START_NS },
				      .handle = 1 };

	memset(e.name, 'x', sizeof(e.name));
	call_table_name(table, &e);
	cr_expect_eq(strlen(kernel_name(7, 1)), sizeof(e.name) - 1);
	/* Another name with the same beginning stays different, and is not demangled. */
	memcpy(e.name, "_Z3foov.", 8);
	e.handle = 2;
	call_table_name(table, &e);
	e.handle = 3;
	call_table_name(table, &e);
	cr_expect_str_neq(kernel_name(7, 2), kernel_name(7, 3));
	cr_expect(!strncmp(kernel_name(7, 2), "_Z3foov.xxx", 11));
	memset(e.name, 'x', 8);
	memset(e.name, '\xff', sizeof(e.name));
	e.handle = UINT64_MAX;
	call_table_name(table, &e);
	for (const char *c = kernel_name(7, UINT64_MAX); *c; c++)
		cr_assert(*c >= ' ' && *c < 0x7f, "it is for a terminal");
}

/* One process may have less than all the room: the next process gets its own. */
Test(call_table, names_of_one_process)
{
	const struct bpfprof_gpu_key first = launch_of(7, 1);
	char name[32];

	for (uint64_t i = 1; i <= CALL_TABLE_MAX_PROCESS_NAMES + 3; i++) {
		snprintf(name, sizeof(name), "k%" PRIu64, i);
		name_send(7, i, 0, name);
	}
	cr_expect_eq(table_lost("kernel_names_no_room"), 3);
	cr_expect_str_eq(kernel_name(7, CALL_TABLE_MAX_PROCESS_NAMES + 1), "(none)");
	call_table_kernel_set(table, &first, "renamed");
	cr_expect_str_eq(kernel_name(7, 1), "renamed");
	name_send(8, 1, 0, "other");
	cr_expect_str_eq(kernel_name(8, 1), "other");
	cr_expect_eq(table_lost("kernel_names_no_room"), 3);
}

/* Long names do not avoid the limit; a longer name that replaces another costs the difference. */
Test(call_table, name_bytes_of_one_process)
{
	const struct bpfprof_gpu_key first = launch_of(7, 1);
	uint64_t fit = CALL_TABLE_PROCESS_NAME_BYTES / 1000;
	char name[1001] = "";

	memset(name, 'n', 1000);
	for (uint64_t i = 1; i <= fit + 3; i++)
		name_send(7, i, 0, name);
	cr_expect_eq(table_lost("kernel_names_no_room"), 3);
	cr_expect_str_eq(kernel_name(7, fit), name);
	cr_expect_str_eq(kernel_name(7, fit + 1), "(none)");
	name[0] = 'm';
	call_table_kernel_set(table, &first, name);
	cr_expect_str_eq(kernel_name(7, 1), name);
	name_send(8, 1, 0, name);
	cr_expect_str_eq(kernel_name(8, 1), name);
	cr_expect_eq(table_lost("kernel_names_no_room"), 3);
	/* Freed room can be used again. */
	call_table_kernel_set(table, &first, "s");
	name_send(7, fit + 1, 0, "t");
	cr_expect_str_eq(kernel_name(7, fit + 1), "t");
}

Test(call_table, names_in_all)
{
	char name[32];

	for (uint64_t i = 1; i <= CALL_TABLE_MAX_NAMES; i++) {
		snprintf(name, sizeof(name), "k%" PRIu64, i);
		name_send(7 + (uint32_t)(i % 4), i, 0, name);
	}
	cr_expect_eq(table_lost("kernel_names_no_room"), 0);
	name_send(20, 1, 0, "late");
	cr_expect_eq(table_lost("kernel_names_no_room"), 1);
	cr_expect_str_eq(kernel_name(20, 1), "(none)");
}
