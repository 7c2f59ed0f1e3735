// SPDX-License-Identifier: Apache-2.0
#include "threads/dump.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "base/text.h"
#include "cuda/functions.h"
#include "threads/dump_view.h"
#include "threads/thread_dump.h"

/* dump_json() in progress: what is being written, and how deep. */
struct writer {
	struct buf *dst;
	const struct dump *dump;
	const struct dump_format *format;
	unsigned int depth;
	bool first; /* the object or array is still empty */
};

static void item_begin(struct writer *w)
{
	unsigned int i;

	buf_add_str(w->dst, w->first ? "\n" : ",\n");
	for (i = 0; i < w->depth; i++)
		buf_add_str(w->dst, "  ");
	w->first = false;
}

static void open_with(struct writer *w, char bracket)
{
	buf_add_char(w->dst, bracket);
	w->depth++;
	w->first = true;
}

static void close_with(struct writer *w, char bracket)
{
	bool empty = w->first;

	w->depth--;
	w->first = true;
	if (!empty)
		item_begin(w);
	/* item_begin() begins with a comma unless it is the first. */
	buf_add_char(w->dst, bracket);
	w->first = false;
}

static void key(struct writer *w, const char *name)
{
	item_begin(w);
	buf_printf(w->dst, "\"%s\": ", name);
}

static void key_number(struct writer *w, const char *name, uint64_t value)
{
	key(w, name);
	buf_printf(w->dst, "%" PRIu64, value);
}

static void key_number_or_null(struct writer *w, const char *name, bool known, uint64_t value)
{
	key(w, name);
	if (known)
		buf_printf(w->dst, "%" PRIu64, value);
	else
		buf_add_str(w->dst, "null");
}

static void key_hex_or_null(struct writer *w, const char *name, bool known, uint64_t value)
{
	key(w, name);
	if (known)
		buf_printf(w->dst, "\"0x%" PRIx64 "\"", value);
	else
		buf_add_str(w->dst, "null");
}

static void key_bool(struct writer *w, const char *name, bool value)
{
	key(w, name);
	buf_add_str(w->dst, value ? "true" : "false");
}

static void key_text(struct writer *w, const char *name, const char *text)
{
	key(w, name);
	text_add_json(w->dst, text);
}

/* Writes null for "". */
static void key_id(struct writer *w, const char *name, uint32_t id)
{
	key(w, name);
	if (id)
		text_add_json(w->dst, strtab_get(w->dump->strings, id));
	else
		buf_add_str(w->dst, "null");
}

static void add_variables(struct writer *w, const struct thread_dump *thread,
			  const struct thread_frame *frame)
{
	const struct thread_variable *variable;
	uint32_t i;

	key(w, "locals");
	if (!frame->has_variables) {
		buf_add_str(w->dst, "null");
		return;
	}
	open_with(w, '[');
	for (i = 0; i < frame->nr_variables; i++) {
		variable = &thread->variables[frame->first_variable + i];
		item_begin(w);
		open_with(w, '{');
		key_text(w, "name", strtab_get(w->dump->strings, variable->name));
		key_number(w, "addr", variable->va);
		key_bool(w, "arg", variable->argument);
		key_text(w, "repr", strtab_get(w->dump->strings, variable->repr));
		close_with(w, '}');
	}
	close_with(w, ']');
}

static void add_frame(struct writer *w, const struct thread_dump *thread,
		      const struct thread_frame *frame)
{
	const struct dump_format short_names = { 0 };
	const char *name = strtab_get(w->dump->strings, frame->name);
	bool python = frame->kind == THREAD_FRAME_PYTHON;

	item_begin(w);
	open_with(w, '{');
	key(w, "name");
	if (frame->kind == THREAD_FRAME_KERNEL) {
		struct buf shown = { .max = 1 << 16 };

		buf_printf(&shown, "%s_[k]", name);
		text_add_json(w->dst, buf_error(&shown) ? name : shown.data);
		buf_fini(&shown);
	} else {
		text_add_json(w->dst, name);
	}
	key_text(w, "filename", strtab_get(w->dump->strings, frame->file));
	key_id(w, "module", python ? 0 : frame->file);
	key_text(w, "short_filename", dump_frame_file(w->dump, frame, &short_names));
	key_number(w, "line", frame->line);
	add_variables(w, thread, frame);
	key_bool(w, "is_entry", frame->is_entry);
	key_bool(w, "is_shim_entry", frame->is_shim_entry);
	close_with(w, '}');
}

/* Writes the arguments under the names that `bpfprof gpu` uses. */
static void add_gpu_arguments(struct writer *w, const struct thread_dump *thread)
{
	const struct thread_collective *is = thread->gpu_arguments;
	struct nccl_info_has has;
	char type[24];

	key(w, "gpu_arguments");
	if (!is) {
		buf_add_str(w->dst, "null");
		return;
	}
	has = nccl_info_has(strtab_get(w->dump->strings, thread->gpu_call));
	open_with(w, '{');
	key_number(w, "bytes", is->info.bytes);
	key_number_or_null(w, "count", is->info.type != NCCL_INFO_TYPE_UNKNOWN, is->info.count);
	if (is->info.type != NCCL_INFO_TYPE_UNKNOWN)
		key_text(w, "datatype", gpu_nccl_type(is->info.type, type));
	else
		key_number_or_null(w, "datatype", false, 0);
	if (has.op)
		key_text(w, "op", gpu_nccl_operation(is->info.op));
	if (has.root || has.peer)
		key_number(w, has.peer ? "peer" : "root", is->info.root);
	key_hex_or_null(w, "comm", true, is->info.comm);
	key_hex_or_null(w, "hash", is->comm_known, is->hash);
	key_number_or_null(w, "rank", is->comm_known, is->rank);
	key_number_or_null(w, "size", is->comm_known, is->size);
	key_hex_or_null(w, "stream", true, is->info.stream);
	close_with(w, '}');
}

