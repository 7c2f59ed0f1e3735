// SPDX-License-Identifier: Apache-2.0
/* Frees images and code that nothing uses any more. */
#include "capture/sampler.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "kernel/python_maps.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "profile/aggregate.h"
#include "python/pythons.h"

/* Samples in flight may refer to files that were mapped a moment ago. */
#define IDLE_NS (10 * NS_PER_SECOND)
/* A program that runs now and then keeps its ids; there are a million ids. */
#define UNUSED_NS (600 * NS_PER_SECOND)

static uint64_t before(uint64_t now_ns, uint64_t ns)
{
	return now_ns > ns ? now_ns - ns : 0;
}

struct sweep {
	uint8_t *used; /* a bit per image */
	uint32_t nr;
	const struct sampler *sampler;
};

static void use(struct sweep *sweep, uint64_t image)
{
	if (image < sweep->nr)
		sweep->used[image / 8] |= (uint8_t)(1U << image % 8);
}

static bool is_used(void *arg, uint32_t id)
{
	const struct sweep *sweep = arg;

	return id >= sweep->nr || sweep->used[id / 8] >> id % 8 & 1;
}

static void forget(void *arg, uint32_t id)
{
	const struct sampler *sampler = ((const struct sweep *)arg)->sampler;

	pythons_forget(sampler->reader.walker.pythons, id);
	sampler_emit(sampler, &(struct event){ .kind = EVENT_IMAGE_UNUSED,
					       .image = images_get(sampler->reader.images, id) });
}

static void images_use(struct sweep *sweep, const struct sampler *sampler, const uint64_t *frames,
		       size_t nr_frames)
{
	const struct process *process;
	size_t i;

	for (process = processes_first(sampler->reader.processes); process;
	     process = hash_table_next(process))
		for (i = 0; i < process->nr_mappings; i++)
			use(sweep, process->mappings[i].image);
	for (i = 0; i < nr_frames; i++)
		if (frames[i] >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_NATIVE)
			use(sweep, (frames[i] & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS);
}

/* The frames of all aggregates; the caller frees them. NULL: out of memory. */
static uint64_t *frames_join(const struct aggregate *const *aggregates, size_t nr, size_t *ret_nr)
{
	struct aggregate_view view;
	uint64_t *frames;
	size_t i, total = 0;

	for (i = 0; i < nr; i++) {
		aggregate_view_get(aggregates[i], &view);
		total += view.nr_stacks;
	}
	frames = malloc((total + 1) * sizeof(*frames));
	*ret_nr = 0;
	for (i = 0; frames && i < nr; i++) {
		aggregate_view_get(aggregates[i], &view);
		if (view.nr_stacks)
			memcpy(frames + *ret_nr, view.frames, view.nr_stacks * sizeof(*frames));
		*ret_nr += view.nr_stacks;
	}
	return frames;
}

void sampler_sweep(struct sampler *sampler, const struct aggregate *const *aggregates, size_t nr)
{
	size_t nr_frames;
	__cleanup(free_mem) uint64_t *frames = frames_join(aggregates, nr, &nr_frames);
	struct sweep sweep = { .nr = images_count(sampler->reader.images), .sampler = sampler };
	uint64_t now_ns = time_monotonic_ns();

	if (!frames)
		return;
	python_maps_sweep(sampler->reader.walker.python_maps, sampler->reader.processes,
			  sampler->codes, frames, nr_frames, now_ns);
	sweep.used = calloc(sweep.nr / 8 + 1, 1);
	if (!sweep.used)
		return;
	images_use(&sweep, sampler, frames, nr_frames);
	images_sweep(sampler->reader.images, before(now_ns, IDLE_NS), before(now_ns, UNUSED_NS),
		     is_used, forget, &sweep);
	free(sweep.used);
	malloc_trim(0); /* freed memory lies scattered: 1 MiB a minute would stay */
}
