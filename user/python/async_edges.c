// SPDX-License-Identifier: Apache-2.0
#include "python/async_edges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/sorted.h"
#include "base/vec.h"
#include "python/async_objects.h"
#include "python/async_tasks.h"
#include "python/heap.h"

#define MAX_EDGES (1U << 20)
#define MAX_VISITS (1U << 20) /* callbacks and objects that they hold */
#define MAX_TASK_VISITS 8192 /* of them for one task */
#define MAX_CALLBACKS 4096 /* of one future */
#define MAX_HELD 64 /* by one callback */
#define MAX_DEPTH 4 /* futures that wait for futures */
#define PAUSE_VISITS 256 /* one of an object with many attributes reads all their names */

struct search {
	struct python_async_tasks *tasks;
	struct python_heap *heap;
	struct map waited; /* by the address of a future: the first task that waits for it */
	uint32_t *next; /* by task: another one that waits for the same future */
	size_t cap;
	uint32_t task; /* whose awaiters are looked for */
	uint32_t visits_left, task_visits_left;
	uint32_t nr_visits;
	python_async_pause_fn pause;
	void *arg;
	bool is_late;
	int err;
};

static void edge_add(struct search *s, uint32_t awaiter)
{
	struct python_async_tasks *tasks = s->tasks;

	if (s->err || awaiter == PYTHON_NO_TASK || awaiter == s->task)
		return;
	s->err = vec_grow(tasks->edges, tasks->nr_edges + 1, s->cap, MAX_EDGES);
	if (!s->err)
		tasks->edges[tasks->nr_edges++] = (struct python_async_edge){ s->task, awaiter };
	else if (s->err == -E2BIG)
		s->heap->counts.nr_cut++;
}

/* Adds all tasks that wait for the future. False: none does. */
static bool waiting_add(struct search *s, uint64_t future)
{
	uint32_t at;

	if (!map_find(&s->waited, future, &at))
		return false;
	for (; at != PYTHON_NO_TASK; at = s->next[at])
		edge_add(s, at);
	return true;
}

static void callbacks_follow(struct search *s, uint64_t future, int depth);

/* False: there is no time left. Nothing that was read is in use here: callers have copies. */
static bool has_time(struct search *s)
{
	if (++s->nr_visits % PAUSE_VISITS == 0 && !s->is_late && s->pause && !s->pause(s->arg)) {
		s->heap->counts.nr_cut++;
		s->is_late = true;
	}
	return !s->is_late;
}

static bool may_visit(struct search *s)
{
	if (!has_time(s))
		return false;
	if (!s->visits_left || !s->task_visits_left) {
		s->heap->counts.nr_cut++;
		return false;
	}
	s->visits_left--;
	s->task_visits_left--;
	return !s->err;
}

/* An object that a callback holds: is it a future that leads to a task? */
static void held_follow(struct search *s, uint64_t va, int depth)
{
	if (!va || !may_visit(s) || waiting_add(s, va) || depth == MAX_DEPTH)
		return;
	if (python_is_a(s->heap, va, "_asyncio.Future"))
		callbacks_follow(s, va, depth + 1);
}

/* Each item of a tuple; of a tuple of cells: what is in them. */
static void tuple_follow(struct search *s, uint64_t tuple, bool is_cells, int depth)
{
	const struct python_heap_layout *l = &s->heap->objects;
	uint64_t nr, items[MAX_HELD];

	if (!tuple || !python_is_a(s->heap, tuple, "tuple") ||
	    python_heap_u64(s->heap, tuple + l->tuple_size, &nr))
		return;
	if (nr > MAX_HELD)
		nr = MAX_HELD;
	if (nr && python_heap_read(s->heap, tuple + l->tuple_items, items, (uint32_t)nr * 8))
		return;
	for (uint64_t i = 0; i < nr; i++) {
		if (is_cells && python_heap_u64(s->heap, items[i] + l->cell_value, &items[i]))
			continue;
		held_follow(s, items[i], depth);
	}
}

static void callback_follow(struct search *s, uint64_t callback, int depth)
{
	const struct python_heap_layout *l = &s->heap->objects;
	const struct python_type *type;
	uint64_t held;

	if (!callback || !may_visit(s) || python_heap_type(s->heap, callback, &type))
		return;
	if (!strcmp(type->name, "function")) {
		if (!python_heap_u64(s->heap, callback + l->function_closure, &held))
			tuple_follow(s, held, true, depth);
		return;
	}
	/* Both have a function first, and then the arguments or the object. */
	if (!strcmp(type->name, "functools.partial")) {
		if (!python_heap_u64(s->heap, callback + l->object_size + 8, &held))
			tuple_follow(s, held, false, depth);
	} else if (!strcmp(type->name, "method") &&
		   !python_heap_u64(s->heap, callback + l->object_size + 8, &held) &&
		   python_is_a(s->heap, held, "TaskGroup")) {
		edge_add(s, python_async_task_find(
				    s->tasks, python_attribute(s->heap, held, "_parent_task")));
	}
}

