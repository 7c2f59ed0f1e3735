// SPDX-License-Identifier: Apache-2.0
/* Reads the stack of one sleeping thread: Python, native and kernel frames, merged. */
#include "threads/reading.h"

#include <errno.h>
#include <stdlib.h>

#include "base/strtab.h"
#include "base/time.h"
#include "base/vec.h"
#include "kernel/remote.h"
#include "kernel/walk.h"
#include "profile/short_file.h"
#include "python/awaits.h"
#include "python/code_read.h"
#include "python/locals.h"
#include "python/merge.h"
#include "python/objects.h"
#include "python/pythons.h"
#include "unwind_native.h"

#define PYTHON_INDEX(frame) ((frame) >> BPFPROF_LASTI_BITS & 0xffff)

static int variables_add(struct reading *reading, struct thread_dump *thread,
			 struct reading_python *python, struct thread_frame *frame,
			 const struct python_chain_frame *at)
{
	struct python_locals locals = { 0 };
	size_t i;

	if (reading->all->nr_variables + thread->nr_variables >= DUMP_MAX_VARIABLES) {
		reading->counts->nr_cut++;
		return 0;
	}
	if (python_locals_read(&locals, &python->heap, at->code, at->frame_va,
			       (size_t)PYTHON_REPR_CHARS * reading->request->locals))
		return 0;
	if (!vec_fit(thread->variables, thread->nr_variables + locals.nr + 1)) {
		python_locals_fini(&locals);
		return -ENOMEM;
	}
	frame->has_variables = true;
	frame->first_variable = (uint32_t)thread->nr_variables;
	for (i = 0; i < locals.nr; i++) {
		if (locals.locals[i].flags & PYTHON_LOCAL_FREE)
			continue;
		thread->variables[thread->nr_variables++] = (struct thread_variable){
			.name = strtab_add(reading->strings, locals.locals[i].name),
			.repr = strtab_add(reading->strings, locals.locals[i].repr),
			.va = locals.locals[i].va,
			.argument = locals.locals[i].flags & PYTHON_LOCAL_ARGUMENT,
		};
		frame->nr_variables++;
	}
	python_locals_fini(&locals);
	return 0;
}

/* Is the Python frame with that index the outermost one that a C call of the eval loop runs? */
static bool is_entry(const struct reading *reading, size_t index)
{
	size_t i;

	for (i = 0; i < reading->chain.nr_entries; i++)
		if (reading->chain.entries[i].nr == index + 1)
			return true;
	return false;
}

/* Marks an entry as py-spy does, which differs by version. */
static void entry_set(const struct reading *reading, const struct reading_python *python,
		      struct thread_frame *frame, size_t index)
{
	bool outermost = index + 1 == reading->chain.nr_frames;

	switch (python->layout->chain) {
	case PYTHON_CHAIN_OBJECTS:
		frame->is_entry = true;
		frame->is_shim_entry = outermost;
		break;
	case PYTHON_CHAIN_ENTRY_FLAG:
		frame->is_entry = outermost || is_entry(reading, index);
		frame->is_shim_entry = outermost;
		break;
	default:
		frame->is_shim_entry = outermost || is_entry(reading, index);
		break;
	}
}

static uint32_t add_short_file(struct reading *reading, const char *path, uint32_t file)
{
	struct short_file_view view = { .images = reading->reader->images,
					.pid = reading->dump->pid };
	uint32_t slot = file % DUMP_SHORT_SLOTS;

	if (reading->shorts[slot].file != file) {
		reading->shorts[slot].short_file =
			strtab_add(reading->strings, short_file(&view, path));
		reading->shorts[slot].file = file;
	}
	return reading->shorts[slot].short_file;
}

