/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_GPU_CALLS_H
#define BPFPROF_BPF_GPU_CALLS_H

/*
 * The wire contract of hooked calls of libcuda and libnccl; the rules of bpfprof.h apply. An
 * argument has its number in the prototype of the function, from 1 on, among integers and pointers
 * only; 0 = the function has no such argument.
 */

#include "bpfprof.h"

#define BPFPROF_GPU_MAX_FUNCTIONS 256
#define BPFPROF_GPU_MAX_FILES 256 /* libraries hooked at a time */
#define BPFPROF_GPU_NAME_BYTES 1024 /* mangled name of a kernel, with the NUL */
#define BPFPROF_GPU_MAX_OPEN 4 /* nested calls of one thread */
/*
 * Handle and stream of a key for all further handles of a process that has used up its keys: such
 * calls count by function alone.
 */
#define BPFPROF_GPU_OTHER 0xffffffffffffffffULL
#define BPFPROF_GPU_FUNCTION_BITS 16 /* cookie of a probe: use << 32 | file << this | function */
#define BPFPROF_GPU_MAX_SITES 1024 /* in a cookie, a function number from here on is a site */
#define BPFPROF_GPU_BIG_BYTES (1U << 20) /* allocations this large always send a stack */
/* Bit of a cookie: the probe belongs to one process. */
#define BPFPROF_GPU_OF_ONE_PROCESS (1ULL << 63)

enum bpfprof_gpu_kind {
	GPU_KIND_INVALID = 0,
	GPU_KIND_LAUNCH = 1, /* grid and block are the arguments 2 to 7 */
	/*
	 * Argument 1 points to a CUlaunchConfig; if `handle` is 0, the kernel is a member of the
	 * struct before it.
	 */
	GPU_KIND_LAUNCH_CONFIG = 2,
	GPU_KIND_GRAPH = 3,
	GPU_KIND_COPY = 4,
	GPU_KIND_SET = 5,
	GPU_KIND_ALLOC = 6, /* the result is the address; if `out` is 0, the address is handle */
	GPU_KIND_FREE = 7, /* handle: the freed address */
	GPU_KIND_SYNC = 8,
	GPU_KIND_COLLECTIVE = 9, /* also send and receive; handle: communicator */
	GPU_KIND_GROUP_END = 10,
	GPU_KIND_COMM_INIT = 11, /* makes a communicator */
	/* Ends a communicator, or uses it without a collective; handle: communicator. */
	GPU_KIND_COMM_END = 12,
	GPU_KIND_GC = 13, /* garbage collection of Python begins; extra: generation */
	/* The kinds from here on are no counted calls. */
	GPU_KIND_NAME = 14, /* gets the handle of a kernel by its name */
	GPU_KIND_ALIAS = 15, /* gets another handle of a kernel */
	GPU_KIND_MEMORY_INFO = 16, /* cuMemGetInfo */
	GPU_KIND_WINDOW_BEGIN = 17, /* cuProfilerStart */
	GPU_KIND_WINDOW_END = 18, /* cuProfilerStop */
	/* These reveal when the device has completed its work (gpu/waits.bpf.h). */
	GPU_KIND_EVENT_RECORD = 19,
	GPU_KIND_EVENT_QUERY = 20,
	GPU_KIND_STREAM_QUERY = 21,
	GPU_KIND_EVENT_END = 22,
	GPU_KIND_STREAM_END = 23,
	/* The kinds from here on make a graph or add to it (handle); they run nothing. */
	GPU_KIND_CAPTURE_BEGIN = 24,
	GPU_KIND_CAPTURE_END = 25,
	GPU_KIND_GROUP_START = 26,
	GPU_KIND_STREAM_WAIT = 27, /* the stream waits for an event (handle) */
	GPU_KIND_GC_END = 28,
	/* Copies or instantiates a graph (handle) into another handle (`out` or `extra`). */
	GPU_KIND_GRAPH_COPY = 29,
	GPU_KIND_GRAPH_END = 30, /* the graph or its instance (handle) ends */
	GPU_KIND_GRAPH_CHANGE = 31, /* adds a node to a graph without a capture */
	/*
	 * Memory by handle lives as long as a reference or a mapping of it exists
	 * (gpu/call_table.h).
	 */
	GPU_KIND_MEMORY_REF = 32, /* the result is one more reference */
	GPU_KIND_MEMORY_MAP = 33, /* maps the memory (handle) at the address `extra` */
	GPU_KIND_MEMORY_UNMAP = 34, /* unmaps all memory at the address */
	GPU_NR_KINDS,
};

