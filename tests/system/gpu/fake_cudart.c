// SPDX-License-Identifier: Apache-2.0
/*
 * CUDA's runtime as far as it waits for a stream, and registers and launches kernels: by host function as up to CUDA 12, by
 * handle as from CUDA 13 on. Handles come from the driver when a kernel is launched first.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_KERNELS 16

struct dim3 {
	unsigned int x, y, z;
};

int cuModuleGetFunction(void **function, void *module, const char *name);
int cuLaunchKernel(void *f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
		   unsigned int by, unsigned int bz, unsigned int shared, void *stream,
		   void **params, void **extra);

static struct kernel {
	const void *host;
	const char *name;
	void *handle;
} kernels[MAX_KERNELS];
static unsigned int nr_kernels;

int cuStreamSynchronize(void *stream);

EXPORT int cudaStreamSynchronize(void *stream)
{
	return cuStreamSynchronize(stream);
}

EXPORT void **__cudaRegisterFatBinary(void *fat)
{
	static void *handle;

	handle = fat;
	return &handle;
}

EXPORT void __cudaRegisterFunction(void **fat, const char *host, char *device, const char *name,
				   int limit, void *tid, void *bid, void *block, void *grid,
				   int *warp)
{
	(void)fat, (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid;
	(void)warp;
	if (nr_kernels < MAX_KERNELS)
		kernels[nr_kernels++] = (struct kernel){ .host = host, .name = name };
}

static void *handle_of(const void *host)
{
	unsigned int i;

	for (i = 0; i < nr_kernels; i++) {
		if (kernels[i].host != host && kernels[i].handle != host)
			continue;
		if (!kernels[i].handle)
			cuModuleGetFunction(&kernels[i].handle, NULL, kernels[i].name);
		return kernels[i].handle;
	}
	return NULL;
}

EXPORT int __cudaGetKernel(const void **kernel, const void *host)
{
	*kernel = handle_of(host);
	return *kernel ? 0 : 98;
}

EXPORT int cudaLaunchKernel(const void *f, struct dim3 grid, struct dim3 block, void **args,
			    size_t shared, void *stream)
{
	return cuLaunchKernel(handle_of(f), grid.x, grid.y, grid.z, block.x, block.y, block.z,
			      (unsigned int)shared, stream, args, NULL) +
	       0 * (int)shared;
}

EXPORT int __cudaLaunchKernel(const void *f, struct dim3 grid, struct dim3 block, void **args,
			      size_t shared, void *stream)
{
	return cudaLaunchKernel(f, grid, block, args, shared, stream);
}
