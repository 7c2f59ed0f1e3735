// SPDX-License-Identifier: Apache-2.0
#include "profile/wire_stack.h"

#include "profile/aggregate.h"

uint32_t aggregate_frame_kind(uint64_t frame)
{
	return (uint32_t)(frame >> BPFPROF_FRAME_SHIFT);
}

static uint64_t kernel_frame(uint64_t va, bool caller)
{
	return (uint64_t)BPFPROF_FRAME_KERNEL << BPFPROF_FRAME_SHIFT |
	       ((va - caller) & BPFPROF_FRAME_MASK);
}

uint64_t wire_frame_of(uint64_t frame, uint32_t process)
{
	if (aggregate_frame_kind(frame) != BPFPROF_FRAME_NATIVE_VA)
		return frame;
	return (frame & ~BPFPROF_FRAME_MASK) | (frame & AGGREGATE_VA_MASK) |
	       (process < AGGREGATE_MAX_VA_PROCESSES ? (uint64_t)(process + 1) << AGGREGATE_VA_BITS
						     : 0);
}

size_t wire_stack_join(const struct aggregate_input *input, uint32_t process, uint64_t *frames)
{
	size_t nr = 0, i;

	for (i = 0; i < input->nr_kernel && nr < AGGREGATE_MAX_STACK - 1; i++)
		frames[nr++] = kernel_frame(input->kernel[i], i > 0);
	for (i = 0; i < input->nr_user && nr < AGGREGATE_MAX_STACK - 1; i++)
		frames[nr++] = wire_frame_of(input->user[i], process);
	if (input->stop != BPFPROF_STOP_COMPLETE && input->stop != BPFPROF_STOP_NO_USER)
		frames[nr++] = (uint64_t)BPFPROF_FRAME_MARKER << BPFPROF_FRAME_SHIFT | input->stop;
	return nr;
}

size_t aggregate_frames(const struct aggregate_input *input, uint64_t frames[AGGREGATE_MAX_STACK])
{
	return wire_stack_join(input, AGGREGATE_MAX_VA_PROCESSES, frames);
}