#define BPFPROF_GPU_IS_CALL(kind) ((kind) < GPU_KIND_NAME)
#define BPFPROF_GPU_IS_LAUNCH(kind) /* kinds that launch a kernel */                               \
	((kind) == GPU_KIND_LAUNCH || (kind) == GPU_KIND_LAUNCH_CONFIG)

enum bpfprof_gpu_layer {
	GPU_LAYER_INVALID = 0,
	GPU_LAYER_DRIVER = 1,
	GPU_LAYER_NCCL = 2,
	/* Sites, not functions (gpu/sites.bpf.h); the probe defines the arguments. */
	GPU_LAYER_TORCH = 3,
	GPU_LAYER_PYTHON = 4, /* sites, too */
	GPU_NR_LAYERS,
};

/* How to compute the number of bytes from the arguments size[]. */
enum bpfprof_gpu_size {
	GPU_SIZE_NONE = 0,
	GPU_SIZE_PRODUCT = 1, /* scale * size[0] * size[1] (if there is a second one) */
	GPU_SIZE_COPY_2D = 2, /* size[0] points to a CUDA_MEMCPY2D */
	GPU_SIZE_COPY_3D = 3, /* size[0] points to a CUDA_MEMCPY3D */
	GPU_SIZE_PITCH = 4, /* *size[0], valid at the return, * size[1] */
	GPU_SIZE_ELEMENTS = 5, /* size[0] elements of the NCCL type size[1] */
	GPU_SIZE_BATCH = 6, /* sum of the size[1] numbers at size[0] */
	GPU_SIZE_BATCH_3D = 7, /* the same for CUDA_MEMCPY3D_BATCH_OPs */
};

#define BPFPROF_GPU_RETURNS 1U /* the return is hooked, too */
#define BPFPROF_GPU_BLOCKS 2U /* the time in the call counts as blocked */

/* Element of the array map gpu_functions. Written by user space. */
struct bpfprof_gpu_function {
	__u8 kind; /* enum bpfprof_gpu_kind; 0: unused */
	__u8 layer; /* enum bpfprof_gpu_layer */
	__u8 flags; /* BPFPROF_GPU_RETURNS, ... */
	__u8 handle; /* kernel, graph, communicator, event, or the freed address */
	__u8 stream;
	__u8 out; /* pointer to the result, valid after the return */
	__u8 size_rule; /* enum bpfprof_gpu_size */
	__u8 scale;
	__u8 size[2];
	__u8 name; /* NAME: the string */
	__u8 type; /* NCCL: datatype */
	/*
	 * Reduction, root or peer; COMM_INIT: rank; GC: generation; EVENT_RECORD: flags;
	 * MEMORY_MAP, MEMORY_UNMAP: address; ALLOC: of a site the device, else CUmemAllocationProp.
	 */
	__u8 extra;
	__u8 count; /* COMM_INIT: size */
	__u8 per_thread; /* stream 0 is a stream of the thread */
	__u8 to_device; /* COPY: from host to device */
};

enum bpfprof_gpu_value_kind {
	GPU_VALUE_NONE = 0,
	GPU_VALUE_REGISTER = 1,
	GPU_VALUE_MEMORY = 2, /* memory at register + off */
	GPU_VALUE_CONSTANT = 3, /* the value is off */
};

