// SPDX-License-Identifier: Apache-2.0
#include "gpu/memory_snapshot.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/strtab.h"
#include "base/vec.h"
#include "formats/pickle.h"
#include "gpu/call_table.h"
#include "gpu/memory_layout.h"
#include "gpu/memory_log.h"
#include "profile/profile.h"

#define LARGE_BYTES (2ULL << 20) /* PyTorch's pool for small tensors has segments of this size */
#define UNKNOWN_FILE "??" /* as PyTorch writes it */

/* Texts that come often: they are written once. */
enum word {
	WORD_ACTION,
	WORD_ACTIVE_ALLOCATED,
	WORD_ACTIVE_SIZE,
	WORD_ADDR,
	WORD_ADDRESS,
	WORD_ALLOC,
	WORD_ALLOCATED_SIZE,
	WORD_BLOCKS,
	WORD_DEVICE,
	WORD_DEVICE_TRACES,
	WORD_FILENAME,
	WORD_FRAMES,
	WORD_FREE_COMPLETED,
	WORD_FREE_REQUESTED,
	WORD_GPU,
	WORD_INACTIVE,
	WORD_IS_EXPANDABLE,
	WORD_LARGE,
	WORD_LINE,
	WORD_NAME,
	WORD_PID,
	WORD_POD,
	WORD_PROCESSES,
	WORD_RANK,
	WORD_RAY_TASK,
	WORD_REQUESTED_SIZE,
	WORD_SEGMENT_ALLOC,
	WORD_SEGMENT_FREE,
	WORD_SEGMENT_MAP,
	WORD_SEGMENT_POOL_ID,
	WORD_SEGMENT_TYPE,
	WORD_SEGMENT_UNMAP,
	WORD_SEGMENTS,
	WORD_SIZE,
	WORD_SMALL,
	WORD_STATE,
	WORD_STREAM,
	WORD_TIME_US,
	WORD_TOTAL_SIZE,
	NR_WORDS
};

static const char *const words[NR_WORDS] = {
	[WORD_ACTION] = "action",
	[WORD_ACTIVE_ALLOCATED] = "active_allocated",
	[WORD_ACTIVE_SIZE] = "active_size",
	[WORD_ADDR] = "addr",
	[WORD_ADDRESS] = "address",
	[WORD_ALLOC] = "alloc",
	[WORD_ALLOCATED_SIZE] = "allocated_size",
	[WORD_BLOCKS] = "blocks",
	[WORD_DEVICE] = "device",
	[WORD_DEVICE_TRACES] = "device_traces",
	[WORD_FILENAME] = "filename",
	[WORD_FRAMES] = "frames",
	[WORD_FREE_COMPLETED] = "free_completed",
	[WORD_FREE_REQUESTED] = "free_requested",
	[WORD_GPU] = "gpu",
	[WORD_INACTIVE] = "inactive",
	[WORD_IS_EXPANDABLE] = "is_expandable",
	[WORD_LARGE] = "large",
	[WORD_LINE] = "line",
	[WORD_NAME] = "name",
	[WORD_PID] = "pid",
	[WORD_POD] = "pod",
	[WORD_PROCESSES] = "processes",
	[WORD_RANK] = "rank",
	[WORD_RAY_TASK] = "ray_task",
	[WORD_REQUESTED_SIZE] = "requested_size",
	[WORD_SEGMENT_ALLOC] = "segment_alloc",
	[WORD_SEGMENT_FREE] = "segment_free",
	[WORD_SEGMENT_MAP] = "segment_map",
	[WORD_SEGMENT_POOL_ID] = "segment_pool_id",
	[WORD_SEGMENT_TYPE] = "segment_type",
	[WORD_SEGMENT_UNMAP] = "segment_unmap",
	[WORD_SEGMENTS] = "segments",
	[WORD_SIZE] = "size",
	[WORD_SMALL] = "small",
	[WORD_STATE] = "state",
	[WORD_STREAM] = "stream",
	[WORD_TIME_US] = "time_us",
	[WORD_TOTAL_SIZE] = "total_size",
};

