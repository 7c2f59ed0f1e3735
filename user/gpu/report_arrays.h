/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_REPORT_ARRAYS_H
#define BPFPROF_GPU_REPORT_ARRAYS_H

/* The arrays and strings that a report points to. All of them live until gpu_arrays_fini(). */

#include <stdbool.h>
#include <stddef.h>

struct gpu_arrays_block;
struct strtab;

struct gpu_arrays {
	struct gpu_arrays_block *blocks;
	struct strtab *strings;
	bool failed; /* there was no memory for one of them */
};

int gpu_arrays_init(struct gpu_arrays *arrays, size_t max_string_bytes); /* 0 or -ENOMEM */
void *gpu_arrays_add(struct gpu_arrays *arrays, size_t nr, size_t size); /* zeroed, or NULL */
/* A copy of the text; equal texts are one copy. "" past max_string_bytes. */
const char *gpu_arrays_text(struct gpu_arrays *arrays, const char *text);
void gpu_arrays_fini(struct gpu_arrays *arrays);

#endif
