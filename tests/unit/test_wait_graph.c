// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watch/wait_graph.h"

#define S 1000000000ULL
#define MAX_THREADS 8
#define MAX_PROCESSES 4
#define MAX_CASE_ENDS 4

/* A thread: what it waits for, and 'L' if it is live, 'l' if only without doubt, '-' if it is stuck. */
struct row {
	uint32_t process;
	enum wait_kind kind;
	char expected;
	unsigned int seconds;
	bool timed, helper, library, beyond, handled;
	uint32_t ends[MAX_CASE_ENDS]; /* 1 + process, then 0 */
};

struct graph_case {
	const char *name;
	bool is_job, ranked, busy;
	uint32_t strangers; /* a bit for each process that has no part in the job */
	int root; /* without doubt, or busy; -1: none */
	struct row rows[MAX_THREADS];
};

#define AT(pid, what, live, slept)                                                                 \
	.process = (pid), .kind = (what), .expected = (live), .seconds = (slept)
#define JOB .is_job = true
#define RANKS .is_job = true, .ranked = true
#define BUSY .busy = true

static const struct graph_case cases[] = {
	{ .name = "two locks",
	  .root = 0,
	  .rows = { { AT(0, WAIT_LOCK, '-', 9) }, { AT(0, WAIT_LOCK, '-', 9) } } },
	{ .name = "a lock that a thread at work holds",
	  .root = -1,
	  .rows = { { AT(0, WAIT_LOCK, 'L', 9) }, { AT(0, WAIT_NONE, 'L', 0) } } },
	{ .name = "a pool beside a server",
	  .root = -1,
	  .rows = { { AT(0, WAIT_OUTSIDE, 'L', 9) },
		    { AT(0, WAIT_LOCK, 'L', 9) },
		    { AT(0, WAIT_LOCK, 'L', 9) } } },
	{ .name = "a pool beside a sleep",
	  .root = -1,
	  .rows = { { AT(0, WAIT_LOCK, 'L', 9) }, { AT(0, WAIT_TIME, 'L', 9) } } },
	{ .name = "a lock of another process is none of ours",
	  .root = 0,
	  .rows = { { AT(0, WAIT_LOCK, '-', 9) }, { AT(1, WAIT_NONE, 'L', 0) } } },
	{ .name = "locks that go from hand to hand",
	  .root = -1,
	  .rows = { { AT(0, WAIT_LOCK, 'L', 9) }, { AT(0, WAIT_LOCK, 'L', 0) } } },
	{ .name = "a time limit that has not passed",
	  .root = -1,
	  .rows = { { AT(0, WAIT_LOCK, 'L', 9), .timed = true } } },
	{ .name = "a time limit that is long",
	  .root = -1,
	  .rows = { { AT(0, WAIT_LOCK, 'l', 99), .timed = true } } },
	{ .name = "the handler of a signal",
	  .root = -1,
	  .rows = { { AT(0, WAIT_LOCK, 'l', 9), .handled = true } } },
	{ .name = "shared memory",
	  .root = 2,
	  .rows = { { AT(0, WAIT_SHARED, '-', 9) },
		    { AT(1, WAIT_SHARED, '-', 9) },
		    { AT(1, WAIT_LOCK, '-', 9) } } },
	{ .name = "shared memory of one at work",
	  .root = -1,
	  .rows = { { AT(0, WAIT_SHARED, 'L', 9) }, { AT(1, WAIT_NONE, 'L', 0) } } },
	{ .name = "a pipe whose other end waits too",
	  .root = 0,
	  .rows = { { AT(0, WAIT_ENDS, '-', 9), .ends = { 2 } },
		    { AT(1, WAIT_ENDS, '-', 9), .ends = { 1 } } } },
	{ .name = "a pipe of a worker that works",
	  .root = -1,
	  .rows = { { AT(0, WAIT_ENDS, 'L', 9), .ends = { 2 } }, { AT(1, WAIT_NONE, 'L', 0) } } },
	{ .name = "a pipe with an end beyond",
	  .root = -1,
	  .rows = { { AT(0, WAIT_ENDS, 'L', 9), .beyond = true, .ends = { 2 } },
		    { AT(1, WAIT_LOCK, '-', 9) } },
	  .strangers = 2 },
	{ .name = "a chain of three, the last waits for itself",
	  .root = 2,
	  .rows = { { AT(0, WAIT_ENDS, '-', 9), .ends = { 2 } },
		    { AT(1, WAIT_ENDS, '-', 9), .ends = { 3 } },
		    { AT(2, WAIT_LOCK, '-', 9) } } },
	{ .name = "a chain to its own pipe",
	  .root = 1,
	  .rows = { { AT(0, WAIT_ENDS, '-', 9), .ends = { 2 } },
		    { AT(1, WAIT_ENDS, '-', 9), .ends = { 2 } } } },
	{ .name = "a chain into a circle",
	  .root = 1,
	  .rows = { { AT(0, WAIT_ENDS, '-', 9), .ends = { 2 } },
		    { AT(1, WAIT_ENDS, '-', 9), .ends = { 3 } },
		    { AT(2, WAIT_ENDS, '-', 9), .ends = { 2 } } } },
	{ .name = "a deadlock beside a thread that reads from the parent",
	  .root = 1,
	  .rows = { { AT(0, WAIT_ENDS, '-', 9), .ends = { 2 } },
		    { AT(1, WAIT_LOCK, '-', 9) },
		    { AT(1, WAIT_ENDS, '-', 9), .ends = { 1 } } } },
	{ .name = "its own pipe",
	  .root = 0,
	  .rows = { { AT(0, WAIT_ENDS, '-', 9), .ends = { 1 } }, { AT(0, WAIT_LOCK, '-', 9) } } },
	{ .name = "a chain of three, the last works",
	  .root = -1,
	  .rows = { { AT(0, WAIT_ENDS, 'L', 9), .ends = { 2 } },
		    { AT(1, WAIT_ENDS, 'L', 9), .ends = { 3 } },
		    { AT(2, WAIT_NONE, 'L', 0) } } },
	{ .name = "one of two ends works",
	  .root = 1,
	  .rows = { { AT(0, WAIT_ENDS, 'L', 9), .ends = { 2, 3 } },
		    { AT(1, WAIT_LOCK, '-', 9) },
		    { AT(2, WAIT_NONE, 'L', 0) } } },
	{ .name = "a stopped child explains its parent",
	  .root = 1,
	  .rows = { { AT(0, WAIT_ENDS, '-', 9), .ends = { 2 } },
		    { AT(1, WAIT_STOPPED, '-', 9) } } },
	{ .name = "a tracer's short stops",
	  .root = -1,
	  .rows = { { AT(0, WAIT_STOPPED, 'L', 0) } } },
	{ .name = "a server that answers", .root = -1, .rows = { { AT(0, WAIT_KERNEL, 'L', 4) } } },
	{ .name = "a server that is slow", .root = -1, .rows = { { AT(0, WAIT_KERNEL, 'l', 6) } } },
	{ .name = "a server that is silent",
	  .root = 0,
	  .rows = { { AT(0, WAIT_KERNEL, '-', 31) } } },

	{ .name = "ranks without one",
	  RANKS,
	  .root = 0,
	  .rows = { { AT(0, WAIT_COLLECTIVE, '-', 9) }, { AT(1, WAIT_LOCK, '-', 9) } } },
	{ .name = "ranks, one works",
	  RANKS,
	  .root = -1,
	  .rows = { { AT(0, WAIT_COLLECTIVE, 'L', 9) }, { AT(1, WAIT_NONE, 'L', 0) } } },
	{ .name = "ranks, one sleeps",
	  RANKS,
	  .root = -1,
	  .rows = { { AT(0, WAIT_COLLECTIVE, 'l', 9) }, { AT(1, WAIT_TIME, 'l', 31) } } },
	{ .name = "ranks, one sleeps again and again",
	  RANKS,
	  .root = -1,
	  .rows = { { AT(0, WAIT_COLLECTIVE, 'L', 9) }, { AT(1, WAIT_TIME, 'L', 9) } } },
	{ .name = "ranks, one sleeps for long",
	  RANKS,
	  .root = 0,
	  .rows = { { AT(0, WAIT_COLLECTIVE, '-', 99) }, { AT(1, WAIT_TIME, '-', 99) } } },
	{ .name = "a sleep for which no rank waits",
	  RANKS,
	  .root = -1,
	  .rows = { { AT(0, WAIT_TIME, 'L', 99) }, { AT(1, WAIT_TIME, 'L', 99) } } },
	{ .name = "ranks, one is stopped",
	  RANKS,
	  .root = 1,
	  .rows = { { AT(0, WAIT_COLLECTIVE, '-', 9) }, { AT(1, WAIT_STOPPED, '-', 9) } } },
	{ .name = "ranks, all are in it",
	  RANKS,
	  .root = 0,
	  .rows = { { AT(0, WAIT_COLLECTIVE, '-', 9) }, { AT(1, WAIT_COLLECTIVE, '-', 9) } } },
	{ .name = "ranks elsewhere",
	  RANKS,
	  .root = -1,
	  .rows = { { AT(0, WAIT_COLLECTIVE, 'L', 9), .beyond = true },
		    { AT(1, WAIT_COLLECTIVE, 'L', 9), .beyond = true } } },
	{ .name = "a live thread in a collective ends no other",
	  RANKS,
	  .root = 1,
	  .rows = { { AT(0, WAIT_COLLECTIVE, 'L', 9), .beyond = true },
		    { AT(1, WAIT_COLLECTIVE, '-', 9) } } },
	{ .name = "threads of a runtime are no life",
	  RANKS,
	  .root = 0,
	  .rows = { { AT(0, WAIT_LOCK, '-', 9) },
		    { AT(0, WAIT_OUTSIDE, '-', 9), .helper = true },
		    { AT(0, WAIT_TIME, '-', 9), .helper = true },
		    { AT(1, WAIT_LOCK, '-', 9) } } },
	{ .name = "nor are those that were just awake",
	  RANKS,
	  .root = 0,
	  .rows = { { AT(0, WAIT_LOCK, '-', 9) },
		    { AT(0, WAIT_LOCK, '-', 0), .helper = true },
		    { AT(1, WAIT_LOCK, '-', 9) } } },
	{ .name = "they are where there is no job",
	  .root = -1,
	  .rows = { { AT(0, WAIT_LOCK, 'L', 9) },
		    { AT(0, WAIT_OUTSIDE, 'L', 9), .helper = true } } },
	{ .name = "threads of libraries are doubtful life",
	  JOB,
	  .root = -1,
	  .rows = { { AT(0, WAIT_LOCK, 'l', 9) },
		    { AT(0, WAIT_OUTSIDE, 'l', 9), .library = true },
		    { AT(0, WAIT_TIME, 'l', 9), .library = true },
		    { AT(1, WAIT_LOCK, 'l', 9) } } },
	{ .name = "they are life where there is no job",
	  .root = -1,
	  .rows = { { AT(0, WAIT_LOCK, 'L', 9) },
		    { AT(0, WAIT_OUTSIDE, 'L', 9), .library = true } } },
	{ .name = "one that runs is",
	  JOB,
	  .root = -1,
	  .rows = { { AT(0, WAIT_LOCK, 'L', 9) }, { AT(0, WAIT_NONE, 'L', 0), .library = true } } },
	{ .name = "a helper that runs is",
	  RANKS,
	  .root = -1,
	  .rows = { { AT(0, WAIT_LOCK, 'L', 9) }, { AT(0, WAIT_NONE, 'L', 0), .helper = true } } },
	{ .name = "a lock of a job waits for other members",
	  RANKS,
	  .root = -1,
	  .rows = { { AT(0, WAIT_LOCK, 'L', 9) }, { AT(1, WAIT_NONE, 'L', 0) } } },
	{ .name = "and not for their launcher",
	  RANKS,
	  .root = 1,
	  .strangers = 1,
	  .rows = { { AT(0, WAIT_TIME, 'L', 9) },
		    { AT(1, WAIT_LOCK, '-', 9) },
		    { AT(2, WAIT_LOCK, '-', 9) } } },
	{ .name = "a stopped launcher",
	  RANKS,
	  .root = 0,
	  .strangers = 1,
	  .rows = { { AT(0, WAIT_STOPPED, '-', 9) }, { AT(1, WAIT_NONE, 'L', 0) } } },
	{ .name = "a time limit is no life in a job",
	  JOB,
	  .root = 0,
	  .rows = { { AT(0, WAIT_LOCK, '-', 9), .timed = true }, { AT(1, WAIT_LOCK, '-', 9) } } },
	{ .name = "idle workers",
	  JOB,
	  .root = -1,
	  .strangers = 3,
	  .rows = { { AT(0, WAIT_LOCK, '-', 9) }, { AT(1, WAIT_LOCK, '-', 9) } } },
	{ .name = "a worker's own sleep",
	  JOB,
	  .root = -1,
	  .rows = { { AT(0, WAIT_TIME, 'L', 99) } } },
	{ .name = "a driver that waits for a sleep",
	  JOB,
	  .root = -1,
	  .rows = { { AT(0, WAIT_LOCK, 'l', 99) }, { AT(1, WAIT_TIME, 'l', 99) } } },
	{ .name = "nothing", .root = -1 },

	/* The first thread that runs, of a member, unless its process can go on without it. */
	{ .name = "alone", BUSY, .root = 0, .rows = { { AT(0, WAIT_NONE, '-', 0) } } },
	{ .name = "its parent waits",
	  BUSY,
	  .root = 1,
	  .rows = { { AT(0, WAIT_ENDS, '-', 9), .ends = { 2 } }, { AT(1, WAIT_NONE, '-', 0) } } },
	{ .name = "beside a server",
	  BUSY,
	  .root = -1,
	  .rows = { { AT(0, WAIT_NONE, '-', 0) }, { AT(0, WAIT_OUTSIDE, 'L', 9) } } },
	{ .name = "beside a server that is another process",
	  BUSY,
	  .root = 0,
	  .rows = { { AT(0, WAIT_NONE, '-', 0) }, { AT(1, WAIT_OUTSIDE, 'L', 9) } } },
	{ .name = "a second thread, whose silence is not known",
	  BUSY,
	  .root = -1,
	  .rows = { { AT(0, WAIT_LOCK, '-', 9) }, { AT(0, WAIT_NONE, '-', 0) } } },
	{ .name = "only a thread of a runtime runs",
	  BUSY,
	  RANKS,
	  .root = -1,
	  .rows = { { AT(0, WAIT_LOCK, '-', 9) }, { AT(0, WAIT_NONE, '-', 0), .helper = true } } },
	{ .name = "only a launcher runs",
	  BUSY,
	  RANKS,
	  .root = -1,
	  .strangers = 1,
	  .rows = { { AT(0, WAIT_NONE, '-', 0) }, { AT(1, WAIT_LOCK, '-', 9) } } },
};

