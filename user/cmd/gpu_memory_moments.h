/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_GPU_MEMORY_MOMENTS_H
#define BPFPROF_CMD_GPU_MEMORY_MOMENTS_H

/*
 * Replays a log of the GPU's memory: how many bytes each stack held at some moments of a run, for the time line
 * of a flame graph. As in PyTorch's viewer, tensors belong to the stacks that asked for them; what the
 * driver's memory has beside them is a row of its process.
 */

#include <stdint.h>

#include "gpu/memory_log.h"
#include "memory/moments.h"

struct gpu_monitor;
struct stats_reasons;

#define GPU_MEMORY_CACHED "[cached by PyTorch]"

/*
 * Initializes the moments and fills them up to end_ns; memory_moments_fini() is due. The caller makes the profile
 * of the monitor's aggregate afterwards, since the aggregate gets rows here. There is no moment without any memory of processes that
 * count, or if there is no room, which is logged. Adds the counters of losses to lost, and logs them.
 */
void gpu_memory_moments_fill(struct memory_moments *moments, const struct gpu_monitor *watch,
			     const struct gpu_memory_log *log, uint64_t start_ns, uint64_t end_ns,
			     struct stats_reasons *lost);

/* Logs what a file of the log does not have. nr_omitted: allocations that contradict others. */
void gpu_memory_log_say(const struct gpu_memory_log *log, const char *file, uint64_t nr_omitted);

extern const struct counter gpu_memory_moments_counters[];

#endif
