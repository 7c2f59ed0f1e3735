// SPDX-License-Identifier: Apache-2.0
#include "threads/thread_dump.h"

#include <errno.h>
#include <stdlib.h>

#include "base/strtab.h"
#include "base/vec.h"

#define MAX_STRING_BYTES (64U << 20)

int dump_init(struct dump *dump)
{
	*dump = (struct dump){ 0 };
	return strtab_new(&dump->strings, MAX_STRING_BYTES);
}

void thread_dump_fini(struct thread_dump *thread)
{
	free(thread->frames);
	free(thread->variables);
	free(thread->collectives);
	*thread = (struct thread_dump){ 0 };
}

struct thread_dump *process_dump_find(const struct process_dump *process, uint32_t kernel_tid)
{
	size_t i;

	for (i = 0; i < process->nr_threads; i++)
		if (process->threads[i].kernel_tid == kernel_tid)
			return &process->threads[i];
	return NULL;
}

static size_t less(size_t a, size_t b)
{
	return a < b ? a : b;
}

void process_dump_drop_tasks(struct process_dump *process, struct dump *dump)
{
	struct task_dump *task;
	size_t i;

	for (i = 0; i < process->nr_tasks; i++) {
		task = &process->tasks[i];
		dump->nr_task_frames -= less(task->stack.nr_frames, dump->nr_task_frames);
		dump->nr_variables -= less(task->stack.nr_variables, dump->nr_variables);
		thread_dump_fini(&task->stack);
		free(task->awaited_by);
	}
	free(process->tasks);
	process->tasks = NULL;
	process->nr_tasks = 0;
	process->task_counts = (struct task_counts){ 0 };
}

static void tasks_swap(struct process_dump *a, struct process_dump *b)
{
	struct process_dump old = *a;

	a->tasks = b->tasks;
	a->nr_tasks = b->nr_tasks;
	a->task_counts = b->task_counts;
	b->tasks = old.tasks;
	b->nr_tasks = old.nr_tasks;
	b->task_counts = old.task_counts;
}

void process_dump_take(struct process_dump *a, struct process_dump *b)
{
	struct thread_dump thread, *read;
	bool loops = false;
	size_t i;

	for (i = 0; i < a->nr_threads; i++) {
		if (!a->threads[i].running || a->threads[i].sampled)
			continue;
		read = process_dump_find(b, a->threads[i].kernel_tid);
		if (!read || read->running)
			continue;
		thread = a->threads[i];
		a->threads[i] = *read;
		*read = thread;
		loops |= a->threads[i].runs_loop;
	}
	if (loops)
		tasks_swap(a, b);
}

void dump_drop(struct dump *dump)
{
	struct process_dump *process = &dump->processes[--dump->nr_processes];
	size_t i;

	for (i = 0; i < process->nr_threads; i++) {
		dump->nr_frames -= less(process->threads[i].nr_frames, dump->nr_frames);
		dump->nr_variables -= less(process->threads[i].nr_variables, dump->nr_variables);
		thread_dump_fini(&process->threads[i]);
	}
	process_dump_drop_tasks(process, dump);
	free(process->threads);
}

void dump_fini(struct dump *dump)
{
	while (dump->nr_processes)
		dump_drop(dump);
	free(dump->processes);
	if (dump->strings)
		strtab_free(dump->strings);
	*dump = (struct dump){ 0 };
}

struct process_dump *dump_add(struct dump *dump)
{
	if (!vec_fit(dump->processes, dump->nr_processes + 1))
		return NULL;
	dump->processes[dump->nr_processes] = (struct process_dump){ 0 };
	return &dump->processes[dump->nr_processes++];
}