static int frame_python(struct reading *reading, struct thread_dump *thread, size_t index)
{
	struct thread_frame *frame = &thread->frames[thread->nr_frames++];
	const struct python_chain_frame *at = &reading->chain.frames[index];
	struct reading_python *python = reading_python_of(reading, index);
	const struct python_code *code;
	char mark[DUMP_MARKER_BYTES];

	if (at->lasti == PYTHON_CHAIN_NO_FRAME) {
		python_awaits_name(&python->heap, at, mark, sizeof(mark));
		*frame = (struct thread_frame){ .kind = THREAD_FRAME_MARKER,
						.name = strtab_add(reading->strings, mark) };
		return 0;
	}
	code = python_code_cache_get(python->codes, at->code, NULL);
	*frame = (struct thread_frame){ .kind = THREAD_FRAME_PYTHON };
	entry_set(reading, python, frame, index);
	if (!code) {
		frame->name = strtab_add(reading->strings, "[python]");
		return 0;
	}
	frame->name = strtab_add(reading->strings, code->name);
	frame->file = strtab_add(reading->strings, code->file);
	frame->short_file = add_short_file(reading, code->file, frame->file);
	frame->line = python_code_line(code, at->lasti);
	return reading->request->locals ? variables_add(reading, thread, python, frame, at) : 0;
}

static void frame_kernel(struct thread_dump *thread, uint64_t va, bool leaf)
{
	thread->frames[thread->nr_frames++] = (struct thread_frame){
		.kind = THREAD_FRAME_KERNEL,
		.is_entry = true,
		.is_shim_entry = true,
		.wire = (uint64_t)BPFPROF_FRAME_KERNEL << BPFPROF_FRAME_SHIFT |
			((va - !leaf) & BPFPROF_FRAME_MASK),
	};
}

static void frame_native(struct thread_dump *thread, uint64_t wire)
{
	thread->frames[thread->nr_frames++] = (struct thread_frame){
		.kind = THREAD_FRAME_NATIVE,
		.is_entry = true,
		.is_shim_entry = true,
		.wire = wire,
	};
}

static void frame_marker(struct reading *reading, struct thread_dump *thread, const char *text)
{
	thread->frames[thread->nr_frames++] = (struct thread_frame){
		.kind = THREAD_FRAME_MARKER,
		.name = strtab_add(reading->strings, text),
	};
}

static int frame_add(struct reading *reading, struct thread_dump *thread, uint64_t wire)
{
	switch (wire >> BPFPROF_FRAME_SHIFT) {
	case BPFPROF_FRAME_PYTHON:
		return frame_python(reading, thread, PYTHON_INDEX(wire));
	case BPFPROF_FRAME_MARKER:
		frame_marker(reading, thread, "[unmerged]");
		return 0;
	default:
		frame_native(thread, wire);
		return 0;
	}
}

bool reading_wants_native(const struct reading *reading)
{
	return reading->request->native || reading->request->waits || !reading->python_known;
}

static uint32_t native_walk(struct reading *reading, const struct bpfprof_task_state *task,
			    uint32_t *stop)
{
	struct walker_stack stack = {
		.regs = task->regs,
		.regs_valid = UNWIND_ALL_REGS,
		.pc_exact = 1,
		.reader = remote_reader(reading->remote),
		.entries = reading->chain.entries,
		.nr_entries = reading->chain.nr_entries,
		.returns = task->returns,
		.nr_returns = task->nr_returns,
		.ts_ns = time_monotonic_ns(),
		.sps = reading->native_sps,
	};

	*stop = 0;
	if (!task->regs[UNWIND_PC]) { /* a kernel thread of this process, such as io_uring's */
		*stop = BPFPROF_STOP_COMPLETE;
		return 0;
	}
	if (task->flags & BPFPROF_TASK_COMPAT32) {
		*stop = BPFPROF_STOP_COMPAT32;
		return 0;
	}
	return walker_walk(&reading->reader->walker, reading->process, &stack, reading->native, 0,
			   DUMP_MAX_NATIVE_FRAMES, stop, stack.ts_ns);
}

/* Are there frames of runtimes that do not mark their C calls? */
static bool has_objects(const struct reading *reading)
{
	uint32_t i, begin = 0;

	for (i = 0; i < reading->nr_parts; begin = reading->parts[i++].end)
		if (reading->parts[i].python->layout->chain == PYTHON_CHAIN_OBJECTS &&
		    reading->parts[i].end > begin)
			return true;
	return false;
}

