// SPDX-License-Identifier: Apache-2.0
/*
 * A device that computes nothing, for real programs: preloaded it answers in place of libcudart.so,
 * and of libcuda.so.1, whose name it has. PyTorch's allocator and its kernels' host code run on it as
 * they would on a GPU. Kernels are known by what is registered, and each launch is counted.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#define OK(name)                                                                                   \
	API int name(void)                                                                         \
	{                                                                                          \
		return 0;                                                                          \
	}
#define MAX_KERNELS 65536
#define FIRST_HANDLE 0x6e0000000000
#define HANDLE_BYTES 64
#define FIRST_STREAM 0x6f0000000000
#define SEGMENT_BYTES (2UL << 20) /* what is allocated begins at a multiple of it */
#define PROPERTIES_BYTES 1008 /* of CUDA 13's struct cudaDeviceProp */
#define NAME_BYTES 256
#define WARP_AT 308
#define MAJOR_AT 360 /* and minor behind it */

struct dim3 {
	unsigned int x, y, z;
};

static struct kernel {
	const void *host;
	const char *name;
	unsigned int launches;
} * kernels;
static unsigned int nr_kernels;

/* The configuration of the launch that is being made. */
static __thread struct {
	struct dim3 grid, block;
	size_t shared;
	void *stream;
} pushed;

API unsigned int fake_device_kernels(void)
{
	return nr_kernels;
}

API const char *fake_device_name(unsigned int i)
{
	return kernels[i].name;
}

API unsigned int fake_device_launches(unsigned int i)
{
	return kernels[i].launches;
}

/* The driver's. */

API int cuMemAlloc_v2(uintptr_t *va, size_t bytes)
{
	static uintptr_t next = 0x7e8000000000;

	*va = next;
	next += (bytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES * SEGMENT_BYTES;
	return 0;
}

API int cuMemFree_v2(uintptr_t va)
{
	(void)va;
	return 0;
}

API int cuLaunchKernel(uintptr_t kernel, unsigned int gx, unsigned int gy, unsigned int gz,
		       unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
		       void *stream, void **params, void **extra)
{
	(void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream;
	(void)params, (void)extra;
	kernels[(kernel - FIRST_HANDLE) / HANDLE_BYTES].launches++;
	return 0;
}

API int cuDevicePrimaryCtxGetState(int device, unsigned int *flags, int *active)
{
	(void)device;
	*flags = 0;
	*active = 1;
	return 0;
}

/* The runtime's, which registers and launches. */

API void **__cudaRegisterFatBinary(void *fat)
{
	static void *handle;

	handle = fat;
	return &handle;
}

API void __cudaRegisterFunction(void **fat, const void *host, char *device, const char *name,
				int limit, void *tid, void *bid, void *block, void *grid, int *warp)
{
	(void)fat, (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid;
	(void)warp;
	if (!kernels)
		kernels = calloc(MAX_KERNELS, sizeof(*kernels));
	if (!kernels || nr_kernels == MAX_KERNELS)
		abort();
	kernels[nr_kernels++] = (struct kernel){ .host = host, .name = name };
}

OK(__cudaRegisterFatBinaryEnd)
OK(__cudaRegisterVar)
OK(__cudaUnregisterFatBinary)
OK(__cudaInitModule)

API unsigned int __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
					     void *stream)
{
	pushed.grid = grid;
	pushed.block = block;
	pushed.shared = shared;
	pushed.stream = stream;
	return 0;
}

API int __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared,
				   void **stream)
{
	*grid = pushed.grid;
	*block = pushed.block;
	*shared = pushed.shared;
	*stream = pushed.stream;
	return 0;
}

API int __cudaGetKernel(uintptr_t *kernel, const void *host)
{
	unsigned int i;

	for (i = 0; i < nr_kernels && kernels[i].host != host; i++)
		;
	*kernel = FIRST_HANDLE + (uintptr_t)i * HANDLE_BYTES;
	return i < nr_kernels ? 0 : 98;
}

API int __cudaLaunchKernel(uintptr_t kernel, struct dim3 grid, struct dim3 block, void **args,
			   size_t shared, void *stream)
{
	return cuLaunchKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z,
			      (unsigned int)shared, stream, args, NULL);
}

API int cudaLaunchKernel(const void *host, struct dim3 grid, struct dim3 block, void **args,
			 size_t shared, void *stream)
{
	uintptr_t kernel;

	return __cudaGetKernel(&kernel, host) ||
	       __cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}

/* The runtime's other functions. */

API int cudaMalloc(uintptr_t *va, size_t bytes)
{
	return cuMemAlloc_v2(va, bytes);
}

API int cudaFree(uintptr_t va)
{
	return va ? cuMemFree_v2(va) : 0;
}

static int number(int *ret, int value)
{
	*ret = value;
	return 0;
}

API int cudaGetDeviceCount(int *ret)
{
	return number(ret, 1);
}

API int cudaGetDevice(int *ret)
{
	return number(ret, 0);
}

API int cudaRuntimeGetVersion(int *ret)
{
	return number(ret, 13000);
}

API int cudaDriverGetVersion(int *ret)
{
	return number(ret, 13000);
}

API int cudaDeviceGetAttribute(int *ret, int attribute, int device)
{
	(void)attribute, (void)device;
	return number(ret, 1);
}

API int cudaThreadExchangeStreamCaptureMode(int *ret)
{
	return number(ret, 0);
}

API int cudaStreamCreateWithPriority(void **ret, unsigned int flags, int priority)
{
	static uintptr_t next = FIRST_STREAM;

	(void)flags, (void)priority;
	*ret = (void *)next++;
	return 0;
}

API int cudaStreamIsCapturing(void *stream, int *ret)
{
	(void)stream;
	return number(ret, 0);
}

API int cudaStreamGetCaptureInfo(void *stream, int *ret)
{
	(void)stream;
	return number(ret, 0);
}

API int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	return number(least, 0) + number(greatest, 0);
}

API int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
	*free_bytes = 70UL << 30;
	*total_bytes = 80UL << 30;
	return 0;
}

/* Of 1,024 each: processors, threads and what else it has. */
API int cudaGetDeviceProperties(char *properties, int device)
{
	const int many = 1024, warp = 32, capability[] = { 9, 0 };
	size_t at;

	(void)device;
	memset(properties, 0, NAME_BYTES);
	for (at = NAME_BYTES; at < PROPERTIES_BYTES; at += sizeof(many))
		memcpy(properties + at, &many, sizeof(many));
	memcpy(properties + WARP_AT, &warp, sizeof(warp));
	memcpy(properties + MAJOR_AT, capability, sizeof(capability));
	return 0;
}

API int cudaGetDriverEntryPointByVersion(const char *name, int (**ret)(void), unsigned int version,
					 unsigned long flags, int *status)
{
	(void)name, (void)version, (void)flags;
	*ret = __cudaInitModule;
	if (status)
		*status = 0;
	return 0;
}

OK(cudaSetDevice)
OK(cudaDeviceSynchronize)
OK(cudaStreamSynchronize)
OK(cudaGetLastError)
OK(cudaPeekAtLastError)
OK(cudaEventRecord)
OK(cudaEventQuery)
OK(cudaEventDestroy)
OK(cudaFuncSetAttribute)
