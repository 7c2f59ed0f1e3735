// SPDX-License-Identifier: Apache-2.0
/*
 * A viewer goes back in time from what is in use at the end, and expects each tensor to be inside of a
 * segment at any time. So the events are replayed here, with the segments of the time in a sorted array:
 * a tensor is looked up where it begins and where it ends. A segment that overlaps one in use proves that
 * a free was lost: the older one is omitted, and the replay is repeated without it.
 */
#include "gpu/memory_layout.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "gpu/mappings.h"
#include "gpu/memory_log.h"

/* Tensors outside that are no farther apart are in one segment: PyTorch's are no smaller. */
#define NEAR_BYTES (2ULL << 20)

static uint64_t end_of(const struct gpu_allocation *allocation)
{
	return allocation->va + allocation->bytes;
}

static bool is_tensor(const struct gpu_allocation *allocation)
{
	return allocation->kind == GPU_MEMORY_TENSOR;
}

static uint64_t ns_of(const struct gpu_memory_event *event, const struct gpu_allocation *allocation)
{
	return event->ends ? allocation->end_ns : allocation->begin_ns;
}

uint64_t gpu_memory_event_ns(const struct gpu_memory_layout *layout,
			     const struct gpu_memory_event *event)
{
	return ns_of(event, &layout->all[event->allocation]);
}

/* The order at one time: what is inside of a segment ends before it and begins after it. */
static int rank(const struct gpu_memory_event *event, const struct gpu_allocation *allocation)
{
	return event->ends ? !is_tensor(allocation) : 2 + is_tensor(allocation);
}

static int compare_events(const void *a, const void *b, void *arg)
{
	const struct gpu_memory_event *x = a, *y = b;
	const struct gpu_allocation *all = arg;
	const struct gpu_allocation *of_x = &all[x->allocation], *of_y = &all[y->allocation];

	if (of_x->process != of_y->process)
		return of_x->process < of_y->process ? -1 : 1;
	if (ns_of(x, of_x) != ns_of(y, of_y))
		return ns_of(x, of_x) < ns_of(y, of_y) ? -1 : 1;
	return rank(x, of_x) - rank(y, of_y);
}

/* The device that an allocation names, or the first tensor in it. */
static uint8_t named_device(const struct gpu_memory_layout *layout, uint32_t nr)
{
	uint8_t device = layout->all[nr].device;

	return !device && layout->tensors[nr] ? layout->all[layout->tensors[nr] - 1].device
					      : device;
}

/* Does memory in use hold the whole tensor? Then that memory is known to have tensors, and the tensor is on its device. */
static bool covers(struct gpu_memory_layout *layout, const struct gpu_mappings *live, uint32_t nr)
{
	const struct gpu_allocation *tensor = &layout->all[nr];
	size_t first, parts = gpu_mappings_find(live, tensor->va, end_of(tensor), &first), i;
	uint64_t va = tensor->va;
	uint32_t memory;
	uint8_t device;

	for (i = first; i < first + parts; i++) {
		if (live->all[i].va > va)
			return false;
		va = live->all[i].end;
	}
	if (va < end_of(tensor))
		return false;
	for (i = first; i < first + parts; i++) {
		memory = (uint32_t)live->all[i].handle;
		if (!layout->tensors[memory])
			layout->tensors[memory] = nr + 1;
		device = named_device(layout, memory);
		if (layout->devices[nr] && device != layout->devices[nr])
			return false;
		layout->devices[nr] = device;
	}
	return true;
}

static void tensor_begin(struct gpu_memory_layout *layout, const struct gpu_mappings *live,
			 uint32_t nr)
{
	if (!covers(layout, live, nr))
		layout->places[nr] |= GPU_PLACE_OUTSIDE;
}

/* Its memory must still be there, and must not have come meanwhile. */
static void tensor_end(struct gpu_memory_layout *layout, const struct gpu_mappings *live,
		       uint32_t nr)
{
	bool outside = layout->places[nr] & GPU_PLACE_OUTSIDE;

	if (covers(layout, live, nr) == outside)
		layout->places[nr] |= GPU_PLACE_OMIT;
}

/* Returns how many older ones contradict it, or -ENOMEM. */
static int segment_begin(struct gpu_memory_layout *layout, struct gpu_mappings *live, uint32_t nr)
{
	const struct gpu_allocation *segment = &layout->all[nr];
	const struct gpu_mapping mapping = { .va = segment->va,
					     .end = end_of(segment),
					     .handle = nr };
	size_t first, older = gpu_mappings_find(live, mapping.va, mapping.end, &first), i;

	for (i = first; i < first + older; i++)
		layout->places[live->all[i].handle] |= GPU_PLACE_OMIT;
	if (older)
		gpu_mappings_remove(live, first, older);
	return gpu_mappings_add(live, &mapping) ?: (int)older;
}

