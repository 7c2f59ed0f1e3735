// SPDX-License-Identifier: Apache-2.0
#include "watch/wait_graph.h"

#define SECOND_NS 1000000000ULL
/* A disk or server that answers later than this does not answer, or may not answer. */
#define KERNEL_NS (30 * SECOND_NS)
#define KERNEL_DOUBT_NS (5 * SECOND_NS)
#define MAX_CHAIN 64 /* processes that wait for each other, from the first to the cause */
/* A program that sleeps for less, again and again, may look for something between its sleeps. */
#define SLEEP_DOUBT_NS (30 * SECOND_NS)
/* Threads are read one after the other: two that wake each other may both have been asleep. */
#define AWAKE_NS (SECOND_NS / 2)

static bool waits_for_others(const struct wait_graph *graph, const struct wait_thread *t)
{
	return graph->processes[t->process].member && !t->helper &&
	       (t->kind == WAIT_COLLECTIVE || t->kind == WAIT_LOCK || t->kind == WAIT_ENDS);
}

static void waiting_find(struct wait_graph *graph)
{
	const struct wait_thread *t;
	size_t i;

	graph->waiting = WAIT_NOBODY;
	graph->waiting_more = false;
	for (i = 0; i < graph->nr_threads; i++) {
		t = &graph->threads[i];
		if (!waits_for_others(graph, t))
			continue;
		if (graph->waiting == WAIT_NOBODY)
			graph->waiting = t->process;
		graph->waiting_more |= graph->waiting != t->process;
	}
}

/* Does a thread of another process wait, possibly for this one? */
static bool others_wait(const struct wait_graph *graph, const struct wait_thread *t)
{
	return graph->waiting_more ||
	       (graph->waiting != WAIT_NOBODY && graph->waiting != t->process);
}

/* Has the thread slept for less than this? */
static bool is_younger(const struct wait_thread *t, uint64_t ns)
{
	return t->asleep_ns && t->asleep_ns < ns;
}

/* Is a sleep too long for a program that others wait for? */
static bool is_long_sleep(const struct wait_graph *graph, const struct wait_thread *t)
{
	uint64_t doubt_ns = graph->sleep_ns < SLEEP_DOUBT_NS ? graph->sleep_ns : SLEEP_DOUBT_NS;

	return ((graph->doubt && graph->is_job && t->asleep_ns >= doubt_ns) ||
		(graph->ranked && t->asleep_ns >= graph->sleep_ns)) &&
	       others_wait(graph, t);
}

static bool is_kernel_live(const struct wait_graph *graph, const struct wait_thread *t)
{
	uint64_t limit_ns = graph->doubt ? KERNEL_DOUBT_NS : KERNEL_NS;

	return !t->asleep_ns ||
	       t->asleep_ns < (limit_ns < graph->sleep_ns ? limit_ns : graph->sleep_ns);
}

/* Is it one of the threads that runtimes of jobs have for events and timers? */
static bool is_spare(const struct wait_graph *graph, const struct wait_thread *t)
{
	return graph->is_job && (t->helper || (t->of_library && graph->doubt));
}

/* May something other than a thread of the job end the wait of a thread? */
static bool is_ended_alone(const struct wait_graph *graph, const struct wait_thread *t)
{
	if (t->beyond)
		return true;
	if (!t->timed && !is_spare(graph, t) && is_younger(t, AWAKE_NS))
		return true;
	if (graph->is_job)
		return false;
	return t->timed ? !graph->doubt || is_younger(t, graph->sleep_ns)
			: t->handled && !graph->doubt;
}

/* Is the thread live whatever the others do? */
static bool is_live_alone(const struct wait_graph *graph, const struct wait_thread *t)
{
	bool spare = is_spare(graph, t);

	switch (t->kind) {
	case WAIT_NONE:
		return !graph->busy;
	case WAIT_OUTSIDE:
		return !spare;
	case WAIT_TIME:
		return !spare && !is_long_sleep(graph, t);
	case WAIT_STOPPED:
		return is_younger(t, AWAKE_NS);
	case WAIT_KERNEL:
		return is_kernel_live(graph, t);
	default:
		return is_ended_alone(graph, t);
	}
}

/* A live thread of any member other than `but`, that is in no collective. */
static uint32_t member_live(const struct wait_graph *graph, uint32_t but)
{
	uint32_t member = graph->members_apart[graph->members_apart[0] == but];

	return member == WAIT_NOBODY ? WAIT_NOBODY : graph->processes[member].live_apart;
}

