// SPDX-License-Identifier: Apache-2.0
#include "watch/wait_graph.h"

/* A disk that answers later than this may not answer at all. */
#define KERNEL_NS 1000000000ULL

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

/* Is a sleep too long for a program that others wait for? */
static bool is_long_sleep(const struct wait_graph *graph, const struct wait_thread *t)
{
	return ((graph->doubt && graph->is_job) ||
		(graph->ranked && t->asleep_ns >= graph->sleep_ns)) &&
	       others_wait(graph, t);
}

/* Is the thread live whatever the others do? */
static bool is_live_alone(const struct wait_graph *graph, const struct wait_thread *t)
{
	bool spare = graph->is_job && t->helper;

	switch (t->kind) {
	case WAIT_NONE:
		return true;
	case WAIT_OUTSIDE:
		return !spare;
	case WAIT_TIME:
		return !spare && !is_long_sleep(graph, t);
	case WAIT_STOPPED:
		return false;
	case WAIT_KERNEL:
		return t->asleep_ns < KERNEL_NS;
	default:
		return t->beyond || (t->timed && !graph->is_job && !graph->doubt);
	}
}

/* A live thread of any process, or of any member other than `but`, that is in no collective. */
static uint32_t any_live(const struct wait_graph *graph, bool members_apart, uint32_t but)
{
	const struct wait_process *p;
	size_t i;

	for (i = 0; i < graph->nr_processes; i++) {
		p = &graph->processes[i];
		if (!members_apart && p->live != WAIT_NOBODY)
			return p->live;
		if (members_apart && p->member && i != but && p->live_apart != WAIT_NOBODY)
			return p->live_apart;
	}
	return WAIT_NOBODY;
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
		return by == WAIT_NOBODY && graph->is_job ? any_live(graph, true, t->process) : by;
	case WAIT_SHARED:
		return any_live(graph, false, WAIT_NOBODY);
	case WAIT_ENDS:
		for (i = 0; i < t->nr_ends && by == WAIT_NOBODY; i++)
			by = graph->processes[t->ends[i]].live;
		return by;
	case WAIT_COLLECTIVE:
		return any_live(graph, true, t->process);
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
	if (p->live_apart == WAIT_NOBODY && t->kind != WAIT_COLLECTIVE)
		p->live_apart = (uint32_t)index;
}

void wait_graph_solve(struct wait_graph *graph)
{
	bool changed = true;
	uint32_t by;
	size_t i;

	waiting_find(graph);
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

uint32_t wait_graph_root(const struct wait_graph *graph)
{
	static const enum wait_kind order[] = { WAIT_STOPPED, WAIT_KERNEL, WAIT_COLLECTIVE,
						WAIT_ENDS,    WAIT_LOCK,   WAIT_SHARED };
	const struct wait_thread *t;
	size_t i, k;

	for (i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		for (k = 0; k < graph->nr_threads; k++) {
			t = &graph->threads[k];
			if (!t->live && t->kind == order[i] &&
			    graph->processes[t->process].member &&
			    (!t->helper || !graph->is_job || order[i] <= WAIT_KERNEL))
				return (uint32_t)k;
		}
	return WAIT_NOBODY;
}
