/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_ARGUMENTS_BPF_H
#define BPFPROF_BPF_GPU_ARGUMENTS_BPF_H

/*
 * Reads the arguments of calls: registers, the stack, and memory that they point to, by the ABI of
 * the driver. The target controls all of it; failed reads are counted.
 */

#include "gpu/maps.bpf.h"

#define CONFIG_BYTES 40 /* CUlaunchConfig: grid, block, shared memory, stream */
#define PROP_LOCATION 8 /* in CUmemAllocationProp: kind and number of the place */
#define LOCATION_DEVICE 1 /* CU_MEM_LOCATION_TYPE_DEVICE */
#define COPY_2D_WIDTH 112 /* offsets in CUDA_MEMCPY2D and CUDA_MEMCPY3D */
#define COPY_3D_WIDTH 176
#define COPY_OP_BYTES 112 /* CUDA_MEMCPY3D_BATCH_OP: source, destination, extent */
#define COPY_OP_DESTINATION 40
#define COPY_OP_EXTENT 80
#define COPY_OP_OF_POINTER 1 /* first word of a source or destination that is a pointer */

/* The device of an allocation in the flags of its call. */
static __always_inline __u32 device_flags(__u64 value)
{
	__u32 device = (value & BPFPROF_CALL_DEVICE_MAX) + 1;

	return device <= BPFPROF_CALL_DEVICE_MAX ? device << BPFPROF_CALL_DEVICE_SHIFT : 0;
}

/* An argument by its number, at a function's first instruction; 0 without a number. */
static __noinline __u64 argument(struct pt_regs *ctx, __u32 nr)
{
	__u64 value = 0;

	if (nr <= REGISTER_ARGUMENTS)
		return regs_argument(ctx, nr);
	user_read(&value, sizeof(value), regs_argument_va(ctx, nr));
	return value;
}

static __always_inline __u64 element_bytes(__u32 type)
{
	/* ncclInt8 to ncclFloat8e5m2, two bits each: 1 1 4 4 8 8 2 4 8 2 1 1 */
	const __u32 shifts = 0 | 0 << 2 | 2 << 4 | 2 << 6 | 3 << 8 | 3 << 10 | 1 << 12 | 2 << 14 |
			     3 << 16 | 1 << 18 | 0 << 20 | 0 << 22;

	return type < 12 ? 1ULL << ((shifts >> (2 * type)) & 3) : 0;
}

#define BATCH_STEP 16 /* numbers per read */
#define BATCH_STEPS 64 /* reads per batch, at most */

struct batch {
	__u64 va, left, bytes;
};

/* Adds the next numbers of a batch; a step of bpf_loop. */
static long batch_add(__u32 step, struct batch *batch)
{
	__u64 numbers[BATCH_STEP] = { 0 };
	__u32 i, nr = batch->left < BATCH_STEP ? batch->left : BATCH_STEP;

	(void)step;
	if (!nr || nr > BATCH_STEP || user_read(numbers, nr * sizeof(numbers[0]), batch->va))
		return 1;
	for (i = 0; i < BATCH_STEP; i++)
		if (i < nr)
			batch->bytes += numbers[i];
	batch->va += nr * sizeof(numbers[0]);
	batch->left -= nr;
	return 0;
}

/* Not static: see gpu/waits.bpf.h. */
__noinline __u64 batch_bytes(__u64 va, __u64 nr)
{
	struct batch batch = { .va = va, .left = nr };

	bpf_loop(BATCH_STEPS, batch_add, &batch, 0);
	if (batch.left && nr > BATCH_STEP * BATCH_STEPS)
		gpu_count(GPU_COUNT_BATCH_CUT);
	return batch.bytes;
}

struct batch_3d {
	__u64 va, bytes;
	__u32 nr;
	__u32 cut; /* 1: bytes is incomplete */
};

/*
 * Adds the next copy of a batch; a step of bpf_loop. Elements of arrays have an unknown size. It
 * counts up, not down: the verifier would check each possible rest.
 */
