/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_GPU_CALLS_H
#define BPFPROF_BPF_GPU_CALLS_H

/*
 * The wire contract of what is hooked in libcuda and libnccl. Rules as in bpfprof.h. An argument
 * is given by its number in the function's prototype, from 1 on, integers and pointers only; 0 = the
 * function has no such argument.
 */

#include "bpfprof.h"

#define BPFPROF_GPU_MAX_FUNCTIONS 256
#define BPFPROF_GPU_MAX_FILES 256 /* libraries that are hooked at once */
#define BPFPROF_GPU_NAME_BYTES 1024 /* of a kernel's mangled name, with the NUL */
#define BPFPROF_GPU_MAX_OPEN 4 /* calls of one thread inside each other */
/* Handle and stream of calls past what one process may have keys of: its function alone is counted. */
#define BPFPROF_GPU_OTHER 0xffffffffffffffffULL
#define BPFPROF_GPU_FUNCTION_BITS 16 /* cookie of a probe: file << this | function */
#define BPFPROF_GPU_MAX_SITES                                                                      \
	1024 /* the same of a place inside of functions, instead of a function */
#define BPFPROF_GPU_BIG_BYTES (1U << 20) /* of those the stack is always sent */
#define BPFPROF_GPU_OF_ONE_PROCESS (1ULL << 63) /* in it, too: the probe is of one process alone */

enum bpfprof_gpu_kind {
	GPU_KIND_INVALID = 0,
	GPU_KIND_LAUNCH = 1, /* grid and block are the arguments 2 to 7 */
	/* Argument 1 points to a CUlaunchConfig; without `handle`, to one that has the kernel before it. */
	GPU_KIND_LAUNCH_CONFIG = 2,
	GPU_KIND_GRAPH = 3,
	GPU_KIND_COPY = 4,
	GPU_KIND_SET = 5,
	GPU_KIND_ALLOC = 6, /* of what the result points to; without `out`, what handle is */
	GPU_KIND_FREE = 7, /* handle: what is freed */
	GPU_KIND_SYNC = 8,
	GPU_KIND_COLLECTIVE = 9, /* handle: communicator; send and receive are such, too */
	GPU_KIND_GROUP_END = 10,
	GPU_KIND_COMM_INIT = 11, /* makes a communicator */
	GPU_KIND_COMM_END = 12, /* or ends it, or does with it what is no collective: handle */
	GPU_KIND_GC = 13, /* a garbage collection of Python begins; extra: generation */
	/* From here on they are not calls. */
	GPU_KIND_NAME = 14, /* look-up of a kernel's handle by its name */
	GPU_KIND_ALIAS = 15, /* of a kernel's handle by another handle */
	GPU_KIND_MEMORY_INFO = 16, /* cuMemGetInfo */
	GPU_KIND_WINDOW_BEGIN = 17, /* cuProfilerStart */
	GPU_KIND_WINDOW_END = 18, /* cuProfilerStop */
	/* These tell when what was handed to the device is done (gpu/waits.bpf.h). */
	GPU_KIND_EVENT_RECORD = 19,
	GPU_KIND_EVENT_QUERY = 20,
	GPU_KIND_STREAM_QUERY = 21,
	GPU_KIND_EVENT_END = 22,
	GPU_KIND_STREAM_END = 23,
	/* From here on a graph is made, or something is added to handle: nothing of it runs. */
	GPU_KIND_CAPTURE_BEGIN = 24,
	GPU_KIND_CAPTURE_END = 25,
	GPU_KIND_GROUP_START = 26,
	GPU_KIND_STREAM_WAIT = 27, /* stream goes on when the event, handle, is reached */
	GPU_KIND_GC_END = 28,
	/* What handle, a graph, has in it another one has, or `extra`, which can be launched. */
	GPU_KIND_GRAPH_COPY = 29,
	GPU_KIND_GRAPH_END = 30, /* of handle, such a one or a graph, nothing is known any more */
	GPU_KIND_GRAPH_CHANGE = 31, /* something is added to it that no capture tells */
	/* Memory by handle lives until nobody refers to it and it is mapped nowhere (gpu/call_table.h). */
	GPU_KIND_MEMORY_REF = 32, /* what the result points to is one reference more */
	GPU_KIND_MEMORY_MAP = 33, /* of handle, to where extra says */
	GPU_KIND_MEMORY_UNMAP = 34, /* of all that is mapped there */
	GPU_NR_KINDS,
};