struct bpfprof_gpu_value {
	__u8 kind; /* enum bpfprof_gpu_value_kind */
	__u8 reg; /* number of the register in instructions */
	__u8 bytes; /* 4 or 8; the device: 1, too */
	__u8 pad;
	__s32 off;
};

/* Element of the array map gpu_sites: a place inside a function where a probe reads values. */
struct bpfprof_gpu_site {
	__u32 function; /* the function that the call counts as */
	__u32 pad;
	struct bpfprof_gpu_value va; /* the allocated or freed address; GC: generation */
	struct bpfprof_gpu_value bytes;
	struct bpfprof_gpu_value stream;
	struct bpfprof_gpu_value device;
};

/* Element of the array map gpu_files: facts about one hooked library. */
struct bpfprof_gpu_file {
	/* Offset of the rank in ncclComm (the size follows, the hash precedes it), or 0. */
	__u32 comm_rank;
	__u32 everywhere; /* 1: only probes of all processes count; 0: only probes of one process */
	/* Only probes with this number in the cookie count: those of an earlier file may still exist. 0: no file. */
	__u32 use;
	__u32 pad;
};

#define BPFPROF_KEY_WINDOW 1U /* with steps: counted inside a window of the profiler */
#define BPFPROF_KEY_CAPTURED 2U /* the call was captured into a graph and ran nothing */

/* Key of the map gpu_counts. */
struct bpfprof_gpu_key {
	__u64 start_ns; /* of the process */
	__u32 pid;
	__u16 function;
	__u16 flags; /* BPFPROF_KEY_* */
	/* The handle of a kernel or communicator; the hash of a graph's content; 0: none or not known. */
	__u64 handle;
	__u64 stream;
	/* Launches: grid, block; NCCL: datatype, extra; GC: generation; else 0. */
	__u32 dims[6];
};

/* Value of the map gpu_counts. */
struct bpfprof_gpu_count {
	__u64 calls;
	__u64 bytes;
	__u64 ns; /* time in these calls, if the return is hooked */
	__u64 max_ns;
	__u64 errors; /* calls that did not return 0 */
	__u64 last_ns; /* when the last call began, CLOCK_MONOTONIC */
};

#define BPFPROF_CALL_ENTRY 1U /* the call begins; another record reports its effect */
#define BPFPROF_CALL_NESTED 2U /* inside another call of its layer: not counted */
#define BPFPROF_CALL_STACK 4U /* its stack was sent when it began */
#define BPFPROF_CALL_TRACED 8U /* a GPU_TRACE record reports its end */
#define BPFPROF_CALL_TRACE_ONLY 16U /* its return is hooked only for the trace */
/* It ended without a return (longjmp), or has not returned yet. */
#define BPFPROF_CALL_UNRETURNED 32U
#define BPFPROF_CALL_INSIDE 128U /* from a site inside a function, not from an entry */
#define BPFPROF_CALL_OUTSIDE 64U /* outside of the wanted steps: not counted */
#define BPFPROF_CALL_CAPTURED 256U /* as KEY_CAPTURED, also where nothing is counted */
/* A synchronous copy to the device: its time belongs to no gap. */
#define BPFPROF_CALL_TO_DEVICE 512U

/*
 * Such a GPU_CALL is no call: from now on another kernel has the handle of the key, and call.bytes
 * is the number of calls counted for the key so far. The last one has no function; call.bytes is
 * then 1 if all keys were sent, and 0 if the kernels of this handle cannot be distinguished any more.
 */
#define BPFPROF_CALL_REUSED 1024U

/* ALLOC: a bit field in the flags, the number of the device + 1; 0: not known. */
#define BPFPROF_CALL_DEVICE_SHIFT 16
#define BPFPROF_CALL_DEVICE_MAX 0xff
#define BPFPROF_CALL_DEVICE(flags) ((flags) >> BPFPROF_CALL_DEVICE_SHIFT & BPFPROF_CALL_DEVICE_MAX)

