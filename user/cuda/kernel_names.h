/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_KERNEL_NAMES_H
#define BPFPROF_CUDA_KERNEL_NAMES_H

/*
 * Names of CUDA kernels by the place of their launch, for handles that were made before the hooks
 * were attached: the code of the launching function has the host function (cuda/launch_sites.h),
 * and the file's constructors have the name of that (cuda/registrations.h). A name that is not
 * certain is not given.
 *
 * Each file and each call is read once, in slices; failures are kept, too. There are at most
 * KERNEL_NAMES_MAX_FILES files and, without the file in use, KERNEL_NAMES_MAX_BYTES; the least
 * recently used file is evicted. Names are read from the file each time. Not thread-safe.
 */

#include <stdint.h>

#define KERNEL_NAMES_MAX_FILES 1024
#define KERNEL_NAMES_MAX_BYTES (16U << 20)
#define KERNEL_NAMES_MAX_SITES 8192 /* calls of one file that are kept */

struct elf_image;
struct kernel_names;

/*
 * A walk over one stack, from its innermost native frame outward; all zero at first. It passes
 * through functions that only forward their kernel.
 */
struct kernel_walk {
	uint32_t image_id;
	uint32_t argument; /* the argument of `function` that is the kernel */
	uint64_t function; /* 0: no launching call was met yet */
};

struct kernel_names_stats {
	uint32_t nr_files, nr_kernels; /* in memory */
	uint64_t bytes;
	uint64_t nr_evicted; /* files */
};

int kernel_names_new(struct kernel_names **ret); /* 0 or -ENOMEM */
void kernel_names_free(struct kernel_names *names);

/*
 * The mangled device name of the kernel that is launched by the call that returns to rva. The caller passes
 * the frames of one stack in order:
 * 0: *ret is the name, until the next call.
 * -ENOENT: the call launches nothing, or forwards the kernel: the next frame outward may have it.
 * -ENOTUNIQ: the call launches a kernel that is not certain; no frame further out has it.
 * -ETIME: deadline_ns (CLOCK_MONOTONIC) has passed; the caller calls again with the same walk. Each call
 * makes some progress, so it can be some 20 ms late.
 * Others: the file cannot be read; no frame further out has it.
 */
int kernel_names_find(struct kernel_names *names, uint32_t image_id, struct elf_image *img,
		      uint64_t rva, uint64_t deadline_ns, struct kernel_walk *walk,
		      const char **ret);

void kernel_names_stats(const struct kernel_names *names, struct kernel_names_stats *ret);

#endif
