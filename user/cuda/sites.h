/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_SITES_H
#define BPFPROF_CUDA_SITES_H

/*
 * Where a library tells of itself: probes of PyTorch's in libc10_cuda, which allocates and frees the
 * memory of tensors, and of Python's garbage collector, in builds that have them (--with-dtrace;
 * elf/usdt.h), as far as cuda/functions.h has them. Any file may be asked about.
 */

#include <stddef.h>
#include <stdint.h>

#include "gpu_calls.h"

#define GPU_SITES_MAX 16 /* of one library */

struct elf_image;

struct gpu_site {
	struct bpfprof_gpu_site wire;
	uint64_t off; /* in the file */
	uint64_t semaphore_off; /* or 0 */
};

/*
 * Those of one such layer whose arguments are where they can be read; *ret_bad is how many others
 * there are, or, if there are no others, how many functions have no probe at all. 0; -ENODATA:
 * neither, or not for x86-64; errors of usdt_find(). Outputs are untouched on failure.
 */
int gpu_sites_read(struct gpu_site sites[GPU_SITES_MAX], size_t *ret_nr, uint32_t *ret_bad,
		   struct elf_image *img, enum bpfprof_gpu_layer layer);

#endif