/* One call: it follows a sample with BPFPROF_SAMPLE_CALL, or is part of a GPU_CALL record. */
struct bpfprof_gpu_call {
	struct bpfprof_gpu_key key;
	__u64 begin_ns;
	__u64 ns; /* duration; 0 without a return or before it */
	__u64 bytes;
	/*
	 * ALLOC, FREE: the address; LAUNCH, GRAPH: ns that the device was idle before; MEMORY_REF:
	 * handle; MEMORY_MAP (of key.handle), MEMORY_UNMAP: address.
	 */
	__u64 va;
	union {
		/* LAUNCH, GRAPH: when the idle time began (struct bpfprof_gpu_waits); else 0. */
		__u64 idle_ns;
		/* ALLOC of a site: the stream, by which sites do not count (key.stream). */
		__u64 site_stream;
	};
	__s32 result;
	__u32 flags; /* BPFPROF_CALL_* */
};

/*
 * GPU_CALL: an allocation, a free, a change of memory by handle, or the end of a call that sent its
 * stack at its begin.
 */
struct bpfprof_gpu_event {
	struct bpfprof_record rec;
	struct bpfprof_task_id task;
	struct bpfprof_gpu_call call;
};

/* GPU_TRACE: a call that has ended, with cfg.gpu_trace. */
struct bpfprof_gpu_trace {
	struct bpfprof_record rec;
	__u64 start_ns; /* of the process */
	__u32 pid;
	__u32 tid;
	__u64 begin_ns;
	__u64 ns;
	/*
	 * Kernel, content of a graph, or communicator; else memory or event. Invalid if the
	 * function has an `out` and did not return or failed.
	 */
	__u64 handle;
	__u64 stream;
	__u64 bytes;
	__u32 function;
	__s32 result;
	__u32 dims[6]; /* as in the key; COMM_INIT: rank and size, if the arguments have them */
	__u32 flags; /* BPFPROF_CALL_* */
	__u32 pad;
	char comm[BPFPROF_COMM_LEN];
};

/*
 * The handle belonged to another kernel before. GPU_CALLs with CALL_REUSED follow, with its counts.
 */
#define BPFPROF_NAME_REUSED 1U
/*
 * BPF did not know the handle. If user space knows another name of it, its counts mix both kernels.
 */
#define BPFPROF_NAME_UNSEEN 2U

/* GPU_NAME: handle is a kernel with this name, or the same kernel as other. */
struct bpfprof_gpu_name {
	struct bpfprof_record rec;
	struct bpfprof_task_id task;
	__u64 handle;
	__u64 other; /* 0: name is valid */
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
	__u32 rank; /* UINT32_MAX = not known */
	__u32 size; /* 0 = not known */
	__u64 calls; /* calls so far */
	__u64 last_ns;
	__u32 last_function;
	__u32 device; /* number of the device plus 1; 0 = not known */
};

/* Key and value of the map gpu_memory: the last result of cuMemGetInfo in a process. */
struct bpfprof_gpu_process_key {
	__u64 start_ns;
	__u32 pid;
	__u32 pad;
};

/* Value of the map gpu_processes. */
struct bpfprof_gpu_process {
	__u64 keys; /* elements in gpu_counts */
	__u64 kernels; /* elements in gpu_kernels */
};

#define BPFPROF_GPU_MAX_KERNELS 8192 /* handles per process */

/*
 * Element of the array map gpu_steps: the calls that count. start 0: all. Otherwise those in the
 * windows [start, stop) of the profiler, counted from 1 in each process, and those of processes
 * that the map gpu_stepping has in a step.
 */
struct bpfprof_gpu_steps {
	__u64 start, stop;
};

/* Bits of a value of the map gpu_stepping, by process. */
#define BPFPROF_STEPPING_IN_STEP 1U /* the calls of the process count */
#define BPFPROF_STEPPING_WINDOWS 2U /* the process sends WINDOW events */

/* Value of the map gpu_windows, by process. */
struct bpfprof_gpu_window {
	__u64 begun; /* windows so far */
	__u32 open; /* 1: the last window has not ended */
	__u32 pad;
};