#define BPFPROF_GPU_IS_CALL(kind) ((kind) < GPU_KIND_NAME)
#define BPFPROF_GPU_IS_LAUNCH(kind) /* of a kernel */                                              \
	((kind) == GPU_KIND_LAUNCH || (kind) == GPU_KIND_LAUNCH_CONFIG)

enum bpfprof_gpu_layer {
	GPU_LAYER_INVALID = 0,
	GPU_LAYER_DRIVER = 1,
	GPU_LAYER_NCCL = 2,
	GPU_LAYER_TORCH = 3, /* not functions: gpu/sites.bpf.h; arguments are a probe's */
	GPU_LAYER_PYTHON = 4, /* nor these */
	GPU_NR_LAYERS,
};

/* How the number of bytes is made of the arguments size[]. */
enum bpfprof_gpu_size {
	GPU_SIZE_NONE = 0,
	GPU_SIZE_PRODUCT = 1, /* scale * size[0] * size[1] (if there is one) */
	GPU_SIZE_COPY_2D = 2, /* size[0] points to a CUDA_MEMCPY2D */
	GPU_SIZE_COPY_3D = 3, /* or a CUDA_MEMCPY3D */
	GPU_SIZE_PITCH = 4, /* *size[0], known at the return, * size[1] */
	GPU_SIZE_ELEMENTS = 5, /* size[0] elements of the NCCL type size[1] */
	GPU_SIZE_BATCH = 6, /* the sum of size[1] numbers that size[0] points to */
	GPU_SIZE_BATCH_3D = 7, /* the same of CUDA_MEMCPY3D_BATCH_OPs */
};

#define BPFPROF_GPU_RETURNS 1U /* its return is hooked, too */
#define BPFPROF_GPU_BLOCKS 2U /* the time in it counts as blocked */

/* Element of the array map gpu_functions. Written by user space. */
struct bpfprof_gpu_function {
	__u8 kind; /* enum bpfprof_gpu_kind; 0: unused */
	__u8 layer; /* enum bpfprof_gpu_layer */
	__u8 flags; /* BPFPROF_GPU_RETURNS, ... */
	__u8 handle; /* kernel, graph, communicator, event, what is freed */
	__u8 stream;
	__u8 out; /* points to where the result lies after the return */
	__u8 size_rule; /* enum bpfprof_gpu_size */
	__u8 scale;
	__u8 size[2];
	__u8 name; /* NAME: the string */
	__u8 type; /* NCCL: datatype, */
	/* reduction, root or peer; COMM_INIT: rank; GC: generation; EVENT_RECORD: its flags;
	 * MEMORY_MAP, MEMORY_UNMAP: address */
	__u8 extra;
	__u8 count; /* COMM_INIT: size */
	__u8 per_thread; /* stream 0 is the thread's own */
	__u8 to_device; /* COPY: from host to device */
};

enum bpfprof_gpu_value_kind {
	GPU_VALUE_NONE = 0,
	GPU_VALUE_REGISTER = 1,
	GPU_VALUE_MEMORY = 2, /* at off from what is in the register */
	GPU_VALUE_CONSTANT = 3, /* off */
};

struct bpfprof_gpu_value {
	__u8 kind; /* enum bpfprof_gpu_value_kind */
	__u8 reg; /* as instructions number it */
	__u8 bytes; /* 4 or 8 */
	__u8 pad;
	__s32 off;
};

/* Element of the array map gpu_sites: a place inside of a function that tells something. */
struct bpfprof_gpu_site {
	__u32 function; /* what it is taken for */
	__u32 pad;
	struct bpfprof_gpu_value va; /* what is allocated or freed; GC: generation */
	struct bpfprof_gpu_value bytes;
};

