/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_FUNCTIONS_H
#define BPFPROF_CUDA_FUNCTIONS_H

/*
 * The functions of libcuda and libnccl that are hooked, and where their arguments are: CUDA driver
 * API 13.0 (cuda.h), NCCL 2.32 (nccl.h), RCCL 2.13 (rccl.h). Each exported name is a function of
 * its own, since a library exports several versions of one (cuMemAlloc_v2) and twins for another
 * default stream (_ptsz, _ptds). Probes of PyTorch and Python (cuda/sites.h), which are no exports,
 * are functions, too. Constant data; the number of a function is its index, and 0 is none.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu_calls.h"

enum gpu_copy { /* direction of a COPY */
		GPU_COPY_NONE = 0,
		GPU_COPY_HTOD,
		GPU_COPY_DTOH,
		GPU_COPY_DTOD,
		GPU_COPY_ANY, /* the driver finds out by the addresses */
};

enum gpu_space { /* where allocated or freed memory lies: sums are kept apart */
		 GPU_SPACE_DEVICE = 0,
		 GPU_SPACE_HOST, /* page-locked */
		 GPU_SPACE_TENSOR, /* the device's memory, as PyTorch hands it out */
		 GPU_NR_SPACES,
};

struct gpu_function {
	const char *name; /* exported, "cuMemcpyHtoDAsync_v2_ptsz" */
	const char *shown; /* for people, without version, twin and Config: "cuMemcpyHtoDAsync" */
	enum gpu_copy copy;
	enum gpu_space space; /* ALLOC, FREE */
	struct bpfprof_gpu_function wire;
};

/* Is it a probe inside functions (cuda/sites.h), and no export? */
static inline bool gpu_is_site(const struct gpu_function *function)
{
	return function->wire.layer == GPU_LAYER_TORCH || function->wire.layer == GPU_LAYER_PYTHON;
}

/* All of them, [0] unused; at most BPFPROF_GPU_MAX_FUNCTIONS. */
const struct gpu_function *gpu_functions(size_t *ret_nr);
/* The function with that number; [0], which is all zero, if there is none. */
const struct gpu_function *gpu_function(uint32_t nr);

/* "float32" and so on of an NCCL 2.28 datatype, "type 42" of others; static or in room. */
const char *gpu_nccl_type(uint32_t type, char room[24]);
/* The bytes of one element; 0: the type is not known. */
uint32_t gpu_nccl_type_bytes(uint32_t type);
/* "sum", "prod", "max", "min" or "avg"; "user" for others. */
const char *gpu_nccl_operation(uint32_t operation);
/*
 * The meaning of a collective's argument `extra`: "op", "root" (also for ncclReduce, which has
 * both) or "peer"; "" if there is none.
 */
const char *gpu_nccl_extra(const struct gpu_function *function);

#endif
