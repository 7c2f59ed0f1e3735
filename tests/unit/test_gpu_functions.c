// SPDX-License-Identifier: Apache-2.0
/* The table against the prototypes of cuda.h (13.0) and nccl.h (2.32), written down here again. */
#include "cuda/functions.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define RETURNS BPFPROF_GPU_RETURNS
#define WAITS (BPFPROF_GPU_RETURNS | BPFPROF_GPU_BLOCKS)

/*
 * One letter for each argument, in the prototype's order: h handle, s stream, o out, b and B sizes,
 * n name, t type, x extra, c count. An argument passed by value in memory has none.
 */
struct prototype {
	const char *name;
	const char *exports; /* suffixes, '.' is none */
	const char *args;
	uint8_t kind, flags, rule, scale;
	enum gpu_copy copy;
};

#define LAUNCH(name, args)                                                                         \
	{                                                                                          \
		name, ". _ptsz", args, GPU_KIND_LAUNCH, 0, 0, 0, 0                                 \
	}
#define COPY(name, exports, args, flags, direction)                                                \
	{                                                                                          \
		name, exports, args, GPU_KIND_COPY, flags, GPU_SIZE_PRODUCT, 1,                    \
			GPU_COPY_##direction                                                       \
	}
#define SHAPE(name, exports, args, flags, rule)                                                    \
	{                                                                                          \
		name, exports, args, GPU_KIND_COPY, flags, rule, 0, GPU_COPY_ANY                   \
	}
#define SET(name, exports, args, scale)                                                            \
	{                                                                                          \
		name, exports, args, GPU_KIND_SET, 0, GPU_SIZE_PRODUCT, scale, 0                   \
	}
#define ALLOC(name, exports, args)                                                                 \
	{                                                                                          \
		name, exports, args, GPU_KIND_ALLOC, RETURNS, GPU_SIZE_PRODUCT, 1, 0               \
	}
#define PLAIN(name, exports, args, kind, flags)                                                    \
	{                                                                                          \
		name, exports, args, kind, flags, 0, 0, 0                                          \
	}
#define COLLECTIVE(name, exports, args)                                                            \
	{                                                                                          \
		name, exports, args, GPU_KIND_COLLECTIVE, WAITS, GPU_SIZE_ELEMENTS, 0, 0           \
	}

