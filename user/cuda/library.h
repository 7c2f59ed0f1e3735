/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_LIBRARY_H
#define BPFPROF_CUDA_LIBRARY_H

/*
 * Room cuda: finds in files of CUDA and NCCL the functions to hook, kernel names and layouts.
 *
 * Where a library is to be hooked: which of the functions of cuda/functions.h it exports and the
 * file offsets of the instructions to put probes on. Every file that gets mapped may be asked
 * about, hostile ones too: reads are bounded, a file that exports none of them costs a few. One that
 * has code for a GPU in it may have NCCL, too, without exporting it: all of its .symtab is searched
 * then, which takes a while, and is done in steps.
 *
 * At the instruction nothing has been pushed yet, all arguments are in place and the return address
 * is at the top of the stack. Which one it is: cuda/hook_place.h; in libcuda's trampolines
 * (`cmpl $x, y(%rip)`; `je`; `jmp *z(%rip)`) the je.
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
	uint32_t comm_rank; /* of struct bpfprof_gpu_file, 0 if it could not be found out */
	uint32_t nr_bad; /* functions whose code does not lie in the file as executable */
	struct gpu_site sites[GPU_SITES_MAX]; /* by gpu_sites_read(), where they are wanted */
	size_t nr_sites;
};

/*
 * 0; -ENODATA: not for x86-64, or exports none of cuLaunchKernel, cuMemAlloc_v2, ncclAllReduce and
 * ncclSend, without which nothing else is asked; -EAGAIN: so it is, but NCCL may be hidden in it;
 * -EBADMSG: nothing of these is code, or the file is broken; -E2BIG, -EIO and so on. ret is untouched
 * on failure.
 */
int gpu_library_read(struct gpu_library *ret, struct elf_image *img);

/*
 * The search for NCCL that may be hidden in img. 0; -ENODATA: it has no .symtab; -E2BIG: too large a
 * one; -EBADMSG, -ENOMEM.
 */
struct gpu_hidden;
int gpu_hidden_new(struct gpu_hidden **ret, struct elf_image *img);
/*
 * Goes on with it for some 64 KiB of the file. -EAGAIN: there is more to be searched; else it is
 * over: as gpu_library_read(). img is the same file, but may have been changed or opened again.
 */
int gpu_hidden_step(struct gpu_hidden *hidden, struct gpu_library *ret, struct elf_image *img);
void gpu_hidden_free(struct gpu_hidden *hidden);

/* Only comm_rank of it, 0 if it could not be found out. */
uint32_t gpu_library_comm_rank(struct elf_image *img);

#endif