/* A segment at the end. Mappings behind each other are one. */
struct segment {
	struct gpu_memory_range range;
	const struct gpu_allocation *of; /* the first of it; NULL: it is guessed */
};

/* A device of the viewer: memory that a process has on one GPU. */
struct device {
	const struct gpu_memory_process *process;
	uint8_t gpu; /* as in the layout */
};

struct writer {
	struct pickle pickle;
	struct gpu_memory_snapshot *ask;
	struct gpu_memory_layout layout;
	const struct call_table_process *processes;
	size_t nr_processes;
	struct device *devices;
	size_t nr_devices, cap_devices;
	uint32_t words[NR_WORDS]; /* numbers of kept values; 0: not yet written */
	uint32_t *stacks, *locations; /* the same */
	struct segment *segments; /* of a process, by address */
	const struct gpu_allocation **blocks; /* likewise */
	size_t nr_segments, nr_blocks;
};

static void word_write(struct writer *w, enum word word)
{
	if (w->words[word]) {
		pickle_recall(&w->pickle, w->words[word]);
		return;
	}
	pickle_text(&w->pickle, words[word]);
	w->words[word] = pickle_keep(&w->pickle);
}

static void number_put(struct writer *w, enum word key, uint64_t value)
{
	word_write(w, key);
	pickle_number(&w->pickle, value);
}

static void word_put(struct writer *w, enum word key, enum word value)
{
	word_write(w, key);
	word_write(w, value);
}

/* Nothing for NULL and "". */
static void text_put(struct writer *w, enum word key, const char *text)
{
	if (!text || !*text)
		return;
	word_write(w, key);
	pickle_text(&w->pickle, text);
}

static const char *file_of(const struct profile *profile, const struct profile_location *location)
{
	uint32_t file = location->file;

	if (!file && location->mapping && location->mapping <= profile->nr_mappings)
		file = profile->mappings[location->mapping - 1].path;
	return file ? strtab_get(profile->strings, file) : UNKNOWN_FILE;
}

static void frame_write(struct writer *w, uint32_t nr)
{
	const struct profile *profile = w->ask->profile;
	const struct profile_location *location = &profile->locations[nr];

	if (w->locations[nr]) {
		pickle_recall(&w->pickle, w->locations[nr]);
		return;
	}
	pickle_dict_open(&w->pickle);
	word_write(w, WORD_FILENAME);
	pickle_text(&w->pickle, file_of(profile, location));
	number_put(w, WORD_LINE, location->line);
	word_write(w, WORD_NAME);
	pickle_text(&w->pickle, strtab_get(profile->strings, location->name));
	pickle_dict_close(&w->pickle);
	w->locations[nr] = pickle_keep(&w->pickle);
}

/* Leaf first, as PyTorch has them. */
static void frames_put(struct writer *w, uint32_t nr)
{
	const struct profile *profile = w->ask->profile;
	uint32_t at;

	word_write(w, WORD_FRAMES);
	if (nr >= profile->nr_stacks) {
		pickle_list_open(&w->pickle);
		return;
	}
	if (w->stacks[nr]) {
		pickle_recall(&w->pickle, w->stacks[nr]);
		return;
	}
	pickle_list_open(&w->pickle);
	stack_each(at, profile->stack_callers, nr) {
		frame_write(w, profile->stack_locations[at]);
		pickle_list_add(&w->pickle);
	}
	w->stacks[nr] = pickle_keep(&w->pickle);
}

/* Is the memory of the driver in use as a whole, by a program that is not PyTorch? */
static bool is_own_block(const struct writer *w, uint32_t nr)
{
	return w->layout.all[nr].kind != GPU_MEMORY_TENSOR && !w->layout.tensors[nr];
}

/* PyTorch has segments for each stream, but takes them from the driver without one. */
static uint64_t stream_of(const struct writer *w, const struct gpu_allocation *of)
{
	uint32_t tensor = w->layout.tensors[of - w->layout.all];

	return tensor ? w->layout.all[tensor - 1].stream : of->stream;
}

/* The segments at the end */

