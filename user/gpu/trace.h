/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_TRACE_H
#define BPFPROF_GPU_TRACE_H

/*
 * Every CUDA and NCCL call by itself, as the stream tells them, the newest of them up to a limit, in
 * a file without a name (base/spool.h); and what Ray workers were busy with meanwhile. Processes,
 * threads and titles are bounded; calls for which there was no room are counted.
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
#define GPU_TRACE_TITLE_BYTES (1U << 20) /* all of them */

#define GPU_TRACE_NESTED 1U /* inside another call of its layer */
#define GPU_TRACE_UNRETURNED 2U /* ns is how long it was seen */
#define GPU_TRACE_CAPTURED 8U /* written into a graph, not run */
#define GPU_TRACE_TITLE 4U /* no call: a Ray worker's title. handle: its text; thread: a process */

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

/* As spool_new(). max_bytes: of events. */
int gpu_trace_new(struct gpu_trace **ret, const char *folder, uint64_t max_bytes);
void gpu_trace_free(struct gpu_trace *trace); /* NULL is fine */

/* What the stream tells, in its order. */
void gpu_trace_call(struct gpu_trace *trace, const struct bpfprof_gpu_trace *call);
void gpu_trace_title(struct gpu_trace *trace, const struct bpfprof_title_event *event);

/* A thread that has ended now, in whatever calls it was. */
void gpu_trace_leave(struct gpu_trace *trace, uint32_t tid, const struct bpfprof_gpu_thread *thread,
		     uint64_t now_ns);
/*
 * The end: first every thread as it is; then whatever the stream still has, among it the ends of
 * calls that were open then; then gpu_trace_close(). 0 or -errno; nothing may be added after that.
 */
void gpu_trace_note_open(struct gpu_trace *trace, uint32_t tid,
			 const struct bpfprof_gpu_thread *thread);
int gpu_trace_close(struct gpu_trace *trace, uint64_t now_ns);

/* By their begin, outer ones first; as spool_each(). */
int gpu_trace_each(struct gpu_trace *trace,
		   int (*each)(void *arg, const struct gpu_trace_event *event), void *arg);
const struct gpu_trace_process *gpu_trace_processes(const struct gpu_trace *trace, size_t *ret_nr);
const struct gpu_trace_thread *gpu_trace_threads(const struct gpu_trace *trace, size_t *ret_nr);
const char *gpu_trace_title_text(const struct gpu_trace *trace, uint64_t handle); /* borrowed */

uint64_t
gpu_trace_nr_calls(const struct gpu_trace *trace); /* that there was room for, kept or not */
int gpu_trace_error(const struct gpu_trace *trace); /* spool_error() */
extern const struct counter gpu_trace_counters[];
void gpu_trace_lost(const struct gpu_trace *trace, struct stats_reasons *dst);

#endif