/* Element of the array map gpu_files: what is known of one hooked library. */
struct bpfprof_gpu_file {
	__u32 comm_rank; /* offset of the rank in ncclComm, its size after it, its hash before; or 0 */
	__u32 everywhere; /* probes of all processes count, those of one alone do not; or 0 */
};

#define BPFPROF_KEY_WINDOW 1U /* with steps, counted in a window of the profiler */
#define BPFPROF_KEY_CAPTURED 2U /* written into a graph: nothing of it runs by this call */

/* What calls are counted by. */
struct bpfprof_gpu_key {
	__u64 start_ns; /* of the process */
	__u32 pid;
	__u16 function;
	__u16 flags; /* BPFPROF_KEY_* */
	/* of kernels and communicators; of graphs what is in them, 0: not known; else 0 */
	__u64 handle;
	__u64 stream;
	/* launches: grid, block; NCCL: datatype, extra; GC: generation; else 0 */
	__u32 dims[6];
};

/* Value of the map gpu_counts. */
struct bpfprof_gpu_count {
	__u64 calls;
	__u64 bytes;
	__u64 ns; /* in all of them, where the return is hooked */
	__u64 max_ns;
	__u64 errors; /* calls that returned anything but 0 */
	__u64 last_ns; /* when the last one began, CLOCK_MONOTONIC */
};

#define BPFPROF_CALL_ENTRY 1U /* the call has only begun: what it did is told by another record */
#define BPFPROF_CALL_NESTED 2U /* inside another call of its layer: not counted */
#define BPFPROF_CALL_STACK 4U /* its stack was sent when it began */
#define BPFPROF_CALL_TRACED 8U /* a GPU_TRACE tells its end */
#define BPFPROF_CALL_TRACE_ONLY 16U /* for which alone its return is hooked */
#define BPFPROF_CALL_UNRETURNED 32U /* it was left otherwise (longjmp), or has not returned yet */
#define BPFPROF_CALL_INSIDE 128U /* it is told from inside of a function, not where that begins */
#define BPFPROF_CALL_OUTSIDE 64U /* of the steps that are wanted: not counted */
#define BPFPROF_CALL_CAPTURED 256U /* as in the key's flags, also where nothing is counted */
#define BPFPROF_CALL_TO_DEVICE 512U /* a copy that is waited for: its time is no gap's */

/*
 * A GPU_CALL that is none: the key's kernel is another one from now on, and call.bytes is how many calls
 * with that key were counted until now. Without a function, at the end: 1, all keys have been told; 0, of which
 * kernel launches of the handle are cannot be told from now on.
 */
#define BPFPROF_CALL_REUSED 1024U

/* One call. Follows a sample with BPFPROF_SAMPLE_CALL, or stands in a GPU_CALL record. */
struct bpfprof_gpu_call {
	struct bpfprof_gpu_key key;
	__u64 begin_ns;
	__u64 ns; /* how long it took, 0 without a return or before it */
	__u64 bytes;
	/* ALLOC: what was allocated; FREE: what is freed; LAUNCH, GRAPH: ns the device device_idle before;
	 * MEMORY_REF: handle; MEMORY_MAP (of key.handle), MEMORY_UNMAP: address */
	__u64 va;
	__u64 idle_ns; /* and since when, as in struct bpfprof_gpu_waits; else 0 */
	__s32 result;
	__u32 flags; /* BPFPROF_CALL_* */
};

/* GPU_CALL: of an allocation, a free, what becomes of memory by handle, or of a call whose stack was sent when it began. */
struct bpfprof_gpu_event {
	struct bpfprof_record rec;
	struct bpfprof_task_id task;
	struct bpfprof_gpu_call call;
};

