// SPDX-License-Identifier: Apache-2.0
#include "threads/reading_async.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash_seed.h"
#include "base/map.h"
#include "base/time.h"
#include "kernel/remote.h"
#include "python/async_edges.h"
#include "python/awaits.h"
#include "python/pythons.h"
#include "threads/task_wait.h"
#include "threads/thread_dump.h"

#define MIN_LIST_READS 8 /* of a list that changes; more while they are quick */
#define QUICK_LIST_NS (NS_PER_SECOND / 4)
#define MAX_CPU_NS (5 * NS_PER_SECOND) /* of reading the tasks of one Python */
#define MAX_READ_NS (30 * NS_PER_SECOND) /* where there is little CPU time */
#define MAX_KEPT_PAGES (REMOTE_MAX_PAGES / 2) /* of memory that is read for tasks */
#define MAX_RUNNING_FRAMES (1U << 16) /* of the threads of all loops */

bool reading_async_pause(void *arg)
{
	struct reading_async *a = arg;
	const struct thread_request *request = a->reading->request;
	uint64_t now = time_monotonic_ns(), pages = remote_counts(a->reading->remote)->nr_pages;
	uint64_t max = request->max_pages ? request->max_pages / 2 : MAX_KEPT_PAGES;

	if (pages - a->pages > max) {
		remote_forget(a->reading->remote);
		a->pages = pages;
	}
	return now < a->end_ns && time_thread_cpu_ns() < a->end_cpu_ns &&
	       !(request->deadline_ns && now >= request->deadline_ns);
}

const struct bpfprof_task_state *reading_async_thread(const struct reading_async *a, uint32_t loop)
{
	uint64_t thread_id = a->tasks.loops[loop].thread_id;
	const struct tasks *tasks = &a->reading->tasks;

	for (size_t i = 0; thread_id && i < tasks->nr; i++)
		if (tasks->states[i].fs_base == thread_id)
			return &tasks->states[i];
	return NULL;
}

/*
 * A task that starts another one eagerly, or runs a loop of its own, runs too, but the loop has only the
 * innermost one: the frames of the others are in its thread.
 */
static int running_find(struct reading_async *a)
{
	const struct python_chain *chain = &a->reading->chain;
	const struct bpfprof_task_state *thread;
	struct python_awaits_root root;
	struct python_async_task *task;
	struct map frames;
	uint32_t loop;
	int err = 0;

	map_init(&frames, MAX_RUNNING_FRAMES);
	for (uint32_t i = 0; i < a->tasks.nr_loops && err != -ENOMEM && reading_async_pause(a);
	     i++) {
		thread = reading_async_thread(a, i);
		if (!thread)
			continue;
		reading_chain(a->reading, thread);
		for (uint32_t k = 0; k < chain->nr_frames && err != -ENOMEM; k++)
			err = map_set(&frames, chain->frames[k].frame_va, i);
	}
	for (size_t i = 0; i < a->tasks.nr && err != -ENOMEM; i++) {
		task = &a->tasks.tasks[i];
		if (i % 64 == 63 && !reading_async_pause(a))
			break;
		if (task->waiter || task->is_running)
			continue;
		python_awaits_root(&root, &a->python->heap, task->coroutine);
		task->is_running = map_find(&frames, root.frame, &loop) && loop == task->loop;
	}
	map_fini(&frames);
	return err == -ENOMEM ? err : 0;
}

/*
 * The frames of a running task: those of its thread down to its own coroutine, and what is above its outermost
 * frame.
 */