/* WINDOW: a program begins or ends a window of the profiler. */
struct bpfprof_window_event {
	struct bpfprof_record rec;
	struct bpfprof_task_id task;
	__u32 begins;
	__u32 number; /* of the window, from 1; 0: windows are not counted */
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
	__u64 sp; /* where its return address lies */
	__u64 ret; /* the return address before the hook replaced it */
	__u64 bytes;
	__u64 out; /* pointer to the result, or 0; MEMORY_MAP: address */
	/*
	 * NAME: address of the string; PITCH: height; SYNC, EVENT_QUERY, ...: event; ALLOC,
	 * MEMORY_MAP: handle; GRAPH_COPY: graph.
	 */
	__u64 name;
	__u32 flags; /* BPFPROF_CALL_* */
	__u32 file;
};

/*
 * Value of the map gpu_threads; key __u32 tid. The thread itself writes it; user space deletes it.
 */
struct bpfprof_gpu_thread {
	__u64 start_ns; /* of the process */
	__u64 last_ns;
	__u64 refill_ns; /* last time that tokens were added */
	__u32 pid;
	__u32 tokens; /* stacks that it may send */
	__u32 depth; /* elements of open in use */
	__u32 over; /* open calls beyond those; they are not followed */
	__u32 wait_tokens; /* tokens for calls with a hooked return; launches cannot use them up */
	__u32 waits; /* index of its process in gpu_waits plus 1; 0 = not known */
	char comm[BPFPROF_COMM_LEN];
	struct bpfprof_gpu_call call; /* the call whose stack is being sent */
	struct bpfprof_gpu_open open[BPFPROF_GPU_MAX_OPEN];
	__u32 groups; /* nesting of ncclGroupStart */
	__u32 grouped; /* collectives in these groups, sent or not */
	/* Tokens for sites inside functions, which run far more often than all calls. */
	__u32 alloc_tokens, free_tokens, gc_tokens;
	__u32 pad;
};

#define BPFPROF_GPU_MAX_WAITS 128 /* processes */
/* A process may have this many streams with unfinished work; a power of two. */
#define BPFPROF_GPU_MAX_STREAMS 32
#define BPFPROF_GPU_MAX_EVENTS 4096 /* events of one process, recorded behind such work */

#define BPFPROF_GPU_MAX_AFTER 4 /* other streams that a stream waits for; a power of two */

/* Work put on a stream after wait_ns runs only after the work of another stream until until_ns. */
struct bpfprof_gpu_after {
	__u64 stream; /* the other stream */
	__u64 until_ns;
	__u64 wait_ns; /* 0: unused */
	__u64 before_ns; /* when the stream itself last got work before */
};

/* Work on a stream. The device has completed all work put on it before a known time. */
struct bpfprof_gpu_stream {
	__u64 stream; /* default streams: 0, or tid << 32 | 2 */
	__u64 work_ns; /* when the stream last got work; 0: unused */
	__u64 collective_ns; /* when it last got a collective, 0: never */
	__u64 done_ns; /* work put on it until then is done */
	__u64 running_ns; /* at this time some of it was still running */
	struct bpfprof_gpu_after after[BPFPROF_GPU_MAX_AFTER];
};

#define BPFPROF_GPU_MAX_CAPTURES 32 /* streams of a process captured at a time */

/*
 * A stream that is being captured: its work goes into a graph, together with the stream origin,
 * where the capture began.
 */
struct bpfprof_gpu_capture {
	__u64 stream; /* 0: unused */
	__u64 origin;
	__u64 nodes; /* sum of the hashes of the nodes */
	__u32 nr; /* number of nodes */
	__u32 number; /* number of the capture in its process */
	__u32 lost; /* nodes that BPF missed, or got several at once */
	__u32 pad;
};

#define BPFPROF_GPU_MAX_GRAPHS 8192 /* graphs of a process and their instances */