struct room {
	struct wait_thread threads[MAX_THREADS];
	struct wait_process processes[MAX_PROCESSES];
	uint32_t ends[MAX_THREADS][MAX_CASE_ENDS];
	struct wait_graph graph;
};

static void fill(struct room *room, const struct graph_case *c)
{
	const struct row *row;
	size_t i, k;

	memset(room, 0, sizeof(*room));
	for (i = 0; i < MAX_PROCESSES; i++)
		room->processes[i].member = !(c->strangers & (1U << i));
	room->graph = (struct wait_graph){ .threads = room->threads,
					   .processes = room->processes,
					   .nr_processes = MAX_PROCESSES,
					   .is_job = c->is_job,
					   .ranked = c->ranked,
					   .sleep_ns = 60 * S };
	for (i = 0; i < MAX_THREADS && c->rows[i].expected; i++) {
		row = &c->rows[i];
		for (k = 0; k < MAX_CASE_ENDS && row->ends[k]; k++)
			room->ends[i][k] = row->ends[k] - 1;
		room->threads[i] =
			(struct wait_thread){ .process = row->process,
					      .kind = row->kind,
					      .timed = row->timed,
					      .helper = row->helper,
					      .of_library = row->library,
					      .beyond = row->beyond,
					      .handled = row->handled,
					      .asleep_ns = row->seconds ? row->seconds * S : S / 10,
					      .ends = room->ends[i],
					      .nr_ends = k };
		room->graph.nr_threads++;
	}
}