static void segment_end(struct gpu_mappings *live, const struct gpu_allocation *segment,
			uint32_t nr)
{
	size_t first;

	if (gpu_mappings_find(live, segment->va, end_of(segment), &first) == 1 &&
	    live->all[first].handle == nr)
		gpu_mappings_remove(live, first, 1);
}

/* Replays the events of a process. Returns how many segments contradict others, or -ENOMEM. */
static int replay(struct gpu_memory_layout *layout, const struct gpu_memory_process *process)
{
	struct gpu_mappings live = { 0 };
	const struct gpu_memory_event *event;
	int ret = 0, err = 0;
	uint32_t nr;
	size_t i;

	for (i = 0; i < process->nr_events && err >= 0; i++) {
		event = &process->events[i];
		nr = event->allocation;
		if (layout->places[nr] & GPU_PLACE_OMIT)
			continue;
		if (!is_tensor(&layout->all[nr])) {
			err = event->ends ? 0 : segment_begin(layout, &live, nr);
			ret += err > 0 ? err : 0;
			if (event->ends)
				segment_end(&live, &layout->all[nr], nr);
		} else if (event->ends) {
			tensor_end(layout, &live, nr);
		} else {
			tensor_begin(layout, &live, nr);
		}
	}
	for (i = 0; i < process->nr_events; i++) {
		nr = process->events[i].allocation;
		if (is_tensor(&layout->all[nr]) && !gpu_memory_log_is_freed(&layout->all[nr]) &&
		    !(layout->places[nr] & GPU_PLACE_OMIT))
			tensor_end(layout, &live, nr);
	}
	gpu_mappings_fini(&live);
	return err < 0 ? err : ret;
}

static void places_reset(struct gpu_memory_layout *layout, const struct gpu_memory_process *process)
{
	size_t i;
	uint32_t nr;

	for (i = 0; i < process->nr_events; i++) {
		nr = process->events[i].allocation;
		layout->tensors[nr] = 0;
		layout->devices[nr] = 0;
		if (is_tensor(&layout->all[nr]))
			layout->places[nr] = 0;
	}
}

static int compare_vas(const void *a, const void *b, void *arg)
{
	const struct gpu_allocation *all = arg;
	const struct gpu_allocation *x = &all[*(const uint32_t *)a],
				    *y = &all[*(const uint32_t *)b];

	return (x->va > y->va) - (x->va < y->va);
}

/* A run of allocations by address that overlap; tensors alone may also be near to each other. */
struct cluster {
	struct gpu_memory_range range;
	size_t first; /* in the array of their indexes */
	bool has_segment;
};

static int cluster_end(struct gpu_memory_layout *layout, struct gpu_memory_process *process,
		       const struct cluster *cluster, const uint32_t *sorted, size_t end)
{
	size_t i;

	if (!cluster->has_segment) {
		if (vec_grow(process->guessed, process->nr_guessed + 1, process->cap_guessed,
			     VEC_BOUNDED))
			return -ENOMEM;
		process->guessed[process->nr_guessed++] = cluster->range;
		return 0;
	}
	for (i = cluster->first; i < end; i++)
		if (is_tensor(&layout->all[sorted[i]]))
			layout->places[sorted[i]] |= GPU_PLACE_OMIT;
	return 0;
}

/* Makes segments of the tensors outside. sorted: these and all segments, by address. */
static int guess(struct gpu_memory_layout *layout, struct gpu_memory_process *process,
		 const uint32_t *sorted, size_t nr)
{
	struct cluster cluster = { 0 };
	int err = 0;
	size_t i;

	for (i = 0; i < nr && !err; i++) {
		const struct gpu_allocation *one = &layout->all[sorted[i]];
		bool tensor = is_tensor(one), other = one->device != cluster.range.device;
		uint64_t reach = cluster.range.end;

		if (tensor && !cluster.has_segment && !other)
			reach += NEAR_BYTES;
		if (tensor && other && i > cluster.first && one->va < reach) {
			layout->places[sorted[i]] |= GPU_PLACE_OMIT;
			continue;
		}
		if (i == cluster.first || one->va >= reach) {
			if (i > cluster.first)
				err = cluster_end(layout, process, &cluster, sorted, i);
			cluster =
				(struct cluster){ .range = { .va = one->va, .device = one->device },
						  .first = i };
		}
		if (end_of(one) > cluster.range.end)
			cluster.range.end = end_of(one);
		cluster.has_segment |= !tensor;
	}
	if (!err && nr)
		err = cluster_end(layout, process, &cluster, sorted, nr);
	return err;
}