/* GPU_TRACE: a call that is over, with cfg.gpu_trace. */
struct bpfprof_gpu_trace {
	struct bpfprof_record rec;
	__u64 start_ns; /* of the process */
	__u32 pid;
	__u32 tid;
	__u64 begin_ns;
	__u64 ns;
	/* Kernel, content of a graph, communicator; memory or event where there is none of these. Where the function
	 * has an `out` and did not return, or failed, it means nothing. */
	__u64 handle;
	__u64 stream;
	__u64 bytes;
	__u32 function;
	__s32 result;
	__u32 dims[6]; /* as in the key; COMM_INIT: rank and size, as far as it was told them */
	__u32 flags; /* BPFPROF_CALL_* */
	__u32 pad;
	char comm[BPFPROF_COMM_LEN];
};

/* The handle was that of another kernel. What was counted of that follows in GPU_CALLs (CALL_REUSED). */
#define BPFPROF_NAME_REUSED 1U
/* BPF did not know the handle: if another name of it was told, what is counted of both is mixed. */
#define BPFPROF_NAME_UNSEEN 2U

/* GPU_NAME: handle is a kernel of that name, or of the same as other. */
struct bpfprof_gpu_name {
	struct bpfprof_record rec;
	struct bpfprof_task_id task;
	__u64 handle;
	__u64 other; /* 0: name holds */
	__u32 flags; /* BPFPROF_NAME_* */
	__u32 pad;
	char name[BPFPROF_GPU_NAME_BYTES];
};

/* Key and value of the map gpu_comms. */
struct bpfprof_gpu_comm_key {
	__u64 start_ns;
	__u64 comm;
	__u32 pid;
	__u32 pad;
};

struct bpfprof_gpu_comm {
	__u64 hash;
	__u32 rank; /* as far as known: else UINT32_MAX */
	__u32 size; /* 0 = not known */
	__u64 calls; /* since it was met */
	__u64 last_ns;
	__u32 last_function;
	__u32 device; /* and 1; 0 = not known */
};

/* Key and value of the map gpu_memory: what cuMemGetInfo told a process last. */
struct bpfprof_gpu_process_key {
	__u64 start_ns;
	__u32 pid;
	__u32 pad;
};

/* Value of the map gpu_processes. */
struct bpfprof_gpu_process {
	__u64 keys; /* in gpu_counts */
	__u64 kernels; /* in gpu_kernels */
};

#define BPFPROF_GPU_MAX_KERNELS 8192 /* handles of one process */

/*
 * Which calls count, element of the array map gpu_steps; start 0: all. Else those in the windows
 * [start, stop) of the profiler, counted from 1 in each process, and those of processes that are in a
 * step by the map gpu_stepping.
 */
struct bpfprof_gpu_steps {
	__u64 start, stop;
};

/* Bits of a value of the map gpu_stepping, by process. */
#define BPFPROF_STEPPING_IN_STEP 1U /* its calls count */
#define BPFPROF_STEPPING_WINDOWS 2U /* its windows are told */

/* Value of the map gpu_windows, by process. */
struct bpfprof_gpu_window {
	__u64 begun; /* windows */
	__u32 open; /* the last one has not ended */
	__u32 pad;
};

/* WINDOW: a program begins a window of the profiler, or ends it. */
struct bpfprof_window_event {
	struct bpfprof_record rec;
	struct bpfprof_task_id task;
	__u32 begins;
	__u32 number; /* of the window, from 1; 0: they are not counted */
};

struct bpfprof_gpu_memory {
	__u64 free_bytes;
	__u64 total_bytes;
	__u64 ts_ns;
};

/* A call that has not returned. */
struct bpfprof_gpu_open {
	struct bpfprof_gpu_key key;
	__u64 begin_ns;
	__u64 sp; /* where its return address lies, */
	__u64 ret; /* which this was before it was hooked */
	__u64 bytes;
	__u64 out; /* argument that points to the result, or 0; MEMORY_MAP: address */
	/* NAME: address of the string; PITCH: height; SYNC, EVENT_QUERY, ...: event; ALLOC, MEMORY_MAP:
	 * handle; GRAPH_COPY: graph */
	__u64 name;
	__u32 flags; /* BPFPROF_CALL_* */
	__u32 file;
};