/* A list of tuples (callback, context). */
static void list_follow(struct search *s, uint64_t list, int depth)
{
	const struct python_heap_layout *l = &s->heap->objects;
	uint64_t nr, items, tuple, callback;

	if (!list || !python_is_a(s->heap, list, "list") ||
	    python_heap_u64(s->heap, list + l->list_size, &nr) ||
	    python_heap_u64(s->heap, list + l->list_items, &items))
		return;
	if (nr > MAX_CALLBACKS) {
		s->heap->counts.nr_cut++;
		nr = MAX_CALLBACKS;
	}
	for (uint64_t i = 0; i < nr && may_visit(s); i++)
		if (!python_heap_u64(s->heap, items + i * 8, &tuple) &&
		    python_is_a(s->heap, tuple, "tuple") &&
		    !python_heap_u64(s->heap, tuple + l->tuple_items, &callback))
			callback_follow(s, callback, depth);
}

static void callbacks_follow(struct search *s, uint64_t future, int depth)
{
	uint64_t header = s->heap->objects.object_size, callback, list;

	if (!python_is_a(s->heap, future, "_asyncio.Future")) {
		list_follow(s, python_attribute(s->heap, future, "_callbacks"), depth);
		return;
	}
	/* In all versions: the loop, the first callback, its context, a list of the others. */
	if (!python_heap_u64(s->heap, future + header + 8, &callback))
		callback_follow(s, callback, depth);
	if (!python_heap_u64(s->heap, future + header + 24, &list))
		list_follow(s, list, depth);
}

static void described_follow(struct search *s, const struct python_async_task *task)
{
	struct python_set_iter iter;
	uint64_t awaiter;

	if (!task->awaited_by_is_set) {
		edge_add(s, python_async_task_find(s->tasks, task->awaited_by));
		return;
	}
	if (!python_set_init(&iter, s->heap, task->awaited_by))
		return;
	while (may_visit(s) && python_set_next(&iter, &awaiter))
		edge_add(s, python_async_task_find(s->tasks, awaiter));
}

static int waited_fill(struct search *s)
{
	const struct python_async_tasks *tasks = s->tasks;
	int err = 0;

	for (uint32_t i = 0; i < tasks->nr && !err; i++) {
		s->next[i] = PYTHON_NO_TASK;
		if (!tasks->tasks[i].waiter)
			continue;
		if (!map_find(&s->waited, tasks->tasks[i].waiter, &s->next[i]))
			s->next[i] = PYTHON_NO_TASK;
		err = map_set(&s->waited, tasks->tasks[i].waiter, i);
	}
	return err;
}

static int edge_compare(const void *a, const void *b)
{
	const struct python_async_edge *x = a, *y = b;

	return x->task != y->task ? sorted_order(x->task, y->task)
				  : sorted_order(x->awaiter, y->awaiter);
}

static void edges_sort(struct python_async_tasks *tasks)
{
	size_t i, nr = 0;

	if (!tasks->nr_edges)
		return;
	qsort(tasks->edges, tasks->nr_edges, sizeof(*tasks->edges), edge_compare);
	for (i = 0; i < tasks->nr_edges; i++)
		if (!nr || edge_compare(&tasks->edges[nr - 1], &tasks->edges[i]))
			tasks->edges[nr++] = tasks->edges[i];
	tasks->nr_edges = nr;
}

int python_async_edges_find(struct python_async_tasks *tasks, struct python_heap *heap,
			    const struct python_async_layout *described,
			    python_async_pause_fn pause, void *arg)
{
	__cleanup(free_mem) uint32_t *next = reallocarray(NULL, tasks->nr + 1, sizeof(*next));
	struct search s = { .tasks = tasks,
			    .heap = heap,
			    .next = next,
			    .visits_left = MAX_VISITS,
			    .pause = pause,
			    .arg = arg };
	const struct python_async_task *task;

	if (!next)
		return -ENOMEM;
	map_init(&s.waited, PYTHON_MAX_ASYNC_TASKS);
	s.err = waited_fill(&s);
	for (; s.task < tasks->nr && !s.err && has_time(&s); s.task++) {
		task = &tasks->tasks[s.task];
		s.task_visits_left = MAX_TASK_VISITS;
		waiting_add(&s, task->va);
		if (described && task->in_c)
			described_follow(&s, task);
		else
			callbacks_follow(&s, task->va, 0);
	}
	map_fini(&s.waited);
	edges_sort(tasks);
	return s.err == -E2BIG ? 0 : s.err;
}