static int process_place(struct gpu_memory_layout *layout, struct gpu_memory_process *process)
{
	__cleanup(free_mem) uint32_t *sorted = NULL;
	size_t i, nr = 0;
	uint32_t at;
	int err = replay(layout, process);

	if (err > 0) {
		places_reset(layout, process);
		err = replay(layout, process);
	}
	if (err < 0)
		return err;
	sorted = malloc((process->nr_events + 1) * sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	for (i = 0; i < process->nr_events; i++) {
		at = process->events[i].allocation;
		if (process->events[i].ends || layout->places[at] & GPU_PLACE_OMIT)
			continue;
		if (!is_tensor(&layout->all[at]) || layout->places[at] & GPU_PLACE_OUTSIDE)
			sorted[nr++] = at;
	}
	qsort_r(sorted, nr, sizeof(*sorted), compare_vas, (void *)layout->all);
	return guess(layout, process, sorted, nr);
}

/* The only device that the memory of a process is known to be on, 0: none, or several. */
static uint8_t device_find(const struct gpu_memory_layout *layout,
			   struct gpu_memory_process *process)
{
	uint8_t only = 0, device;
	size_t i;

	for (i = 0; i < process->nr_events; i++) {
		device = layout->all[process->events[i].allocation].device;
		process->several |= device && only && device != only;
		only = device ? device : only;
	}
	return process->several ? 0 : only;
}

static void devices_find(struct gpu_memory_layout *layout, struct gpu_memory_process *process)
{
	uint8_t only = device_find(layout, process);
	uint32_t nr;
	size_t i;

	for (i = 0; i < process->nr_events; i++) {
		nr = process->events[i].allocation;
		if (!is_tensor(&layout->all[nr]) || layout->places[nr] & GPU_PLACE_OUTSIDE)
			layout->devices[nr] = named_device(layout, nr);
		if (!layout->devices[nr])
			layout->devices[nr] = only;
	}
	for (i = 0; i < process->nr_guessed; i++)
		if (!process->guessed[i].device)
			process->guessed[i].device = only;
}

/* Events of one process behind each other are its part of the array. */
static int processes_make(struct gpu_memory_layout *layout)
{
	size_t i, cap = 0;
	uint32_t of;

	for (i = 0; i < layout->nr_events; i++) {
		of = layout->all[layout->events[i].allocation].process;
		if (!layout->nr_processes ||
		    layout->processes[layout->nr_processes - 1].process != of) {
			if (vec_grow(layout->processes, layout->nr_processes + 1, cap, VEC_BOUNDED))
				return -ENOMEM;
			layout->processes[layout->nr_processes++] =
				(struct gpu_memory_process){ .process = of,
							     .events = &layout->events[i] };
		}
		layout->processes[layout->nr_processes - 1].nr_events++;
	}
	return 0;
}

static void events_make(struct gpu_memory_layout *layout)
{
	const struct gpu_allocation *one;
	uint32_t i;

	for (i = 0; i < layout->nr; i++) {
		one = &layout->all[i];
		layout->events[layout->nr_events++] = (struct gpu_memory_event){ .allocation = i };
		if (gpu_memory_log_is_freed(one))
			layout->events[layout->nr_events++] =
				(struct gpu_memory_event){ .allocation = i, .ends = true };
	}
	qsort_r(layout->events, layout->nr_events, sizeof(*layout->events), compare_events,
		(void *)layout->all);
}

int gpu_memory_layout_init(struct gpu_memory_layout *layout, const struct gpu_memory_log *log)
{
	int err = 0;
	size_t i;

	*layout = (struct gpu_memory_layout){ 0 };
	layout->all = gpu_memory_log_all(log, &layout->nr);
	layout->places = calloc(layout->nr + 1, 1);
	layout->tensors = calloc(layout->nr + 1, sizeof(*layout->tensors));
	layout->events = malloc((2 * layout->nr + 1) * sizeof(*layout->events));
	layout->devices = calloc(layout->nr + 1, sizeof(*layout->devices));
	if (!layout->places || !layout->tensors || !layout->events || !layout->devices)
		err = -ENOMEM;
	if (!err) {
		events_make(layout);
		err = processes_make(layout);
	}
	for (i = 0; i < layout->nr_processes && !err; i++) {
		err = process_place(layout, &layout->processes[i]);
		devices_find(layout, &layout->processes[i]);
	}
	for (i = 0; i < layout->nr && !err; i++)
		layout->nr_omitted += layout->places[i] & GPU_PLACE_OMIT;
	if (err)
		gpu_memory_layout_fini(layout);
	return err;
}

void gpu_memory_layout_fini(struct gpu_memory_layout *layout)
{
	size_t i;

	for (i = 0; i < layout->nr_processes; i++)
		free(layout->processes[i].guessed);
	free(layout->processes);
	free(layout->events);
	free(layout->places);
	free(layout->tensors);
	free(layout->devices);
	*layout = (struct gpu_memory_layout){ 0 };
}