static int compare_segments(const void *a, const void *b)
{
	const struct segment *x = a, *y = b;

	return (x->range.va > y->range.va) - (x->range.va < y->range.va);
}

static int compare_blocks(const void *a, const void *b)
{
	const struct gpu_allocation *x = *(const struct gpu_allocation *const *)a;
	const struct gpu_allocation *y = *(const struct gpu_allocation *const *)b;

	return (x->va > y->va) - (x->va < y->va);
}

static bool is_mapping(const struct segment *segment)
{
	return segment->of && segment->of->kind == GPU_MEMORY_MAPPING;
}

static void mappings_join(struct writer *w)
{
	struct segment *last = NULL, *one;
	size_t i, nr = 0;

	for (i = 0; i < w->nr_segments; i++) {
		one = &w->segments[i];
		if (last && is_mapping(last) && is_mapping(one) && last->range.end == one->range.va)
			last->range.end = one->range.end;
		else
			*(last = &w->segments[nr++]) = *one;
	}
	w->nr_segments = nr;
}

static bool is_on(const struct writer *w, uint32_t nr, const struct device *device)
{
	return w->layout.devices[nr] == device->gpu && !(w->layout.places[nr] & GPU_PLACE_OMIT);
}

/* Collects what a process holds on a device at the end. */
static void held_collect(struct writer *w, const struct device *device)
{
	const struct gpu_memory_process *process = device->process;
	const struct gpu_allocation *one;
	uint32_t nr;
	size_t i;

	w->nr_segments = w->nr_blocks = 0;
	for (i = 0; i < process->nr_guessed; i++)
		if (process->guessed[i].device == device->gpu)
			w->segments[w->nr_segments++] =
				(struct segment){ .range = process->guessed[i] };
	for (i = 0; i < process->nr_events; i++) {
		nr = process->events[i].allocation;
		one = &w->layout.all[nr];
		if (gpu_memory_log_is_freed(one) || !is_on(w, nr, device))
			continue;
		if (one->kind != GPU_MEMORY_TENSOR)
			w->segments[w->nr_segments++] = (struct segment){
				.range = { .va = one->va, .end = one->va + one->bytes }, .of = one
			};
		if (one->kind == GPU_MEMORY_TENSOR || is_own_block(w, nr))
			w->blocks[w->nr_blocks++] = one;
	}
	qsort(w->segments, w->nr_segments, sizeof(*w->segments), compare_segments);
	qsort(w->blocks, w->nr_blocks, sizeof(*w->blocks), compare_blocks);
	mappings_join(w);
}

/* of: NULL for memory that is not in use. */
static void block_write(struct writer *w, uint64_t va, uint64_t end,
			const struct gpu_allocation *of)
{
	pickle_dict_open(&w->pickle);
	number_put(w, WORD_ADDRESS, va);
	number_put(w, WORD_SIZE, end - va);
	number_put(w, WORD_REQUESTED_SIZE, of ? end - va : 0);
	word_put(w, WORD_STATE, of ? WORD_ACTIVE_ALLOCATED : WORD_INACTIVE);
	frames_put(w, of ? of->stack : GPU_MEMORY_NO_STACK);
	pickle_dict_close(&w->pickle);
	pickle_list_add(&w->pickle);
}

/* Writes the blocks of a segment, which fill it, from *at on. Returns the bytes in use. */
static uint64_t blocks_write(struct writer *w, const struct segment *segment, size_t *at)
{
	uint64_t va = segment->range.va, active = 0, end;
	const struct gpu_allocation *block;

	word_write(w, WORD_BLOCKS);
	pickle_list_open(&w->pickle);
	for (; *at < w->nr_blocks && w->blocks[*at]->va < segment->range.end; (*at)++) {
		block = w->blocks[*at];
		end = block->va + block->bytes;
		/* A block in place of an older one, whose free was lost, is not shown. */
		if (block->va < va || end > segment->range.end)
			continue;
		if (block->va > va)
			block_write(w, va, block->va, NULL);
		block_write(w, block->va, end, block);
		active += block->bytes;
		va = end;
	}
	if (va < segment->range.end)
		block_write(w, va, segment->range.end, NULL);
	return active;
}

