/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_LAUNCH_SITES_H
#define BPFPROF_CUDA_LAUNCH_SITES_H

/*
 * Which kernel a call launches, read out of the code around it: the call that returns to an
 * address is one of the CUDA runtime's functions that launch, and the host function or the handle
 * that it is given is certain:
 *
 *	cudaLaunchKernel(host function, ...)		CUDA 12, and direct calls
 *	__cudaGetKernel(&handle, host function) ... __cudaLaunchKernel(handle, ...)	CUDA 13
 *
 * A runtime that is imported is known by its symbols. One that was linked in is known by what the
 * host functions, which launch themselves, call. x86-64 only.
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
		inner; /* which the runtime's functions call first, and nobody else; 0: not known */
};

enum launch_argument_kind {
	LAUNCH_UNKNOWN = 0,
	LAUNCH_KERNEL, /* nr is an index of registrations.kernels */
	LAUNCH_ARGUMENT, /* nr-th of the function that makes the call */
};

struct launch_argument {
	enum launch_argument_kind kind;
	uint32_t nr;
};

/* A call. */
struct launch_site {
	uint64_t function; /* begin of the one that makes the call; 0: not known */
	uint64_t target; /* of the one called, 0 if it is elsewhere or not known */
	bool is_launch;
	struct launch_argument kernel; /* of a launch */
	struct launch_argument arguments[CODE_NR_ARGUMENTS];
};

/* All of a file that is needed. */
struct launch_file {
	struct code_reader *reader;
	struct code_bounds *bounds;
	struct code_function *function; /* room to work in */
	const struct registrations *regs;
	struct launch_runtime *runtime;
};

/* How many steps it takes to find the runtime's functions in the file. */
uint32_t launch_runtime_steps(const struct launch_file *file);
/* One of them, in order, a few milliseconds at most. 0 or -ENOMEM, errors of reading. */
int launch_runtime_learn(const struct launch_file *file, uint32_t step);

/* The call that returns to rva. 0, -ENOENT: no such call, -ENOMEM, errors of reading. */
int launch_site_find(const struct launch_file *file, uint64_t rva, struct launch_site *ret);

#endif