static void add_task_wait(struct writer *w, const struct task_wait *wait)
{
	key(w, "waits_for");
	if (!wait->kind) {
		buf_add_str(w->dst, "null");
		return;
	}
	open_with(w, '{');
	key_text(w, "kind", wait->kind);
	key_id(w, "text", wait->text);
	key_id(w, "task", wait->task);
	key(w, "seconds");
	if (wait->seconds >= 0)
		buf_printf(w->dst, "%.6f", wait->seconds);
	else
		buf_add_str(w->dst, "null");
	key_number_or_null(w, "file", wait->file >= 0, (uint64_t)wait->file);
	close_with(w, '}');
}

static void add_task(struct writer *w, const struct task_dump *task)
{
	size_t i;

	item_begin(w);
	open_with(w, '{');
	key_id(w, "name", task->name);
	key_id(w, "coroutine", task->coroutine);
	key_bool(w, "running", task->running);
	key_number(w, "count", task->nr_same ? task->nr_same : 1);
	add_task_wait(w, &task->wait);
	key(w, "awaited_by");
	open_with(w, '[');
	for (i = 0; i < task->nr_awaited_by; i++) {
		item_begin(w);
		text_add_json(w->dst, strtab_get(w->dump->strings, task->awaited_by[i]));
	}
	close_with(w, ']');
	key_number(w, "more_awaiters", task->nr_more_awaiters);
	key(w, "frames");
	open_with(w, '[');
	for (i = 0; i < task->stack.nr_frames; i++)
		add_frame(w, &task->stack, &task->stack.frames[i]);
	close_with(w, ']');
	key_bool(w, "consistent", task->stack.consistent);
	close_with(w, '}');
}

/* The tasks of the loop that runs in the thread; null: none runs. */
static void add_tasks(struct writer *w, const struct process_dump *process,
		      const struct thread_dump *thread)
{
	size_t i;

	key(w, "tasks");
	if (!thread->runs_loop) {
		buf_add_str(w->dst, "null");
		return;
	}
	open_with(w, '[');
	for (i = 0; i < process->nr_tasks; i++)
		if (process->tasks[i].kernel_tid == thread->kernel_tid)
			add_task(w, &process->tasks[i]);
	close_with(w, ']');
}

static void add_thread(struct writer *w, const struct process_dump *process,
		       const struct thread_dump *thread)
{
	char state[2] = { thread->state, '\0' };
	size_t i;

	item_begin(w);
	open_with(w, '{');
	key_number(w, "pid", process->pid);
	key_number(w, "thread_id", thread->thread_id ? thread->thread_id : thread->tid);
	key_id(w, "thread_name", thread->has_name ? thread->name : 0);
	key_number(w, "os_thread_id", thread->tid);
	key_bool(w, "active", thread->active);
	key_bool(w, "owns_gil", thread->owns_gil);
	key(w, "frames");
	open_with(w, '[');
	for (i = 0; i < thread->nr_frames; i++)
		if (dump_shows_frame(process, thread, &thread->frames[i], w->format))
			add_frame(w, thread, &thread->frames[i]);
	close_with(w, ']');
	key(w, "process_info");
	buf_add_str(w->dst, "null");
	key_bool(w, "consistent", thread->consistent);
	key_bool(w, "running", thread->running);
	key_text(w, "state", state);
	key_id(w, "wait_channel", thread->wait_channel);
	key_id(w, "waits_for", thread->waits_for);
	key_id(w, "gpu_call", thread->gpu_call);
	add_gpu_arguments(w, thread);
	key(w, "asleep_seconds");
	if (thread->asleep_ns)
		buf_printf(w->dst, "%.6f", (double)thread->asleep_ns / 1e9);
	else
		buf_add_str(w->dst, "null");
	key_id(w, "container", process->container);
	key_id(w, "container_id", process->container_id);
	key_id(w, "pod", process->pod);
	key_id(w, "namespace", process->namespace);
	key(w, "pod_pid");
	if (process->container_id && process->pod_pid)
		buf_printf(w->dst, "%" PRIu32, process->pod_pid);
	else
		buf_add_str(w->dst, "null");
	key_id(w, "ray_task", process->ray_task);
	add_tasks(w, process, thread);
	close_with(w, '}');
}

void dump_json(struct buf *dst, const struct dump *dump, const struct dump_format *format)
{
	struct writer w = { .dst = dst, .dump = dump, .format = format };
	const struct process_dump *process;
	size_t i, k;

	open_with(&w, '[');
	for (i = 0; i < dump->nr_processes; i++) {
		process = &dump->processes[i];
		for (k = process->nr_threads; k--;) /* newest first */
			if (dump_shows_thread(process, &process->threads[k], format))
				add_thread(&w, process, &process->threads[k]);
	}
	close_with(&w, ']');
	buf_add_char(dst, '\n');
}
