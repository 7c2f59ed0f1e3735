/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_EVENT_H
#define BPFPROF_KERNEL_EVENT_H

/*
 * What happened, decoded: one tagged struct for all that the kernel reports. The stream
 * (kernel/stream.h) makes events; the sampler (capture/sampler.h) adds whose they are and passes
 * them on to its observers. Everything that an event points to is borrowed during the call.
 */

#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"
#include "gpu_calls.h"
#include "wait_times.h"

struct aggregate_input;
struct process;
struct thread_rest;

enum event_kind {
	EVENT_INVALID = 0,
	EVENT_SAMPLE, /* view; observers: input */
	EVENT_EXIT, /* task, end: a process ended; task->start_ns may be 0 */
	EVENT_EXEC, /* process: a program was just started, and may be gone soon */
	EVENT_TITLE, /* title, process (may be NULL): a Ray worker has a new title */
	EVENT_CALL, /* call: a hooked call without its stack */
	EVENT_KERNEL_NAME, /* kernel_name: what a kernel is called */
	EVENT_TRACED_CALL, /* traced_call: a call that is over, with session_options.gpu_trace */
	EVENT_WAIT, /* wait: work that a process waits for */
	EVENT_GRAPH, /* graph: what is captured into one */
	EVENT_WAITER, /* waiter: a thread has ended, with time that is in no sample */
	EVENT_WINDOW, /* window: cudaProfilerStart or cudaProfilerStop */
	/* Of the sampler alone. */
	EVENT_CALL_STACK, /* input, call_stack: the stack of a hooked call */
	EVENT_GAP, /* input: a sample of a process whose device is idle */
	EVENT_THREAD_END, /* input, rest: a thread has ended, with time that is in no sample */
	EVENT_FORGET, /* task, nr_forgotten: with --steps, the process's samples were in none */
};

/* A sample as the rest of the program sees it. */
struct sample_view {
	const struct bpfprof_sample *sample;
	const uint64_t *kernel; /* addresses as they stand on the stack, leaf first */
	size_t nr_kernel;
	const uint64_t *user; /* native and Python frames, leaf first */
	size_t nr_user;
	uint32_t stop; /* enum bpfprof_stop */
	uint32_t unmerged; /* enum python_unmerged: Python and native frames did not pair up */
	struct process *process; /* what is known of it, or NULL */
	struct bpfprof_place place;
	const char *title; /* of a Ray worker, as in proc/title.h; NULL: none */
	const struct bpfprof_gpu_call *call; /* whose stack it is; NULL: one of the clock's */
};

/* How a process ended. */
struct process_end {
	uint64_t ts_ns; /* when; if its end was not told but found out later, then that */
	uint64_t cpu_ns; /* all CPU time it ever used; 0 if its end was found out later */
};

struct event {
	enum event_kind kind;
	struct process *process;
	const struct bpfprof_task_id *task;
	const struct aggregate_input *input; /* set by the sampler */
	union {
		const struct bpfprof_record *record; /* each of bpfprof_* below */
		const struct sample_view *view;
		const struct process_end *end;
		const struct bpfprof_title_event *title;
		const struct bpfprof_gpu_event *call;
		const struct bpfprof_gpu_call *call_stack;
		const struct bpfprof_gpu_name *kernel_name;
		const struct bpfprof_gpu_trace *traced_call;
		const struct bpfprof_gpu_wait *wait;
		const struct bpfprof_gpu_graph_event *graph;
		const struct bpfprof_waiter_event *waiter;
		const struct bpfprof_window_event *window;
		const struct thread_rest *rest;
		uint64_t *nr_forgotten; /* the observer adds how many samples it has forgotten */
	};
};

typedef void (*event_fn)(void *arg, const struct event *event);

#endif