/* Value of the map gpu_threads; key __u32 tid. Written by its thread; user space deletes it. */
struct bpfprof_gpu_thread {
	__u64 start_ns; /* of the process */
	__u64 last_ns;
	__u64 refill_ns; /* when tokens were counted */
	__u32 pid;
	__u32 tokens; /* stacks that it may send */
	__u32 depth; /* elements of open */
	__u32 over; /* calls deeper than that, which are not followed */
	__u32 wait_tokens; /* the same of calls whose return is hooked: launches must not use them up */
	__u32 waits; /* of its process: index in gpu_waits and 1; 0 = not known */
	char comm[BPFPROF_COMM_LEN];
	struct bpfprof_gpu_call call; /* whose stack is being sent */
	struct bpfprof_gpu_open open[BPFPROF_GPU_MAX_OPEN];
	__u32 groups; /* ncclGroupStart inside each other */
	__u32 grouped; /* collectives in them, also those that were not told */
	/* As tokens, of what is told from inside of functions: far more often than anything else. */
	__u32 alloc_tokens, free_tokens, gc_tokens;
	__u32 pad;
};

#define BPFPROF_GPU_MAX_WAITS 128 /* processes */
#define BPFPROF_GPU_MAX_STREAMS 32 /* of one, with work that is not known to be done; 2^n */
#define BPFPROF_GPU_MAX_EVENTS 4096 /* of one, that were recorded behind such work */

#define BPFPROF_GPU_MAX_AFTER 4 /* other streams' work that one waits for; 2^n */

/* What is put on a stream after wait_ns runs when another stream's work until until_ns is done. */
struct bpfprof_gpu_after {
	__u64 stream; /* the other one */
	__u64 until_ns;
	__u64 wait_ns; /* 0: not in use */
	__u64 before_ns; /* when something had been put on the stream itself last */
};

/* Work on a stream. All of it from before a time is done, or nothing is known of it. */
struct bpfprof_gpu_stream {
	__u64 stream; /* default ones: 0, and tid << 32 | 2 */
	__u64 work_ns; /* when something was put on it last; 0: not in use */
	__u64 collective_ns; /* the same of collectives, 0: none */
	__u64 done_ns; /* what was put on it until then is done */
	__u64 running_ns; /* and then not yet all of it was */
	struct bpfprof_gpu_after after[BPFPROF_GPU_MAX_AFTER];
};

#define BPFPROF_GPU_MAX_CAPTURES 32 /* streams of one process that are captured at a time */

/* What is put on a stream is written into a graph, as that of origin, which had been begun with. */
struct bpfprof_gpu_capture {
	__u64 stream; /* 0: not in use */
	__u64 origin;
	__u64 nodes; /* sum of their hashes, */
	__u32 nr; /* and how many they are */
	__u32 number; /* of the capture, in its process */
	__u32 lost; /* nodes that were not seen, or more than one at a time */
	__u32 pad;
};

#define BPFPROF_GPU_MAX_GRAPHS 8192 /* of one process, and what is instantiated of them */

/*
 * Key of the map gpu_graphs: a graph, or what can be launched of one. Its value, __u64, is what is in it:
 * the same for all that have the same in them. The same key of gpu_kernels: a kernel.
 */
struct bpfprof_gpu_graph_key {
	__u64 start_ns;
	__u64 handle;
	__u32 pid;
	__u32 pad;
};

enum bpfprof_gpu_graph_kind {
	GPU_GRAPH_INVALID = 0,
	GPU_GRAPH_NODE = 1, /* was captured */
	GPU_GRAPH_MADE = 2, /* no more of them come */
	GPU_GRAPH_DROPPED = 3, /* nothing comes of that capture */
};