/* A thread is live through one that is live; the first one of such a chain is live by itself. */
static void check_chain(const struct wait_graph *graph, const char *name, size_t i)
{
	size_t steps = 0;
	uint32_t at = (uint32_t)i;

	while (graph->threads[at].by != WAIT_NOBODY) {
		at = graph->threads[at].by;
		cr_expect(graph->threads[at].live, "%s: %zu is live through one that is not", name,
			  i);
		if (++steps > graph->nr_threads)
			break;
	}
	cr_expect_leq(steps, graph->nr_threads, "%s: %zu is live through itself", name, i);
}

static void check_case(const struct graph_case *c, bool doubt)
{
	struct room room;
	uint32_t root;
	size_t i;

	fill(&room, c);
	room.graph.doubt = doubt;
	room.graph.busy = c->busy;
	wait_graph_solve(&room.graph);
	for (i = 0; i < room.graph.nr_threads; i++) {
		bool live = c->rows[i].expected == 'L' || (c->rows[i].expected == 'l' && !doubt);

		cr_expect_eq(room.threads[i].live, live, "%s, doubt %d: thread %zu", c->name, doubt,
			     i);
		check_chain(&room.graph, c->name, i);
	}
	if (doubt && !c->busy)
		return;
	root = wait_graph_root(&room.graph);
	cr_expect_eq(root, c->root < 0 ? WAIT_NOBODY : (uint32_t)c->root, "%s: root %u", c->name,
		     root);
}