static const struct prototype prototypes[] = {
	LAUNCH("cuLaunchKernel", "h-------s--"),
	LAUNCH("cuLaunchCooperativeKernel", "h-------s-"),
	PLAIN("cuLaunchKernelEx", ". _ptsz", "-h--", GPU_KIND_LAUNCH_CONFIG, 0),
	PLAIN("cuLaunchCooperativeKernelMultiDevice", ".", "---", GPU_KIND_LAUNCH_CONFIG, 0),
	PLAIN("cuGraphLaunch", ". _ptsz", "hs", GPU_KIND_GRAPH, 0),
	COPY("cuMemcpy", ". _ptds", "--b", WAITS, ANY),
	COPY("cuMemcpyHtoD", "_v2 _v2_ptds", "--b", WAITS, HTOD),
	COPY("cuMemcpyDtoH", "_v2 _v2_ptds", "--b", WAITS, DTOH),
	COPY("cuMemcpyDtoD", "_v2 _v2_ptds", "--b", WAITS, DTOD),
	COPY("cuMemcpyPeer", ". _ptds", "----b", WAITS, DTOD),
	COPY("cuMemcpyHtoA", "_v2 _v2_ptds", "---b", WAITS, HTOD),
	COPY("cuMemcpyAtoH", "_v2 _v2_ptds", "---b", WAITS, DTOH),
	COPY("cuMemcpyDtoA", "_v2 _v2_ptds", "---b", WAITS, DTOD),
	COPY("cuMemcpyAtoD", "_v2 _v2_ptds", "---b", WAITS, DTOD),
	COPY("cuMemcpyAtoA", "_v2 _v2_ptds", "----b", WAITS, DTOD),
	SHAPE("cuMemcpy2D", "_v2 _v2_ptds", "b", WAITS, GPU_SIZE_COPY_2D),
	SHAPE("cuMemcpy2DUnaligned", "_v2 _v2_ptds", "b", WAITS, GPU_SIZE_COPY_2D),
	SHAPE("cuMemcpy3D", "_v2 _v2_ptds", "b", WAITS, GPU_SIZE_COPY_3D),
	SHAPE("cuMemcpy3DPeer", ". _ptds", "b", WAITS, GPU_SIZE_COPY_3D),
	COPY("cuMemcpyAsync", ". _ptsz", "--bs", 0, ANY),
	COPY("cuMemcpyHtoDAsync", "_v2 _v2_ptsz", "--bs", 0, HTOD),
	COPY("cuMemcpyDtoHAsync", "_v2 _v2_ptsz", "--bs", 0, DTOH),
	COPY("cuMemcpyDtoDAsync", "_v2 _v2_ptsz", "--bs", 0, DTOD),
	COPY("cuMemcpyPeerAsync", ". _ptsz", "----bs", 0, DTOD),
	COPY("cuMemcpyHtoAAsync", "_v2 _v2_ptsz", "---bs", 0, HTOD),
	COPY("cuMemcpyAtoHAsync", "_v2 _v2_ptsz", "---bs", 0, DTOH),
	SHAPE("cuMemcpy2DAsync", "_v2 _v2_ptsz", "bs", 0, GPU_SIZE_COPY_2D),
	SHAPE("cuMemcpy3DAsync", "_v2 _v2_ptsz", "bs", 0, GPU_SIZE_COPY_3D),
	SHAPE("cuMemcpy3DPeerAsync", ". _ptsz", "bs", 0, GPU_SIZE_COPY_3D),
	SHAPE("cuMemcpyBatchAsync", ". _ptsz", "--bB----s", 0, GPU_SIZE_BATCH),
	SHAPE("cuMemcpyBatchAsync", "_v2 _v2_ptsz", "--bB---s", 0, GPU_SIZE_BATCH),
	SHAPE("cuMemcpy3DBatchAsync", ". _ptsz", "Bb--s", 0, GPU_SIZE_BATCH_3D),
	SHAPE("cuMemcpy3DBatchAsync", "_v2 _v2_ptsz", "Bb-s", 0, GPU_SIZE_BATCH_3D),
	SET("cuMemsetD8", "_v2 _v2_ptds", "--b", 1),
	SET("cuMemsetD16", "_v2 _v2_ptds", "--b", 2),
	SET("cuMemsetD32", "_v2 _v2_ptds", "--b", 4),
	SET("cuMemsetD2D8", "_v2 _v2_ptds", "---bB", 1),
	SET("cuMemsetD2D16", "_v2 _v2_ptds", "---bB", 2),
	SET("cuMemsetD2D32", "_v2 _v2_ptds", "---bB", 4),
	SET("cuMemsetD8Async", ". _ptsz", "--bs", 1),
	SET("cuMemsetD16Async", ". _ptsz", "--bs", 2),
	SET("cuMemsetD32Async", ". _ptsz", "--bs", 4),
	SET("cuMemsetD2D8Async", ". _ptsz", "---bBs", 1),
	SET("cuMemsetD2D16Async", ". _ptsz", "---bBs", 2),
	SET("cuMemsetD2D32Async", ". _ptsz", "---bBs", 4),
	ALLOC("cuMemAlloc", "_v2", "ob"),
	ALLOC("cuMemAllocManaged", ".", "ob-"),
	ALLOC("cuMemCreate", ".", "obx-"),
	ALLOC("cuMemAllocAsync", ". _ptsz", "obs"),
	ALLOC("cuMemAllocFromPoolAsync", ". _ptsz", "ob-s"),
	{ "cuMemAllocPitch", "_v2", "ob-B-", GPU_KIND_ALLOC, RETURNS, GPU_SIZE_PITCH, 0, 0 },
	PLAIN("cuMemFree", "_v2", "h", GPU_KIND_FREE, 0),
	PLAIN("cuMemRelease", ".", "h", GPU_KIND_FREE, 0),
	PLAIN("cuMemFreeAsync", ". _ptsz", "hs", GPU_KIND_FREE, 0),
	PLAIN("cuMemRetainAllocationHandle", ".", "o-", GPU_KIND_MEMORY_REF, RETURNS),
	PLAIN("cuMemImportFromShareableHandle", ".", "o--", GPU_KIND_MEMORY_REF, RETURNS),
	{ "cuMemMap", ".", "xb-h-", GPU_KIND_MEMORY_MAP, RETURNS, GPU_SIZE_PRODUCT, 1, 0 },
	{ "cuMemUnmap", ".", "xb", GPU_KIND_MEMORY_UNMAP, 0, GPU_SIZE_PRODUCT, 1, 0 },
	ALLOC("cuMemHostAlloc", ".", "ob-"),
	ALLOC("cuMemAllocHost", "_v2", "ob"),
	ALLOC("cuMemHostRegister", ". _v2", "hb-"),
	PLAIN("cuMemFreeHost", ".", "h", GPU_KIND_FREE, 0),
	PLAIN("cuMemHostUnregister", ".", "h", GPU_KIND_FREE, 0),
	PLAIN("cuStreamSynchronize", ". _ptsz", "s", GPU_KIND_SYNC, WAITS),
	PLAIN("cuCtxSynchronize", ". _v2", "", GPU_KIND_SYNC, WAITS),
	PLAIN("cuEventSynchronize", ".", "h", GPU_KIND_SYNC, WAITS),
	PLAIN("cuEventRecord", ". _ptsz", "hs", GPU_KIND_EVENT_RECORD, 0),
	PLAIN("cuEventRecordWithFlags", ". _ptsz", "hsx", GPU_KIND_EVENT_RECORD, 0),
	PLAIN("cuEventQuery", ".", "h", GPU_KIND_EVENT_QUERY, RETURNS),
	PLAIN("cuStreamQuery", ". _ptsz", "s", GPU_KIND_STREAM_QUERY, RETURNS),
	PLAIN("cuStreamWaitEvent", ". _ptsz", "sh-", GPU_KIND_STREAM_WAIT, BPFPROF_GPU_RETURNS),
	PLAIN("cuEventDestroy", ". _v2", "h", GPU_KIND_EVENT_END, 0),
	PLAIN("cuStreamDestroy", ". _v2", "s", GPU_KIND_STREAM_END, 0),
	PLAIN("cuStreamBeginCapture", ". _ptsz _v2 _v2_ptsz", "s-", GPU_KIND_CAPTURE_BEGIN,
	      RETURNS),
	PLAIN("cuStreamBeginCaptureToGraph", ". _ptsz", "sh----", GPU_KIND_CAPTURE_BEGIN, RETURNS),
	PLAIN("cuStreamEndCapture", ". _ptsz", "so", GPU_KIND_CAPTURE_END, RETURNS),
	PLAIN("cuGraphInstantiate", ". _v2", "oh---", GPU_KIND_GRAPH_COPY, RETURNS),
	PLAIN("cuGraphInstantiateWithFlags", ".", "oh-", GPU_KIND_GRAPH_COPY, RETURNS),
	PLAIN("cuGraphInstantiateWithParams", ". _ptsz", "oh-", GPU_KIND_GRAPH_COPY, RETURNS),
	PLAIN("cuGraphClone", ".", "oh", GPU_KIND_GRAPH_COPY, RETURNS),
	PLAIN("cuGraphExecUpdate", ". _v2", "xh--", GPU_KIND_GRAPH_COPY, RETURNS),
	PLAIN("cuGraphExecDestroy", ".", "h", GPU_KIND_GRAPH_END, 0),
	PLAIN("cuGraphDestroy", ".", "h", GPU_KIND_GRAPH_END, 0),
	PLAIN("cuGraphNodeSetEnabled", ".", "h--", GPU_KIND_GRAPH_END, 0),
	PLAIN("cuGraphExecKernelNodeSetParams", ". _v2", "h--", GPU_KIND_GRAPH_END, 0),
	PLAIN("cuGraphExecChildGraphNodeSetParams", ".", "h--", GPU_KIND_GRAPH_END, 0),
	PLAIN("cuGraphExecNodeSetParams", ".", "h--", GPU_KIND_GRAPH_END, 0),
	PLAIN("cuGraphAddKernelNode", ". _v2", "-h---", GPU_KIND_GRAPH_CHANGE, 0),
	PLAIN("cuGraphAddChildGraphNode", ".", "-h---", GPU_KIND_GRAPH_CHANGE, 0),
	PLAIN("cuGraphAddNode", ". _v2", "-h---", GPU_KIND_GRAPH_CHANGE, 0),
	PLAIN("cuModuleGetFunction", ".", "o-n", GPU_KIND_NAME, RETURNS),
	PLAIN("cuLibraryGetKernel", ".", "o-n", GPU_KIND_NAME, RETURNS),
	PLAIN("cuKernelGetFunction", ".", "oh", GPU_KIND_ALIAS, RETURNS),
	PLAIN("cuMemGetInfo", "_v2", "ob", GPU_KIND_MEMORY_INFO, RETURNS),
	PLAIN("cuProfilerStart", ".", "", GPU_KIND_WINDOW_BEGIN, 0),
	PLAIN("cuProfilerStop", ".", "", GPU_KIND_WINDOW_END, 0),
	COLLECTIVE("ncclAllReduce", ". Config", "--btxhs"),
	COLLECTIVE("ncclReduceScatter", ". Config", "--btxhs"),
	COLLECTIVE("ncclAllGather", ". Config", "--bths"),
	COLLECTIVE("ncclAlltoAll", ". Config", "--bths"),
	COLLECTIVE("ncclAllToAll", ".", "--bths"),
	COLLECTIVE("ncclBroadcast", ". Config", "--btxhs"),
	COLLECTIVE("ncclBcast", ".", "-btxhs"),
	COLLECTIVE("ncclReduce", ". Config", "--bt-xhs"),
	COLLECTIVE("ncclGather", ". Config", "--btxhs"),
	COLLECTIVE("ncclScatter", ". Config", "--btxhs"),
	COLLECTIVE("ncclSend", ".", "-btxhs"),
	COLLECTIVE("ncclRecv", ".", "-btxhs"),
	PLAIN("ncclGroupStart", ".", "", GPU_KIND_GROUP_START, 0),
	PLAIN("ncclGroupEnd", ".", "", GPU_KIND_GROUP_END, WAITS),
	/* The 128 bytes of the id are on the stack: (comm, nranks, id, rank). */
	PLAIN("ncclCommInitRank", ".", "ocx", GPU_KIND_COMM_INIT, WAITS),
	PLAIN("ncclCommInitRankConfig", ".", "ocx-", GPU_KIND_COMM_INIT, WAITS),
	PLAIN("ncclCommInitRankScalable", ".", "ocx---", GPU_KIND_COMM_INIT, WAITS),
	PLAIN("ncclCommInitAll", ".", "oc-", GPU_KIND_COMM_INIT, WAITS),
	PLAIN("ncclCommSplit", ".", "---o-", GPU_KIND_COMM_INIT, WAITS),
	PLAIN("ncclCommShrink", ".", "---o--", GPU_KIND_COMM_INIT, WAITS),
	PLAIN("ncclCommGrow", ".", "-c-xo-", GPU_KIND_COMM_INIT, WAITS),
	PLAIN("ncclCommFinalize", ".", "h", GPU_KIND_COMM_END, WAITS),
	PLAIN("ncclCommDestroy", ".", "h", GPU_KIND_COMM_END, WAITS),
	PLAIN("ncclCommAbort", ".", "h", GPU_KIND_COMM_END, WAITS),
	PLAIN("ncclCommRevoke", ".", "h-", GPU_KIND_COMM_END, WAITS),
	PLAIN("ncclCommSuspend", ".", "h-", GPU_KIND_COMM_END, WAITS),
	PLAIN("ncclCommResume", ".", "h", GPU_KIND_COMM_END, WAITS),
	PLAIN("ncclCommWindowRegister", ".", "h----", GPU_KIND_COMM_END, WAITS),
	PLAIN("ncclCommWindowDeregister", ".", "h-", GPU_KIND_COMM_END, WAITS),
	{ "ncclPutSignal", ".", "-bt------hs", GPU_KIND_COMM_END, WAITS, GPU_SIZE_ELEMENTS, 0, 0 },
	PLAIN("ncclSignal", ".", "----hs", GPU_KIND_COMM_END, WAITS),
	PLAIN("ncclWaitSignal", ".", "--hs", GPU_KIND_COMM_END, WAITS),
	/* Arguments of a probe: address, device, size, stream. */
	{ "pytorch:malloc", ".", "hxbs", GPU_KIND_ALLOC, 0, GPU_SIZE_PRODUCT, 1, 0 },
	PLAIN("pytorch:free", ".", "h", GPU_KIND_FREE, 0),
	/* Generation; how many were freed. */
	PLAIN("python:gc", "__start", "x", GPU_KIND_GC, 0),
	PLAIN("python:gc", "__done", "-", GPU_KIND_GC_END, 0),
};