/* GPU_GRAPH: what is captured, and what comes of it. */
struct bpfprof_gpu_graph_event {
	struct bpfprof_record rec;
	__u64 start_ns; /* of the process */
	__u32 pid;
	__u32 number; /* of the capture */
	__u32 kind; /* enum bpfprof_gpu_graph_kind */
	__u32 function; /* NODE */
	/* NODE: kernel, content of a graph, or 0; MADE: content, as gpu_graphs and launches' keys have it */
	__u64 handle;
	__u32 nodes; /* MADE: that were told, or should have been; */
	__u32 lost; /* and others, or none: 0 */
};

/* Element of the array map gpu_waits: what a process waits for. User space frees it. */
struct bpfprof_gpu_waits {
	__u64 start_ns; /* of the process; 0: not in use */
	__u32 pid;
	__u32 events; /* in gpu_events */
	__u64 work_ns; /* when anything was put on a stream last */
	__u64 lost_ns; /* the same of a stream that there was no room for */
	__u64 all_done_ns; /* what was put on any stream until then is done */
	__u64 idle_ns; /* since when all that was put on any stream is done; 0: it is not */
	__u64 span_ns; /* since when something that was launched may be left undone; 0: nothing is */
	__u64 idle_copy_ns; /* in synchronous copies to the device since then */
	__u64 device_idle_ns; /* so far, in all gaps that are over, without the copies in them */
	__u64 device_idle_copy_ns; /* the copies in them */
	__u64 device_idle_max_ns;
	__u64 gaps;
	__u64 spans, spans_ns, /* those from span_ns on that are over: how many, all, */
		span_max_ns; /* the longest */
	__u32 capturing; /* streams of captures[] that are in use */
	__u32 device; /* as in a communicator: of the first one, */
	__u32 devices; /* and whether there was another */
	__u32 follows; /* some stream waits for another one */
	__u32 numbers; /* of captures, so far */
	__u32 graphs; /* in gpu_graphs */
	__u32 idle_tid; /* the thread that is likely to launch next: it waited for what was done, */
	__u32 launch_tid; /* or else launched after the gap before */
	struct bpfprof_gpu_capture captures[BPFPROF_GPU_MAX_CAPTURES];
	struct bpfprof_gpu_stream streams[BPFPROF_GPU_MAX_STREAMS];
};

/* Key and value of the map gpu_events: recorded behind work that is not known to be done. */
struct bpfprof_gpu_event_key {
	__u64 start_ns;
	__u64 event;
	__u32 pid;
	__u32 pad;
};

struct bpfprof_gpu_recorded {
	__u64 stream;
	__u64 ts_ns; /* 0: while the stream was captured */
	__u64 running_ns; /* when it was said not to be reached yet; 0: never asked */
};

enum bpfprof_gpu_wait_kind {
	GPU_WAIT_INVALID = 0,
	GPU_WAIT_COLLECTIVE = 1, /* call was put on stream, or will be at its group's end */
	GPU_WAIT_GROUP_END = 2, /* those of the thread's group were; or not, by the call's result */
	GPU_WAIT_DONE = 3, /* what was put on stream until until_ns is done */
	GPU_WAIT_ALL_DONE = 4, /* the same of all streams of the process */
	GPU_WAIT_STREAM_END = 5, /* the stream is no more; what was on it will not be told */
};

#define BPFPROF_WAIT_GROUPED 1ULL
#define BPFPROF_WAIT_CAPTURED 2ULL /* a graph is being made: it may not run at all */

/* GPU_WAIT: of collectives and of what proves them complete. */
struct bpfprof_gpu_wait {
	struct bpfprof_record rec;
	struct bpfprof_task_id task;
	__u32 kind; /* enum bpfprof_gpu_wait_kind */
	__u32 flags; /* BPFPROF_WAIT_* */
	__u64 stream;
	__u64 until_ns;
	__u64 running_ns; /* until then something of it was not; 0: not known */
	__u64 now_ns;
	struct bpfprof_gpu_call call;
};

