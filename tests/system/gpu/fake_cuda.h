/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_FAKE_CUDA_H
#define BPFPROF_TESTS_FAKE_CUDA_H

/*
 * What CUDA's driver API looks like from outside (cuda.h of CUDA 13.0), as far as the fakes and
 * their callers need it, and the switches of the fake libcuda. The switches hold for the process.
 */

#include <stdint.h>

#define CUDA_ERROR_INVALID_VALUE 1
#define CUDA_ERROR_OUT_OF_MEMORY 2
#define CUDA_ERROR_NOT_READY 600

struct cuda_launch_config { /* CUlaunchConfig */
	unsigned int grid[3];
	unsigned int block[3];
	unsigned int shared_bytes;
	uint64_t stream;
	void *attributes;
	unsigned int nr_attributes;
};

struct cuda_launch_params { /* CUDA_LAUNCH_PARAMS */
	uint64_t function;
	unsigned int grid[3];
	unsigned int block[3];
	unsigned int shared_bytes;
	uint64_t stream;
	void **parameters;
};

struct cuda_memcpy_2d { /* CUDA_MEMCPY2D_v2 */
	uint64_t src_x, src_y;
	uint32_t src_type;
	uint64_t src_host, src_device, src_array, src_pitch;
	uint64_t dst_x, dst_y;
	uint32_t dst_type;
	uint64_t dst_host, dst_device, dst_array, dst_pitch;
	uint64_t width_bytes, height;
};

struct cuda_memcpy_3d_operand { /* CUmemcpy3DOperand */
	uint32_t type; /* 1: pointer, 2: array */
	uint64_t at, row_length, layer_height;
	uint32_t location[2];
};

struct cuda_memcpy_3d_op { /* CUDA_MEMCPY3D_BATCH_OP */
	struct cuda_memcpy_3d_operand src, dst;
	uint64_t width, height, depth;
	uint32_t order, flags;
};

struct cuda_memcpy_3d { /* CUDA_MEMCPY3D_v2 */
	uint64_t src_x, src_y, src_z, src_lod;
	uint32_t src_type;
	uint64_t src_host, src_device, src_array, reserved0, src_pitch, src_height;
	uint64_t dst_x, dst_y, dst_z, dst_lod;
	uint32_t dst_type;
	uint64_t dst_host, dst_device, dst_array, reserved1, dst_pitch, dst_height;
	uint64_t width_bytes, height, depth;
};

#define CUDA_ERROR_CAPTURE_INVALIDATED 901
#define FAKE_CUDA_NO_GRAPH UINT64_MAX

#ifdef __cplusplus
extern "C" {
#endif

/* What the thread's next capture or instantiation makes; NO_GRAPH: it fails. */
void fake_cuda_next_graph(uint64_t handle);

/* Whatever waits for the device takes that long: synchronizations, blocking copies. */
void fake_cuda_set_latency_us(unsigned int us);
/* They take that much CPU time instead, as the driver does that polls; FAKE_CUDA_DOZES: little by little. */
#define FAKE_CUDA_DOZES 2
void fake_cuda_spin(int on);
/*
 * Each launch keeps its stream busy for so much longer. Events that are recorded behind it are not
 * ready before, and whoever waits for the stream or the event waits until then.
 */
void fake_cuda_set_work_us(unsigned int us);
/* How many threads wait so now. */
unsigned int fake_cuda_waiting(void);
void fake_cuda_set_memory(uint64_t free_bytes, uint64_t total_bytes);
/* The next allocations that find no memory. */
void fake_cuda_fail_allocations(unsigned int nr);
/* Bytes that this process has allocated by cuMemCreate, and that are there. */
uint64_t fake_cuda_memory_by_handle(void);
/* Freed addresses are handed out again, last freed first. */
void fake_cuda_reuse(int on);
/* cuMemcpyHtoD calls cuMemcpyHtoDAsync and cuStreamSynchronize by their exported names. */
void fake_cuda_nest(int on);
/* No pointer is followed: what is called with wild ones returns. */
void fake_cuda_ignore_pointers(int on);

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
static_assert(sizeof(cuda_launch_config) == 56, "as cuda.h");
static_assert(sizeof(cuda_launch_params) == 56, "as cuda.h");
static_assert(sizeof(cuda_memcpy_2d) == 128, "as cuda.h");
static_assert(sizeof(cuda_memcpy_3d) == 200, "as cuda.h");
static_assert(sizeof(cuda_memcpy_3d_op) == 112, "as cuda.h");
#else
_Static_assert(sizeof(struct cuda_launch_config) == 56, "as cuda.h");
_Static_assert(sizeof(struct cuda_launch_params) == 56, "as cuda.h");
_Static_assert(sizeof(struct cuda_memcpy_2d) == 128, "as cuda.h");
_Static_assert(sizeof(struct cuda_memcpy_3d) == 200, "as cuda.h");
_Static_assert(sizeof(struct cuda_memcpy_3d_op) == 112, "as cuda.h");
#endif

#endif
