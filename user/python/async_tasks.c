// SPDX-License-Identifier: Apache-2.0
#include "python/async_tasks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "python/async_layout.h"
#include "python/async_objects.h"
#include "python/heap.h"
#include "python/tstates.h"

#define MAX_NAME_CHARS 256
#define MAX_DICT_KEYS 4096 /* of the dict of a thread */
#define MAX_LIST (1U << 20) /* links of a list that are followed */
#define PAUSE_TASKS 64

struct reading {
	struct python_async_tasks *ret;
	struct python_heap *heap;
	const struct python_async_layout *described;
	python_async_pause_fn pause;
	void *arg;
	size_t cap, cap_loops;
	uint64_t nr_seen;
	bool is_late, is_full; /* there is no time left; what comes now is only counted */
};

uint32_t python_async_task_find(const struct python_async_tasks *tasks, uint64_t va)
{
	uint32_t number;

	return va && map_find(&tasks->numbers, va, &number) ? number : PYTHON_NO_TASK;
}

static bool in_c(struct python_heap *heap, uint64_t va)
{
	return python_is_a(heap, va, "_asyncio.Task");
}

/* The fields of a task of _asyncio. False: they cannot be read, or the task is done. */
static bool fields_read_c(struct reading *r, struct python_async_task *task)
{
	const struct python_heap_layout *l = &r->heap->objects;
	const struct python_async_layout *d = r->described;
	uint64_t coro = task->va + (d ? d->task_coro : l->object_size + l->task_coro);
	uint32_t state = 0;
	uint8_t is_set = 0;

	/* In all versions the future, the coroutine and the name follow one another. */
	if (python_heap_u64(r->heap, coro - 8, &task->waiter) ||
	    python_heap_u64(r->heap, coro, &task->coroutine) ||
	    python_heap_u64(r->heap, d ? task->va + d->task_name : coro + 8, &task->name))
		return false;
	if (l->future_state &&
	    python_heap_read(r->heap, task->va + l->object_size + l->future_state, &state,
			     sizeof(state)))
		return false;
	if (d && (python_heap_u64(r->heap, task->va + d->task_awaited_by, &task->awaited_by) ||
		  python_heap_read(r->heap, task->va + d->task_awaited_by_is_set, &is_set, 1)))
		return false;
	task->awaited_by_is_set = is_set;
	return !state;
}

/* The class has the state of a new task, an instance that of another one. */
static bool is_pending(struct python_heap *heap, uint64_t task)
{
	uint64_t state = python_attribute(heap, task, "_state");
	bool is = !state;
	char *text;

	if (state && !python_heap_string(heap, state, 16, &text, NULL, NULL)) {
		is = !strcmp(text, "PENDING");
		free(text);
	}
	return is;
}

/* An attribute whose value is not None. */
static uint64_t some(struct python_heap *heap, uint64_t va, const char *name)
{
	uint64_t value = python_attribute(heap, va, name);

	return value && !python_is_a(heap, value, "NoneType") ? value : 0;
}

/* The attributes of a task that is written in Python. */
static bool fields_read_python(struct reading *r, struct python_async_task *task)
{
	task->coroutine = some(r->heap, task->va, "_coro");
	if (!task->coroutine) {
		r->ret->nr_bad++;
		return false;
	}
	task->waiter = some(r->heap, task->va, "_fut_waiter");
	task->name = some(r->heap, task->va, "_name");
	return is_pending(r->heap, task->va);
}

static uint64_t loop_of(struct reading *r, const struct python_async_task *task)
{
	uint64_t loop = 0;

	/* The loop is the first field of every future. */
	if (!task->in_c)
		return some(r->heap, task->va, "_loop");
	return python_heap_u64(r->heap, task->va + r->heap->objects.object_size, &loop) ? 0 : loop;
}

static uint32_t loop_find(const struct python_async_tasks *tasks, uint64_t va)
{
	uint32_t i;

	for (i = 0; i < tasks->nr_loops; i++)
		if (tasks->loops[i].va == va)
			return i;
	return PYTHON_NO_TASK;
}

static void seen_add(struct reading *r)
{
	if (++r->nr_seen % PAUSE_TASKS == 0 && r->pause && !r->pause(r->arg))
		r->is_late = r->is_full = true;
}