/* A live thread that may end the wait; WAIT_NOBODY: there is none. */
static uint32_t live_end(const struct wait_graph *graph, const struct wait_thread *t)
{
	uint32_t by = WAIT_NOBODY;
	size_t i;

	switch (t->kind) {
	case WAIT_LOCK:
		by = graph->processes[t->process].live;
		/* Of a job: a thread of the runtime ends it, when a message of another member comes. */
		return by == WAIT_NOBODY && graph->is_job ? member_live(graph, t->process) : by;
	case WAIT_SHARED:
		return graph->any_live;
	case WAIT_ENDS:
		for (i = 0; i < t->nr_ends && by == WAIT_NOBODY; i++)
			by = graph->processes[t->ends[i]].live;
		return by;
	case WAIT_COLLECTIVE:
		return member_live(graph, t->process);
	default:
		return WAIT_NOBODY;
	}
}

static void live_set(struct wait_graph *graph, size_t index, uint32_t by)
{
	struct wait_thread *t = &graph->threads[index];
	struct wait_process *p = &graph->processes[t->process];

	t->live = true;
	t->by = by;
	if (p->live == WAIT_NOBODY)
		p->live = (uint32_t)index;
	if (graph->any_live == WAIT_NOBODY)
		graph->any_live = (uint32_t)index;
	if (p->live_apart != WAIT_NOBODY || t->kind == WAIT_COLLECTIVE)
		return;
	p->live_apart = (uint32_t)index;
	if (p->member)
		graph->members_apart[graph->members_apart[0] != WAIT_NOBODY] = t->process;
}

void wait_graph_solve(struct wait_graph *graph)
{
	bool changed = true;
	uint32_t by;
	size_t i;

	waiting_find(graph);
	graph->any_live = graph->members_apart[0] = graph->members_apart[1] = WAIT_NOBODY;
	for (i = 0; i < graph->nr_processes; i++)
		graph->processes[i].live = graph->processes[i].live_apart = WAIT_NOBODY;
	for (i = 0; i < graph->nr_threads; i++) {
		graph->threads[i].live = false;
		graph->threads[i].by = WAIT_NOBODY;
		if (is_live_alone(graph, &graph->threads[i]))
			live_set(graph, i, WAIT_NOBODY);
	}
	/* Each round that changes something makes a further process live, so there are few. */
	while (changed) {
		changed = false;
		for (i = 0; i < graph->nr_threads; i++) {
			by = graph->threads[i].live ? WAIT_NOBODY
						    : live_end(graph, &graph->threads[i]);
			if (by == WAIT_NOBODY)
				continue;
			live_set(graph, i, by);
			changed = true;
		}
	}
}

static bool is_first(const struct wait_graph *graph, const struct wait_thread *t)
{
	return t == graph->threads || t[-1].process != t->process;
}

static bool is_root(const struct wait_graph *graph, const struct wait_thread *t)
{
	if (t->live)
		return false;
	/* Silence is that of first threads. */
	if (graph->busy && (t->kind != WAIT_NONE || !is_first(graph, t) ||
			    graph->processes[t->process].live != WAIT_NOBODY))
		return false;
	if (t->kind == WAIT_STOPPED || t->kind == WAIT_KERNEL)
		return true;
	return graph->processes[t->process].member &&
	       !(graph->is_job && (t->helper || t->of_library));
}

/* The first stuck thread of a process. WAIT_NOBODY: none. */
static uint32_t stuck_of(const struct wait_graph *graph, uint32_t process)
{
	size_t i;

	for (i = 0; i < graph->nr_threads; i++)
		if (graph->threads[i].process == process && is_root(graph, &graph->threads[i]))
			return (uint32_t)i;
	return WAIT_NOBODY;
}

/* The stuck thread at the end of a chain of processes that wait for each other, or the first one in a circle of them. */
static uint32_t cause_find(const struct wait_graph *graph, uint32_t first)
{
	const struct wait_thread *t;
	uint32_t chain[MAX_CHAIN], at = first, next;
	size_t nr, i;

	for (nr = 0; nr < MAX_CHAIN; nr++) {
		for (i = 0; i < nr; i++)
			if (chain[i] == at)
				return at;
		chain[nr] = at;
		t = &graph->threads[at];
		next = WAIT_NOBODY;
		for (i = 0; t->kind == WAIT_ENDS && i < t->nr_ends && next == WAIT_NOBODY; i++)
			if (t->ends[i] != t->process)
				next = stuck_of(graph, t->ends[i]);
		if (next == WAIT_NOBODY)
			return at;
		at = next;
	}
	return first;
}

uint32_t wait_graph_root(const struct wait_graph *graph)
{
	static const enum wait_kind order[] = { WAIT_STOPPED, WAIT_KERNEL, WAIT_COLLECTIVE,
						WAIT_ENDS,    WAIT_LOCK,   WAIT_SHARED,
						WAIT_NONE };
	size_t i, k;

	for (i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		for (k = 0; k < graph->nr_threads; k++)
			if (graph->threads[k].kind == order[i] &&
			    is_root(graph, &graph->threads[k]))
				return cause_find(graph, (uint32_t)k);
	return WAIT_NOBODY;
}
