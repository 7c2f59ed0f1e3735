/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_EVENT_H
#define BPFPROF_KERNEL_EVENT_H

/*
 * A decoded event: one tagged struct for everything that the kernel reports. The stream
 * (kernel/stream.h) makes events; the sampler (capture/sampler.h) adds the facts of the process and
 * passes them to its observers. All pointers in an event are borrowed during the call.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocations.h"
#include "bpfprof.h"
#include "gpu_calls.h"
#include "page_sample.h"
#include "wait_times.h"

struct aggregate_input;
struct image;
struct process;
struct task_time;
struct thread_rest;

enum event_kind {
	EVENT_INVALID = 0,
	EVENT_SAMPLE, /* view; observers: input */
	EVENT_EXIT, /* task, end: a process ended; task->start_ns may be 0 */
	EVENT_EXEC, /* process: a program has just started; it may end soon */
	EVENT_TITLE, /* title, process (may be NULL): a Ray worker has a new title */
	EVENT_CALL, /* call: a hooked call without its stack */
	EVENT_KERNEL_NAME, /* kernel_name: the name of a kernel */
	EVENT_TRACED_CALL, /* traced_call: a call has ended, with session_options.gpu_trace */
	EVENT_WAIT, /* wait: work that a process waits for, or its completion */
	EVENT_GRAPH, /* graph: a captured node, or the end of a capture */
	EVENT_WAITER, /* waiter: a thread has ended; these times are in no sample */
	EVENT_PAGE_MOVED, /* page_moved: a thread of the kernel freed a page */
	EVENT_BLOCK_FREED, /* block_freed: a block of the sample has ended */
	EVENT_KILL, /* kill: a deadly signal was sent to a process */
	EVENT_WINDOW, /* window: cudaProfilerStart or cudaProfilerStop */
	/* Made by the sampler only. */
	EVENT_CALL_STACK, /* input, call_stack: the stack of a hooked call */
	EVENT_GAP, /* input: a sample of a process whose device is idle */
	EVENT_PAGE, /* input: a thread allocates the page of the sample */
	EVENT_BLOCK, /* input: a thread has allocated the block of the sample */
	EVENT_SIGNAL, /* input: a thread takes a deadly signal */
	EVENT_THREAD_END, /* input, rest: a thread has ended; rest is in no sample */
	EVENT_TASKS, /* input, task_time: tasks of asyncio had the stack of input for some time */
	/*
	 * task, nr_forgotten: with --steps, all samples of the process were outside of the steps.
	 */
	EVENT_FORGET,
	EVENT_IMAGE_UNUSED, /* image: no process maps it any more, and it is about to be forgotten */
};

/* A decoded sample. */
struct sample_view {
	const struct bpfprof_sample *sample;
	const uint64_t *kernel; /* addresses as on the stack, leaf first */
	size_t nr_kernel;
	const uint64_t *user; /* native and Python frames, leaf first */
	size_t nr_user;
	uint32_t stop; /* enum bpfprof_stop */
	uint32_t unmerged; /* enum python_unmerged: why Python and native frames did not pair up */
	struct process *process; /* its process, or NULL if unknown */
	struct bpfprof_ns_context ns_context;
	const char *title; /* title of a Ray worker, see proc/title.h; NULL: none */
	/* The call of this stack; NULL: a sample of the clock. */
	const struct bpfprof_gpu_call *call;
};

/* How a process ended. */
struct process_end {
	uint64_t ts_ns; /* time of the end; or when it was found, if its event was lost */
	uint64_t cpu_ns; /* CPU time of its whole life; 0 if its event was lost */
	bool known; /* the rest is; false if its event was lost */
	uint32_t status; /* as wait(2) reports it */
	uint32_t parent; /* pid in the outermost pid namespace */
	char comm[BPFPROF_COMM_LEN]; /* of its last thread */
};

struct event {
	enum event_kind kind;
	struct process *process;
	const struct bpfprof_task_id *task;
	const struct aggregate_input *input; /* set by the sampler */
	union {
		const struct bpfprof_record *record; /* the record of the kind, see below */
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
		const struct bpfprof_kill_event *kill;
		const struct bpfprof_page_moved *page_moved;
		const struct bpfprof_block_freed *block_freed;
		const struct bpfprof_window_event *window;
		const struct thread_rest *rest;
		const struct task_time *task_time;
		const struct image *image;
		/* Each observer adds the number of samples that it has dropped. */
		uint64_t *nr_forgotten;
	};
};

typedef void (*event_fn)(void *arg, const struct event *event);

#endif
