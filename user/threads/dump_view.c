// SPDX-License-Identifier: Apache-2.0
#include "threads/dump_view.h"

#include "base/strtab.h"
#include "base/text.h"
#include "threads/dump.h"
#include "threads/thread_dump.h"

bool dump_shows_thread(const struct process_dump *process, const struct thread_dump *thread,
		       const struct dump_format *format)
{
	return format->native || format->kernel || !process->python_version ||
	       process->threads_cut || thread->is_python;
}

static bool has_kind(const struct thread_dump *thread, enum thread_frame_kind kind)
{
	size_t i;

	for (i = 0; i < thread->nr_frames; i++)
		if (thread->frames[i].kind == kind)
			return true;
	return false;
}

/* Does it have frames of the program? These say more than kernel frames. */
static bool has_user_frames(const struct thread_dump *thread)
{
	return has_kind(thread, THREAD_FRAME_NATIVE) || has_kind(thread, THREAD_FRAME_PYTHON);
}

/*
 * Python knows the thread, but it runs no Python now: a C thread between two calls of Python. It is
 * not shown, unless frames are missing.
 */
static bool runs_no_python(const struct thread_dump *thread)
{
	return thread->is_python && !has_user_frames(thread) &&
	       !has_kind(thread, THREAD_FRAME_MARKER) && thread->consistent;
}

bool dump_shows_frame(const struct process_dump *process, const struct thread_dump *thread,
		      const struct thread_frame *frame, const struct dump_format *format)
{
	switch (frame->kind) {
	case THREAD_FRAME_KERNEL:
		return format->kernel ||
		       !(has_user_frames(thread) || (!format->native && runs_no_python(thread)));
	case THREAD_FRAME_NATIVE:
		return format->native || !process->python_version;
	default:
		return true;
	}
}

const char *dump_frame_file(const struct dump *dump, const struct thread_frame *frame,
			    const struct dump_format *format)
{
	const char *file = strtab_get(dump->strings, frame->file);

	if (frame->kind == THREAD_FRAME_PYTHON)
		return format->full_filenames ? file : strtab_get(dump->strings, frame->short_file);
	return format->full_filenames ? file : text_base_name(file);
}

const char *dump_thread_status(const struct thread_dump *thread)
{
	if (!thread->active)
		return "idle";
	return thread->owns_gil ? "active+gil" : "active";
}

void dump_frame_text(const struct dump *dump, const struct thread_frame *frame,
		     char room[DUMP_FRAME_BYTES])
{
	const char *name = strtab_get(dump->strings, frame->name);

	if (frame->kind == THREAD_FRAME_PYTHON)
		snprintf(room, DUMP_FRAME_BYTES, "%s (%s:%u)", name,
			 strtab_get(dump->strings, frame->short_file), frame->line);
	else
		snprintf(room, DUMP_FRAME_BYTES, "%s", name);
}
