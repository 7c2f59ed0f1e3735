/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_TRACE_H
#define BPFPROF_GPU_TRACE_H

/*
 * Keeps each CUDA and NCCL call of the stream, the newest up to a limit, in a file without a name
 * (base/spool.h), and the tasks of Ray workers. Processes, threads and titles are bounded; calls
 * without room are counted.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "gpu_calls.h"

struct bpfprof_title_event;
struct gpu_trace;
struct stats_reasons;

#define GPU_TRACE_MAX_PROCESSES 4096
#define GPU_TRACE_MAX_THREADS 16384
#define GPU_TRACE_TITLE_BYTES (1U << 20) /* of all titles */

#define GPU_TRACE_NESTED 1U /* inside another call of its layer */
#define GPU_TRACE_UNRETURNED 2U /* the call has not returned; ns is its time until the end */
#define GPU_TRACE_CAPTURED 8U /* written into a graph, not run */
#define GPU_TRACE_TITLE 4U /* a Ray worker's title, no call. handle: its text; thread: a process */

struct gpu_trace_event {
	uint64_t begin_ns, ns;
	uint64_t handle; /* 0: none, or not known */
	uint64_t stream;
	uint64_t bytes;
	uint32_t dims[6];
	uint32_t thread; /* index */
	int32_t result;
	uint16_t function; /* cuda/functions.h */
	uint16_t flags; /* GPU_TRACE_* */
	uint32_t pad;
};

struct gpu_trace_process {
	uint32_t pid; /* in the outermost pid namespace */
	uint64_t start_ns;
	uint64_t nr_calls;
};

struct gpu_trace_thread {
	uint32_t process; /* index */
	uint32_t tid;
	char name[BPFPROF_COMM_LEN + 1];
};

/* As spool_new(). max_bytes: limit of all events. */
int gpu_trace_new(struct gpu_trace **ret, const char *folder, uint64_t max_bytes);
void gpu_trace_free(struct gpu_trace *trace); /* NULL is fine */

/* Take in records of the stream, in their order. */
void gpu_trace_call(struct gpu_trace *trace, const struct bpfprof_gpu_trace *call);
void gpu_trace_title(struct gpu_trace *trace, const struct bpfprof_title_event *event);

/* A thread has ended at now_ns: its open calls end, too. */
void gpu_trace_leave(struct gpu_trace *trace, uint32_t tid, const struct bpfprof_gpu_thread *thread,
		     uint64_t now_ns);
/*
 * The end of a trace: the caller first notes the open calls of each thread, then takes in the rest
 * of the stream, which may end some of them, then closes the trace. 0 or -errno.
 */
void gpu_trace_note_open(struct gpu_trace *trace, uint32_t tid,
			 const struct bpfprof_gpu_thread *thread);
int gpu_trace_close(struct gpu_trace *trace, uint64_t now_ns);

/*
 * Passes each struct gpu_trace_event, in the order of their begin, outer calls first, as spool_each()
 * does.
 */
int gpu_trace_each(struct gpu_trace *trace, int (*each)(void *arg, const void *event), void *arg);
const struct gpu_trace_process *gpu_trace_processes(const struct gpu_trace *trace, size_t *ret_nr);
const struct gpu_trace_thread *gpu_trace_threads(const struct gpu_trace *trace, size_t *ret_nr);
const char *gpu_trace_title_text(const struct gpu_trace *trace, uint64_t handle); /* borrowed */

/* Calls that had room, whether they are kept or not. */
uint64_t gpu_trace_nr_calls(const struct gpu_trace *trace);
int gpu_trace_error(const struct gpu_trace *trace); /* spool_error() */
extern const struct counter gpu_trace_counters[];
void gpu_trace_lost(const struct gpu_trace *trace, struct stats_reasons *dst);

#endif