static void segment_write(struct writer *w, const struct segment *segment, size_t device,
			  size_t *block)
{
	uint64_t bytes = segment->range.end - segment->range.va, active;

	pickle_dict_open(&w->pickle);
	number_put(w, WORD_DEVICE, device);
	number_put(w, WORD_ADDRESS, segment->range.va);
	number_put(w, WORD_TOTAL_SIZE, bytes);
	number_put(w, WORD_STREAM, segment->of ? stream_of(w, segment->of) : 0);
	word_put(w, WORD_SEGMENT_TYPE, bytes > LARGE_BYTES ? WORD_LARGE : WORD_SMALL);
	word_write(w, WORD_SEGMENT_POOL_ID);
	pickle_pair(&w->pickle, 0, 0);
	word_write(w, WORD_IS_EXPANDABLE);
	pickle_bool(&w->pickle, is_mapping(segment));
	frames_put(w, segment->of ? segment->of->stack : GPU_MEMORY_NO_STACK);
	active = blocks_write(w, segment, block);
	number_put(w, WORD_ALLOCATED_SIZE, active);
	number_put(w, WORD_ACTIVE_SIZE, active);
	number_put(w, WORD_REQUESTED_SIZE, active);
	pickle_dict_close(&w->pickle);
	pickle_list_add(&w->pickle);
}

static void segments_write(struct writer *w)
{
	size_t device, i, block;

	word_write(w, WORD_SEGMENTS);
	pickle_list_open(&w->pickle);
	for (device = 0; device < w->nr_devices; device++) {
		held_collect(w, &w->devices[device]);
		for (i = 0, block = 0; i < w->nr_segments; i++)
			segment_write(w, &w->segments[i], device, &block);
	}
}

/* The events */

static void event_write(struct writer *w, const struct gpu_memory_event *event, enum word action)
{
	const struct gpu_allocation *of = &w->layout.all[event->allocation];
	uint64_t ns = gpu_memory_event_ns(&w->layout, event);

	pickle_dict_open(&w->pickle);
	word_put(w, WORD_ACTION, action);
	number_put(w, WORD_ADDR, of->va);
	number_put(w, WORD_SIZE, of->bytes);
	number_put(w, WORD_STREAM, stream_of(w, of));
	number_put(w, WORD_TIME_US, (ns - w->ask->start_ns + w->ask->start_wall_ns) / 1000);
	frames_put(w, event->ends ? of->end_stack : of->stack);
	pickle_dict_close(&w->pickle);
	pickle_list_add(&w->pickle);
}

static void events_write(struct writer *w, const struct gpu_memory_event *event)
{
	const struct gpu_allocation *of = &w->layout.all[event->allocation];
	bool tensor = of->kind == GPU_MEMORY_TENSOR, mapped = of->kind == GPU_MEMORY_MAPPING;
	bool block = tensor || is_own_block(w, event->allocation);

	if (!tensor && !event->ends)
		event_write(w, event, mapped ? WORD_SEGMENT_MAP : WORD_SEGMENT_ALLOC);
	if (block && !event->ends)
		event_write(w, event, WORD_ALLOC);
	if (block && event->ends) {
		event_write(w, event, WORD_FREE_REQUESTED);
		event_write(w, event, WORD_FREE_COMPLETED);
	}
	if (!tensor && event->ends)
		event_write(w, event, mapped ? WORD_SEGMENT_UNMAP : WORD_SEGMENT_FREE);
}

static void traces_write(struct writer *w)
{
	uint64_t complete_ns = gpu_memory_log_complete_ns(w->ask->log);
	const struct gpu_memory_process *process;
	size_t device, i;

	word_write(w, WORD_DEVICE_TRACES);
	pickle_list_open(&w->pickle);
	for (device = 0; device < w->nr_devices; device++) {
		process = w->devices[device].process;
		pickle_list_open(&w->pickle);
		for (i = 0; i < process->nr_events; i++)
			if (gpu_memory_event_ns(&w->layout, &process->events[i]) > complete_ns &&
			    is_on(w, process->events[i].allocation, &w->devices[device]))
				events_write(w, &process->events[i]);
		pickle_list_add(&w->pickle);
	}
}