/* Merges native and Python frames to one stack. */
static struct python_merged user_merge(struct reading *reading, uint32_t nr_native, bool complete)
{
	struct python_merge m = {
		.python = reading->python,
		.nr_python = reading->chain.nr_frames,
		.native = reading->native,
		.nr_native = nr_native,
		.complete = complete,
		.python_complete = reading->chain.stop == PYTHON_STOP_COMPLETE,
		.by_number = has_objects(reading),
		.kind = walker_frame_kind,
		.arg = &reading->reader->walker,
	};
	size_t i;

	for (i = 0; i < m.nr_python; i++)
		reading->python[i] = (uint64_t)BPFPROF_FRAME_PYTHON << BPFPROF_FRAME_SHIFT |
				     (uint64_t)i << BPFPROF_LASTI_BITS;
	return python_merge(&m, reading->merged);
}

int reading_stack(struct reading *reading, struct thread_dump *thread,
		  const struct bpfprof_task_state *task)
{
	uint32_t nr_native = 0, stop = BPFPROF_STOP_COMPLETE;
	size_t max = reading->request->max_frames ? reading->request->max_frames : DUMP_MAX_FRAMES;
	size_t nr, i, room = 0, nr_kernel;
	struct python_merged merged;
	bool cut;
	int err = 0;

	reading_chain(reading, task);
	if (reading_wants_native(reading) && reading->process)
		nr_native = native_walk(reading, task, &stop);
	merged = user_merge(reading, nr_native, nr_native && stop == BPFPROF_STOP_COMPLETE);
	nr = merged.nr;
	cut = (stop != BPFPROF_STOP_COMPLETE && !merged.ended) || merged.broken ||
	      reading->chain.stop > PYTHON_STOP_COMPLETE;
	if (reading->all->nr_frames < max)
		room = max - reading->all->nr_frames;
	if (nr > room) {
		reading->counts->nr_cut++;
		nr = room;
		cut = true;
	}
	thread->frames = reallocarray(NULL, nr + task->nr_kernel + 1, sizeof(*thread->frames));
	if (!thread->frames)
		return -ENOMEM;
	for (i = 0; i < task->nr_kernel && i < BPFPROF_MAX_KERNEL_FRAMES; i++)
		frame_kernel(thread, task->kernel[i], !i);
	nr_kernel = thread->nr_frames;
	for (i = 0; i < nr && !err; i++)
		err = frame_add(reading, thread, reading->merged[i]);
	if (cut && !err)
		frame_marker(reading, thread, "[truncated]");
	return err || nr == room ? err
				 : reading_collectives(reading, thread, nr_native, nr, nr_kernel);
}

int reading_python_frames(struct reading *reading, struct thread_dump *thread, const char *marker)
{
	size_t nr = reading->chain.nr_frames, room = 0, i;
	bool cut = reading->chain.stop > PYTHON_STOP_COMPLETE;
	int err = 0;

	if (reading->nr_task_frames < DUMP_MAX_PROCESS_TASK_FRAMES &&
	    reading->all->nr_task_frames < DUMP_MAX_TASK_FRAMES)
		room = DUMP_MAX_PROCESS_TASK_FRAMES - reading->nr_task_frames;
	if (nr > room) {
		reading->counts->nr_cut++;
		nr = room;
		cut = true;
	}
	thread->frames = reallocarray(NULL, nr + 2, sizeof(*thread->frames));
	if (!thread->frames)
		return -ENOMEM;
	if (*marker)
		frame_marker(reading, thread, marker);
	for (i = 0; i < nr && !err; i++)
		err = frame_python(reading, thread, i);
	if (cut && !err)
		frame_marker(reading, thread, "[truncated]");
	reading->nr_task_frames += thread->nr_frames;
	reading->all->nr_task_frames += thread->nr_frames;
	return err;
}

void reading_walk(struct reading *reading, const struct bpfprof_task_state *task)
{
	uint32_t stop;

	reading_chain(reading, task);
	if (reading_wants_native(reading) && reading->process)
		reading_collectives_try(reading, native_walk(reading, task, &stop));
}
