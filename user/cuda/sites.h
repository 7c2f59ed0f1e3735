/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_SITES_H
#define BPFPROF_CUDA_SITES_H

/*
 * Probes that a library has in its code: those of PyTorch in libc10_cuda, which allocates and frees
 * the memory of tensors, and those of Python's garbage collector, in builds that have them
 * (--with-dtrace; elf/usdt.h). Only probes of cuda/functions.h are read. Any file may be passed.
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
 * The probes of one layer whose arguments can be read. *ret_bad is the number of the others;
 * without others it is the number of functions without a probe. 0; -ENODATA: no probe, or for
 * another CPU; errors of usdt_find(). Outputs are untouched on failure.
 */
int gpu_sites_read(struct gpu_site sites[GPU_SITES_MAX], size_t *ret_nr, uint32_t *ret_bad,
		   struct elf_image *img, enum bpfprof_gpu_layer layer);

#endif