static bool running_chain(struct reading_async *a, const struct python_async_task *task)
{
	struct python_awaits_root root;
	const struct bpfprof_task_state *thread = reading_async_thread(a, task->loop);
	struct python_chain *chain = &a->reading->chain;

	python_awaits_root(&root, &a->python->heap, task->coroutine);
	if (!thread || !root.frame)
		return false;
	reading_chain(a->reading, thread);
	for (uint32_t i = 0; i < chain->nr_frames; i++) {
		if (chain->frames[i].frame_va != root.frame)
			continue;
		chain->nr_frames = i + 1;
		chain->stop = PYTHON_STOP_COMPLETE;
		while (root.nr_outer && chain->nr_frames < PYTHON_CHAIN_MAX_FRAMES)
			chain->frames[chain->nr_frames++] = root.outer[--root.nr_outer];
		return true;
	}
	return false;
}

void reading_async_chain(struct reading_async *a, const struct python_async_task *task,
			 uint64_t *ret_end)
{
	struct python_chain *chain = &a->reading->chain;

	*ret_end = 0;
	if (!task->is_running || !running_chain(a, task)) {
		python_awaits_walk(chain, &a->python->heap, task->coroutine, ret_end);
		/* The values of a frame that runs are no stack yet. */
		if (task->is_running && chain->nr_frames) {
			chain->frames[0] = chain->frames[chain->nr_frames - 1];
			chain->nr_frames = 1;
			*ret_end = 0;
		}
	}
	a->walked += chain->nr_frames;
	a->reading->parts[0] = (struct reading_part){ a->python, chain->nr_frames };
	a->reading->nr_parts = 1;
}

void reading_async_wait(struct reading_async *a, const struct python_async_task *task,
			struct task_wait *ret, bool details)
{
	struct task_wait_view view = { .heap = &a->python->heap,
				       .codes = a->python->codes,
				       .chain = &a->reading->chain,
				       .strings = a->reading->strings,
				       .waiter = task->waiter,
				       .details = details };
	uint32_t number = python_async_task_find(&a->tasks, task->waiter);

	*ret = (struct task_wait){ .seconds = -1, .file = -1 };
	if (task->is_running)
		return;
	if (number != PYTHON_NO_TASK)
		view.task = a->names && a->names[number] ? a->names[number] : "?";
	task_wait_find(&view, ret);
}

/* A list that changes while it is read is read again, as that of threads is. */
static int list_all(struct reading_async *a, const struct python_async_layout *described)
{
	struct python_heap *heap = &a->python->heap;
	const struct python_heap_counts before = heap->counts;
	uint64_t quick_ns = time_monotonic_ns() + QUICK_LIST_NS;
	int err, i;

	err = python_async_tasks_read(&a->tasks, heap, &a->python->tstates, described,
				      reading_async_pause, a);
	for (i = 1; !err && a->tasks.torn && reading_async_pause(a) &&
		    (i < MIN_LIST_READS || time_monotonic_ns() < quick_ns);
	     i++) {
		python_async_tasks_fini(&a->tasks);
		remote_again(a->reading->remote);
		heap->counts = before;
		err = python_async_tasks_read(&a->tasks, heap, &a->python->tstates, described,
					      reading_async_pause, a);
	}
	return err;
}

int reading_async_open(struct reading_async *a, struct reading *reading,
		       struct reading_python *python)
{
	const struct python_async_layout *described = pythons_async_layout(
		reading->reader->walker.pythons, reading->process, python->image);
	int err;

	*a = (struct reading_async){ .reading = reading,
				     .python = python,
				     .seed = hash_seed(),
				     .end_ns = time_monotonic_ns() + MAX_READ_NS,
				     .end_cpu_ns = time_thread_cpu_ns() + MAX_CPU_NS,
				     .pages = remote_counts(reading->remote)->nr_pages };
	err = list_all(a, described);
	if (!err)
		err = running_find(a);
	if (!err)
		err = python_async_edges_find(&a->tasks, &python->heap, described,
					      reading_async_pause, a);
	return err;
}

void reading_async_close(struct reading_async *a)
{
	for (size_t i = 0; a->names && i < a->tasks.nr; i++)
		free(a->names[i]);
	free(a->names);
	free(a->order);
	hash_table_clear(&a->sums);
	python_async_tasks_fini(&a->tasks);
}