static void processes_write(struct writer *w)
{
	const struct call_table_process *process;
	size_t device;
	uint32_t nr;

	word_write(w, WORD_PROCESSES);
	pickle_list_open(&w->pickle);
	for (device = 0; device < w->nr_devices; device++) {
		nr = w->devices[device].process->process;
		process = nr < w->nr_processes ? &w->processes[nr] : NULL;
		pickle_dict_open(&w->pickle);
		number_put(w, WORD_DEVICE, device);
		if (w->devices[device].gpu)
			number_put(w, WORD_GPU, w->devices[device].gpu - 1U);
		if (process) {
			number_put(w, WORD_PID, process->pid ? process->pid : process->kernel_pid);
			text_put(w, WORD_NAME, process->name);
			text_put(w, WORD_RANK, process->rank);
			text_put(w, WORD_POD, process->pod);
			text_put(w, WORD_RAY_TASK, process->ray_task);
		}
		pickle_dict_close(&w->pickle);
		pickle_list_add(&w->pickle);
	}
}

static int device_add(struct writer *w, const struct gpu_memory_process *process, uint8_t gpu)
{
	if (vec_grow(w->devices, w->nr_devices + 1, w->cap_devices, VEC_BOUNDED))
		return -ENOMEM;
	w->devices[w->nr_devices++] = (struct device){ .process = process, .gpu = gpu };
	return 0;
}

/* Adds a device for each number, and a last one for memory without a number. */
static int devices_add(struct writer *w, const struct gpu_memory_process *process)
{
	bool used[UINT8_MAX + 1] = { false };
	unsigned int gpu;
	size_t i;
	int err = 0;

	for (i = 0; i < process->nr_events; i++)
		used[w->layout.devices[process->events[i].allocation]] = true;
	for (gpu = 1; gpu <= UINT8_MAX && !err; gpu++)
		if (used[gpu])
			err = device_add(w, process, (uint8_t)gpu);
	if (used[0] && !err)
		err = device_add(w, process, 0);
	return err;
}

static int devices_make(struct writer *w)
{
	size_t i;
	int err = 0;

	for (i = 0; i < w->layout.nr_processes && !err; i++)
		err = devices_add(w, &w->layout.processes[i]);
	return err;
}

static int room_make(struct writer *w)
{
	size_t most = 0, i;

	for (i = 0; i < w->layout.nr_processes; i++)
		if (w->layout.processes[i].nr_events + w->layout.processes[i].nr_guessed > most)
			most = w->layout.processes[i].nr_events + w->layout.processes[i].nr_guessed;
	w->stacks = calloc(w->ask->profile->nr_stacks + 1, sizeof(*w->stacks));
	w->locations = calloc(w->ask->profile->nr_locations + 1, sizeof(*w->locations));
	w->segments = malloc((most + 1) * sizeof(*w->segments));
	w->blocks = malloc((most + 1) * sizeof(*w->blocks));
	return w->stacks && w->locations && w->segments && w->blocks ? 0 : -ENOMEM;
}

int gpu_memory_snapshot_write(FILE *out, void *snapshot)
{
	struct writer w = { .ask = snapshot };
	int err = gpu_memory_layout_init(&w.layout, w.ask->log);

	if (!err)
		err = devices_make(&w);
	if (!err)
		err = room_make(&w);
	if (!err) {
		w.ask->nr_omitted = w.layout.nr_omitted;
		w.processes = call_table_processes(w.ask->table, &w.nr_processes);
		pickle_begin(&w.pickle, out);
		pickle_dict_open(&w.pickle);
		segments_write(&w);
		traces_write(&w);
		processes_write(&w);
		pickle_dict_close(&w.pickle);
		err = pickle_end(&w.pickle);
	}
	free(w.devices);
	free(w.stacks);
	free(w.locations);
	free(w.segments);
	free(w.blocks);
	gpu_memory_layout_fini(&w.layout);
	return err;
}
