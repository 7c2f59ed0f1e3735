// SPDX-License-Identifier: Apache-2.0
#include "cuda/functions.h"

#include <stdio.h>
#include <string.h>

/*
 * Numbers are positions in the prototypes. A structure that is passed by value (ncclUniqueId)
 * lies on the stack and takes no register, so the numbers after it are one less. Asynchronous
 * calls are hooked only at their begin: a launch must stay cheap, and a free must be seen before
 * the same address is handed out again. The host's time in all calls of NCCL counts as blocked:
 * most take microseconds, but where ranks gather, one waits for all others.
 */

#define EXPORT_IN(space_, layer_, exported, shown_, copy_, kind_, ...)                             \
	{                                                                                          \
		.name = exported, .shown = shown_, .copy = GPU_COPY_##copy_,                       \
		.space = GPU_SPACE_##space_, .wire = {                                             \
			.kind = GPU_KIND_##kind_,                                                  \
			.layer = GPU_LAYER_##layer_,                                               \
			.to_device = GPU_COPY_##copy_ == GPU_COPY_HTOD,                            \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}
#define EXPORT(...) EXPORT_IN(DEVICE, __VA_ARGS__)

/* An export, and its twin whose default stream is the thread's own. */
#define CU(base, version, kind_, ...) EXPORT(DRIVER, #base version, #base, NONE, kind_, __VA_ARGS__)
#define CU_PTSZ(base, kind_, ...)                                                                  \
	CU(base, "", kind_, __VA_ARGS__), CU(base, "_ptsz", kind_, .per_thread = 1, __VA_ARGS__)
#define SET(base, version, twin, ...)                                                              \
	CU(base, version, SET, __VA_ARGS__),                                                       \
		CU(base, version twin, SET, .per_thread = 1, __VA_ARGS__)
#define COPY(base, version, twin, direction, ...)                                                  \
	EXPORT(DRIVER, #base version, #base, direction, COPY, __VA_ARGS__),                        \
		EXPORT(DRIVER, #base version twin, #base, direction, COPY, .per_thread = 1,        \
		       __VA_ARGS__)
#define HOST(base, version, kind_, ...)                                                            \
	EXPORT_IN(HOST, DRIVER, #base version, #base, NONE, kind_, __VA_ARGS__)
#define TORCH(probe, kind_, ...) EXPORT_IN(TENSOR, TORCH, probe, probe, NONE, kind_, __VA_ARGS__)
#define PYTHON(probe, kind_, ...)                                                                  \
	EXPORT(PYTHON, "python:" probe, "python:gc", NONE, kind_, __VA_ARGS__)
#define NCCL(base, kind_, ...) EXPORT(NCCL, #base, #base, NONE, kind_, __VA_ARGS__)
#define COLLECTIVE_AS(base, version, count_, type_, extra_, comm, stream_)                         \
	EXPORT(NCCL, #base version, #base, NONE, COLLECTIVE, .flags = WAITS, .handle = comm,       \
	       .stream = stream_, .size_rule = GPU_SIZE_ELEMENTS, .size = { count_, type_ },       \
	       .type = type_, .extra = extra_)
#define COLLECTIVE(base, ...) COLLECTIVE_AS(base, "", __VA_ARGS__)
/* Since 2.32 also with a configuration, their last argument. */
#define COLLECTIVES(base, ...)                                                                     \
	COLLECTIVE(base, __VA_ARGS__), COLLECTIVE_AS(base, "Config", __VA_ARGS__)

#define RETURNS BPFPROF_GPU_RETURNS
#define WAITS (BPFPROF_GPU_RETURNS | BPFPROF_GPU_BLOCKS)
#define BYTES(number) .size_rule = GPU_SIZE_PRODUCT, .scale = 1, .size = { number }
#define ITEMS(item_bytes, ...)                                                                     \
	.size_rule = GPU_SIZE_PRODUCT, .scale = item_bytes, .size = { __VA_ARGS__ }
#define BATCH(sizes, count) .size_rule = GPU_SIZE_BATCH, .size = { sizes, count }
#define BATCH_3D(copies, count) .size_rule = GPU_SIZE_BATCH_3D, .size = { copies, count }
#define SHAPE(dimensions) .size_rule = GPU_SIZE_COPY_##dimensions, .size = { 1 }

static const struct gpu_function functions[] = {
	{ .name = NULL },

	CU_PTSZ(cuLaunchKernel, LAUNCH, .handle = 1, .stream = 9),
	CU_PTSZ(cuLaunchCooperativeKernel, LAUNCH, .handle = 1, .stream = 9),
	CU_PTSZ(cuLaunchKernelEx, LAUNCH_CONFIG, .handle = 2),
	/* On several devices: the hook reads the first. */
	CU(cuLaunchCooperativeKernelMultiDevice, "", LAUNCH_CONFIG),
	CU_PTSZ(cuGraphLaunch, GRAPH, .handle = 1, .stream = 2),

	COPY(cuMemcpy, "", "_ptds", ANY, .flags = WAITS, BYTES(3)),
	COPY(cuMemcpyHtoD, "_v2", "_ptds", HTOD, .flags = WAITS, BYTES(3)),
	COPY(cuMemcpyDtoH, "_v2", "_ptds", DTOH, .flags = WAITS, BYTES(3)),
	COPY(cuMemcpyDtoD, "_v2", "_ptds", DTOD, .flags = WAITS, BYTES(3)),
	COPY(cuMemcpyPeer, "", "_ptds", DTOD, .flags = WAITS, BYTES(5)),
	COPY(cuMemcpyHtoA, "_v2", "_ptds", HTOD, .flags = WAITS, BYTES(4)),
	COPY(cuMemcpyAtoH, "_v2", "_ptds", DTOH, .flags = WAITS, BYTES(4)),
	COPY(cuMemcpyDtoA, "_v2", "_ptds", DTOD, .flags = WAITS, BYTES(4)),
	COPY(cuMemcpyAtoD, "_v2", "_ptds", DTOD, .flags = WAITS, BYTES(4)),
	COPY(cuMemcpyAtoA, "_v2", "_ptds", DTOD, .flags = WAITS, BYTES(5)),
	COPY(cuMemcpy2D, "_v2", "_ptds", ANY, .flags = WAITS, SHAPE(2D)),
	COPY(cuMemcpy2DUnaligned, "_v2", "_ptds", ANY, .flags = WAITS, SHAPE(2D)),
	COPY(cuMemcpy3D, "_v2", "_ptds", ANY, .flags = WAITS, SHAPE(3D)),
	/* CUDA_MEMCPY3D_PEER has the width, height and depth where CUDA_MEMCPY3D has them. */
	COPY(cuMemcpy3DPeer, "", "_ptds", ANY, .flags = WAITS, SHAPE(3D)),

	COPY(cuMemcpyAsync, "", "_ptsz", ANY, .stream = 4, BYTES(3)),
	COPY(cuMemcpyHtoDAsync, "_v2", "_ptsz", HTOD, .stream = 4, BYTES(3)),
	COPY(cuMemcpyDtoHAsync, "_v2", "_ptsz", DTOH, .stream = 4, BYTES(3)),
	COPY(cuMemcpyDtoDAsync, "_v2", "_ptsz", DTOD, .stream = 4, BYTES(3)),
	COPY(cuMemcpyPeerAsync, "", "_ptsz", DTOD, .stream = 6, BYTES(5)),
	COPY(cuMemcpyHtoAAsync, "_v2", "_ptsz", HTOD, .stream = 5, BYTES(4)),
	COPY(cuMemcpyAtoHAsync, "_v2", "_ptsz", DTOH, .stream = 5, BYTES(4)),
	COPY(cuMemcpy2DAsync, "_v2", "_ptsz", ANY, .stream = 2, SHAPE(2D)),
	COPY(cuMemcpy3DAsync, "_v2", "_ptsz", ANY, .stream = 2, SHAPE(3D)),
	COPY(cuMemcpy3DPeerAsync, "", "_ptsz", ANY, .stream = 2, SHAPE(3D)),
	/*
	 * The first versions have one argument more, before the stream: the place for the failed
	 * node.
	 */
	COPY(cuMemcpyBatchAsync, "", "_ptsz", ANY, .stream = 9, BATCH(3, 4)),
	COPY(cuMemcpyBatchAsync, "_v2", "_ptsz", ANY, .stream = 8, BATCH(3, 4)),
	COPY(cuMemcpy3DBatchAsync, "", "_ptsz", ANY, .stream = 5, BATCH_3D(2, 1)),
	COPY(cuMemcpy3DBatchAsync, "_v2", "_ptsz", ANY, .stream = 4, BATCH_3D(2, 1)),

	SET(cuMemsetD8, "_v2", "_ptds", ITEMS(1, 3)),
	SET(cuMemsetD16, "_v2", "_ptds", ITEMS(2, 3)),
	SET(cuMemsetD32, "_v2", "_ptds", ITEMS(4, 3)),
	SET(cuMemsetD2D8, "_v2", "_ptds", ITEMS(1, 4, 5)),
	SET(cuMemsetD2D16, "_v2", "_ptds", ITEMS(2, 4, 5)),
	SET(cuMemsetD2D32, "_v2", "_ptds", ITEMS(4, 4, 5)),
	SET(cuMemsetD8Async, "", "_ptsz", .stream = 4, ITEMS(1, 3)),
	SET(cuMemsetD16Async, "", "_ptsz", .stream = 4, ITEMS(2, 3)),
	SET(cuMemsetD32Async, "", "_ptsz", .stream = 4, ITEMS(4, 3)),
	SET(cuMemsetD2D8Async, "", "_ptsz", .stream = 6, ITEMS(1, 4, 5)),
	SET(cuMemsetD2D16Async, "", "_ptsz", .stream = 6, ITEMS(2, 4, 5)),
	SET(cuMemsetD2D32Async, "", "_ptsz", .stream = 6, ITEMS(4, 4, 5)),

	CU(cuMemAlloc, "_v2", ALLOC, .flags = RETURNS, .out = 1, BYTES(2)),
	CU(cuMemAllocManaged, "", ALLOC, .flags = RETURNS, .out = 1, BYTES(2)),
	CU(cuMemAllocPitch, "_v2", ALLOC, .flags = RETURNS, .out = 1, .size_rule = GPU_SIZE_PITCH,
	   .size = { 2, 4 }),
	CU(cuMemCreate, "", ALLOC, .flags = RETURNS, .out = 1, .extra = 3, BYTES(2)),
	CU_PTSZ(cuMemAllocAsync, ALLOC, .flags = RETURNS, .out = 1, .stream = 3, BYTES(2)),
	CU_PTSZ(cuMemAllocFromPoolAsync, ALLOC, .flags = RETURNS, .out = 1, .stream = 4, BYTES(2)),
	CU(cuMemFree, "_v2", FREE, .handle = 1),
	CU(cuMemRelease, "", FREE, .handle = 1),
	CU_PTSZ(cuMemFreeAsync, FREE, .handle = 1, .stream = 2),
	CU(cuMemRetainAllocationHandle, "", MEMORY_REF, .flags = RETURNS, .out = 1),
	CU(cuMemImportFromShareableHandle, "", MEMORY_REF, .flags = RETURNS, .out = 1),
	CU(cuMemMap, "", MEMORY_MAP, .flags = RETURNS, .handle = 4, .extra = 1, BYTES(2)),
	CU(cuMemUnmap, "", MEMORY_UNMAP, .extra = 1, BYTES(2)),

	HOST(cuMemHostAlloc, "", ALLOC, .flags = RETURNS, .out = 1, BYTES(2)),
	HOST(cuMemAllocHost, "_v2", ALLOC, .flags = RETURNS, .out = 1, BYTES(2)),
	HOST(cuMemHostRegister, "", ALLOC, .flags = RETURNS, .handle = 1, BYTES(2)),
	HOST(cuMemHostRegister, "_v2", ALLOC, .flags = RETURNS, .handle = 1, BYTES(2)),
	HOST(cuMemFreeHost, "", FREE, .handle = 1),
	HOST(cuMemHostUnregister, "", FREE, .handle = 1),

	CU_PTSZ(cuStreamSynchronize, SYNC, .flags = WAITS, .stream = 1),
	CU(cuCtxSynchronize, "", SYNC, .flags = WAITS),
	CU(cuCtxSynchronize, "_v2", SYNC, .flags = WAITS),
	CU(cuEventSynchronize, "", SYNC, .flags = WAITS, .handle = 1),

	CU_PTSZ(cuEventRecord, EVENT_RECORD, .handle = 1, .stream = 2),
	CU_PTSZ(cuEventRecordWithFlags, EVENT_RECORD, .handle = 1, .stream = 2, .extra = 3),
	CU(cuEventQuery, "", EVENT_QUERY, .flags = RETURNS, .handle = 1),
	CU_PTSZ(cuStreamQuery, STREAM_QUERY, .flags = RETURNS, .stream = 1),
	CU_PTSZ(cuStreamWaitEvent, STREAM_WAIT, .flags = RETURNS, .handle = 2, .stream = 1),
	CU(cuEventDestroy, "", EVENT_END, .handle = 1),
	CU(cuEventDestroy, "_v2", EVENT_END, .handle = 1),
	CU(cuStreamDestroy, "", STREAM_END, .stream = 1),
	CU(cuStreamDestroy, "_v2", STREAM_END, .stream = 1),
	CU_PTSZ(cuStreamBeginCapture, CAPTURE_BEGIN, .flags = RETURNS, .stream = 1),
	CU(cuStreamBeginCapture, "_v2", CAPTURE_BEGIN, .flags = RETURNS, .stream = 1),
	CU(cuStreamBeginCapture, "_v2_ptsz", CAPTURE_BEGIN, .flags = RETURNS, .per_thread = 1,
	   .stream = 1),
	CU_PTSZ(cuStreamBeginCaptureToGraph, CAPTURE_BEGIN, .flags = RETURNS, .stream = 1,
		.handle = 2),
	CU_PTSZ(cuStreamEndCapture, CAPTURE_END, .flags = RETURNS, .stream = 1, .out = 2),
	CU(cuGraphInstantiate, "", GRAPH_COPY, .flags = RETURNS, .out = 1, .handle = 2),
	CU(cuGraphInstantiate, "_v2", GRAPH_COPY, .flags = RETURNS, .out = 1, .handle = 2),
	CU(cuGraphInstantiateWithFlags, "", GRAPH_COPY, .flags = RETURNS, .out = 1, .handle = 2),
	CU_PTSZ(cuGraphInstantiateWithParams, GRAPH_COPY, .flags = RETURNS, .out = 1, .handle = 2),
	CU(cuGraphClone, "", GRAPH_COPY, .flags = RETURNS, .out = 1, .handle = 2),
	CU(cuGraphExecUpdate, "", GRAPH_COPY, .flags = RETURNS, .extra = 1, .handle = 2),
	CU(cuGraphExecUpdate, "_v2", GRAPH_COPY, .flags = RETURNS, .extra = 1, .handle = 2),
	CU(cuGraphExecDestroy, "", GRAPH_END, .handle = 1),
	CU(cuGraphDestroy, "", GRAPH_END, .handle = 1),
	/* The graph now has other content. */
	CU(cuGraphNodeSetEnabled, "", GRAPH_END, .handle = 1),
	CU(cuGraphExecKernelNodeSetParams, "", GRAPH_END, .handle = 1),
	CU(cuGraphExecKernelNodeSetParams, "_v2", GRAPH_END, .handle = 1),
	CU(cuGraphExecChildGraphNodeSetParams, "", GRAPH_END, .handle = 1),
	CU(cuGraphExecNodeSetParams, "", GRAPH_END, .handle = 1),
	CU(cuGraphAddKernelNode, "", GRAPH_CHANGE, .handle = 2),
	CU(cuGraphAddKernelNode, "_v2", GRAPH_CHANGE, .handle = 2),
	CU(cuGraphAddChildGraphNode, "", GRAPH_CHANGE, .handle = 2),
	CU(cuGraphAddNode, "", GRAPH_CHANGE, .handle = 2),
	CU(cuGraphAddNode, "_v2", GRAPH_CHANGE, .handle = 2),

	CU(cuModuleGetFunction, "", NAME, .flags = RETURNS, .out = 1, .name = 3),
	CU(cuLibraryGetKernel, "", NAME, .flags = RETURNS, .out = 1, .name = 3),
	CU(cuKernelGetFunction, "", ALIAS, .flags = RETURNS, .out = 1, .handle = 2),
	/* The free bytes are at the first pointer, the total at the second. */
	CU(cuMemGetInfo, "_v2", MEMORY_INFO, .flags = RETURNS, .out = 1, .size = { 2 }),

	/* The functions that cudaProfilerStart and cudaProfilerStop call. */
	CU(cuProfilerStart, "", WINDOW_BEGIN),
	CU(cuProfilerStop, "", WINDOW_END),

	COLLECTIVES(ncclAllReduce, 3, 4, 5, 6, 7),
	COLLECTIVES(ncclReduceScatter, 3, 4, 5, 6, 7),
	COLLECTIVES(ncclAllGather, 3, 4, 0, 5, 6),
	COLLECTIVES(ncclAlltoAll, 3, 4, 0, 5, 6),
	COLLECTIVE(ncclAllToAll, 3, 4, 0, 5, 6), /* the name in RCCL */
	COLLECTIVES(ncclBroadcast, 3, 4, 5, 6, 7),
	COLLECTIVE(ncclBcast, 2, 3, 4, 5, 6),
	COLLECTIVES(ncclReduce, 3, 4, 6, 7, 8), /* its root; 5 would be the reduction */
	COLLECTIVES(ncclGather, 3, 4, 5, 6, 7),
	COLLECTIVES(ncclScatter, 3, 4, 5, 6, 7),
	COLLECTIVE(ncclSend, 2, 3, 4, 5, 6),
	COLLECTIVE(ncclRecv, 2, 3, 4, 5, 6),
	NCCL(ncclGroupStart, GROUP_START),
	NCCL(ncclGroupEnd, GROUP_END, .flags = WAITS),
	NCCL(ncclCommInitRank, COMM_INIT, .flags = WAITS, .out = 1, .count = 2, .extra = 3),
	NCCL(ncclCommInitRankConfig, COMM_INIT, .flags = WAITS, .out = 1, .count = 2, .extra = 3),
	NCCL(ncclCommInitRankScalable, COMM_INIT, .flags = WAITS, .out = 1, .count = 2, .extra = 3),
	/* Makes several communicators: the hook reads the first. */
	NCCL(ncclCommInitAll, COMM_INIT, .flags = WAITS, .out = 1, .count = 2),
	NCCL(ncclCommSplit, COMM_INIT, .flags = WAITS, .out = 4),
	NCCL(ncclCommShrink, COMM_INIT, .flags = WAITS, .out = 4),
	/* Ranks that were in the communicator before pass -1. */
	NCCL(ncclCommGrow, COMM_INIT, .flags = WAITS, .out = 5, .count = 2, .extra = 4),
	NCCL(ncclCommFinalize, COMM_END, .flags = WAITS, .handle = 1),
	NCCL(ncclCommDestroy, COMM_END, .flags = WAITS, .handle = 1),
	NCCL(ncclCommAbort, COMM_END, .flags = WAITS, .handle = 1),
	NCCL(ncclCommRevoke, COMM_END, .flags = WAITS, .handle = 1),
	NCCL(ncclCommSuspend, COMM_END, .flags = WAITS, .handle = 1),
	NCCL(ncclCommResume, COMM_END, .flags = WAITS, .handle = 1),
	/* All ranks make these calls, and wait for each other. */
	NCCL(ncclCommWindowRegister, COMM_END, .flags = WAITS, .handle = 1),
	NCCL(ncclCommWindowDeregister, COMM_END, .flags = WAITS, .handle = 1),
	/* One rank alone makes these calls, so that no other rank is behind. */
	NCCL(ncclPutSignal, COMM_END, .flags = WAITS, .handle = 10, .stream = 11,
	     .size_rule = GPU_SIZE_ELEMENTS, .size = { 2, 3 }),
	NCCL(ncclSignal, COMM_END, .flags = WAITS, .handle = 5, .stream = 6),
	NCCL(ncclWaitSignal, COMM_END, .flags = WAITS, .handle = 3, .stream = 4),

	/* Address, device, size, stream; address. */
	TORCH("pytorch:malloc", ALLOC, .handle = 1, .extra = 2, .stream = 4, BYTES(3)),
	TORCH("pytorch:free", FREE, .handle = 1),
	/* The generation; how many objects were freed. */
	PYTHON("gc__start", GC, .extra = 1),
	PYTHON("gc__done", GC_END),
};

#define NR_FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

_Static_assert(NR_FUNCTIONS <= BPFPROF_GPU_MAX_FUNCTIONS, "room in the map and in gpu_library");

const struct gpu_function *gpu_functions(size_t *ret_nr)
{
	*ret_nr = NR_FUNCTIONS;
	return functions;
}

const struct gpu_function *gpu_function(uint32_t nr)
{
	return &functions[nr < NR_FUNCTIONS ? nr : 0];
}

const char *gpu_nccl_type(uint32_t type, char room[24])
{
	static const char *const types[] = { "int8",	"uint8",    "int32",	  "uint32",
					     "int64",	"uint64",   "float16",	  "float32",
					     "float64", "bfloat16", "float8e4m3", "float8e5m2" };

	if (type < sizeof(types) / sizeof(types[0]))
		return types[type];
	snprintf(room, 24, "type %u", type);
	return room;
}

uint32_t gpu_nccl_type_bytes(uint32_t type)
{
	static const uint8_t bytes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };

	return type < sizeof(bytes) ? bytes[type] : 0;
}

const char *gpu_nccl_operation(uint32_t operation)
{
	static const char *const operations[] = { "sum", "prod", "max", "min", "avg" };

	return operation < sizeof(operations) / sizeof(operations[0]) ? operations[operation]
								      : "user";
}

const char *gpu_nccl_extra(const struct gpu_function *function)
{
	if (function->wire.kind != GPU_KIND_COLLECTIVE || !function->wire.extra)
		return "";
	if (!strcmp(function->shown, "ncclSend") || !strcmp(function->shown, "ncclRecv"))
		return "peer";
	if (!strcmp(function->shown, "ncclAllReduce") ||
	    !strcmp(function->shown, "ncclReduceScatter"))
		return "op";
	return "root";
}
