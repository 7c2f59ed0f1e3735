/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_LIBRARY_H
#define BPFPROF_CUDA_LIBRARY_H

/*
 * Room cuda: finds in files of CUDA and NCCL the functions to hook, kernel names and layouts.
 *
 * The places to hook in a library: the functions of cuda/functions.h that it exports, and the
 * file offsets of the instructions that get probes. Any mapped file may be read, also a hostile
 * one: reads are bounded, and a file without these exports costs a few reads. A file with code for
 * a GPU may contain NCCL without exporting it; its whole .symtab is searched then, in steps, which
 * takes a while.
 *
 * At the instruction nothing has been pushed yet, all arguments are in place and the return
 * address is at the top of the stack. cuda/hook_place.h chooses it; in libcuda's trampolines (`cmpl
 * $x, y(%rip)`; `je`; `jmp *z(%rip)`) it is the je.
 */

#include <stddef.h>
#include <stdint.h>

#include "cuda/sites.h"
#include "gpu_calls.h"

struct elf_image;

struct gpu_hook {
	uint32_t function; /* index in gpu_functions() */
	uint64_t off; /* in the file */
};

struct gpu_library {
	struct gpu_hook hooks[BPFPROF_GPU_MAX_FUNCTIONS]; /* each offset once */
	size_t nr;
	uint32_t layers; /* bit n: enum bpfprof_gpu_layer n is in it */
	uint32_t comm_rank; /* of struct bpfprof_gpu_file; 0: not known */
	uint32_t nr_bad; /* functions without executable code in the file */
	struct gpu_site sites[GPU_SITES_MAX]; /* of gpu_sites_read(), if they are wanted */
	size_t nr_sites;
};

/*
 * 0; -ENODATA: for another CPU, or none of cuLaunchKernel, cuMemAlloc_v2, ncclAllReduce and ncclSend
 * is exported, without which nothing else is searched; -EAGAIN: the same, but the file may contain
 * a hidden NCCL; -EBADMSG: none of them is code, or the file is broken; -E2BIG, -EIO and so on. ret
 * is untouched on failure.
 */
int gpu_library_read(struct gpu_library *ret, struct elf_image *img);

/*
 * Begins the search for a hidden NCCL in img. 0; -ENODATA: there is no .symtab; -E2BIG: it is too large;
 * -EBADMSG, -ENOMEM.
 */
struct gpu_hidden;
int gpu_hidden_new(struct gpu_hidden **ret, struct elf_image *img);
/*
 * Searches some 64 KiB of the file. -EAGAIN: there is more to search; else the search is over, with
 * the results of gpu_library_read(). img is the same file, but may have been changed or opened
 * again.
 */
int gpu_hidden_step(struct gpu_hidden *hidden, struct gpu_library *ret, struct elf_image *img);
void gpu_hidden_free(struct gpu_hidden *hidden);

/* Only comm_rank; 0: not known. */
uint32_t gpu_library_comm_rank(struct elf_image *img);

#endif
