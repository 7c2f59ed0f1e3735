// SPDX-License-Identifier: Apache-2.0
#include "threads/dump.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "base/text.h"
#include "base/units.h"
#include "cuda/functions.h"
#include "threads/dump_view.h"
#include "threads/thread_dump.h"

/* dump_text() in progress. */
struct writer {
	struct buf *dst;
	const struct dump *dump;
	const struct dump_format *format;
	const struct process_dump *process;
};

static void add_id(const struct writer *w, uint32_t id)
{
	text_add_shown(w->dst, strtab_get(w->dump->strings, id));
}

static void add_variables(const struct writer *w, const struct thread_dump *thread,
			  const struct thread_frame *frame)
{
	const struct thread_variable *variable = thread->variables + frame->first_variable;
	bool arguments = false, locals = false;
	uint32_t i;

	for (i = 0; i < frame->nr_variables; i++, variable++) {
		if (variable->argument && !arguments)
			buf_add_str(w->dst, "        Arguments:\n");
		if (!variable->argument && !locals)
			buf_add_str(w->dst, "        Locals:\n");
		arguments |= variable->argument;
		locals |= !variable->argument;
		buf_add_str(w->dst, "            ");
		add_id(w, variable->name);
		buf_add_str(w->dst, ": ");
		add_id(w, variable->repr);
		buf_add_char(w->dst, '\n');
	}
}

static void add_frame(const struct writer *w, const struct thread_dump *thread,
		      const struct thread_frame *frame)
{
	const char *file = dump_frame_file(w->dump, frame, w->format);

	buf_add_str(w->dst, "    ");
	if (frame->name)
		add_id(w, frame->name);
	if (frame->kind == THREAD_FRAME_KERNEL)
		buf_add_str(w->dst, "_[k]");
	if (*file) {
		buf_add_str(w->dst, " (");
		text_add_shown(w->dst, file);
		if (frame->line)
			buf_printf(w->dst, ":%u", frame->line);
		buf_add_char(w->dst, ')');
	}
	buf_add_char(w->dst, '\n');
	if (frame->has_variables)
		add_variables(w, thread, frame);
}

static void add_waits(const struct writer *w, const struct thread_dump *thread)
{
	if (thread->active || (!thread->waits_for && !thread->wait_channel))
		return;
	buf_add_str(w->dst, "  waits for ");
	if (thread->waits_for)
		add_id(w, thread->waits_for);
	else
		buf_add_str(w->dst, "the kernel");
	if (thread->wait_channel) {
		buf_add_str(w->dst, " (");
		add_id(w, thread->wait_channel);
		buf_add_char(w->dst, ')');
	}
	buf_add_char(w->dst, '\n');
}

static void add_arguments(const struct writer *w, const struct thread_dump *thread)
{
	const struct thread_collective *is = thread->gpu_arguments;
	struct nccl_info_has has = nccl_info_has(strtab_get(w->dump->strings, thread->gpu_call));
	char text[UNITS_TEXT], type[24];

	buf_printf(w->dst, " (%s", units_bytes(text, is->info.bytes));
	if (is->info.type != NCCL_INFO_TYPE_UNKNOWN)
		buf_printf(w->dst, " %s", gpu_nccl_type(is->info.type, type));
	if (has.op)
		buf_printf(w->dst, " %s", gpu_nccl_operation(is->info.op));
	if (has.root || has.peer)
		buf_printf(w->dst, ", %s %u", has.peer ? "peer" : "root", is->info.root);
	buf_printf(w->dst, ", communicator 0x%" PRIx64, is->info.comm);
	if (is->comm_known)
		buf_printf(w->dst, ": rank %u of %u", is->rank, is->size);
	buf_printf(w->dst, ", stream 0x%" PRIx64 ")", is->info.stream);
}

static void add_gpu_call(const struct writer *w, const struct thread_dump *thread)
{
	char asleep[UNITS_TEXT];

	if (!thread->gpu_call)
		return;
	buf_add_str(w->dst, "  in ");
	add_id(w, thread->gpu_call);
	if (thread->gpu_arguments)
		add_arguments(w, thread);
	if (thread->asleep_ns)
		buf_printf(w->dst, ", asleep for %s", units_ns(asleep, thread->asleep_ns));
	buf_add_char(w->dst, '\n');
}

static void add_thread_title(const struct writer *w, const struct thread_dump *thread)
{
	buf_printf(w->dst, "Thread %u (%s)", thread->tid, dump_thread_status(thread));
	if (thread->has_name) {
		buf_add_str(w->dst, ": \"");
		add_id(w, thread->name);
		buf_add_char(w->dst, '"');
	}
	if (!thread->consistent)
		buf_add_str(w->dst, " [ran while it was read]");
	buf_add_char(w->dst, '\n');
}

