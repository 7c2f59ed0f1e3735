/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_KERNEL_NAMES_H
#define BPFPROF_CUDA_KERNEL_NAMES_H

/*
 * Names of CUDA kernels by where they are launched from, for handles that were made before anybody
 * looked: the code of the launching function says which host function it launches
 * (cuda/launch_sites.h), the file's constructors which name that one has
 * (cuda/registrations.h). A name is certain or none is given. x86-64 only.
 *
 * Each file is read once, in slices, and so is each call; failures are kept too. In all at most
 * KERNEL_NAMES_MAX_FILES and, but for the file in use, KERNEL_NAMES_MAX_BYTES: the file least
 * recently asked about goes. Names are not kept but read from the file when asked for. Not
 * thread-safe.
 */

#include <stdint.h>

#define KERNEL_NAMES_MAX_FILES 1024
#define KERNEL_NAMES_MAX_BYTES (16U << 20)
#define KERNEL_NAMES_MAX_SITES 8192 /* calls of one file that are kept */

struct elf_image;
struct kernel_names;

/*
 * One stack, from its innermost native frame outward; all zero before that. Functions that only
 * hand on what they were given to launch are gone through.
 */
struct kernel_walk {
	uint32_t image_id;
	uint32_t argument; /* of function, which is the kernel */
	uint64_t function; /* 0: no call that launches has been met */
};

struct kernel_names_stats {
	uint32_t nr_files, nr_kernels; /* that are in memory */
	uint64_t bytes;
	uint64_t nr_evicted; /* files */
};

int kernel_names_new(struct kernel_names **ret); /* 0 or -ENOMEM */
void kernel_names_free(struct kernel_names *names);

/*
 * The device name (mangled) of the kernel that the call that returns to rva launches. Ask for
 * the frames of one stack in order:
 * 0: *ret is the name, until the next call.
 * -ENOENT: it is no call that launches, or hands the kernel on: ask about the next frame outward.
 * -ENOTUNIQ: it is one, but what it launches is not certain: no frame further out says it.
 * -ETIME: past deadline_ns (CLOCK_MONOTONIC); ask again, with the walk as it was, to go on. Each
 * time it gets on, so that it can be some 20 ms late.
 * Others: the file cannot be read; no frame further out says it.
 */
int kernel_names_find(struct kernel_names *names, uint32_t image_id, struct elf_image *img,
		      uint64_t rva, uint64_t deadline_ns, struct kernel_walk *walk,
		      const char **ret);

void kernel_names_stats(const struct kernel_names *names, struct kernel_names_stats *ret);

#endif