/*
 * Key of the map gpu_graphs: a graph or its executable instance. Its value, __u64, is a hash of the
 * content: equal contents have equal values. In the map gpu_kernels this key names a kernel.
 */
struct bpfprof_gpu_graph_key {
	__u64 start_ns;
	__u64 handle;
	__u32 pid;
	__u32 pad;
};

enum bpfprof_gpu_graph_kind {
	GPU_GRAPH_INVALID = 0,
	GPU_GRAPH_NODE = 1, /* a captured node */
	GPU_GRAPH_MADE = 2, /* the graph is complete: no more nodes come */
	GPU_GRAPH_DROPPED = 3, /* the capture has failed */
};

/* GPU_GRAPH: nodes of a capture, and its result. */
struct bpfprof_gpu_graph_event {
	struct bpfprof_record rec;
	__u64 start_ns; /* of the process */
	__u32 pid;
	__u32 number; /* of the capture */
	__u32 kind; /* enum bpfprof_gpu_graph_kind */
	__u32 function; /* NODE */
	/*
	 * NODE: kernel, content of a graph, or 0; MADE: content, as in gpu_graphs and in keys of
	 * launches.
	 */
	__u64 handle;
	__u32 nodes; /* MADE: nodes that BPF has seen; each has a NODE record, unless it was lost */
	__u32 lost; /* MADE: nodes that BPF has missed */
};

/*
 * Element of the array map gpu_waits: the streams of a process and their progress. User space frees
 * it.
 */
struct bpfprof_gpu_waits {
	__u64 start_ns; /* of the process; 0: unused */
	__u32 pid;
	__u32 events; /* elements in gpu_events */
	__u64 work_ns; /* when any stream last got work */
	__u64 lost_ns; /* when a stream without room here last got work */
	__u64 all_done_ns; /* work put on any stream until then is done */
	__u64 idle_ns; /* when the device completed all work; 0: it has work */
	__u64 span_ns; /* when the oldest launch that may be unfinished was made; 0: none is */
	__u64 idle_copy_ns; /* time in synchronous copies to the device since idle_ns */
	__u64 device_idle_ns; /* time of all gaps that have ended, without the copies in them */
	__u64 device_idle_copy_ns; /* time of the copies in these gaps */
	__u64 device_idle_max_ns;
	__u64 gaps;
	__u64 spans; /* spans from span_ns on that have ended */
	__u64 spans_ns; /* time of all of them */
	__u64 span_max_ns; /* the longest one */
	__u32 capturing; /* elements of captures[] in use */
	__u32 device; /* as in a communicator: the first one */
	__u32 devices; /* 1: the process uses another one, too */
	__u32 follows; /* 1: some stream waits for another one */
	__u32 numbers; /* captures so far */
	__u32 graphs; /* elements in gpu_graphs */
	/* The thread that is likely to launch next: it waited for the completed work. */
	__u32 idle_tid;
	__u32 launch_tid; /* if that is 0: the thread that launched after the previous gap */
	struct bpfprof_gpu_capture captures[BPFPROF_GPU_MAX_CAPTURES];
	struct bpfprof_gpu_stream streams[BPFPROF_GPU_MAX_STREAMS];
};

/* Key and value of the map gpu_events: events recorded behind work that may be unfinished. */
struct bpfprof_gpu_event_key {
	__u64 start_ns;
	__u64 event;
	__u32 pid;
	__u32 pad;
};

struct bpfprof_gpu_recorded {
	__u64 stream;
	__u64 ts_ns; /* 0: recorded while the stream was captured */
	__u64 running_ns; /* last time that a query found it unreached; 0: never */
};

enum bpfprof_gpu_wait_kind {
	GPU_WAIT_INVALID = 0,
	/* A collective was put on the stream, or will be at the end of its group. */
	GPU_WAIT_COLLECTIVE = 1,
	/* The group of the thread has started its collectives, or failed (result of the call). */
	GPU_WAIT_GROUP_END = 2,
	GPU_WAIT_DONE = 3, /* work put on the stream until until_ns is done */
	GPU_WAIT_ALL_DONE = 4, /* work put on all streams of the process until until_ns is done */
	GPU_WAIT_STREAM_END = 5, /* the stream was destroyed; no record reports its work any more */
};