/* Adds a task that was not seen yet. 0 or -ENOMEM. */
static int task_add(struct reading *r, uint64_t va)
{
	struct python_async_tasks *ret = r->ret;
	struct python_async_task task = { .va = va };
	int err;

	seen_add(r);
	if (ret->nr >= PYTHON_MAX_ASYNC_TASKS)
		r->is_full = true;
	if (r->is_full) {
		ret->nr_over++;
		return 0;
	}
	if (python_async_task_find(ret, va) != PYTHON_NO_TASK)
		return 0;
	task.in_c = in_c(r->heap, va);
	if (!(task.in_c ? fields_read_c(r, &task) : fields_read_python(r, &task)))
		return 0;
	task.loop = loop_find(ret, loop_of(r, &task));
	if (task.loop == PYTHON_NO_TASK) {
		ret->nr_idle++;
		return 0;
	}
	if (task.waiter && python_is_a(r->heap, task.waiter, "NoneType"))
		task.waiter = 0;
	task.is_running = ret->loops[task.loop].running == va;
	if (vec_grow(ret->tasks, ret->nr + 1, r->cap, PYTHON_MAX_ASYNC_TASKS))
		return -ENOMEM;
	err = map_set(&ret->numbers, va, (uint32_t)ret->nr);
	if (!err)
		ret->tasks[ret->nr++] = task;
	return err;
}

/*
 * A list of tasks of _asyncio (3.14+): links to the next and the last node lead back to the head. A link back
 * that does not fit shows that the list has changed.
 */
static int list_read(struct reading *r, uint64_t head)
{
	uint64_t node = head, before, links[2], nr;
	int err = 0;

	for (nr = 0; !err && nr < MAX_LIST; nr++) {
		before = node;
		if (python_heap_read(r->heap, node, links, sizeof(links)))
			links[0] = 0;
		node = links[0];
		if (!nr && (!node || node == head)) /* it is empty, or has not begun yet */
			return 0;
		if (!node || python_heap_u64(r->heap, node + 8, &links[1]) || links[1] != before) {
			r->ret->torn = true;
			return 0;
		}
		if (node == head)
			return 0;
		err = task_add(r, node - r->described->task_node);
	}
	r->ret->torn |= nr == MAX_LIST;
	return err;
}

static int set_read(struct reading *r, uint64_t set, bool is_weak)
{
	struct python_set_iter iter;
	uint64_t entry;
	int err = 0;

	if (!set)
		return 0;
	if (!python_set_init(&iter, r->heap, set)) {
		r->ret->torn = true;
		return 0;
	}
	while (!err && python_set_next(&iter, &entry)) {
		if (!entry && !r->is_late) {
			seen_add(r);
			continue;
		}
		if (!entry) { /* what is behind these is not counted either */
			iter.broken = true;
			break;
		}
		if (r->is_full) {
			r->ret->nr_over++;
			continue;
		}
		if (is_weak)
			entry = python_weakref(r->heap, entry);
		/* The reference to a task that has ended leads to None. */
		if (entry && !python_is_a(r->heap, entry, "NoneType"))
			err = task_add(r, entry);
	}
	r->ret->torn |= iter.broken;
	return err;
}

/* The sets of the module asyncio.tasks. A WeakSet has its references in a set of its own. */
static int sets_read(struct reading *r, uint64_t module)
{
	static const char *const weak[] = { "_all_tasks", "_scheduled_tasks" };
	uint64_t set;
	size_t i;
	int err = 0;

	for (i = 0; i < sizeof(weak) / sizeof(weak[0]) && !err; i++) {
		set = python_attribute(r->heap, module, weak[i]);
		if (set)
			err = set_read(r, python_attribute(r->heap, set, "data"), true);
	}
	return err ? err : set_read(r, python_attribute(r->heap, module, "_eager_tasks"), false);
}

/* Up to 3.13: the dict {loop: task} of asyncio.tasks has the running tasks. */
static void running_read(struct reading *r, uint64_t module)
{
	uint64_t current = python_attribute(r->heap, module, "_current_tasks"), loop, task;
	struct python_dict_iter iter;
	uint32_t number;

	if (!current || !python_is_a(r->heap, current, "dict") ||
	    python_dict_init(&iter, r->heap, current))
		return;
	while (python_dict_next(&iter, &loop, &task)) {
		number = loop_find(r->ret, loop);
		if (number != PYTHON_NO_TASK)
			r->ret->loops[number].running = task;
	}
}