static long batch_3d_add(__u32 step, struct batch_3d *batch)
{
	__u64 op[(COPY_OP_EXTENT + 24) / 8] = { 0 };
	const __u64 *extent = &op[COPY_OP_EXTENT / 8];

	if (step >= batch->nr || user_read(op, sizeof(op), batch->va))
		return 1;
	if ((__u32)op[0] == COPY_OP_OF_POINTER &&
	    (__u32)op[COPY_OP_DESTINATION / 8] == COPY_OP_OF_POINTER)
		batch->bytes += extent[0] * extent[1] * extent[2];
	else
		batch->cut = 1;
	batch->va += COPY_OP_BYTES;
	return 0;
}

/* Not static: see gpu/waits.bpf.h. */
__noinline __u64 batch_3d_bytes(__u64 va, __u64 nr)
{
	const __u32 most = BATCH_STEP * BATCH_STEPS;
	struct batch_3d batch = { .va = va, .nr = nr < most ? nr : most, .cut = nr > most };

	bpf_loop(most, batch_3d_add, &batch, 0);
	if (batch.cut)
		gpu_count(GPU_COUNT_BATCH_CUT);
	return batch.bytes;
}

/* Bytes of the call, as far as they are known at its begin. */
static __always_inline __u64 size_of_call(struct pt_regs *ctx, const struct bpfprof_gpu_function *f)
{
	__u64 a = argument(ctx, f->size[0]), b, fields[3] = { 0 };

	switch (f->size_rule) {
	case GPU_SIZE_PRODUCT:
		b = f->size[1] ? argument(ctx, f->size[1]) : 1;
		return a * b * f->scale;
	case GPU_SIZE_BATCH:
		return batch_bytes(a, argument(ctx, f->size[1]));
	case GPU_SIZE_BATCH_3D:
		return batch_3d_bytes(a, argument(ctx, f->size[1]));
	case GPU_SIZE_ELEMENTS:
		return a * element_bytes((__u32)argument(ctx, f->size[1]));
	case GPU_SIZE_COPY_2D:
		if (user_read(fields, 16, a + COPY_2D_WIDTH))
			return 0;
		return fields[0] * fields[1];
	case GPU_SIZE_COPY_3D:
		if (user_read(fields, 24, a + COPY_3D_WIDTH))
			return 0;
		return fields[0] * fields[1] * fields[2];
	}
	return 0;
}

static __always_inline void launch_fill(struct pt_regs *ctx, const struct bpfprof_gpu_function *f,
					struct bpfprof_gpu_key *key)
{
	__u32 config[CONFIG_BYTES / 4] = { 0 };
	__u64 va = regs_argument(ctx, 1);
	__u32 i;

	if (f->kind == GPU_KIND_LAUNCH) {
		for (i = 0; i < 5; i++)
			key->dims[i] = regs_argument(ctx, i + 2);
		key->dims[5] = argument(ctx, 7);
		return;
	}
	if (!f->handle) { /* CUDA_LAUNCH_PARAMS */
		if (user_read(&key->handle, sizeof(key->handle), va))
			return;
		va += sizeof(key->handle);
	}
	if (user_read(config, sizeof(config), va))
		return;
	for (i = 0; i < 6; i++)
		key->dims[i] = config[i];
	key->stream = *(__u64 *)&config[8];
}

static __always_inline void key_fill(struct pt_regs *ctx, const struct bpfprof_gpu_function *f,
				     struct bpfprof_gpu_key *key)
{
	switch (f->kind) {
	case GPU_KIND_LAUNCH:
	case GPU_KIND_LAUNCH_CONFIG:
		launch_fill(ctx, f, key);
		break;
	case GPU_KIND_COLLECTIVE:
		key->dims[0] = argument(ctx, f->type);
		key->dims[1] = argument(ctx, f->extra);
		break;
	case GPU_KIND_GRAPH:
	case GPU_KIND_COMM_END:
		break;
	default: /* too many handles to count by */
		if (f->stream)
			key->stream = argument(ctx, f->stream);
		return;
	}
	if (f->handle)
		key->handle = argument(ctx, f->handle);
	if (f->stream)
		key->stream = argument(ctx, f->stream);
}

#endif
