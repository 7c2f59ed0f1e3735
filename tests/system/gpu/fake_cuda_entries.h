/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_CUDA_ENTRIES_H
#define FAKE_CUDA_ENTRIES_H

/*
 * The exported functions of the fake libcuda: each jumps through a table to a static function of
 * fake_cuda.c, which includes this behind those.
 */

/* The je is taken when this is the magic number, which it never is. */
static volatile uint32_t fake_cuda_state __attribute__((used)) = 1;

#ifdef OTHER_ENTRIES
#define ENTRY(table)                                                                               \
	"	mov %rdi, %rax\n"                                                                        \
	"	lea 8(%rsi,%rdx,4), %r10\n"                                                              \
	"	push %rbx\n"                                                                             \
	"	mov %rax, %rbx\n"                                                                        \
	"	pop %rbx\n"                                                                              \
	"	jmp *" table "(%rip)\n"
#else
#define ENTRY(table)                                                                               \
	"	cmpl $0x321cba00, fake_cuda_state(%rip)\n"                                               \
	"	.byte 0x74, 0x0c\n"                                                                      \
	"	jmp *" table "(%rip)\n"                                                            \
	"	.byte 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00\n"                                              \
	"	jmp *" table "(%rip)\n"                                                            \
	"	.byte 0x66, 0x90\n"
#endif

