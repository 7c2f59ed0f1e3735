// SPDX-License-Identifier: Apache-2.0
#include "threads/thread_sample.h"

#include <errno.h>
#include <stdlib.h>

#include "base/strtab.h"
#include "profile/aggregate.h"
#include "threads/thread_dump.h"
#include "bpfprof.h"

static enum thread_frame_kind kind_of(uint64_t wire)
{
	switch (wire >> BPFPROF_FRAME_SHIFT) {
	case BPFPROF_FRAME_PYTHON:
		return THREAD_FRAME_PYTHON;
	case BPFPROF_FRAME_MARKER:
		return THREAD_FRAME_MARKER;
	default:
		return THREAD_FRAME_NATIVE;
	}
}

static void frame_add(struct thread_dump *thread, enum thread_frame_kind kind, uint64_t wire)
{
	thread->frames[thread->nr_frames++] = (struct thread_frame){ .kind = kind, .wire = wire };
}

static bool is_cut(const struct aggregate_input *input)
{
	return input->stop != BPFPROF_STOP_COMPLETE ||
	       input->sample->python_stop > PYTHON_STOP_COMPLETE;
}

bool thread_sample_is_whole(const struct aggregate_input *input)
{
	return !is_cut(input) && !input->unmerged &&
	       !(input->sample->python_flags & BPFPROF_PYTHON_CODE_PENDING);
}

int thread_sample_take(struct thread_dump *thread, const struct aggregate_input *input,
		       struct strtab *strings)
{
	struct thread_frame *frames;
	size_t i;

	frames = reallocarray(NULL, input->nr_kernel + input->nr_user + 1, sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	free(thread->frames);
	thread->frames = frames;
	thread->nr_frames = 0;
	for (i = 0; i < input->nr_kernel; i++)
		frame_add(thread, THREAD_FRAME_KERNEL,
			  (uint64_t)BPFPROF_FRAME_KERNEL << BPFPROF_FRAME_SHIFT |
				  ((input->kernel[i] - (i > 0)) & BPFPROF_FRAME_MASK));
	for (i = 0; i < input->nr_user; i++)
		frame_add(thread, kind_of(input->user[i]), input->user[i]);
	if (is_cut(input)) {
		frame_add(thread, THREAD_FRAME_MARKER, 0);
		frames[thread->nr_frames - 1].name = strtab_add(strings, "[truncated]");
	}
	return 0;
}