enum bpfprof_gpu_counter { /* map gpu_counters, one __u64 each, added atomically */
			   GPU_COUNT_INVALID = 0,
			   GPU_COUNT_CALLS = 1, /* program runs at an entry */
			   GPU_COUNT_FILTERED = 2, /* of processes that were not asked for */
			   GPU_COUNT_KEYS_FULL =
				   3, /* calls that the map of counts had no room for */
			   GPU_COUNT_THREADS_FULL =
				   4, /* calls not followed: no room for the thread */
			   GPU_COUNT_TOO_DEEP =
				   5, /* calls not followed: too many inside each other */
			   GPU_COUNT_RETURN_UNKNOWN =
				   6, /* returns of calls that were not seen to begin */
			   GPU_COUNT_NO_TOKEN = 7, /* calls without a stack: over the rate */
			   GPU_COUNT_SCRATCH_BUSY = 8, /* the same: the scratch was in use */
			   GPU_COUNT_EVENTS_LOST = 9, /* ring buffer full */
			   GPU_COUNT_NAMES_LOST = 10, /* kernel names: ring buffer full */
			   GPU_COUNT_ARGUMENT_FAULT = 11, /* arguments that point nowhere */
			   GPU_COUNT_COMMS_FULL = 12, /* communicators without room */
			   GPU_COUNT_NESTED = 13, /* calls inside another one of their layer */
			   GPU_COUNT_TRACE_LOST = 14, /* GPU_TRACE: ring buffer full */
			   GPU_COUNT_OTHER = 15, /* calls counted by process and function alone */
			   GPU_COUNT_WAITS_FULL = 16, /* processes without room in gpu_waits */
			   GPU_COUNT_STREAMS_FULL = 17, /* streams without room in it */
			   GPU_COUNT_EVENTS_FULL = 18, /* CUDA events without room */
			   GPU_COUNT_WAITS_LOST = 19, /* GPU_WAIT: ring buffer full */
			   GPU_COUNT_AFTER_FULL = 20, /* cuStreamWaitEvent: forgotten */
			   GPU_COUNT_LEFT =
				   21, /* calls that were left otherwise than by their return */
			   GPU_COUNT_BATCH_CUT =
				   22, /* batches of copies: too long, or of arrays, for all their bytes */
			   GPU_COUNT_CAPTURES_FULL =
				   23, /* captured streams that are taken for others */
			   GPU_COUNT_GRAPHS_FULL = 24, /* graphs that there is no room for */
			   GPU_COUNT_NODES_LOST = 25, /* GPU_GRAPH: ring buffer full */
			   GPU_COUNT_KERNELS_FULL = 26, /* kernels' handles without room */
			   GPU_NR_COUNTERS = 27,
};

_Static_assert(sizeof(struct bpfprof_gpu_function) == 16, "wire");
_Static_assert(sizeof(struct bpfprof_gpu_key) == 56, "wire");
_Static_assert(sizeof(struct bpfprof_gpu_site) == 24, "wire");
_Static_assert(sizeof(struct bpfprof_gpu_count) == 48, "wire");
_Static_assert(sizeof(struct bpfprof_gpu_call) == BPFPROF_CALL_BYTES, "wire");
_Static_assert(sizeof(struct bpfprof_gpu_open) == 112, "wire");
_Static_assert(sizeof(struct bpfprof_gpu_trace) == 136, "wire");
_Static_assert(sizeof(struct bpfprof_gpu_thread) == 168 + 4 * 112 + 24, "wire");
_Static_assert(sizeof(struct bpfprof_gpu_waits) ==
		       152 + 40 * BPFPROF_GPU_MAX_CAPTURES +
			       BPFPROF_GPU_MAX_STREAMS * (40 + 32 * BPFPROF_GPU_MAX_AFTER),
	       "wire");
_Static_assert(sizeof(struct bpfprof_gpu_event_key) == 24, "wire");
_Static_assert(sizeof(struct bpfprof_gpu_graph_key) == 24, "wire");
_Static_assert(sizeof(struct bpfprof_gpu_name) % 8 == 0 &&
		       __builtin_offsetof(struct bpfprof_gpu_name, name) % 8 == 0,
	       "it is hashed by 8 bytes");
_Static_assert(sizeof(struct bpfprof_gpu_graph_event) == 64, "wire");

#endif
