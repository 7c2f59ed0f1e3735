/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_LAUNCH_LIBRARY_H
#define BPFPROF_GPU_LAUNCH_LIBRARY_H

/*
 * The GPU library that a launch came through, and which of its functions the program called:
 * cublasGemmEx of libcublas.so.12. Of the stack that was seen most with a launch, the outermost frame in
 * such a library. Frames that were looked up once are kept, up to GPU_BETWEEN_MAX_FRAMES.
 */

#include "gpu_calls.h"

struct gpu_between;
struct gpu_job;

#define GPU_BETWEEN_MAX_FRAMES 4096

int gpu_between_new(struct gpu_between **ret); /* 0 or -ENOMEM */
void gpu_between_free(struct gpu_between *between); /* NULL is fine */

/* Both "" if there is none; entry "" also if it is not known. Live as long as between. */
void gpu_between_find(struct gpu_between *between, struct gpu_job *job,
		      const struct bpfprof_gpu_key *key, const char **ret_library,
		      const char **ret_entry);

#endif
