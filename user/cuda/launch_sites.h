/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_LAUNCH_SITES_H
#define BPFPROF_CUDA_LAUNCH_SITES_H

/*
 * The kernel that a call launches, from the code around the call: the called function is one of the CUDA
 * runtime that launches, and the host function or the handle in its arguments is certain:
 *
 *	cudaLaunchKernel(host function, ...)		CUDA 12, and direct calls
 *	__cudaGetKernel(&handle, host function) ... __cudaLaunchKernel(handle, ...)	CUDA 13
 *
 * An imported runtime is known by its symbols. A runtime that is linked into the file is known by the calls
 * of the host functions, which launch themselves.
 */

#include <stdbool.h>
#include <stdint.h>

#include "cuda/code_values.h"
#include "cuda/registrations.h"

#define LAUNCH_SITES_MAX_FUNCTIONS 8

struct code_bounds;
struct code_function;

/* The runtime's functions in the file itself. */
struct launch_runtime {
	uint64_t launch[LAUNCH_SITES_MAX_FUNCTIONS];
	uint64_t get_kernel[LAUNCH_SITES_MAX_FUNCTIONS];
	uint32_t nr_launch, nr_get_kernel;
	uint64_t
		inner; /* the function that only the runtime's functions call first; 0: not known */
};

enum launch_argument_kind {
	LAUNCH_UNKNOWN = 0,
	LAUNCH_KERNEL, /* nr is an index of registrations.kernels */
	LAUNCH_ARGUMENT, /* the nr-th argument of the calling function */
};

struct launch_argument {
	enum launch_argument_kind kind;
	uint32_t nr;
};

/* A call. */
struct launch_site {
	uint64_t function; /* begin of the calling function; 0: not known */
	uint64_t target; /* the called function; 0: elsewhere or not known */
	bool is_launch;
	struct launch_argument kernel; /* of a launch */
	struct launch_argument arguments[CODE_NR_ARGUMENTS];
};

/* The parts of a file that the search needs. */
struct launch_file {
	struct code_reader *reader;
	struct code_bounds *bounds;
	struct code_function *function; /* scratch */
	const struct registrations *regs;
	struct launch_runtime *runtime;
};

/* The number of steps that find the runtime's functions in the file. */
uint32_t launch_runtime_steps(const struct launch_file *file);
/* Does one step, in order, in a few milliseconds. 0 or -ENOMEM, errors of reading. */
int launch_runtime_learn(const struct launch_file *file, uint32_t step);

/* The call that returns to rva. 0, -ENOENT: no such call, -ENOMEM, errors of reading. */
int launch_site_find(const struct launch_file *file, uint64_t rva, struct launch_site *ret);

#endif
