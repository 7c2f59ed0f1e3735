// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the tasks of asyncio of one process: the first ones with names and stacks, the others summed by
 * equal stacks.
 */
#include "threads/reading_async.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/sorted.h"
#include "base/strtab.h"
#include "base/time.h"
#include "base/vec.h"
#include "python/async_tasks.h"
#include "python/code_read.h"
#include "threads/task_wait.h"

#define MAX_SHOWN 1000 /* tasks of a process with names */
#define MAX_SUMS 1000 /* different stacks of the others */
#define MAX_AWAITERS 16 /* shown of one task */
#define MAX_WALKED (1U << 22) /* frames of all tasks together */

/* Tasks with the same stack. */
struct sum {
	struct hash_node node;
	uint64_t hash; /* of the stack and the reason to wait */
	size_t task; /* index in the dump */
};

static void loops_mark(struct reading_async *a)
{
	struct process_dump *dump = a->reading->dump;

	for (size_t i = 0; i < dump->nr_threads; i++)
		for (size_t k = 0; k < a->tasks.nr_loops; k++)
			if (dump->threads[i].is_python &&
			    dump->threads[i].thread_id == a->tasks.loops[k].thread_id)
				dump->threads[i].runs_loop = true;
}

/* A name in its natural order: Task-9 comes before Task-10. */
static int names_compare(const char *x, const char *y)
{
	size_t nx, ny;
	int order;

	for (; *x && *y; x++, y++) {
		nx = strspn(x, "0123456789");
		ny = strspn(y, "0123456789");
		if (nx && ny) {
			order = nx != ny ? (nx > ny) - (nx < ny) : strncmp(x, y, nx);
			if (order)
				return order;
			x += nx - 1;
			y += ny - 1;
		} else if (*x != *y) {
			break;
		}
	}
	return (*x > *y) - (*x < *y);
}

static int order_compare(const void *one, const void *other, void *arg)
{
	const struct reading_async *a = arg;
	uint32_t i = *(const uint32_t *)one, k = *(const uint32_t *)other;
	const struct python_async_task *x = &a->tasks.tasks[i], *y = &a->tasks.tasks[k];
	int order;

	if (x->is_running != y->is_running)
		return x->is_running ? -1 : 1;
	if (!a->names[i] != !a->names[k])
		return a->names[i] ? -1 : 1;
	order = a->names[i] ? names_compare(a->names[i], a->names[k]) : 0;
	return order ? order : (x->va > y->va) - (x->va < y->va);
}

static int order_make(struct reading_async *a)
{
	struct python_heap *heap = &a->python->heap;
	int err = 0;

	a->order = calloc(a->tasks.nr + 1, sizeof(*a->order));
	a->names = calloc(a->tasks.nr + 1, sizeof(*a->names));
	if (!a->order || !a->names)
		return -ENOMEM;
	for (uint32_t i = 0; i < a->tasks.nr; i++)
		a->order[i] = i;
	/* When time is up, the others have no names and come last: tasks_show() counts them. */
	for (uint32_t i = 0; i < a->tasks.nr && !err && (i % 64 != 63 || reading_async_pause(a));
	     i++)
		err = python_async_task_name(heap, &a->tasks.tasks[i], &a->names[i]);
	if (!err && a->tasks.nr)
		qsort_r(a->order, a->tasks.nr, sizeof(*a->order), order_compare, a);
	return err;
}

/* An awaitable at the end that is no future and leads to nothing: of a module in C, for example. */
static void end_mark(struct reading_async *a, uint64_t end, char text[DUMP_MARKER_BYTES])
{
	const struct python_type *type;

	text[0] = '\0';
	if (end && !task_wait_is_future(&a->python->heap, end) &&
	    !python_heap_type(&a->python->heap, end, &type))
		snprintf(text, DUMP_MARKER_BYTES, "[%s]", type->name);
}

static uint32_t coroutine_name(struct reading_async *a)
{
	const struct python_chain *chain = &a->reading->chain;
	const struct python_code *code;

	if (!chain->nr_frames || chain->frames[chain->nr_frames - 1].lasti == PYTHON_CHAIN_NO_FRAME)
		return 0;
	code = python_code_cache_get(a->python->codes, chain->frames[chain->nr_frames - 1].code,
				     NULL);
	return code ? strtab_add(a->reading->strings, code->name) : 0;
}

/* An empty task at the end of the dump's. */
static struct task_dump *task_new(struct reading_async *a, const struct python_async_task *task)
{
	const struct bpfprof_task_state *thread = reading_async_thread(a, task->loop);
	struct process_dump *dump = a->reading->dump;
	struct task_dump *ret;

	if (!vec_fit(dump->tasks, dump->nr_tasks + 1))
		return NULL;
	ret = &dump->tasks[dump->nr_tasks++];
	*ret = (struct task_dump){ .kernel_tid = thread ? thread->task.tid : 0,
				   .coroutine = coroutine_name(a),
				   .running = task->is_running };
	return ret;
}

static int stack_set(struct reading_async *a, struct task_dump *task, uint64_t end)
{
	struct reading *reading = a->reading;
	char mark[DUMP_MARKER_BYTES];
	int err;

	end_mark(a, end, mark);
	err = reading_python_frames(reading, &task->stack, mark);
	reading->all->nr_variables += task->stack.nr_variables;
	return err;
}

