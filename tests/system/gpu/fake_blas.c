// SPDX-License-Identifier: Apache-2.0
/*
 * libcublas.so.12, which has its work done by libcublasLt.so.12 (with -DLT), which launches. Either
 * has a function of its own, that is not exported, between its entry and what that calls.
 */
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))
#define BODY static __attribute__((noinline))

int cuLaunchKernel(uint64_t function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
		   unsigned int block_x, unsigned int block_y, unsigned int block_z,
		   unsigned int shared, uint64_t stream, void **arguments, void **extra);
int cublasLtMatmul(uint64_t kernel, unsigned int grid);
int cublasGemmEx(uint64_t kernel, unsigned int grid);

#ifdef LT
BODY int launch(uint64_t kernel, unsigned int grid)
{
	return cuLaunchKernel(kernel, grid, 1, 1, 128, 1, 1, 0, 0, NULL, NULL);
}

API int cublasLtMatmul(uint64_t kernel, unsigned int grid)
{
	return launch(kernel, grid);
}
#else
BODY int choose(uint64_t kernel, unsigned int grid)
{
	return cublasLtMatmul(kernel, grid);
}

API int cublasGemmEx(uint64_t kernel, unsigned int grid)
{
	return choose(kernel, grid);
}
#endif