#define BPFPROF_WAIT_GROUPED 1ULL
#define BPFPROF_WAIT_CAPTURED 2ULL /* the call is captured into a graph and may never run */

/* GPU_WAIT: a collective, or proof that collectives are complete. */
struct bpfprof_gpu_wait {
	struct bpfprof_record rec;
	struct bpfprof_task_id task;
	__u32 kind; /* enum bpfprof_gpu_wait_kind */
	__u32 flags; /* BPFPROF_WAIT_* */
	__u64 stream;
	__u64 until_ns;
	__u64 running_ns; /* some of it was still running then; 0: not known */
	__u64 now_ns;
	struct bpfprof_gpu_call call;
};

/* Indices of the map gpu_counters, one __u64 each, added atomically. */
enum bpfprof_gpu_counter {
	GPU_COUNT_INVALID = 0,
	GPU_COUNT_CALLS = 1, /* runs at an entry */
	GPU_COUNT_FILTERED = 2, /* calls of processes that are no targets */
	GPU_COUNT_KEYS_FULL = 3, /* calls without room in the map of counts */
	/* Calls not followed: no room for the thread. */
	GPU_COUNT_THREADS_FULL = 4,
	GPU_COUNT_TOO_DEEP = 5, /* calls not followed: nested too deeply */
	/* Returns of calls whose begin was not seen. */
	GPU_COUNT_RETURN_UNKNOWN = 6,
	GPU_COUNT_NO_TOKEN = 7, /* calls without a stack: over the rate */
	/* Calls without a stack: the scratch was in use. */
	GPU_COUNT_SCRATCH_BUSY = 8,
	GPU_COUNT_EVENTS_LOST = 9, /* ring buffer full */
	GPU_COUNT_NAMES_LOST = 10, /* kernel names: ring buffer full */
	/* Arguments that point to no readable memory. */
	GPU_COUNT_ARGUMENT_FAULT = 11,
	GPU_COUNT_COMMS_FULL = 12, /* communicators without room */
	GPU_COUNT_NESTED = 13, /* calls inside another one of their layer */
	GPU_COUNT_TRACE_LOST = 14, /* GPU_TRACE: ring buffer full */
	GPU_COUNT_OTHER = 15, /* calls counted by process and function alone */
	GPU_COUNT_WAITS_FULL = 16, /* processes without room in gpu_waits */
	GPU_COUNT_STREAMS_FULL = 17, /* streams without room in gpu_waits */
	GPU_COUNT_EVENTS_FULL = 18, /* CUDA events without room in gpu_events */
	GPU_COUNT_WAITS_LOST = 19, /* GPU_WAIT: ring buffer full */
	GPU_COUNT_AFTER_FULL = 20, /* cuStreamWaitEvents without room */
	GPU_COUNT_LEFT = 21, /* calls that ended without a return */
	/* Batches of copies whose bytes are incomplete: too long, or of arrays. */
	GPU_COUNT_BATCH_CUT = 22,
	/* Captured streams without room: their work counts as run. */
	GPU_COUNT_CAPTURES_FULL = 23,
	GPU_COUNT_GRAPHS_FULL = 24, /* graphs without room in gpu_graphs */
	GPU_COUNT_NODES_LOST = 25, /* GPU_GRAPH: ring buffer full */
	/* Handles of kernels without room in gpu_kernels. */
	GPU_COUNT_KERNELS_FULL = 26,
	GPU_NR_COUNTERS = 27,
};

_Static_assert(sizeof(struct bpfprof_gpu_function) == 16, "wire");
_Static_assert(sizeof(struct bpfprof_gpu_key) == 56, "wire");
_Static_assert(sizeof(struct bpfprof_gpu_site) == 40, "wire");
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
