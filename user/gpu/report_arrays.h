/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_REPORT_ARRAYS_H
#define BPFPROF_GPU_REPORT_ARRAYS_H

/* The arrays that a report points to. All of them live until gpu_arrays_fini(). */

#include <stdbool.h>
#include <stddef.h>

struct gpu_arrays_block;

struct gpu_arrays {
	struct gpu_arrays_block *blocks;
	bool failed; /* there was no memory for one of them */
};

void *gpu_arrays_add(struct gpu_arrays *arrays, size_t nr, size_t size); /* zeroed, or NULL */
void gpu_arrays_fini(struct gpu_arrays *arrays);

#endif