Test(wait_graph, cases)
{
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (!cases[i].busy)
			check_case(&cases[i], false);
		check_case(&cases[i], true);
	}
}

/* Thousands of threads in a chain of pipes, the live one last: the order that needs the most rounds. */
Test(wait_graph, many, .timeout = 60)
{
	enum { NR = 2000, EACH = 16 };
	struct wait_thread *threads = calloc(NR * EACH, sizeof(*threads));
	struct wait_process *processes = calloc(NR, sizeof(*processes));
	uint32_t *ends = calloc(NR, sizeof(*ends));
	struct wait_graph graph = { .threads = threads,
				    .nr_threads = NR * EACH,
				    .processes = processes,
				    .nr_processes = NR,
				    .is_job = true,
				    .sleep_ns = S };
	size_t i;

	for (i = 0; i < NR * EACH; i++)
		threads[i] = (struct wait_thread){ .process = (uint32_t)(i / EACH),
						   .kind = WAIT_COLLECTIVE,
						   .asleep_ns = S };
	for (i = 0; i < NR; i++) {
		processes[i].member = true;
		ends[i] = (uint32_t)i + 1;
		threads[i * EACH].kind = WAIT_ENDS;
		threads[i * EACH].ends = &ends[i];
		threads[i * EACH].nr_ends = i + 1 < NR;
	}
	wait_graph_solve(&graph);
	cr_expect_eq(wait_graph_root(&graph), 1);
	cr_expect_not(threads[0].live);
	threads[NR * EACH - EACH].kind = WAIT_NONE;
	wait_graph_solve(&graph);
	cr_expect_eq(wait_graph_root(&graph), WAIT_NOBODY);
	for (i = 0; i < NR * EACH; i++)
		cr_assert(threads[i].live, "%zu", i);
	free(threads);
	free(processes);
	free(ends);
}