#define NR_PROTOTYPES (sizeof(prototypes) / sizeof(prototypes[0]))

static const struct gpu_function *function_find(const char *name)
{
	const struct gpu_function *functions;
	size_t nr, i;

	functions = gpu_functions(&nr);
	for (i = 1; i < nr; i++)
		if (!strcmp(functions[i].name, name))
			return &functions[i];
	return NULL;
}

static uint8_t place(const struct prototype *p, char letter)
{
	const char *at = strchr(p->args, letter);

	return at ? (uint8_t)(at - p->args + 1) : 0;
}

static enum gpu_space space_of(const char *name)
{
	if (strstr(name, "pytorch:"))
		return GPU_SPACE_TENSOR;
	return strstr(name, "Host") ? GPU_SPACE_HOST : GPU_SPACE_DEVICE;
}

static uint8_t layer_of(const char *name)
{
	if (strchr(name, ':'))
		return strstr(name, "pytorch:") ? GPU_LAYER_TORCH : GPU_LAYER_PYTHON;
	return name[0] == 'n' ? GPU_LAYER_NCCL : GPU_LAYER_DRIVER;
}

static void check(const struct prototype *p, const char *name)
{
	const struct gpu_function *function = function_find(name);
	const struct bpfprof_gpu_function *wire;

	cr_assert(function, "%s", name);
	wire = &function->wire;
	cr_expect_str_eq(function->shown, p->name);
	cr_expect_eq(function->copy, p->copy, "%s", name);
	cr_expect_eq(function->space, space_of(name), "%s", name);
	cr_expect_eq(wire->kind, p->kind, "%s", name);
	cr_expect_eq(wire->layer, layer_of(name), "%s", name);
	cr_expect_eq(wire->flags, p->flags, "%s", name);
	cr_expect_eq(wire->size_rule, p->rule, "%s", name);
	cr_expect_eq(wire->scale, p->scale, "%s", name);
	cr_expect_eq(wire->handle, place(p, 'h'), "%s", name);
	cr_expect_eq(wire->stream, place(p, 's'), "%s", name);
	cr_expect_eq(wire->out, place(p, 'o'), "%s", name);
	cr_expect_eq(wire->size[0], place(p, 'b'), "%s", name);
	cr_expect_eq(wire->size[1], place(p, p->rule == GPU_SIZE_ELEMENTS ? 't' : 'B'), "%s", name);
	cr_expect_eq(wire->name, place(p, 'n'), "%s", name);
	cr_expect_eq(wire->type, p->kind == GPU_KIND_COLLECTIVE ? place(p, 't') : 0, "%s", name);
	cr_expect_eq(wire->extra, place(p, 'x'), "%s", name);
	cr_expect_eq(wire->count, place(p, 'c'), "%s", name);
	cr_expect_eq(wire->per_thread, strstr(name, "_ptsz") || strstr(name, "_ptds"), "%s", name);
	cr_expect_eq(wire->to_device, p->copy == GPU_COPY_HTOD, "%s", name);
}

