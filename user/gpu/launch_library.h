/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_LAUNCH_LIBRARY_H
#define BPFPROF_GPU_LAUNCH_LIBRARY_H

/*
 * The GPU library that made a launch, and the function of it that the program called: cublasGemmEx
 * of libcublas.so.12. It is the outermost frame in such a library, in the stack that was seen most
 * with the launch. Results are kept for LAUNCH_LIBRARY_MAX_FRAMES frames.
 */

#include "gpu_calls.h"

struct launch_library;
struct gpu_job;

#define LAUNCH_LIBRARY_MAX_FRAMES 4096

int launch_library_new(struct launch_library **ret); /* 0 or -ENOMEM */
void launch_library_free(struct launch_library *cache); /* NULL is fine */

/*
 * Both are "" if there is none; the entry is "" also if it is not known. They live as long as
 * cache.
 */
void launch_library_find(struct launch_library *cache, struct gpu_job *job,
			 const struct bpfprof_gpu_key *key, const char **ret_library,
			 const char **ret_entry);

#endif
