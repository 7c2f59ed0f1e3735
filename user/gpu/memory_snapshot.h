/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_MEMORY_SNAPSHOT_H
#define BPFPROF_GPU_MEMORY_SNAPSHOT_H

/*
 * Writes a memory log as the snapshot that PyTorch's memory viewer reads: a pickle of segments with their
 * blocks, as they are at the end, and the events before. What a process has on one GPU is a device of its own
 * there. Memory of the driver in which no tensor was seen is a segment with one block.
 */

#include <stdint.h>
#include <stdio.h>

struct call_table;
struct gpu_memory_log;
struct profile;

struct gpu_memory_snapshot {
	const struct gpu_memory_log *log;
	const struct call_table *table; /* names of processes */
	const struct profile *profile; /* has the stacks of the aggregate by their indexes */
	uint64_t start_ns, start_wall_ns; /* one time by CLOCK_MONOTONIC and by the wall clock */
	uint64_t nr_omitted; /* result: allocations that contradict others */
};

/* snapshot: struct gpu_memory_snapshot. 0 or -errno; the caller checks the stream for errors. */
int gpu_memory_snapshot_write(FILE *out, void *snapshot);

#endif