/* The loop that runs in a thread; 0: none. */
static uint64_t thread_loop(struct reading *r, uint64_t tstate, uint64_t *ret_task)
{
	const struct python_async_layout *d = r->described;
	uint32_t off = d ? d->thread_loop : r->heap->objects.tstate_loop;
	struct python_dict_iter iter;
	uint64_t loop, dict;

	*ret_task = 0;
	if (off) {
		if (python_heap_u64(r->heap, tstate + off, &loop) || !loop ||
		    (d && python_heap_u64(r->heap, tstate + d->thread_task, ret_task)))
			return 0;
		return loop;
	}
	if (python_heap_u64(r->heap, tstate + r->heap->objects.tstate_dict, &dict) || !dict ||
	    !python_is_a(r->heap, dict, "dict") || python_dict_init(&iter, r->heap, dict))
		return 0;
	loop = python_dict_find(&iter, "__asyncio_running_event_loop__", MAX_DICT_KEYS);
	/* Up to 3.11 an object holds it. */
	if (loop && python_is_a(r->heap, loop, "_RunningLoopHolder") &&
	    python_heap_u64(r->heap, loop + r->heap->objects.object_size, &loop))
		return 0;
	return loop && !python_is_a(r->heap, loop, "NoneType") ? loop : 0;
}

static int loops_find(struct reading *r, const struct python_tstates *tstates)
{
	struct python_async_loop loop;

	for (size_t i = 0; i < tstates->nr; i++) {
		loop = (struct python_async_loop){
			.thread_id = tstates->states[i].thread_id,
			.interpreter_va = tstates->states[i].interpreter_va,
		};
		loop.va = thread_loop(r, tstates->states[i].va, &loop.running);
		if (!loop.va)
			continue;
		if (r->ret->nr_loops == PYTHON_MAX_ASYNC_LOOPS) {
			r->heap->counts.nr_cut++;
			return 0;
		}
		if (vec_grow(r->ret->loops, r->ret->nr_loops + 1, r->cap_loops,
			     PYTHON_MAX_ASYNC_LOOPS))
			return -ENOMEM;
		r->ret->loops[r->ret->nr_loops++] = loop;
	}
	return 0;
}

static int interpreter_read(struct reading *r, uint64_t interpreter,
			    const struct python_tstates *tstates)
{
	uint64_t module = python_module(r->heap, interpreter, "asyncio.tasks");
	int err = 0;

	if (!module)
		return 0;
	if (!r->described)
		running_read(r, module);
	for (size_t i = 0; i < tstates->nr && r->described && !err; i++)
		if (tstates->states[i].interpreter_va == interpreter)
			err = list_read(r, tstates->states[i].va + r->described->thread_tasks);
	if (!err && r->described)
		err = list_read(r, interpreter + r->described->interpreter_tasks);
	return err ? err : sets_read(r, module);
}

int python_async_tasks_read(struct python_async_tasks *ret, struct python_heap *heap,
			    const struct python_tstates *tstates,
			    const struct python_async_layout *described,
			    python_async_pause_fn pause, void *arg)
{
	struct python_async_tasks tasks = { 0 };
	struct reading r = {
		.ret = &tasks, .heap = heap, .described = described, .pause = pause, .arg = arg
	};
	int err;

	if (!heap->has_objects)
		return -ENOTSUP;
	map_init(&tasks.numbers, PYTHON_MAX_ASYNC_TASKS);
	err = loops_find(&r, tstates);
	/* Without a description the offsets of a task are those of the table, which ends with 3.13. */
	tasks.undescribed = tasks.nr_loops && !described && !heap->objects.task_coro;
	if (tasks.undescribed)
		tasks.nr_loops = 0;
	for (uint32_t i = 0; i < tstates->nr_interpreters && tasks.nr_loops && !err; i++)
		err = interpreter_read(&r, tstates->interpreters[i], tstates);
	if (err) {
		python_async_tasks_fini(&tasks);
		return err;
	}
	*ret = tasks;
	return 0;
}

void python_async_tasks_fini(struct python_async_tasks *tasks)
{
	map_fini(&tasks->numbers);
	free(tasks->loops);
	free(tasks->tasks);
	free(tasks->edges);
	*tasks = (struct python_async_tasks){ 0 };
}

int python_async_task_name(struct python_heap *heap, const struct python_async_task *task,
			   char **ret)
{
	const struct python_type *type;
	int64_t number;
	int err;

	*ret = NULL;
	if (!task->name || python_heap_type(heap, task->name, &type))
		return 0;
	if (!(type->flags & PYTHON_FLAG_INT)) {
		err = python_heap_string(heap, task->name, MAX_NAME_CHARS, ret, NULL, NULL);
		return err == -ENOMEM ? err : 0;
	}
	/* From 3.13 on a name that the program has not asked for yet is a number. */
	if (python_heap_int(heap, task->name, &number))
		return 0;
	return asprintf(ret, "Task-%lld", (long long)number) < 0 ? -ENOMEM : 0;
}
