/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_LAUNCH_LIBRARY_H
#define BPFPROF_GPU_LAUNCH_LIBRARY_H

/*
 * The GPU library that a launch came through, and which of its functions the program called:
 * cublasGemmEx of libcublas.so.12. Of the stack that was seen most with a launch, the outermost frame in
 * such a library. Frames that were looked up once are kept, up to LAUNCH_LIBRARY_MAX_FRAMES.
 */

#include "gpu_calls.h"

struct launch_library;
struct gpu_job;

#define LAUNCH_LIBRARY_MAX_FRAMES 4096

int launch_library_new(struct launch_library **ret); /* 0 or -ENOMEM */
void launch_library_free(struct launch_library *between); /* NULL is fine */

/* Both "" if there is none; entry "" also if it is not known. Live as long as between. */
void launch_library_find(struct launch_library *between, struct gpu_job *job,
			 const struct bpfprof_gpu_key *key, const char **ret_library,
			 const char **ret_entry);

#endif