/* Each export of each prototype, and nothing else. */
Test(gpu_functions, prototypes)
{
	size_t nr, wanted = 1, i;
	const char *at;
	char name[64];
	int len;

	for (i = 0; i < NR_PROTOTYPES; i++) {
		for (at = prototypes[i].exports; *at; at += len + (at[len] == ' '), wanted++) {
			len = (int)strcspn(at, " ");
			snprintf(name, sizeof(name), "%s%.*s", prototypes[i].name,
				 *at == '.' ? 0 : len, at);
			check(&prototypes[i], name);
		}
	}
	gpu_functions(&nr);
	cr_assert_eq(nr, wanted);
	cr_assert_leq(nr, BPFPROF_GPU_MAX_FUNCTIONS);
}

Test(gpu_functions, first_is_none_and_names_differ)
{
	const struct gpu_function *functions;
	size_t nr, i;

	functions = gpu_functions(&nr);
	cr_assert_null(functions[0].name);
	cr_assert_eq(functions[0].wire.kind, GPU_KIND_INVALID);
	for (i = 1; i < nr; i++)
		cr_assert_eq(function_find(functions[i].name), &functions[i], "%s",
			     functions[i].name);
}

Test(gpu_functions, nccl_types)
{
	static const char *const wanted[] = { "int8",	 "uint8",    "int32",	   "uint32",
					      "int64",	 "uint64",   "float16",	   "float32",
					      "float64", "bfloat16", "float8e4m3", "float8e5m2" };
	char room[24];
	uint32_t i;

	for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		cr_assert_str_eq(gpu_nccl_type(i, room), wanted[i]);
	cr_assert_str_eq(gpu_nccl_type(12, room), "type 12");
	cr_assert_str_eq(gpu_nccl_type(UINT32_MAX, room), "type 4294967295");
}

Test(gpu_functions, nccl_operations)
{
	static const char *const wanted[] = { "sum", "prod", "max", "min", "avg", "user" };
	uint32_t i;

	for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		cr_assert_str_eq(gpu_nccl_operation(i), wanted[i]);
	cr_assert_str_eq(gpu_nccl_operation(UINT32_MAX), "user");
}

Test(gpu_functions, nccl_extra)
{
	static const char *const wanted[][2] = {
		{ "ncclAllReduce", "op" },   { "ncclReduceScatter", "op" },
		{ "ncclAllGather", "" },     { "ncclAlltoAll", "" },
		{ "ncclBroadcast", "root" }, { "ncclBcast", "root" },
		{ "ncclReduce", "root" },    { "ncclGather", "root" },
		{ "ncclScatter", "root" },   { "ncclSend", "peer" },
		{ "ncclRecv", "peer" },	     { "ncclGroupEnd", "" },
		{ "ncclCommInitRank", "" },  { "ncclReduceScatterConfig", "op" },
		{ "cuLaunchKernel", "" },
	};
	size_t i;

	for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		cr_assert_str_eq(gpu_nccl_extra(function_find(wanted[i][0])), wanted[i][1], "%s",
				 wanted[i][0]);
}