#define TRAMPOLINE(exported, body)                                                                 \
	__asm__(".pushsection .trampolines, \"ax\", @progbits\n"                                   \
		".balign 32\n"                                                                     \
		".globl " #exported "\n"                                                           \
		".type " #exported ", @function\n" #exported                                       \
		":\n" ENTRY(".Ltable_" #exported) ".size " #exported ", . - " #exported "\n"       \
						  ".popsection\n"                                  \
						  ".pushsection .data, \"aw\", @progbits\n"        \
						  ".balign 8\n"                                    \
						  ".Ltable_" #exported ":\n"                       \
						  "	.quad " #body "\n"                         \
						  ".popsection\n")

TRAMPOLINE(cuInit, done);

TRAMPOLINE(cuLaunchKernel, launched);
TRAMPOLINE(cuLaunchKernel_ptsz, launched);
TRAMPOLINE(cuLaunchKernelEx, launched_config);
TRAMPOLINE(cuLaunchKernelEx_ptsz, launched_config);
TRAMPOLINE(cuLaunchCooperativeKernel, launched);
TRAMPOLINE(cuLaunchCooperativeKernelMultiDevice, done);
TRAMPOLINE(cuGraphLaunch, launched_graph);
TRAMPOLINE(cuGraphLaunch_ptsz, launched_graph);

TRAMPOLINE(cuMemcpyHtoD_v2, copy_to_device);
TRAMPOLINE(cuMemcpyDtoH_v2, blocking);
TRAMPOLINE(cuMemcpyDtoD_v2, blocking);
TRAMPOLINE(cuMemcpy, blocking);
TRAMPOLINE(cuMemcpyAsync, done);
TRAMPOLINE(cuMemcpyAsync_ptsz, done);
TRAMPOLINE(cuMemcpyHtoDAsync_v2, done);
TRAMPOLINE(cuMemcpyHtoDAsync_v2_ptsz, done);
TRAMPOLINE(cuMemcpyDtoHAsync_v2, done);
TRAMPOLINE(cuMemcpyDtoDAsync_v2, done);
TRAMPOLINE(cuMemcpyPeerAsync, done);
TRAMPOLINE(cuMemcpyBatchAsync, done);
TRAMPOLINE(cuMemcpyBatchAsync_ptsz, done);
TRAMPOLINE(cuMemcpyBatchAsync_v2, done);
TRAMPOLINE(cuMemcpyBatchAsync_v2_ptsz, done);
TRAMPOLINE(cuMemcpy3DBatchAsync, done);
TRAMPOLINE(cuMemcpy3DBatchAsync_ptsz, done);
TRAMPOLINE(cuMemcpy3DBatchAsync_v2, done);
TRAMPOLINE(cuMemcpy3DBatchAsync_v2_ptsz, done);
TRAMPOLINE(cuMemcpy2D_v2, blocking);
TRAMPOLINE(cuMemcpy2DAsync_v2, done);
TRAMPOLINE(cuMemcpy3D_v2, blocking);

TRAMPOLINE(cuMemsetD8_v2, done);
TRAMPOLINE(cuMemsetD32_v2, done);
TRAMPOLINE(cuMemsetD8Async, done);
TRAMPOLINE(cuMemsetD8Async_ptsz, done);
TRAMPOLINE(cuMemsetD32Async, done);
TRAMPOLINE(cuMemsetD2D8Async, done);

TRAMPOLINE(cuMemAlloc_v2, allocate_plain);
TRAMPOLINE(cuMemAllocManaged, allocate_plain);
TRAMPOLINE(cuMemAllocPitch_v2, allocate_pitch);
TRAMPOLINE(cuMemAllocAsync, allocate_plain);
TRAMPOLINE(cuMemAllocAsync_ptsz, allocate_plain);
TRAMPOLINE(cuMemAllocFromPoolAsync, allocate_plain);
TRAMPOLINE(cuMemCreate, create_memory);
TRAMPOLINE(cuMemImportFromShareableHandle, import_memory);
TRAMPOLINE(cuMemRetainAllocationHandle, retain_memory);
TRAMPOLINE(cuMemMap, map_memory);
TRAMPOLINE(cuMemUnmap, unmap_memory);
TRAMPOLINE(cuMemFree_v2, release_plain);
TRAMPOLINE(cuMemFreeAsync, release_plain);
TRAMPOLINE(cuMemFreeAsync_ptsz, release_plain);
TRAMPOLINE(cuMemRelease, release_memory);
/* Addresses of the host may be those that were the device's: nobody looks into them. */
TRAMPOLINE(cuMemHostAlloc, allocate_plain);
TRAMPOLINE(cuMemAllocHost_v2, allocate_plain);
TRAMPOLINE(cuMemFreeHost, release_plain);
TRAMPOLINE(cuMemHostRegister, register_host);
TRAMPOLINE(cuMemHostRegister_v2, register_host);
TRAMPOLINE(cuMemHostUnregister, done);

TRAMPOLINE(cuStreamSynchronize, stream_wait);
TRAMPOLINE(cuStreamSynchronize_ptsz, stream_wait);
TRAMPOLINE(cuCtxSynchronize, context_wait);
TRAMPOLINE(cuEventSynchronize, event_wait);
TRAMPOLINE(cuStreamQuery, stream_query);
TRAMPOLINE(cuStreamDestroy_v2, done);
TRAMPOLINE(cuStreamBeginCapture_v2, done);
TRAMPOLINE(cuStreamBeginCapture_v2_ptsz, done);
TRAMPOLINE(cuStreamBeginCaptureToGraph, done);
TRAMPOLINE(cuStreamEndCapture, end_capture);
TRAMPOLINE(cuStreamEndCapture_ptsz, end_capture);
TRAMPOLINE(cuGraphInstantiate_v2, instantiate);
TRAMPOLINE(cuGraphInstantiateWithFlags, instantiate);
TRAMPOLINE(cuGraphInstantiateWithParams, instantiate);
TRAMPOLINE(cuGraphClone, instantiate);
TRAMPOLINE(cuGraphExecUpdate_v2, update_graph);
TRAMPOLINE(cuGraphExecDestroy, done);
TRAMPOLINE(cuGraphDestroy, done);
TRAMPOLINE(cuGraphAddKernelNode_v2, done);
TRAMPOLINE(cuGraphNodeSetEnabled, done);
TRAMPOLINE(cuEventRecord, event_record);
TRAMPOLINE(cuEventRecordWithFlags, event_record);
TRAMPOLINE(cuEventQuery, event_query);
TRAMPOLINE(cuEventDestroy_v2, done);
TRAMPOLINE(cuStreamWaitEvent, stream_wait_event);
TRAMPOLINE(cuStreamWaitEvent_ptsz, stream_wait_event);

TRAMPOLINE(cuProfilerStart, done);
TRAMPOLINE(cuProfilerStop, done);

TRAMPOLINE(cuModuleGetFunction, module_function);
TRAMPOLINE(cuLibraryGetKernel, library_kernel);
TRAMPOLINE(cuKernelGetFunction, kernel_function);
TRAMPOLINE(cuModuleUnload, unload);
TRAMPOLINE(cuLibraryUnload, unload);
TRAMPOLINE(cuMemGetInfo_v2, memory_info);

#endif