static void add_thread(const struct writer *w, const struct thread_dump *thread)
{
	size_t i;

	add_thread_title(w, thread);
	if (w->format->waits) {
		add_gpu_call(w, thread);
		add_waits(w, thread);
	}
	for (i = 0; i < thread->nr_frames; i++)
		if (dump_shows_frame(w->process, thread, &thread->frames[i], w->format))
			add_frame(w, thread, &thread->frames[i]);
}

static void add_task_title(const struct writer *w, const struct task_dump *task)
{
	if (task->nr_same) {
		buf_printf(w->dst, "%u more task%s", task->nr_same, task->nr_same > 1 ? "s" : "");
	} else {
		buf_add_str(w->dst, "Task '");
		add_id(w, task->name);
		buf_add_char(w->dst, '\'');
	}
	buf_printf(w->dst, " (%s)", task->running ? "running" : "suspended");
	if (task->coroutine) {
		buf_add_str(w->dst, ": \"");
		add_id(w, task->coroutine);
		buf_add_char(w->dst, '"');
	}
	if (!task->stack.consistent)
		buf_add_str(w->dst, " [ran while it was read]");
	buf_add_char(w->dst, '\n');
}

static void add_task(const struct writer *w, const struct task_dump *task)
{
	size_t i;

	add_task_title(w, task);
	if (task->wait.text) {
		buf_add_str(w->dst, "  waits for ");
		add_id(w, task->wait.text);
		buf_add_char(w->dst, '\n');
	}
	for (i = 0; i < task->nr_awaited_by; i++) {
		buf_add_str(w->dst, i ? ", '" : "  awaited by Task '");
		add_id(w, task->awaited_by[i]);
		buf_add_char(w->dst, '\'');
	}
	if (task->nr_more_awaiters)
		buf_printf(w->dst, " and %zu more", task->nr_more_awaiters);
	if (task->nr_awaited_by)
		buf_add_char(w->dst, '\n');
	for (i = 0; i < task->stack.nr_frames; i++)
		add_frame(w, &task->stack, &task->stack.frames[i]);
}

static void add_container(const struct writer *w)
{
	const struct process_dump *process = w->process;

	if (!process->container_id && !process->container && !process->pod)
		return;
	if (process->pod) {
		buf_add_str(w->dst, "Pod ");
		add_id(w, process->namespace);
		buf_add_char(w->dst, '/');
		add_id(w, process->pod);
		buf_add_str(w->dst, ", container ");
	} else {
		buf_add_str(w->dst, "Container ");
	}
	add_id(w, process->container ? process->container : process->container_id);
	if (process->pod_pid)
		buf_printf(w->dst, ", pid %u in it", process->pod_pid);
	buf_add_char(w->dst, '\n');
}

static void add_process(struct writer *w)
{
	const struct process_dump *process = w->process;
	const struct thread_dump *holder;
	size_t i;

	buf_printf(w->dst, "Process %u: ", process->pid);
	add_id(w, process->cmdline);
	buf_add_char(w->dst, '\n');
	if (process->python_version) {
		buf_add_str(w->dst, "Python v");
		add_id(w, process->python_version);
		buf_add_str(w->dst, " (");
		add_id(w, process->executable);
		buf_add_str(w->dst, ")\n");
	}
	if (w->format->containers)
		add_container(w);
	if (process->parent) {
		buf_printf(w->dst, "Parent Process %u: ", process->parent);
		add_id(w, process->parent_cmdline);
		buf_add_char(w->dst, '\n');
	}
	buf_add_char(w->dst, '\n');
	for (i = 0; i < process->nr_threads; i++)
		if (dump_shows_thread(process, &process->threads[i], w->format))
			add_thread(w, &process->threads[i]);
	for (i = 0; i < process->nr_tasks; i++)
		add_task(w, &process->tasks[i]);
	if (process->has_gil_holder) {
		holder = &process->threads[process->gil_holder];
		buf_printf(w->dst, "GIL held by Thread %u \"", holder->tid);
		add_id(w, holder->name);
		buf_add_str(w->dst, "\"\n");
	}
}

#define RULE_LEN 80

void dump_text(struct buf *dst, const struct dump *dump, const struct dump_format *format)
{
	struct writer w = { .dst = dst, .dump = dump, .format = format };
	char rule[RULE_LEN];
	size_t i;

	memset(rule, '-', sizeof(rule));
	for (i = 0; i < dump->nr_processes; i++) {
		w.process = &dump->processes[i];
		if (w.process->parent)
			buf_printf(dst, "\n%.*s\n", RULE_LEN, rule);
		else if (i)
			buf_add_char(dst, '\n');
		add_process(&w);
	}
}
