/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_MEMORY_LAYOUT_H
#define BPFPROF_GPU_MEMORY_LAYOUT_H

/*
 * The content of a memory log as events in the order of their times, process by process, and the place of
 * each tensor: inside memory that the driver handed out meanwhile. Tensors in memory from before the
 * recording get segments that are guessed from the tensors.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpu_allocation;
struct gpu_memory_log;

/* Bits for each allocation. */
#define GPU_PLACE_OMIT 1U /* it contradicts others, as events were lost */
#define GPU_PLACE_OUTSIDE 2U /* a tensor in memory that the log does not have */

struct gpu_memory_event {
	uint32_t allocation; /* index */
	bool ends;
};

struct gpu_memory_range {
	uint64_t va, end;
	uint8_t device; /* as in devices */
};

struct gpu_memory_process {
	uint32_t process; /* as in the allocations */
	const struct gpu_memory_event *events;
	size_t nr_events;
	struct gpu_memory_range *guessed; /* sorted, apart from all other memory of the process */
	size_t nr_guessed, cap_guessed;
	bool several; /* its memory is known to be on more than one device */
};

struct gpu_memory_layout {
	const struct gpu_allocation *all;
	size_t nr;
	uint8_t *places; /* for each allocation */
	/* For memory of the driver: index + 1 of the first tensor in it, 0: none was seen. */
	uint32_t *tensors;
	/*
	 * For each allocation the number of its device + 1, 0: not known. Memory of the driver is on the
	 * device of the first tensor in it, else on the only device that the process is known to use. Tensors
	 * inside are on that device, too, whatever they name.
	 */
	uint8_t *devices;
	struct gpu_memory_event *events;
	size_t nr_events;
	struct gpu_memory_process *processes;
	size_t nr_processes;
	uint64_t nr_omitted; /* allocations */
};

/* Borrows the log, which must not change, until gpu_memory_layout_fini(). 0 or -ENOMEM. */
int gpu_memory_layout_init(struct gpu_memory_layout *layout, const struct gpu_memory_log *log);
void gpu_memory_layout_fini(struct gpu_memory_layout *layout);
uint64_t gpu_memory_event_ns(const struct gpu_memory_layout *layout,
			     const struct gpu_memory_event *event);

#endif
