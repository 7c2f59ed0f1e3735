// SPDX-License-Identifier: Apache-2.0
/*
 * Finds names of kernels whose handles were made before the hooks were attached, from the code
 * that launches them. The stack of a launch has that code.
 */
#include <errno.h>

#include "base/time.h"
#include "capture/sampler.h"
#include "cuda/functions.h"
#include "cuda/kernel_names.h"
#include "gpu/monitor.h"
#include "proc/images.h"
#include "profile/aggregate.h"

/* Frames between the driver and the launching code: the runtime, wrappers. */
#define MAX_FRAMES_OUT 24

/* 0; -ETIME: the time was too short; -ENOENT: there is no name; or another error. */
static int stack_name(struct gpu_monitor *watch, const struct aggregate_view *view, uint32_t stack,
		      uint64_t deadline_ns, const char **ret)
{
	struct kernel_walk walk = { 0 };
	struct image *image;
	uint32_t at, nr = 0;
	uint64_t frame, rva;
	int err;

	stack_each(at, view->callers, stack) {
		if (nr++ == MAX_FRAMES_OUT)
			break;
		frame = view->frames[at];
		if (frame >> BPFPROF_FRAME_SHIFT != BPFPROF_FRAME_NATIVE)
			return -ENOENT;
		image = images_get(watch->sampler->reader.images,
				   (uint32_t)((frame & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS));
		if (!image ||
		    images_open(watch->sampler->reader.images, image, time_monotonic_ns()) ||
		    elf_image_off_to_rva(image->elf, frame & BPFPROF_OFF_MASK, &rva))
			return -EIO;
		/* A caller's address is that of the last byte of its call. */
		err = kernel_names_find(watch->names, image->id, image->elf, rva + 1, deadline_ns,
					&walk, ret);
		if (err != -ENOENT)
			return err;
	}
	return -ENOENT;
}

void gpu_names_find(struct gpu_monitor *watch, const struct gpu_snapshot *snapshot,
		    uint64_t limit_ns)
{
	uint64_t deadline_ns = time_monotonic_ns() + limit_ns;
	const struct bpfprof_gpu_key *key;
	struct aggregate_view view;
	const char *name;
	uint32_t at;
	int err = 0;
	size_t i;

	aggregate_view_get(watch->aggregate, &view);
	for (i = 0; i < snapshot->nr_counts && err != -ETIME; i++) {
		key = &snapshot->counts[i].key;
		if (!BPFPROF_GPU_IS_LAUNCH(gpu_function(key->function)->wire.kind) ||
		    call_table_kernel(watch->table, key) ||
		    !call_table_launch_stack(watch->table, key, &at) || at >= view.nr_stacks)
			continue;
		if (!at) /* the first frame is the label of the call */
			continue;
		err = stack_name(watch, &view, view.callers[at], deadline_ns, &name);
		if (!err)
			call_table_kernel_set(watch->table, key, name);
	}
}