static int awaiters_add(struct reading_async *a, struct task_dump *task, uint32_t number)
{
	const struct python_async_edge *edges = a->tasks.edges;
	size_t first = sorted_count(a->tasks.nr_edges, at, edges[at].task < number), i;
	const char *name;

	for (i = first; i < a->tasks.nr_edges && edges[i].task == number; i++) {
		if (task->nr_awaited_by == MAX_AWAITERS) {
			task->nr_more_awaiters++;
			continue;
		}
		if (!vec_fit(task->awaited_by, task->nr_awaited_by + 1))
			return -ENOMEM;
		name = a->names[edges[i].awaiter];
		task->awaited_by[task->nr_awaited_by++] =
			strtab_add(a->reading->strings, name ? name : "?");
	}
	return 0;
}

static int task_show(struct reading_async *a, uint32_t number)
{
	const struct python_async_task *from = &a->tasks.tasks[number];
	struct task_dump *task;
	uint64_t end;
	int err;

	reading_async_chain(a, from, &end);
	task = task_new(a, from);
	if (!task)
		return -ENOMEM;
	if (a->names[number])
		task->name = strtab_add(a->reading->strings, a->names[number]);
	err = awaiters_add(a, task, number);
	if (!err)
		err = stack_set(a, task, end);
	reading_async_wait(a, from, &task->wait, true);
	return err;
}

static uint64_t stack_hash(struct reading_async *a, uint32_t loop, const struct task_wait *wait)
{
	const struct python_chain *chain = &a->reading->chain;
	uint64_t hash = a->seed;

	for (uint32_t i = 0; i < chain->nr_frames; i++) {
		uint64_t frame[] = { hash, chain->frames[i].code, chain->frames[i].lasti };

		hash = XXH3_64bits(frame, sizeof(frame));
	}
	uint64_t rest[] = { hash, loop, wait->text };

	return XXH3_64bits_withSeed(rest, sizeof(rest), a->seed);
}

/* Adds the task to those with the same stack. */
static int task_sum(struct reading_async *a, uint32_t number)
{
	const struct python_async_task *from = &a->tasks.tasks[number];
	struct task_wait wait;
	struct task_dump *task;
	uint64_t end, hash;
	struct sum *sum;

	reading_async_chain(a, from, &end);
	reading_async_wait(a, from, &wait, false);
	hash = stack_hash(a, from->loop, &wait);
	sum = hash_table_find(&a->sums, &hash);
	if (sum) {
		a->reading->dump->tasks[sum->task].nr_same++;
		return 0;
	}
	if (a->sums.nr == MAX_SUMS) {
		a->reading->dump->task_counts.nr_over++;
		return 0;
	}
	sum = hash_table_add(&a->sums, &hash);
	task = sum ? task_new(a, from) : NULL;
	if (!task)
		return -ENOMEM;
	sum->task = a->reading->dump->nr_tasks - 1;
	task->nr_same = 1;
	task->wait = wait;
	return stack_set(a, task, end);
}

static int order_compare_sums(const void *a, const void *b)
{
	const struct task_dump *x = a, *y = b;

	return (x->nr_same < y->nr_same) - (x->nr_same > y->nr_same);
}

static int tasks_show(struct reading_async *a)
{
	struct process_dump *dump = a->reading->dump;
	size_t first = dump->nr_tasks;
	int err = 0;

	for (size_t i = 0; i < a->tasks.nr && !err; i++) {
		if ((i % 64 == 63 && !reading_async_pause(a)) || a->walked > MAX_WALKED) {
			dump->task_counts.nr_over += a->tasks.nr - i;
			break;
		}
		if (i >= MAX_SHOWN) {
			err = task_sum(a, a->order[i]);
			continue;
		}
		err = task_show(a, a->order[i]);
		first = dump->nr_tasks;
	}
	if (dump->nr_tasks > first + 1)
		qsort(dump->tasks + first, dump->nr_tasks - first, sizeof(*dump->tasks),
		      order_compare_sums);
	return err;
}

static int python_tasks(struct reading *reading, struct reading_python *python)
{
	struct task_counts *counts = &reading->dump->task_counts;
	struct reading_async a;
	int err = reading_async_open(&a, reading, python);

	hash_table_init(&a.sums, MAX_SUMS, struct sum, hash);
	counts->nr_over += a.tasks.nr_over;
	counts->nr_idle += a.tasks.nr_idle;
	counts->nr_bad += a.tasks.nr_bad;
	counts->undescribed |= a.tasks.undescribed;
	counts->torn |= a.tasks.torn;
	loops_mark(&a);
	if (!err)
		err = order_make(&a);
	if (!err)
		err = tasks_show(&a);
	reading_async_close(&a);
	return err == -ENOTSUP ? 0 : err;
}

int reading_async_tasks(struct reading *reading)
{
	uint64_t start_ns = time_monotonic_ns();
	int err = 0;

	process_dump_drop_tasks(reading->dump, reading->all);
	reading->nr_task_frames = 0;
	for (size_t i = 0; i < reading->dump->nr_threads; i++) {
		reading->dump->threads[i].runs_loop = false;
		reading->progress[i].tasks_older = false;
	}
	for (uint32_t i = 0; i < reading->nr_pythons && !err; i++)
		err = python_tasks(reading, &reading->pythons[i]);
	reading->tasks_ns += time_monotonic_ns() - start_ns;
	return err;
}

void reading_async_finish(struct reading *reading)
{
	struct process_dump *dump = reading->dump;
	const struct thread_dump *thread;

	for (size_t i = 0; i < dump->nr_tasks; i++) {
		thread = process_dump_find(dump, dump->tasks[i].kernel_tid);
		dump->tasks[i].stack.consistent =
			thread && thread->consistent && !thread->running &&
			!reading->progress[thread - dump->threads].tasks_older;
	}
}
